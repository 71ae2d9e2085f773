"""Models and machines for the window's tests and screenshots, made of plain figures."""

from scripted_engine import BUILD, GIB, GPU

from app.hardware.facts import Cpu, Disk, Gpu, GpuKind, Machine, Ram
from app.model.facts import KvBytesPerToken, KvLayer, ModelBytes, ModelFacts
from app.placement.cache.facts import LayerExperts, PoolFacts

MIB = 1024**2


def make_facts(
    layers: int = 4, experts: int = 8, used: int = 2, expert_mib: float = 1.0, **overrides: object
) -> ModelFacts:
    """A MoE model whose every block has experts; `overrides` replace fields by name."""
    one = int(expert_mib * MIB)
    layer_bytes = 4 * MIB
    kv_width = 192
    parts = ModelBytes(
        total=layers * (experts * one + layer_bytes) + 40 * MIB,
        experts=layers * experts * one,
        shared_experts=0,
        attention=layers * (layer_bytes - 64 * 1024),
        router=layers * 64 * 1024,
        embeddings=20 * MIB,
        output=20 * MIB,
        other=0,
    )
    fields: dict[str, object] = {
        "architecture": "llama",
        "name": "Scripted MoE",
        "files": ("/models/scripted.gguf",),
        "file_bytes": parts.total,
        "quantization": "Q4_1",
        "context_length": 8192,
        "vocab_size": 49152,
        "layers": layers,
        "moe_layers": tuple(range(layers)),
        "expert_count": experts,
        "experts_used": used,
        "experts_shared": 0,
        "embedding_length": 576,
        "expert_feed_forward_length": 1536,
        "bytes": parts,
        "expert_bytes": dict.fromkeys(range(layers), one),
        "token_cycle_bytes": layers * used * one,
        "kv_bytes_per_token": KvBytesPerToken(
            f16=layers * kv_width * 4,
            q8_0=int(layers * kv_width * 2.125),
            q4_0=int(layers * kv_width * 1.125),
        ),
        "chat_template": True,
        "layer_bytes": (layer_bytes,) * layers,
        "kv_layers": (KvLayer(kind="full", key_width=kv_width, value_width=kv_width),) * layers,
        "fingerprint": "5c21",
    }
    return ModelFacts(**{**fields, **overrides})


def make_machine(gpu: bool = True, **overrides: object) -> Machine:
    """A laptop with or without the scripted engine's GPU; `overrides` replace fields by name."""
    gpus: tuple[Gpu, ...] = (GPU,) if gpu else ()
    fields: dict[str, object] = {
        "os": "Linux 6.1",
        "cpu": Cpu(name="Scripted CPU", physical_cores=8, performance_cores=6, logical_cores=14, isa=("avx2", "fma")),
        "ram": Ram(total_bytes=16 * GIB, available_bytes=11 * GIB),
        "gpus": gpus,
        "disk": Disk(path="/models", total_bytes=500 * GIB, free_bytes=120 * GIB, filesystem="ext4"),
        "engine": BUILD,
    }
    return Machine(**{**fields, **overrides})


def make_experts(routed: tuple[int, ...], **overrides: object) -> LayerExperts:
    """One layer's experts with these counts, all on the CPU and automatic; `overrides` replace fields by name."""
    fields: dict[str, object] = {
        "routed": tuple(routed),
        "heat": tuple(count / 2 for count in routed),
        "lanes": "c" * len(routed),
        "pins": "a" * len(routed),
        "slots": 0,
    }
    return LayerExperts(**{**fields, **overrides})


def make_pool(**overrides: object) -> PoolFacts:
    """A pool of 64 MiB that works; `overrides` replace fields by name."""
    fields: dict[str, object] = {
        "device": "Vulkan0",
        "requested_bytes": 64 * MIB,
        "allocated_bytes": 62 * MIB,
        "staging_bytes": 0,
        "slots": 20,
        "resident": 19,
        "unplaced_pins": 0,
        "used": True,
        "reason": "",
    }
    return PoolFacts(**{**fields, **overrides})


__all__ = ["GIB", "GPU", "MIB", "GpuKind", "make_experts", "make_facts", "make_machine", "make_pool"]

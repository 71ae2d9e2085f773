"""Models and machines for tests, made of plain figures: those of models that people run, and a free form."""

from app.hardware.facts import Cpu, Disk, EngineBuild, Gpu, GpuKind, Machine, Ram
from app.model.facts import KvBytesPerToken, KvLayer, ModelBytes, ModelFacts

MIB = 1024**2
GIB = 1024**3
ENGINE = EngineBuild(
    llama_cpp_python="0.3.36",
    ggml="0.25.3",
    build="CPU + CUDA + Vulkan",
    backends=("CPU", "CUDA", "Vulkan"),
    expert_device=True,
)


def make_facts(
    *,
    layers=4,
    moe_layers=None,
    experts=8,
    used=2,
    expert_sizes=MIB,
    layer_size=4 * MIB,
    embeddings=20 * MIB,
    output=20 * MIB,
    embedding_length=512,
    feed_forward=1024,
    vocab=32000,
    context=32768,
    kv_layers=None,
    **fields,
) -> ModelFacts:
    """A model from its figures; `fields` replace fields of the facts by name.

    `expert_sizes` is the size of one expert in every layer, or one size per MoE layer. `kv_layers` is one
    layer for all, or one per layer. Without experts (`experts=0`) it is dense.
    """
    if moe_layers is None:
        moe_layers = tuple(range(layers)) if experts else ()
    sizes = expert_sizes if isinstance(expert_sizes, (list, tuple)) else [expert_sizes] * len(moe_layers)
    expert_bytes = dict(zip(moe_layers, sizes, strict=True))
    kv_layers = kv_layers or KvLayer(kind="full", key_width=256, value_width=256)
    if isinstance(kv_layers, KvLayer):
        kv_layers = (kv_layers,) * layers
    all_experts = sum(expert_bytes.values()) * experts
    total = all_experts + layers * layer_size + embeddings + output
    values = sum(kv.key_width + kv.value_width for kv in kv_layers if kv.kind in ("full", "latent"))
    made = {
        "architecture": "llama",
        "name": "Made of figures",
        "files": ("/models/made.gguf",),
        "file_bytes": total,
        "quantization": "Q4_K",
        "context_length": context,
        "vocab_size": vocab,
        "layers": layers,
        "moe_layers": moe_layers,
        "expert_count": experts,
        "experts_used": used if experts else 0,
        "experts_shared": 0,
        "embedding_length": embedding_length,
        "expert_feed_forward_length": feed_forward if experts else 0,
        "bytes": ModelBytes(
            total=total,
            experts=all_experts,
            shared_experts=0,
            attention=layers * layer_size,
            router=0,
            embeddings=embeddings,
            output=output,
            other=0,
        ),
        "expert_bytes": expert_bytes,
        "token_cycle_bytes": sum(expert_bytes.values()) * used,
        "kv_bytes_per_token": KvBytesPerToken(f16=values * 2, q8_0=-(-values * 34 // 32), q4_0=-(-values * 18 // 32)),
        "chat_template": True,
        "layer_bytes": (layer_size,) * layers,
        "kv_layers": kv_layers,
        "fingerprint": "3f1a",
    }
    return ModelFacts(**{**made, **fields})


def qwen3_30b(**changes) -> ModelFacts:
    """Qwen3-30B-A3B in Q4_K_M: 17.3 GiB, of them 16.3 in experts."""
    figures = {
        "architecture": "qwen3moe",
        "name": "Qwen3 30B A3B",
        "layers": 48,
        "experts": 128,
        "used": 8,
        "expert_sizes": 2_856_960,
        "layer_size": 11_953_152,
        "embeddings": 175_030_272,
        "output": 255_260_672,
        "embedding_length": 2048,
        "feed_forward": 768,
        "vocab": 151_936,
        "context": 40_960,
        "kv_layers": KvLayer(kind="full", key_width=512, value_width=512),
    }
    return make_facts(**{**figures, **changes})


def gpt_oss_20b(**changes) -> ModelFacts:
    """gpt-oss-20b in MXFP4: biases, a window of 128 tokens in every second layer."""
    window = KvLayer(kind="window", key_width=512, value_width=512, window=128)
    full = KvLayer(kind="full", key_width=512, value_width=512)
    figures = {
        "architecture": "gpt-oss",
        "name": "gpt-oss-20b",
        "layers": 24,
        "experts": 32,
        "used": 4,
        "expert_sizes": 13_253_760,
        "layer_size": 28_625_024,
        "embeddings": 615_329_280,
        "output": 615_340_800,
        "embedding_length": 2880,
        "feed_forward": 2880,
        "vocab": 201_088,
        "context": 131_072,
        "kv_layers": (window, full) * 12,
    }
    return make_facts(**{**figures, **changes})


def deepseek_v2_lite(**changes) -> ModelFacts:
    """DeepSeek-V2-Lite: latent attention, a dense first layer, two shared experts."""
    figures = {
        "architecture": "deepseek2",
        "name": "DeepSeek V2 Lite",
        "layers": 27,
        "moe_layers": tuple(range(1, 27)),
        "experts": 64,
        "used": 6,
        "expert_sizes": 5_226_496,
        "layer_size": 20_244_000,
        "embeddings": 117_964_800,
        "output": 172_040_192,
        "embedding_length": 2048,
        "feed_forward": 1408,
        "vocab": 102_400,
        "context": 163_840,
        "kv_layers": KvLayer(kind="latent", key_width=576),
    }
    return make_facts(**{**figures, **changes})


def demo(**changes) -> ModelFacts:
    """Like the demo model: 425 MiB, 30 layers of 8 equal experts, the embeddings are the output too."""
    figures = {
        "name": "Demonstration MoE",
        "layers": 30,
        "experts": 8,
        "used": 2,
        "expert_sizes": 1_658_880,
        "layer_size": 576_000,
        "embeddings": 30_081_024,
        "output": 2_304,
        "embedding_length": 576,
        "feed_forward": 1536,
        "vocab": 49_152,
        "context": 8192,
        "kv_layers": KvLayer(kind="full", key_width=192, value_width=192),
        "output_tied": True,
    }
    return make_facts(**{**figures, **changes})


def make_gpu(free=7 * GIB, *, device="CUDA0", kind=GpuKind.DISCRETE, total=None, **fields) -> Gpu:
    """A GPU with `free` bytes; without `total` it has 1 GiB more."""
    made = {
        "name": f"Card {device}",
        "backend": device.rstrip("0123456789"),
        "device": device,
        "kind": kind,
        "total_bytes": total if total is not None else free + GIB,
        "free_bytes": free,
    }
    return Gpu(**{**made, **fields})


def make_machine(*gpus: Gpu, ram=24 * GIB, ram_total=None, cores=8, performance=6, **fields) -> Machine:
    """A machine with these GPUs, and `ram` bytes of main memory available; of 32 GiB, unless told."""
    made = {
        "os": "Linux 6.1",
        "cpu": Cpu(
            name="Processor",
            physical_cores=cores,
            performance_cores=performance,
            logical_cores=2 * cores,
            isa=("avx2",),
        ),
        "ram": Ram(total_bytes=ram_total or max(32 * GIB, ram), available_bytes=ram),
        "gpus": gpus,
        "disk": Disk(path="/models", total_bytes=500 * GIB, free_bytes=100 * GIB),
        "engine": ENGINE,
    }
    return Machine(**{**made, **fields})

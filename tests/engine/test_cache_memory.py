"""The memory that experts are computed in: what a device gave for it is what the plan predicts.

The test runs this file as a program: a process can register the expert device once.
"""

import json
import sys
from pathlib import Path

import pytest
from decode_logits import add_sources, warm_up
from decoding import run_child
from llama_process import LlamaProcess
from tiny_shapes import fused_gate_up, gpt_oss, mixtral, qwen3moe

from app.model import read_facts
from app.placement.memory import working_bytes

# Width of the embedding, of an expert, and top-k: narrow and wide experts, and one whose batches must be smaller.
WIDTHS = ((512, 256, 4), (256, 512, 4), (256, 256, 4), (1024, 384, 7), (1024, 5120, 2))
OTHERS = {"mixtral": mixtral, "gpt_oss": gpt_oss, "fused_gate_up": fused_gate_up}


def given(folder: Path, names: list[str]) -> dict[str, dict[str, int]]:
    """What the CPU as second device gave for each model's pool and for a staging area alone, in bytes."""
    process = LlamaProcess(with_device=True)
    device = process.device
    assert device
    found = {}
    for name in names:
        path = folder / f"{name}.gguf"
        model = process.load(path)
        context = model.context()
        add_sources(device, context.id, path)
        warm_up(device, context, "CPU")
        largest = max(its.expert_bytes for its in device.layers(context.id))
        told = {}
        for what, pool, staging in (("pool", 40 * largest, 0), ("staging", 0, 8 * largest)):
            assert device.set_pool(context.id, "CPU", pool, staging) == 0
            told[what] = device.pool(context.id, "CPU").working
            assert device.set_pool(context.id, "CPU", 0, 0) == 0
        told["none"] = device.pool(context.id, "CPU").working
        found[name] = told
        context.close()
        model.close()
    return found


@pytest.fixture(scope="module")
def models(tmp_path_factory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("widths")
    paths = {}
    for embedding, inner, used in WIDTHS:
        name = f"{embedding} {inner} {used}"
        paths[name] = folder / f"{name}.gguf"
        qwen3moe(paths[name], layers=1, experts=8, used=used, embed=embedding, ff=inner)
    for name, write in OTHERS.items():
        paths[name] = folder / f"{name}.gguf"
        write(paths[name])
    return paths


def test_the_memory_that_experts_are_computed_in_is_predicted_within_two_percent(models):
    folder = next(iter(models.values())).parent
    found = json.loads(run_child(Path(__file__), str(folder), *models).splitlines()[-1])
    for name, path in models.items():
        predicted = working_bytes(read_facts(path))
        assert found[name]["pool"] == pytest.approx(predicted, rel=0.02), name
        assert found[name]["staging"] == found[name]["pool"], name
        assert found[name]["none"] == 0, name


if __name__ == "__main__":
    print(json.dumps(given(Path(sys.argv[1]), sys.argv[2:])))

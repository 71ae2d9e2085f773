"""The native expert device on an unmodified llama.cpp: what it claims and counts; clean refusal."""

import shutil
import subprocess
import sys

import numpy as np
import pytest
from decode_logits import BATCHES, DRAFT, LAST_ROW_ONLY, Job, Run
from decoding import decode
from tiny_models import EMBED, FF
from tiny_shapes import SHAPES, mixtral

from app.engine import cache

NO_POOL = (Run(name="no pool"),)
# Splits of llama.cpp's scheduler that reach the device for each MoE layer: chains whose operations it all claims come
# as one; factors per expert are looked up between the products, by stock, and Grove has a second chain.
SPLITS = {"chunk_experts": 2, "expert_scales": 4, "fused_gate_up": 2}


@pytest.fixture(scope="module")
def mixtral_decoded(tmp_path_factory):
    folder = tmp_path_factory.mktemp("mixtral")
    path = folder / "model.gguf"
    mixtral(path, layers=3, experts=8, used=2)
    return decode(folder, Job(device=True, runs=NO_POOL), path)["model"].facts["no pool"]


@pytest.mark.parametrize("shape", SHAPES)
def test_every_chain_reaches_the_device_in_few_pieces(shape, tmp_path):
    path = tmp_path / f"{shape}.gguf"
    SHAPES[shape](path)
    facts = decode(tmp_path, Job(device=True, runs=NO_POOL), path)[shape].facts["no pool"]
    layers = len(facts["layer_experts"])
    assert layers >= 2
    assert facts["graphs"] == layers * len(BATCHES) * SPLITS.get(shape, 1)


def test_routings_are_counted_once_per_token_layer_and_rank(mixtral_decoded):
    tokens = sum(BATCHES)
    # llama.cpp computes the last layer only for the tokens whose logits are asked: one of some batches.
    last_layer = sum(1 if size in LAST_ROW_ONLY else size for size in BATCHES)
    assert mixtral_decoded["tokens"] == tokens
    assert mixtral_decoded["routed"] == 2 * (2 * tokens + last_layer)


def test_phases_are_counted_apart(mixtral_decoded):
    decoded = sum(size for size in BATCHES if size <= DRAFT)
    np.testing.assert_array_equal(mixtral_decoded["decoded_by_layer"], [decoded * 2] * 3)


def test_the_device_holds_exactly_the_expert_tensors(mixtral_decoded):
    assert mixtral_decoded["layer_experts"] == [8] * 3
    assert mixtral_decoded["expert_bytes"] == [3 * EMBED * FF * 4] * 3


def test_a_library_built_for_another_ggml_refuses_to_register(tmp_path):
    library = tmp_path / cache.library_path().name
    shutil.copy(cache.library_path(), library)
    data = library.read_bytes()
    version = b"0.25.3\0"
    assert data.count(version) == 1, "the version it was built for stands in the library once"
    library.write_bytes(data.replace(version, b"0.25.2\0"))
    program = (
        "import sys\nfrom pathlib import Path\nfrom app.engine.cache import ExpertDevice\n"
        "from app.engine.ggml import Ggml\nfrom app.errors import AppError\n"
        "g = Ggml(); g.load_backends()\n"
        "try:\n    ExpertDevice(Path(sys.argv[1]))\n"
        "except AppError as error:\n    print(error.code, error.message, [d.name for d in g.devices()])\n"
    )
    done = subprocess.run([sys.executable, "-c", program, str(library)], capture_output=True, text=True, check=True)
    assert "engine_failed" in done.stdout
    assert "ggml 0.25.2" in done.stdout
    assert "EXPERTS" not in done.stdout


def test_without_backends_the_device_says_so():
    program = (
        "from app.engine.cache import ExpertDevice\nfrom app.engine.ggml import Ggml\nfrom app.errors import AppError\n"
        "g = Ggml()\ntry:\n    ExpertDevice()\nexcept AppError as error:\n    print(error.message)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "no CPU backend" in done.stdout

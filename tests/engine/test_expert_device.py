"""The native expert device on an unmodified llama.cpp: same numbers, right counts, clean refusal."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tiny_models

from app.engine import cache

PROGRAM = Path(__file__).parent / "decode_logits.py"
SINGLE_TOKENS = 4  # batches of one token in decode_logits.BATCHES
PROMPT_TOKENS = 17 + 3 + 8 + 64
PROMPT_BATCHES = 4


def decode(model: Path, mode: str, out: Path, *gpu: str) -> dict[str, np.ndarray]:
    done = subprocess.run(
        [sys.executable, str(PROGRAM), str(model), mode, str(out), *gpu],
        capture_output=True, text=True, timeout=240, check=False,
        env=dict(os.environ, GGML_VK_VISIBLE_DEVICES="0"),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return dict(np.load(out))


@pytest.fixture(params=sorted(tiny_models.SHAPES))
def shape(request, tmp_path):
    path = tmp_path / f"{request.param}.gguf"
    tiny_models.SHAPES[request.param](path)
    return request.param, path


def test_every_chain_shape_gives_bit_equal_logits_and_one_split_a_layer(shape, tmp_path):
    name, path = shape
    stock = decode(path, "stock", tmp_path / "stock.npz")
    ours = decode(path, "device", tmp_path / "ours.npz")
    np.testing.assert_array_equal(stock["logits"], ours["logits"])
    layers = len(ours["owned"])
    graphs, nodes = ours["work"]
    assert graphs == layers * (SINGLE_TOKENS + PROMPT_BATCHES)
    chain = 7 if name == "gpt_oss" else 4  # three products and the GLU; gpt-oss adds three biases
    assert nodes == graphs * chain


def test_routings_are_counted_once_per_token_layer_and_rank_with_phases_apart(tmp_path):
    path = tmp_path / "model.gguf"
    tiny_models.mixtral(path, layers=3, experts=8, used=2)
    ours = decode(path, "device", tmp_path / "ours.npz")
    assert ours["decode"].shape == (3, 8)
    np.testing.assert_array_equal(ours["decode"].sum(axis=1), [SINGLE_TOKENS * 2] * 3)
    # llama.cpp computes the last layer only for the tokens whose logits are asked: one a batch.
    np.testing.assert_array_equal(
        ours["prompt"].sum(axis=1), [PROMPT_TOKENS * 2, PROMPT_TOKENS * 2, PROMPT_BATCHES * 2]
    )


def test_the_device_maps_exactly_the_expert_tensors_and_lets_go_of_them(tmp_path):
    path = tmp_path / "model.gguf"
    tiny_models.mixtral(path, layers=3, experts=8, used=2)
    ours = decode(path, "device", tmp_path / "ours.npz")
    expert_bytes = 3 * tiny_models.EMBED * tiny_models.FF * 4
    assert ours["owned_bytes"] == 3 * 8 * expert_bytes
    assert ours["owned_after_free"] == 0


def test_attention_on_a_gpu_with_experts_on_the_device_agrees_within_half_precision(tmp_path, software_gpu):
    path = tmp_path / "model.gguf"
    tiny_models.gpt_oss(path)
    stock = decode(path, "stock", tmp_path / "stock.npz")
    ours = decode(path, "device", tmp_path / "ours.npz", software_gpu)
    assert ours["work"][0] > 0
    # ggml-vulkan multiplies in half precision: 1e-3 relative on logits of magnitude 4.
    assert np.abs(stock["logits"] - ours["logits"]).max() < 0.02


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


def test_without_backends_the_device_says_so(tmp_path):
    program = (
        "from app.engine.cache import ExpertDevice\nfrom app.engine.ggml import Ggml\nfrom app.errors import AppError\n"
        "g = Ggml()\ntry:\n    ExpertDevice()\nexcept AppError as error:\n    print(error.message)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "no CPU backend" in done.stdout

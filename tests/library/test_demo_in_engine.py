"""The demo in the engine: it answers as the dense model does, and its router spreads the tokens."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from app.library.demo_router import STATISTICS_NAME, RouterStatistics
from app.library.demo_source import resource_folder

RUNS = Path(__file__).with_name("engine_runs.py")


@pytest.fixture(scope="module")
def runs(source, built_demo):
    if importlib.util.find_spec("llama_cpp") is None:
        pytest.skip("the engine is not installed")
    model, _ = built_demo
    done = subprocess.run(
        [sys.executable, str(RUNS), str(source), str(model.path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    inputs = model.path.with_name("router_inputs.npz")
    with np.load(inputs) as file:
        recorded = [file[str(layer)] for layer in range(len(file.files))]
    inputs.unlink()
    return json.loads(done.stdout), recorded


def test_a_greedy_answer_is_the_dense_models_token_by_token(runs):
    seen, _ = runs
    assert len(seen["dense_answer"]) > 20
    assert seen["demo_answer"] == seen["dense_answer"]


def test_the_logits_are_the_dense_models_to_the_last_bit(runs):
    seen, _ = runs
    assert seen["largest_logit_difference"] == 0


def test_every_expert_of_every_layer_is_routed_to_within_one_answer(runs):
    seen, _ = runs
    assert seen["experts_seen"] == [[0, 1, 2, 3]] * 30


def test_of_64_experts_at_least_40_work_in_every_layer_over_texts_not_recorded(runs):
    _, inputs = runs
    statistics = RouterStatistics(resource_folder() / STATISTICS_NAME)
    for layer, tokens in enumerate(inputs):
        logits = tokens @ statistics.rows(layer, 64, 2).T
        used = np.argsort(-logits, axis=1)[:, :2]
        share = np.bincount(used.ravel(), minlength=64) / used.size
        share = share[share > 0]
        effective = np.exp(-(share * np.log(share)).sum())
        assert effective >= 40, f"layer {layer}: {effective:.1f} effective experts over {len(tokens)} tokens"

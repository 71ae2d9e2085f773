"""The router's rows: what they are drawn from, and which experts share one."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import AppError, ErrorCode
from app.library.demo_router import STATISTICS_NAME, RouterStatistics, experts_sharing_a_row
from app.library.demo_source import resource_folder

PATH = resource_folder() / STATISTICS_NAME
LAYERS, WIDTH = 30, 576


@pytest.fixture(scope="module")
def statistics():
    return RouterStatistics(PATH)


@pytest.fixture(scope="module")
def recorded():
    with np.load(PATH) as file:
        return file["mean"], file["directions"]


def test_the_recorded_resource_is_small():
    assert PATH.stat().st_size < 4 * 1024 * 1024


def test_every_layer_was_recorded(recorded):
    mean, directions = recorded
    assert mean.shape == (LAYERS, WIDTH)
    assert directions.shape == (LAYERS, 48, WIDTH)
    assert np.isfinite(mean).all()
    assert np.isfinite(directions.astype(np.float32)).all()


def test_an_average_input_prefers_no_expert(statistics, recorded):
    mean, _ = recorded
    for layer in range(LAYERS):
        logits = statistics.rows(layer, 64, 2) @ mean[layer]
        # Inputs give logits of variance 1, so this is a small part of what decides.
        assert np.abs(logits).max() < 0.05


@given(experts=st.integers(1, 64), used=st.integers(1, 64), layer=st.integers(0, LAYERS - 1))
def test_rows_have_the_models_shape_and_are_shared_by_as_many_experts_as_are_used(statistics, experts, used, layer):
    rows = statistics.rows(layer, experts, used)
    assert rows.shape == (experts, WIDTH)
    assert rows.dtype == np.float32
    _, counts = np.unique(rows, axis=0, return_counts=True)
    assert set(counts) == {experts_sharing_a_row(experts, used)}


def test_layers_differ_in_their_rows_and_in_which_experts_share_one(statistics):
    layers = [statistics.rows(layer, 8, 2) for layer in range(LAYERS)]
    assert all(not np.array_equal(a, b) for a, b in itertools.combinations(layers, 2))
    partners = {tuple(np.argwhere((rows == rows[0]).all(axis=1)).ravel()) for rows in layers}
    assert len(partners) > 3


@pytest.mark.parametrize("used", [1, 2, 4])
def test_equal_weights_of_the_experts_that_share_a_row_give_the_output_back_exactly(used):
    assert experts_sharing_a_row(8, used) == used
    outputs = np.random.default_rng(1).standard_normal(1_000_000).astype(np.float32)
    probability = np.float32(0.0371)
    total = np.float32(0)
    for _ in range(used):
        total += probability
    weighted = outputs * (probability / total)
    combined = weighted.copy()
    for _ in range(used - 1):
        combined += weighted
    assert np.array_equal(combined, outputs)


@pytest.mark.parametrize(("experts", "used"), [(8, 3), (8, 8), (7, 2), (6, 4)])
def test_experts_have_rows_of_their_own_where_sharing_gains_nothing(experts, used):
    assert experts_sharing_a_row(experts, used) == 1


def test_missing_statistics_are_a_typed_error(tmp_path):
    with pytest.raises(AppError) as missing:
        RouterStatistics(tmp_path / STATISTICS_NAME)
    assert missing.value.code is ErrorCode.FILE_MISSING


@pytest.mark.parametrize("content", [b"", b"not an archive", PATH.read_bytes()[:5000], b"PK\x03\x04 broken"])
def test_damaged_statistics_are_a_typed_error(tmp_path, content):
    (tmp_path / STATISTICS_NAME).write_bytes(content)
    with pytest.raises(AppError) as damaged:
        RouterStatistics(tmp_path / STATISTICS_NAME)
    assert damaged.value.code is ErrorCode.MODEL_DAMAGED

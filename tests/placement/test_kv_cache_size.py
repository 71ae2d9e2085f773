"""Sizes of KV caches, against figures that llama.cpp reports."""

import pytest
from factories import MIB, deepseek_v2_lite, gpt_oss_20b, make_facts, qwen3_30b

from app.model.facts import KvLayer
from app.placement.kv_cache import full_cells, kv_bytes, usable_kv_types

FULL = KvLayer(kind="full", key_width=512, value_width=512)
QWEN36 = (*(KvLayer(kind="recurrent", state_bytes=2_195_456),) * 3, FULL) * 10
GEMMA4 = (
    *(KvLayer(kind="window", key_width=2048, value_width=2048, window=1024),) * 5,
    KvLayer(kind="full", key_width=1024, value_width=1024),
) * 5


@pytest.mark.parametrize(
    ("facts", "mib"),
    [
        (qwen3_30b(), 3072),
        (gpt_oss_20b(), 768 + 18),
        (deepseek_v2_lite(), 972),
        (make_facts(layers=40, kv_layers=QWEN36), 640 + 62.8125),
        (make_facts(layers=30, kv_layers=GEMMA4), 640 + 300),
    ],
    ids=["full", "windows", "latent", "recurrent", "wide windows"],
)
def test_a_cache_of_32768_tokens_is_as_large_as_llama_cpp_reports(facts, mib):
    assert kv_bytes(facts, 32768, 512, "f16") == mib * MIB


def test_quantised_caches_take_a_scale_per_block():
    f16 = kv_bytes(qwen3_30b(), 8192, 512, "f16")
    assert kv_bytes(qwen3_30b(), 8192, 512, "q8_0") == f16 / 2 * 1.0625
    assert kv_bytes(qwen3_30b(), 8192, 512, "q4_0") == f16 / 2 * 0.5625


def test_states_are_as_large_in_every_cache_type():
    facts = make_facts(layers=2, kv_layers=KvLayer(kind="recurrent", state_bytes=1000))
    assert {kv_bytes(facts, 4096, 512, kind) for kind in ("f16", "q8_0", "q4_0")} == {2000}


def test_a_layer_may_keep_cells_and_a_state():
    both = make_facts(layers=1, kv_layers=KvLayer(kind="full", key_width=32, value_width=32, state_bytes=1000))
    assert kv_bytes(both, 256, 256, "f16") == 256 * 64 * 2 + 1000


def test_a_window_holds_no_more_than_the_context():
    facts = make_facts(layers=1, kv_layers=KvLayer(kind="window", key_width=32, value_width=32, window=4096))
    assert kv_bytes(facts, 1024, 512, "f16") == 1024 * 64 * 2
    assert kv_bytes(facts, 8192, 512, "f16") == (4096 + 512) * 64 * 2


def test_sequences_share_the_cells_but_each_has_a_window_and_a_state_of_its_own():
    window = KvLayer(kind="window", key_width=32, value_width=32, window=1024)
    facts = make_facts(layers=2, kv_layers=(window, KvLayer(kind="recurrent", state_bytes=1000)))
    assert kv_bytes(facts, 32768, 512, "f16", 1) == (1024 + 512) * 64 * 2 + 1000
    assert kv_bytes(facts, 32768, 512, "f16", 8) == (8 * 1024 + 512) * 64 * 2 + 8 * 1000
    assert kv_bytes(qwen3_30b(), 32768, 512, "f16", 8) == kv_bytes(qwen3_30b(), 32768, 512, "f16")


def test_cells_come_in_blocks_of_256():
    assert [full_cells(count) for count in (1, 256, 257)] == [256, 256, 512]


def test_widths_that_are_no_whole_blocks_leave_only_f16():
    assert usable_kv_types(qwen3_30b()) == ("f16", "q8_0", "q4_0")
    odd = make_facts(kv_layers=KvLayer(kind="full", key_width=80, value_width=80))
    assert usable_kv_types(odd) == ("f16",)

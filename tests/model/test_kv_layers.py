"""What each block keeps between tokens, sized as llama.cpp (in llama-cpp-python 0.3.36) allocates it."""

import gguf_files
import model_shapes
import pytest
from gguf_files import Model, Tensor
from hypothesis import given
from hypothesis import strategies as st

from app.errors import AppError, ErrorCode
from app.model.facts import KvLayer
from app.model.kv_layers import kv_bytes_per_token

MIB = 1 << 20
ATTENTION = ("attn_k.weight", "attn_v.weight")
STATE = ("ssm_conv1d.weight",)
HEADS = {"embedding_length": 512, "attention.head_count": 8, "attention.head_count_kv": 2}


def bare(architecture: str, keys: dict[str, gguf_files.Value], *blocks: tuple[str, ...]) -> Model:
    """A model of which only the caches matter: per block, the local names of its tensors."""
    own = {"context_length": 4096, "vocab_size": 8, "block_count": len(blocks), **HEADS, **keys}
    names = [f"blk.{index}.{name}" for index, block in enumerate(blocks) for name in block]
    return Model(architecture, own, tuple(Tensor(name, (32,)) for name in names))


def kinds(facts) -> str:
    """One letter a block: full, window, latent, recurrent, none."""
    return "".join(layer.kind[0] for layer in facts.kv_layers)


def window_mib(facts, n_ubatch: int = 512) -> float:
    """MiB of all windows in f16, as llama.cpp pads them."""
    layers = [layer for layer in facts.kv_layers if layer.kind == "window"]
    cells = {layer.window: -(-(layer.window + n_ubatch) // 256) * 256 for layer in layers}
    return sum((layer.key_width + layer.value_width) * 2 * cells[layer.window] for layer in layers) / MIB


@pytest.mark.parametrize(
    ("model", "mib"),
    [
        (model_shapes.qwen3_30b_a3b(), 3072),
        (model_shapes.gpt_oss_20b(), 768),
        (model_shapes.deepseek_v2_lite(), 972),
        (model_shapes.deepseek_v2_lite(legacy=True), 8640),
        (model_shapes.gemma4_26b_a4b(), 640),
        (model_shapes.mixtral_8x7b(), 4096),
        (model_shapes.qwen36_35b_a3b(), 640),
        (model_shapes.lfm2_8b_a1b(), 384),
        (model_shapes.qwen3_0_6b(), 3584),
    ],
)
def test_a_context_of_32768_tokens_takes_what_llama_cpp_allocates(facts_of, model, mib):
    assert facts_of(model).kv_bytes_per_token.f16 * 32768 == mib * MIB


@pytest.mark.parametrize(("model", "mib"), [(model_shapes.gpt_oss_20b(), 18), (model_shapes.gemma4_26b_a4b(), 300)])
def test_windows_take_what_llama_cpp_allocates(facts_of, model, mib):
    assert window_mib(facts_of(model)) == mib


@pytest.mark.parametrize(
    ("model", "mib"), [(model_shapes.qwen36_35b_a3b(), 62.8125), (model_shapes.lfm2_8b_a1b(), 0.28125)]
)
def test_states_take_what_llama_cpp_allocates(facts_of, model, mib):
    assert sum(layer.state_bytes for layer in facts_of(model).kv_layers) / MIB == mib


def test_gpt_oss_has_a_window_in_every_second_layer(facts_of):
    assert kinds(facts_of(model_shapes.gpt_oss_20b())) == "wf" * 12


def test_gemma_4_says_itself_which_layers_have_windows(facts_of):
    facts = facts_of(model_shapes.gemma4_26b_a4b())
    assert kinds(facts) == "wwwwwf" * 5
    assert facts.kv_layers[0] == KvLayer(kind="window", key_width=2048, value_width=2048, window=1024)
    assert facts.kv_layers[5] == KvLayer(kind="full", key_width=1024, value_width=1024)


def test_a_hybrid_has_a_cache_in_every_fourth_layer_and_none_in_the_drafting_one(facts_of):
    assert kinds(facts_of(model_shapes.qwen36_35b_a3b())) == "rrrf" * 10 + "n"


def test_latents_are_cached_as_keys_only(facts_of):
    layers = facts_of(model_shapes.deepseek_v2_lite()).kv_layers
    assert set(layers) == {KvLayer(kind="latent", key_width=512 + 64)}


def test_a_file_from_before_the_latent_cache_keeps_whole_keys_and_values(facts_of):
    layers = facts_of(model_shapes.deepseek_v2_lite(legacy=True)).kv_layers
    assert set(layers) == {KvLayer(kind="full", key_width=16 * 192, value_width=16 * 128)}


@pytest.mark.parametrize(
    ("architecture", "expected"),
    [
        ("gemma2", "wfwfwfwf"),
        ("gemma3", "wwwwwfww"),
        ("cohere2", "wwwfwwwf"),
        ("cohere2moe", "fwwwfwww"),
        ("lfm2", "wwwwwwww"),
        ("llama", "ffffffff"),
        ("phi3", "ffffffff"),
    ],
)
def test_windows_follow_the_period_of_the_architecture(facts_of, architecture, expected):
    model = bare(architecture, {"attention.sliding_window": 1024}, *[ATTENTION] * 8)
    assert kinds(facts_of(model)) == expected


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [(2, "wfwf"), (1, "ffff"), (0, "wwww"), ([False, True, True, False], "fwwf"), ([1, 0, 0, 1, 1], "wffw")],
)
def test_a_pattern_in_the_file_comes_before_that_of_the_architecture(facts_of, pattern, expected):
    keys = {"attention.sliding_window": 64, "attention.sliding_window_pattern": pattern}
    assert kinds(facts_of(bare("gemma3", keys, *[ATTENTION] * 4))) == expected


@pytest.mark.parametrize(
    ("architecture", "keys", "window"),
    [
        ("gemma2", {}, 4096),
        ("gemma3", {}, 0),
        ("llama4", {}, 8192),
        ("llama4", {"attention.sliding_window": 0}, 0),
        ("smallthinker", {"attention.sliding_window": 100}, 4096),
    ],
)
def test_windows_have_the_size_llama_cpp_gives_them_without_a_word_in_the_file(facts_of, architecture, keys, window):
    facts = facts_of(bare(architecture, keys, *[ATTENTION] * 4))
    assert max(layer.window for layer in facts.kv_layers) == window


def test_layers_that_read_an_earlier_cache_have_none(facts_of):
    keys = {"attention.sliding_window": 64, "attention.sliding_window_pattern": [True] * 4}
    model = bare("gemma4", {**keys, "attention.shared_kv_layers": 2}, *[ATTENTION] * 4)
    assert kinds(facts_of(model)) == "wwnn"
    model = bare("gemma3n", {"attention.sliding_window": 64}, *[ATTENTION] * 22)
    assert kinds(facts_of(model)) == "wwwwf" * 4 + "nn"


def test_head_counts_may_differ_from_layer_to_layer(facts_of):
    facts = facts_of(bare("deci", {"attention.head_count_kv": [2, 0, 4]}, *[ATTENTION] * 3))
    assert [(layer.kind, layer.key_width) for layer in facts.kv_layers] == [
        ("full", 128),
        ("none", 0),
        ("full", 256),
    ]


def test_layers_without_kv_heads_keep_a_state_where_their_tensors_say_so(facts_of):
    # Granite 4 hybrid: llama.cpp allocates 9.23 MiB for six such layers.
    keys = {"ssm.conv_kernel": 4, "ssm.inner_size": 3072, "ssm.state_size": 128, "ssm.group_count": 1}
    facts = facts_of(bare("granitehybrid", {**keys, "attention.head_count_kv": [0, 2]}, STATE, ATTENTION))
    assert facts.kv_layers[0] == KvLayer(kind="recurrent", state_bytes=1_612_800)
    assert facts.kv_layers[1].kind == "full"


def test_kimi_delta_attention_keeps_a_state_of_heads(facts_of):
    # llama.cpp allocates 0.80 MiB for three such layers and 36 MiB for one latent layer of 32768 cells.
    keys = {
        "attention.head_count": 4,
        "attention.head_count_kv": [0, 1],
        "attention.key_length": 576,
        "attention.value_length": 512,
        "attention.key_length_mla": 192,
        "attention.value_length_mla": 128,
        "ssm.conv_kernel": 4,
        "kda.head_dim": 128,
    }
    facts = facts_of(bare("kimi-linear", keys, (*ATTENTION, *STATE), ("attn_kv_a_mqa.weight",)))
    assert facts.kv_layers == (
        KvLayer(kind="recurrent", state_bytes=280_576),
        KvLayer(kind="latent", key_width=576),
    )


def test_a_layer_may_have_a_cache_and_a_state(facts_of):
    # Falcon-H1: llama.cpp allocates 3.08 MiB of states for four such layers.
    keys = {"ssm.conv_kernel": 4, "ssm.inner_size": 1536, "ssm.state_size": 128, "ssm.group_count": 1}
    (layer,) = facts_of(bare("falcon-h1", keys, (*ATTENTION, *STATE))).kv_layers
    assert layer == KvLayer(kind="full", key_width=128, value_width=128, state_bytes=807_936)


@pytest.mark.parametrize(
    ("architecture", "keys", "block", "state_bytes"),
    [
        ("mamba", {"ssm.conv_kernel": 4, "ssm.inner_size": 1536, "ssm.state_size": 16}, STATE, 116_736),
        ("rwkv7", {"wkv.head_size": 64}, ("time_mix_key.weight",), 4 * 512 * (2 + 64)),
        ("minimax-01", {"full_attention_interval": 2}, ("attn_qkv.weight",), 4 * 64 * 64 * 8),
    ],
)
def test_other_recurrent_architectures_are_sized(facts_of, architecture, keys, block, state_bytes):
    layer = facts_of(bare(architecture, keys, block)).kv_layers[0]
    assert layer == KvLayer(kind="recurrent", state_bytes=state_bytes)


def test_a_sparse_attention_index_is_one_more_head_of_keys(facts_of):
    keys = {
        "attention.key_length": 576,
        "attention.key_length_mla": 192,
        "attention.head_count_kv": 1,
        "attention.indexer.key_length": 128,
    }
    block = ("attn_kv_a_mqa.weight", "indexer.attn_k.weight")
    assert facts_of(bare("deepseek32", keys, block)).kv_layers == (KvLayer(kind="latent", key_width=704),)


def test_compressed_caches_hold_a_share_of_a_cell_per_token(facts_of):
    keys = {
        "attention.head_count_kv": 1,
        "attention.key_length": 512,
        "attention.sliding_window": 128,
        "attention.indexer.key_length": 128,
        "attention.compress_ratios": [0, 4, 128],
    }
    assert facts_of(bare("deepseek4", keys, *[("attn_kv.weight",)] * 3)).kv_layers == (
        KvLayer(kind="window", key_width=512, window=128, shared=False),
        KvLayer(kind="latent", key_width=640, ratio=4, window=128, raw_width=512, shared=False, state_bytes=80 * 1024),
        KvLayer(
            kind="latent", key_width=512, ratio=128, window=128, raw_width=512, shared=False, state_bytes=512 * 1024
        ),
    )


def test_encoders_keep_nothing(facts_of):
    assert kinds(facts_of(bare("bert", {}, ATTENTION, ATTENTION))) == "nn"


@pytest.mark.parametrize(
    ("architecture", "keys", "block", "missing"),
    [
        ("llama", {"attention.head_count": 0}, ATTENTION, "llama.attention.head_count"),
        ("mamba", {}, STATE, "mamba.ssm.inner_size"),
        ("mamba", {"ssm.inner_size": 64}, STATE, "mamba.ssm.state_size"),
        ("glm-dsa", {}, (*ATTENTION, "indexer.attn_k.weight"), "glm-dsa.attention.indexer.key_length"),
    ],
)
def test_a_key_without_which_a_cache_cannot_be_sized_is_named(facts_of, architecture, keys, block, missing):
    with pytest.raises(AppError) as caught:
        facts_of(bare(architecture, keys, block))
    assert caught.value.code is ErrorCode.MODEL_UNSUPPORTED
    assert f"'{missing}'" in caught.value.message


@given(st.lists(st.tuples(st.sampled_from(["full", "latent", "window", "recurrent"]), st.integers(1, 512))))
def test_only_caches_of_every_token_cost_more_with_the_context(rows):
    layers = [KvLayer(kind=kind, key_width=32 * width) for kind, width in rows]
    values = sum(32 * width for kind, width in rows if kind in ("full", "latent"))
    cost = kv_bytes_per_token(layers)
    assert (cost.f16, cost.q8_0, cost.q4_0) == (values * 2, values * 1.0625, values * 0.5625)

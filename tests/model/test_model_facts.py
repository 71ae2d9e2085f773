"""The facts of whole models, against their known figures."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import gguf_files
import model_shapes
import msgspec
import pytest
from gguf_files import Tensor

from app.errors import AppError, ErrorCode
from app.model import read_facts

MIB = 1 << 20
ALL_SHAPES = [
    model_shapes.qwen3_30b_a3b,
    model_shapes.gpt_oss_20b,
    model_shapes.deepseek_v2_lite,
    model_shapes.gemma4_26b_a4b,
    model_shapes.mixtral_8x7b,
    model_shapes.qwen36_35b_a3b,
    model_shapes.lfm2_8b_a1b,
    model_shapes.qwen3_0_6b,
    model_shapes.tiny_moe,
]
TINY = model_shapes.tiny_moe()


def without(model: gguf_files.Model, *names: str) -> gguf_files.Model:
    return replace(model, tensors=tuple(tensor for tensor in model.tensors if tensor.name not in names))


def with_keys(model: gguf_files.Model, **keys) -> gguf_files.Model:
    """The model with keys changed; None removes one."""
    changed = {key: value for key, value in {**model.keys, **keys}.items() if value is not None}
    return replace(model, keys=changed)


def refusal(facts_of, model: gguf_files.Model) -> AppError:
    with pytest.raises(AppError) as caught:
        facts_of(model)
    return caught.value


# Published figures of these models; the types within a file vary a little from one quantiser to another.
@pytest.mark.parametrize(
    ("shape", "layers", "experts", "used", "shared", "hidden", "inner", "expert_mib", "token_mib"),
    [
        (model_shapes.qwen3_30b_a3b, 48, 128, 8, 0, 2048, 768, 2.72, 1051),
        (model_shapes.gpt_oss_20b, 24, 32, 4, 0, 2880, 2880, 12.61, 1210),
        (model_shapes.deepseek_v2_lite, 26, 64, 6, 2, 2048, 1408, 5.0, 780),
        (model_shapes.gemma4_26b_a4b, 30, 128, 8, 1, 2816, 704, 3.76, 904),
        (model_shapes.mixtral_8x7b, 32, 8, 2, 0, 4096, 14336, 101.9, 6518),
        (model_shapes.qwen36_35b_a3b, 40, 256, 8, 1, 2048, 512, 1.82, 582),
        (model_shapes.lfm2_8b_a1b, 22, 32, 4, 0, 2048, 1792, 6.37, 560),
    ],
)
def test_the_experts_of_known_models_have_their_known_sizes(
    facts_of, shape, layers, experts, used, shared, hidden, inner, expert_mib, token_mib
):
    facts = facts_of(shape())
    assert len(facts.moe_layers) == layers
    assert (facts.expert_count, facts.experts_used, facts.experts_shared) == (experts, used, shared)
    assert (facts.embedding_length, facts.expert_feed_forward_length) == (hidden, inner)
    assert sum(facts.expert_bytes.values()) / layers / MIB == pytest.approx(expert_mib, rel=0.01)
    assert facts.token_cycle_bytes / MIB == pytest.approx(token_mib, rel=0.01)


@pytest.mark.parametrize("shape", ALL_SHAPES)
def test_the_parts_add_up(facts_of, shape):
    model = shape()
    facts = facts_of(model)
    parts = msgspec.structs.asdict(facts.bytes)
    total = parts.pop("total")
    assert total == sum(tensor.bytes for tensor in model.tensors) == sum(parts.values())
    assert facts.bytes.experts == facts.expert_count * sum(facts.expert_bytes.values())
    assert tuple(facts.expert_bytes) == facts.moe_layers
    assert len(facts.layer_bytes) == len(facts.kv_layers) == facts.layers
    in_layers = sum(facts.layer_bytes)
    beside = facts.bytes.shared_experts + facts.bytes.attention + facts.bytes.router
    assert beside <= in_layers <= beside + facts.bytes.other


def test_mixed_types_are_counted_as_the_file_has_them(facts_of):
    facts = facts_of(model_shapes.qwen3_30b_a3b())
    narrow, wide = 2048 * 768 * 144 // 256 * 3, 2048 * 768 * (2 * 144 + 210) // 256
    assert set(facts.expert_bytes.values()) == {narrow, wide}
    assert facts.expert_bytes[0] == wide
    assert facts.expert_bytes[6] == narrow
    assert facts.quantization == "Q4_K"


def test_biases_belong_to_their_expert(facts_of):
    facts = facts_of(model_shapes.gpt_oss_20b())
    assert set(facts.expert_bytes.values()) == {3 * (2880 * 2880 * 17 // 32 + 2880 * 4)}
    assert facts.quantization == "MXFP4"


def test_fused_gate_and_up_and_the_scale_belong_to_the_expert(facts_of):
    facts = facts_of(model_shapes.gemma4_26b_a4b())
    assert facts.expert_bytes[3] == 2816 * 1408 * 144 // 256 + 704 * 2816 * 22 // 32 + 4


def test_a_leading_dense_layer_has_no_experts(facts_of):
    facts = facts_of(model_shapes.deepseek_v2_lite())
    assert facts.moe_layers == tuple(range(1, 27))
    assert facts.layer_bytes[0] > facts.layer_bytes[1]


def test_tied_embeddings_are_counted_once_and_said_to_be_tied(facts_of):
    facts = facts_of(model_shapes.gemma4_26b_a4b())
    assert facts.output_tied
    assert facts.bytes.embeddings == 2816 * 262144 * 144 // 256
    assert facts.bytes.output == 2816 * 4
    assert not facts_of(model_shapes.qwen3_30b_a3b()).output_tied


def test_blocks_that_only_draft_are_not_experts_to_place(facts_of):
    facts = facts_of(model_shapes.qwen36_35b_a3b())
    assert (facts.layers, facts.draft_layers) == (41, (40,))
    assert facts.layer_bytes[40] == 0
    draft = sum(t.bytes for t in model_shapes.qwen36_35b_a3b().tensors if t.name.startswith("blk.40."))
    assert draft <= facts.bytes.other < draft + MIB


def test_a_dense_model_is_a_model_without_experts(facts_of):
    facts = facts_of(model_shapes.qwen3_0_6b())
    assert (facts.expert_count, facts.experts_used, facts.experts_shared) == (0, 0, 0)
    assert (facts.moe_layers, facts.expert_bytes, facts.token_cycle_bytes) == ((), {}, 0)
    assert facts.expert_feed_forward_length == 0
    assert facts.bytes.experts == facts.bytes.shared_experts == facts.bytes.router == 0
    assert facts.quantization == "Q4_K"


def test_chunks_of_experts_are_shared_out_among_the_experts(facts_of):
    chunks = [Tensor(f"blk.{i}.ffn_{p}_chexps.weight", (64, 32, 2)) for i in (0, 1) for p in ("up", "gate")]
    facts = facts_of(replace(TINY, tensors=(*TINY.tensors, *chunks)))
    own = facts_of(TINY).expert_bytes[0]
    assert facts.expert_bytes == dict.fromkeys((0, 1), own + 2 * 2 * 64 * 32 * 4 // 4)


def test_layers_may_use_different_numbers_of_experts(facts_of):
    facts = facts_of(with_keys(TINY, expert_used_count=[1, 3]))
    assert facts.experts_used == 3
    assert facts.token_cycle_bytes == facts.expert_bytes[0] + 3 * facts.expert_bytes[1]


def test_name_context_vocabulary_and_template_come_from_the_metadata(facts_of):
    facts = facts_of(replace(TINY, plain={"general.name": "  A name ", **gguf_files.vocabulary(5000)}))
    assert facts.name == "A name"
    assert facts.context_length == 32768
    assert facts.vocab_size == 5000
    assert facts.chat_template


def test_without_a_vocabulary_its_size_is_that_of_the_embeddings(facts_of):
    facts = facts_of(with_keys(TINY, vocab_size=None))
    assert facts.vocab_size == 32
    assert not facts.chat_template


def test_a_model_without_a_name_has_that_of_its_file(tmp_path):
    path = gguf_files.write_model(tmp_path / "某个 模型 Q4.gguf", replace(TINY, plain={}))
    facts = read_facts(path)
    assert facts.name == "某个 模型 Q4"
    assert facts.files == (str(path),)


def test_paths_are_absolute_and_links_are_not_followed(tmp_path, monkeypatch):
    gguf_files.write_model(tmp_path / "blob", TINY)
    (tmp_path / "link.gguf").symlink_to(tmp_path / "blob")
    monkeypatch.chdir(tmp_path)
    assert read_facts(Path("link.gguf")).files == (str(tmp_path / "link.gguf"),)


@pytest.mark.skipif(sys.platform == "win32", reason="file names are Unicode there")
def test_a_file_name_that_is_no_text_is_refused_with_advice(tmp_path):
    with pytest.raises(AppError, match="rename") as caught:
        read_facts(tmp_path / "caf\udce9.gguf")
    assert caught.value.code is ErrorCode.FILE_UNREADABLE
    assert caught.value.message.isascii()


def test_the_fingerprint_names_the_weights_and_nothing_else(facts_of):
    same = replace(TINY, plain={"general.name": "Other"}, tensors=TINY.tensors[::-1])
    assert facts_of(same).fingerprint == facts_of(TINY).fingerprint
    wider = [replace(t, type="Q8_0") if t.name == "blk.0.attn_q.weight" else t for t in TINY.tensors]
    others = [
        replace(TINY, tensors=tuple(wider)),
        replace(TINY, architecture="qwen3moe"),
        without(TINY, "output.weight"),
    ]
    prints = {facts_of(model).fingerprint for model in (TINY, *others)}
    assert len(prints) == 4


def test_the_facts_survive_a_journey_as_json(facts_of):
    facts = facts_of(model_shapes.qwen36_35b_a3b())
    assert msgspec.json.decode(msgspec.json.encode(facts), type=type(facts)) == facts


@pytest.mark.parametrize("key", ["context_length", "embedding_length", "block_count", "expert_count"])
def test_a_needed_key_that_is_missing_is_named(facts_of, key):
    error = refusal(facts_of, with_keys(TINY, **{key: None}))
    assert error.code is ErrorCode.MODEL_UNSUPPORTED
    assert f"'llama.{key}'" in error.message


def test_experts_without_the_number_used_are_refused(facts_of):
    assert "'llama.expert_used_count'" in refusal(facts_of, with_keys(TINY, expert_used_count=None)).message


def test_a_file_without_an_architecture_is_refused(tmp_path):
    path = gguf_files.write_file(tmp_path / "x.gguf", {"some.key": 1}, [Tensor("t", (4,))])
    with pytest.raises(AppError, match=r"'general\.architecture'") as caught:
        read_facts(path)
    assert caught.value.code is ErrorCode.MODEL_UNSUPPORTED


@pytest.mark.parametrize("kind", ["adapter", "mmproj", "imatrix"])
def test_a_file_that_is_no_model_is_refused_by_its_type(facts_of, kind):
    error = refusal(facts_of, replace(TINY, plain={"general.type": kind}))
    assert error.code is ErrorCode.MODEL_UNSUPPORTED
    assert f"'{kind}'" in error.message


def test_a_vocabulary_without_weights_is_no_model(facts_of):
    error = refusal(facts_of, replace(TINY, tensors=()))
    assert error.code is ErrorCode.MODEL_UNSUPPORTED


def test_single_experts_in_tensors_of_their_own_are_refused_by_name(facts_of):
    old = Tensor("blk.0.ffn_gate.0.weight", (32, 32))
    error = refusal(facts_of, replace(TINY, tensors=(*TINY.tensors, old)))
    assert error.code is ErrorCode.MODEL_UNSUPPORTED
    assert "no longer" in error.message


@pytest.mark.parametrize(
    "keys",
    [
        {"block_count": 3},
        {"block_count": 1},
        {"block_count": 4_000_000_000},
        {"block_count": "two"},
        {"block_count": [2]},
        {"context_length": 1.5},
        {"expert_count": 8},
        {"expert_count": 1 << 40},
        {"expert_used_count": 5},
        {"expert_used_count": [1]},
        {"attention.head_count_kv": [1]},
    ],
)
def test_metadata_that_contradict_the_tensors_are_damage(facts_of, keys):
    assert refusal(facts_of, with_keys(TINY, **keys)).code is ErrorCode.MODEL_DAMAGED


def test_experts_without_a_down_projection_are_damage(facts_of):
    error = refusal(facts_of, without(TINY, "blk.1.ffn_down_exps.weight"))
    assert error.code is ErrorCode.MODEL_DAMAGED
    assert "block 1" in error.message


def test_a_file_that_only_drafts_for_another_model_is_refused(facts_of):
    assert refusal(facts_of, with_keys(TINY, nextn_predict_layers=2)).code is ErrorCode.MODEL_UNSUPPORTED


def test_reading_a_model_imports_neither_llama_cpp_nor_the_slow_packages():
    code = (
        "import sys, app.model; "
        "print([name for name in ('llama_cpp', 'gguf', 'numpy', 'PySide6') if name in sys.modules])"
    )
    root = Path(__file__).parents[2]
    result = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"

"""What a tensor is for, from its name."""

import pytest

from app.model.roles import Role, is_unstacked_expert, parse_name, role_of


def role(name: str, *, beside_experts: bool = True) -> Role:
    return role_of(parse_name(name), beside_experts=beside_experts)


@pytest.mark.parametrize("part", ["gate", "up", "down", "gate_up"])
@pytest.mark.parametrize("kind", ["exps", "chexps"])
@pytest.mark.parametrize("end", ["weight", "bias", "scale", "input_scale"])
def test_stacked_experts_in_every_form_are_experts(part, kind, end):
    assert role(f"blk.7.ffn_{part}_{kind}.{end}") is Role.EXPERTS


@pytest.mark.parametrize("part", ["gate", "up", "down", "gate_inp"])
def test_shared_experts_are_not_taken_for_routed_ones(part):
    assert role(f"blk.7.ffn_{part}_shexp.weight") is Role.SHARED_EXPERTS


@pytest.mark.parametrize(
    "name",
    ["ffn_gate_inp.weight", "ffn_gate_inp.bias", "ffn_gate_inp.scale", "exp_probs_b.bias", "exp_probs_b"],
)
def test_the_selection_belongs_to_the_router(name):
    assert role(f"blk.0.{name}") is Role.ROUTER


@pytest.mark.parametrize("part", ["gate", "up", "down"])
def test_a_plain_feed_forward_part_is_shared_beside_experts_and_dense_alone(part):
    assert role(f"blk.3.ffn_{part}.weight") is Role.SHARED_EXPERTS
    assert role(f"blk.3.ffn_{part}.weight", beside_experts=False) is Role.OTHER


@pytest.mark.parametrize(
    "name",
    [
        *("attn_q.weight", "attn_kv_a_mqa.weight", "attn_sinks.weight", "attn_norm.weight", "attn_qkv.bias"),
        *("ssm_conv1d.weight", "ssm_a", "shortconv.in_proj.weight", "time_mix_key.weight", "indexer.k_norm.bias"),
    ],
)
def test_whatever_mixes_tokens_counts_as_attention(name):
    assert role(f"blk.11.{name}") is Role.ATTENTION


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("token_embd.weight", Role.EMBEDDINGS),
        ("per_layer_token_embd.weight", Role.EMBEDDINGS),
        ("output.weight", Role.OUTPUT),
        ("output_norm.weight", Role.OUTPUT),
        ("rope_freqs.weight", Role.OTHER),
        ("blk.2.ffn_norm.weight", Role.OTHER),
        ("blk.2.ffn_norm_exps.weight", Role.OTHER),
        ("blk.2.layer_output_scale.weight", Role.OTHER),
        ("something.ffn_up_exps.weight", Role.OTHER),
    ],
)
def test_the_rest_goes_where_it_lives(name, expected):
    assert role(name) is expected


def test_a_name_is_divided_into_layer_base_and_rest():
    assert parse_name("blk.12.ffn_up_exps.weight") == (12, "ffn_up_exps", "weight")
    assert parse_name("dec.blk.3.attn_q.weight") == (3, "attn_q", "weight")
    assert parse_name("output.weight") == (None, "output", "weight")
    assert parse_name("blk.x.attn_q.weight").layer is None


def test_single_experts_of_the_old_layout_are_recognised():
    assert is_unstacked_expert(parse_name("blk.0.ffn_gate.3.weight"))
    assert not is_unstacked_expert(parse_name("blk.0.ffn_gate.weight"))

"""A plan as settings of other programs, and as a device map."""

import json

import pytest
from factories import deepseek_v2_lite, demo, gpt_oss_20b, make_facts, qwen3_30b

from app.errors import AppError, ErrorCode
from app.model.facts import KvLayer
from app.placement.exchange.device_map import export_device_map
from app.placement.exchange.export_words import lm_studio, ollama
from app.placement.plan import CPU_LANE, DISK_LANE, CachePolicy, Plan

FACTS = qwen3_30b(layers=6)


def plan_of(lanes, facts=FACTS, gpu="CUDA0", **fields):
    usual = {"n_ctx": 4096, "threads": 6, "threads_batch": 6, "residency": "repacked"}
    return Plan(model_files=facts.files, gpu=gpu, expert_lanes=lanes, **{**usual, **fields})


def split_plan(count, facts=FACTS, **fields):
    """Experts of the first layers on the CPU, the others on the GPU."""
    return plan_of({layer: CPU_LANE if layer < count else "CUDA0" for layer in facts.moe_layers}, facts, **fields)


def lost(exported, words):
    return any(words in sentence for sentence in exported.lost)


# ---- LM Studio and Ollama --------------------------------------------------------------------


def test_lm_studio_is_told_the_number_of_layers_whose_experts_stay_on_the_cpu():
    exported = lm_studio(split_plan(4), FACTS)
    assert "Number of layers for which to force MoE weights onto CPU: 4\n" in exported.text
    assert "GPU Offload: 6 of 6 layers" in exported.text
    assert exported.lost == ()


def test_layers_that_do_not_come_first_are_lost_in_lm_studio():
    exported = lm_studio(plan_of({0: "CUDA0", 1: "CUDA0", 2: CPU_LANE, 3: CPU_LANE, 4: "CUDA0", 5: CPU_LANE}), FACTS)
    assert "onto CPU: 3\n" in exported.text
    assert lost(exported, "layers 2–3, 5")


def test_a_dense_first_layer_counts_in_lm_studio():
    facts = deepseek_v2_lite(layers=4, moe_layers=(1, 2, 3), expert_sizes=[1, 1, 1])
    assert "onto CPU: 3\n" in lm_studio(split_plan(3, facts), facts).text


def test_single_experts_are_lost_in_every_program():
    plan = split_plan(4, pool_bytes=2**30, staging_bytes=2**20, policy=CachePolicy(kind="frozen"), residency="mapped")
    for write in (lm_studio, ollama):
        exported = write(plan, FACTS)
        assert lost(exported, "1.0 GiB on CUDA0 with the policy 'frozen' are lost")
        assert lost(exported, "staging area: 1.0 MiB")
        assert lost(exported, "mapped")


def test_ollama_moves_whole_layers_and_says_what_that_costs():
    exported = ollama(split_plan(4), FACTS)
    assert "PARAMETER num_gpu 2\n" in exported.text
    assert lost(exported, "attention and KV cache of layers 0–3 go to the CPU")
    everything = ollama(split_plan(0), FACTS)
    assert "PARAMETER num_gpu 7\n" in everything.text
    assert everything.lost == ()
    assert "PARAMETER num_gpu 0\n" in ollama(plan_of(dict.fromkeys(range(6), CPU_LANE), gpu=None), FACTS).text


def test_a_quantised_cache_is_told_to_ollamas_server():
    text = ollama(split_plan(0, kv_type="q8_0"), FACTS).text
    assert "OLLAMA_KV_CACHE_TYPE=q8_0\nOLLAMA_FLASH_ATTENTION=1\n" in text


# ---- device maps -----------------------------------------------------------------------------


def map_of(plan, facts):
    return json.loads(export_device_map(plan, facts).text)


def test_whole_layers_and_experts_apart_are_named():
    places = map_of(plan_of({0: "CUDA0", 1: CPU_LANE, 2: DISK_LANE, 3: "CUDA1", 4: CPU_LANE, 5: CPU_LANE}), FACTS)
    assert places["model.embed_tokens"] == places["lm_head"] == places["model.layers.0"] == 0
    assert places["model.layers.1.mlp.experts"] == "cpu"
    assert places["model.layers.1.mlp.gate"] == places["model.layers.1.self_attn"] == 0
    assert places["model.layers.2.mlp.experts"] == "disk"
    assert places["model.layers.3"] == 1


@pytest.mark.parametrize("gpu", [None, "CUDA0"])
def test_no_module_is_named_inside_another(gpu):
    lanes = {layer: (CPU_LANE, DISK_LANE)[layer % 2] for layer in FACTS.moe_layers}
    names = map_of(plan_of(lanes, gpu=gpu), FACTS)
    assert not [(one, two) for one in names for two in names if two.startswith(f"{one}.")]


def test_each_family_has_its_own_modules():
    shared = deepseek_v2_lite(layers=3, moe_layers=(1, 2), expert_sizes=[1, 1])
    places = map_of(split_plan(3, shared), shared)
    assert places["model.layers.0"] == places["model.layers.1.mlp.shared_experts"] == 0
    oss = gpt_oss_20b(layers=2, kv_layers=KvLayer(kind="full"))
    assert map_of(split_plan(2, oss), oss)["model.layers.0.mlp.router"] == 0
    granite = demo(architecture="granitemoe", layers=2)
    places = map_of(split_plan(2, granite), granite)
    assert places["model.layers.1.block_sparse_moe.input_linear"] == "cpu"
    assert places["model.layers.1.block_sparse_moe.router"] == 0
    mixtral = demo(layers=1)
    assert {"model.layers.0.mlp.experts", "model.layers.0.block_sparse_moe.experts"} <= set(
        map_of(split_plan(1, mixtral), mixtral)
    )


def test_blocks_that_only_draft_are_not_named():
    facts = qwen3_30b(layers=3, moe_layers=(0, 1), expert_sizes=[1, 1], draft_layers=(2,))
    assert not [name for name in map_of(split_plan(2, facts), facts) if name.startswith("model.layers.2")]


def test_it_is_said_that_accelerate_computes_on_the_gpu_only():
    exported = export_device_map(split_plan(4), FACTS)
    assert lost(exported, "copied to the GPU for every token")
    assert lost(exported, "context of 4,096 tokens")
    assert not lost(export_device_map(plan_of(dict.fromkeys(range(6), CPU_LANE), gpu=None), FACTS), "every token")


@pytest.mark.parametrize("facts", [make_facts(architecture="grok"), make_facts(architecture="llama", experts=0)])
def test_an_architecture_whose_modules_are_not_known_is_refused_by_name(facts):
    with pytest.raises(AppError, match=f"'{facts.architecture}'") as caught:
        export_device_map(split_plan(1, facts), facts)
    assert caught.value.code is ErrorCode.BAD_USAGE

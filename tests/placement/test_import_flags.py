"""What pasted command lines of llama.cpp mean, and what is said of the rest of them."""

import pytest
from factories import GIB, deepseek_v2_lite, demo, make_gpu, make_machine
from hypothesis import given, settings
from hypothesis import strategies as st
from plan_exchange import tensors_of

from app.errors import AppError, ErrorCode
from app.hardware.facts import GpuKind
from app.placement.exchange.import_flags import import_flags
from app.placement.plan import CPU_LANE, DISK_LANE

FACTS = demo(layers=8, name="Demonstration", files=("/models/demo.gguf",))
MACHINE = make_machine(make_gpu(20 * GIB), make_gpu(10 * GIB, device="CUDA1"))
ONE_CARD = make_machine(make_gpu(20 * GIB))


def read(line, facts=FACTS, machine=ONE_CARD):
    return import_flags(line, facts, machine, tensors_of(facts))


def on_cpu(imported):
    return [layer for layer, lane in imported.plan.expert_lanes.items() if lane == CPU_LANE]


def said(imported, words):
    return any(words in remark for remark in imported.remarks)


def refused(line, words, code=ErrorCode.BAD_USAGE, **places):
    with pytest.raises(AppError) as caught:
        read(line, **places)
    assert words in caught.value.message
    assert caught.value.code is code


# ---- experts ---------------------------------------------------------------------------------


def test_n_cpu_moe_keeps_the_first_layers_experts_on_the_cpu():
    for flag in ("-ncmoe", "--n-cpu-moe", "--n_cpu_moe"):
        imported = read(f"llama-server -m demo.gguf -ngl 99 {flag} 3 -c 4096")
        assert on_cpu(imported) == [0, 1, 2]
        assert imported.plan.gpu == "CUDA0"
        assert imported.remarks == ()


def test_all_experts_stay_on_the_cpu_by_every_usual_form():
    for flags in ("-cmoe", "--cpu-moe", "-ot exps=CPU", r"-ot '.ffn_.*_exps.=CPU'", "-ncmoe 8"):
        assert on_cpu(read(f"-ngl 99 -c 4096 {flags}")) == list(range(8)), flags


def test_more_layers_than_there_are_mean_all_and_it_is_said():
    imported = read("-ngl 99 -c 4096 -ncmoe 99")
    assert on_cpu(imported) == list(range(8))
    assert said(imported, "the model has 8 layers")


def test_a_count_that_reaches_no_experts_does_nothing_and_it_is_said():
    facts = deepseek_v2_lite()
    assert said(read("-ngl 99 -c 4096 -ncmoe 1", facts), "-ncmoe 1 matches no tensor")
    assert said(read("-ngl 99 -c 4096 -ncmoe 0"), "does nothing")


def test_a_pattern_places_the_layers_it_names():
    imported = read(r'llama-server -ngl 99 -c 4096 -ot "blk\.(2|5)\.ffn_.*_exps\.weight=CPU"')
    assert on_cpu(imported) == [2, 5]
    assert imported.remarks == ()


def test_a_pattern_that_matches_nothing_is_said_to_do_nothing():
    imported = read(r"-ngl 99 -c 4096 -ot 'blk\.(8|9)\.ffn_.*_exps=CPU' -ot 'ffn_experts=CPU'")
    assert on_cpu(imported) == []
    assert sum("matches no tensor of this model: it does nothing" in remark for remark in imported.remarks) == 2


def test_the_first_pattern_decides_whatever_comes_after_it():
    first = read(r"-ngl 99 -c 4096 -ot 'blk\.3\.ffn_.*_exps=CUDA0,exps=CPU'")
    assert on_cpu(first) == [0, 1, 2, 4, 5, 6, 7]
    assert said(first, "-ot exps=CPU: for 3 of its 24 tensors")
    second = read(r"-ngl 99 -c 4096 --cpu-moe -ot 'blk\.3\.ffn_.*_exps=CUDA0'")
    assert on_cpu(second) == list(range(8))
    assert said(second, "does nothing: --cpu-moe, which comes before it")


def test_patterns_that_agree_where_they_overlap_need_no_word():
    assert read(r"-ngl 99 -c 4096 -ncmoe 4 -ot 'blk\.[2-5]\..*exps=CPU'").remarks == ()


def test_experts_go_to_another_card_by_pattern():
    imported = read(r"-ngl 99 -c 4096 -sm none -ot 'blk\.[0-3]\..*exps=CUDA1' -ot exps=CPU", machine=MACHINE)
    assert [imported.plan.expert_lanes[layer] for layer in (0, 3, 4)] == ["CUDA1", "CUDA1", CPU_LANE]


def test_part_of_a_layers_experts_moves_the_layer_and_it_is_said():
    imported = read("-ngl 99 -c 4096 -ot 'blk.[67].ffn_up_exps=CPU'")
    assert on_cpu(imported) == [6, 7]
    assert said(imported, "divides the expert tensors of layers 6–7")


def test_tensors_that_are_no_experts_stay_with_the_attention_and_it_is_said():
    imported = read(r"-ngl 99 -c 4096 -ot 'blk\.[01]\.=CPU'")
    assert on_cpu(imported) == [0, 1]
    assert said(imported, "also moves 10 tensors that are no experts, such as blk.0.attn_q.weight")


def test_what_main_memory_has_no_room_for_is_read_from_disk():
    imported = read("-ngl 99 -c 4096 --cpu-moe", machine=make_machine(make_gpu(), ram=GIB // 2, ram_total=GIB))
    assert DISK_LANE in imported.plan.expert_lanes.values()


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ("-ot 'blk.(1=CPU'", "no regular expression"),
        ("-ot '[=CPU'", "no regular expression"),
        ("-ot '(?<=a)b=CPU'", "cannot read '(?'"),
        ("-ot '[[:digit:]]=CPU'", "[0-9]"),
        ("-ot exps", "has no '='"),
        (r"-ot 'blk\.\d{1,2}\.=CPU'", "a comma ends a pattern"),
        ("-ot", "has no value"),
        ("-ncmoe -1", "-1 is impossible"),
        ("-ncmoe five", "whole number"),
        ("-c -1", "-1 tokens is impossible"),
        ("-c 8k", "whole number, not '8k'"),
        ("-c 1000000", "1,000,000 tokens is impossible"),
        ("-b 0", "Batches"),
        ("-ub -1", "Batches"),
        ("-t 9999", "9999 threads"),
        ("-np 0", "-np 0"),
        ("-np 300", "-np 300"),
        ("-ngl many", "whole number"),
        ("-ctk q9", "no cache type 'q9'"),
        ("-sm rows", "-sm takes one of"),
        ("-sm none -mg 4", "-mg 4 is impossible"),
        ("-ts 1,x", "-ts takes shares"),
        ("-ts 1,-1", "-ts takes shares"),
        ("-C xyz", "hexadecimal"),
        ("-C ffffff", "no logical processor 16"),
        ("-Cr 1", "range"),
        ("", "the text is empty"),
        ("once upon a time", "has no flag"),
        ("[1, 2]", "has no flag"),
        ("\0\0", "has no flag"),
    ],
)
def test_impossible_values_are_refused_and_named(flags, words):
    refused(flags, words)


def test_devices_that_are_not_here_are_refused():
    refused("-ngl 99 -ot exps=CUDA7", "'CUDA7'", ErrorCode.DEVICE_MISSING)
    refused("-dev Vulkan3", "'Vulkan3'", ErrorCode.DEVICE_MISSING)
    refused("-ngl 99 -ot exps=CUDA_Host", "'CUDA_Host'", ErrorCode.DEVICE_MISSING)


# ---- layers and devices ----------------------------------------------------------------------


def test_the_last_layers_go_to_the_gpu_and_the_output_counts_as_one():
    imported = read("-ngl 4 -c 4096")
    assert on_cpu(imported) == [0, 1, 2, 3, 4]
    assert said(imported, "attention and KV cache of layers 0–4 on the CPU; here CUDA0 has all")
    assert read("-ngl 9 -c 4096").remarks == ()


def test_no_gpu_by_any_form():
    for flags in ("-ngl 0", "-dev none", "-dev none -ngl 99", "-ngl 1", "-sm none -mg -1"):
        assert read(f"{flags} -c 4096").plan.gpu is None, flags


def test_all_layers_by_any_form():
    for flags in ("-ngl 99", "-ngl all", "-ngl auto", "-ngl -1", "-ngl 9", "--gpu-layers 99", "-dev CUDA0"):
        imported = read(f"{flags} -c 4096")
        assert (imported.plan.gpu, on_cpu(imported)) == ("CUDA0", []), flags


def test_layers_are_divided_by_the_split_or_by_free_memory():
    by_split = read("-ngl 99 -c 4096 -ts 1,2", machine=MACHINE)
    assert list(by_split.plan.expert_lanes.values()) == ["CUDA0"] * 3 + ["CUDA1"] * 5
    by_memory = read("-ngl 99 -c 4096", machine=MACHINE)
    assert list(by_memory.plan.expert_lanes.values()) == ["CUDA0"] * 6 + ["CUDA1"] * 2
    assert by_memory.plan.gpu == "CUDA0"
    assert said(by_memory, "spreads attention and KV cache over CUDA0, CUDA1")
    alone = read("-ngl 99 -c 4096 -sm none -mg 1", machine=MACHINE)
    assert set(alone.plan.expert_lanes.values()) == {"CUDA1"}


def test_a_card_with_memory_of_its_own_comes_before_an_integrated_one():
    both = make_machine(make_gpu(device="Vulkan0", kind=GpuKind.INTEGRATED), make_gpu(device="Vulkan1"))
    assert read("-ngl 99 -c 4096", machine=both).plan.gpus == ("Vulkan1",)


def test_experts_on_a_gpu_bring_the_attention_there():
    imported = read("-ngl 0 -c 4096 -ot exps=CUDA0")
    assert imported.plan.gpu == "CUDA0"
    assert said(imported, "keeps the attention on the CPU")


# ---- the rest of a line ----------------------------------------------------------------------


def test_numbers_are_taken_over():
    plan = read("-ngl 99 -c 4096 -b 1024 -ub 256 -t 5 -tb 7 -np 2 -kvu -ctk q8_0 -ctv q8_0 -fa on -nr -Cr 0-3").plan
    assert (plan.n_ctx, plan.n_batch, plan.n_ubatch) == (4096, 1024, 256)
    assert (plan.threads, plan.threads_batch, plan.n_seq_max) == (5, 7, 2)
    assert (plan.kv_type, plan.residency, plan.cpu_cores) == ("q8_0", "mapped", (0, 1, 2, 3))


def test_what_is_not_said_has_llama_cpps_default_or_is_this_apps_choice():
    imported = read("-ngl 99")
    plan = imported.plan
    assert (plan.kv_type, plan.n_batch, plan.n_ubatch, plan.residency) == ("f16", 2048, 512, "repacked")
    assert said(imported, "leaves the context open")
    assert said(read("-c 4096"), "where they go is this app's choice")
    assert read("-ngl 99 -c 4096 -t 4").plan.threads_batch == 4
    assert read("-ngl 99 -c 4096 -t -1").plan.threads == ONE_CARD.cpu.logical_cores


def test_contexts_are_rounded_as_llama_cpp_does_and_0_is_the_models():
    assert read("-ngl 99 -c 4000").plan.n_ctx == 4096
    assert said(read("-ngl 99 -c 4000"), "rounds a context of 4,000 tokens up to 4,096")
    assert read("-ngl 99 -c 0").plan.n_ctx == FACTS.context_length


def test_batches_are_cut_as_llama_cpp_does():
    plan = read("-ngl 99 -c 512 -b 2048 -ub 4096").plan
    assert (plan.n_batch, plan.n_ubatch) == (512, 512)


def test_caches_that_are_not_here_become_the_next_larger_one():
    assert read("-ngl 99 -c 4096 -ctk q5_1 -ctv q5_1").plan.kv_type == "q8_0"
    mixed = read("-ngl 99 -c 4096 -ctk q8_0 -ctv q4_0 -fa on")
    assert mixed.plan.kv_type == "q8_0"
    assert said(mixed, "both have one type: q8_0")


def test_flags_are_told_apart_by_whether_llama_cpp_knows_them():
    imported = read(
        "llama-server -ngl 99 -c 4096 --port 8080 --jinja --temp 0.7 --n-cpu-mo 4 --mlock --threads=4 extra"
    )
    assert said(imported, "No part of a plan, not taken over: --port 8080, --jinja, --temp 0.7.")
    assert said(imported, "llama.cpp does not know '--n-cpu-mo'; is --n-cpu-moe meant?")
    assert said(imported, "--mlock is not taken over: memory is not locked here.")
    assert said(imported, "llama.cpp does not know '--threads=4': a blank separates")
    assert said(imported, "'extra' belongs to no flag")
    assert on_cpu(imported) == []


def test_a_value_that_looks_like_a_flag_belongs_to_the_flag_before_it():
    assert read("-ngl 99 -c 4096 -p -ngl").plan.gpu == "CUDA0"
    assert read("-ngl 99 -c 4096 --temp -1 --control-vector-layer-range 1 2").plan.n_ctx == 4096


def test_flags_given_twice_and_the_old_form_of_flash_attention_are_read():
    imported = read("-c 2048 -fa -ngl 99 -c 4096")
    assert imported.plan.n_ctx == 4096
    assert said(imported, "-c is given more than once: the last, 4096, counts.")


def test_variables_and_another_file_are_told():
    imported = read("CUDA_VISIBLE_DEVICES=1 ./llama-server -m /x/other.gguf -ngl 99 -c 4096")
    assert said(imported, "The variable CUDA_VISIBLE_DEVICES=1 is not taken over. It numbers devices anew")
    assert said(imported, "The line is for the file /x/other.gguf; the plan is made for Demonstration.")


def test_a_plan_that_does_not_fit_says_where_and_by_how_much():
    imported = read("-ngl 99 -c 4096", machine=make_machine(make_gpu(GIB // 8)))
    assert imported.shortfalls[0].startswith("CUDA0 would need")


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from(
    ["-ngl", "-c", "-ot", "exps=CPU", "-ncmoe", "-t", "-1", "0", "5", "4096", "99", "-fa", "on", "-dev", "CUDA0",
     "-sm", "none", "-ts", "1,0", "x", "=", "-mg", "blk\\.1\\.=CPU", "--jinja", "-ctk", "q8_0", "'", '"', "-np", "^"]
), max_size=9))  # fmt: skip
def test_any_line_gives_a_plan_of_this_model_or_a_reason(words):
    try:
        imported = read(" ".join(words))
    except AppError:
        return
    assert tuple(imported.plan.expert_lanes) == FACTS.moe_layers
    assert imported.plan.memory

"""The memory model on models people run, at their true sizes: estimate and dry run beside llama.cpp's own account.

Shape files have the tables and no data, so nothing is read; llama.cpp lays every one of them out.
"""

import model_shapes
import more_shapes
import msgspec
import pytest
from dry_runs import breakdown_library, dry_runs
from factories import make_gpu, make_machine
from gguf_files import write_model

from app.hardware.facts import GpuKind
from app.model import read_facts
from app.placement.memory import predict
from app.placement.plan import CPU_LANE, Plan

MIB = 1024**2
MODELS = [
    model_shapes.qwen3_30b_a3b,
    model_shapes.qwen36_35b_a3b,
    more_shapes.qwen3_next_80b,
    model_shapes.gpt_oss_20b,
    more_shapes.gpt_oss_120b,
    model_shapes.gemma4_26b_a4b,
    more_shapes.glm_47_flash,
    more_shapes.glm_45_air,
    model_shapes.deepseek_v2_lite,
    model_shapes.mixtral_8x7b,
    more_shapes.olmoe_1b_7b,
    more_shapes.granite_3b_a800m,
    model_shapes.lfm2_8b_a1b,
    more_shapes.qwen15_moe_a27b,
    more_shapes.deepseek_v4_flash,
    model_shapes.qwen3_0_6b,
]
# (tokens of context, conversations, tokens of a micro-batch)
CASES = [(8192, 1, 512), (32768, 4, 512), (8192, 1, 256)]
# How much the estimate of the compute buffers is above what llama.cpp lays out, at most. Where the logits decide
# it is a tenth; a small vocabulary leaves it to lifetimes that no closed form tells.
MOST_ABOVE = {"mixtral_8x7b": 0.5, "olmoe_1b_7b": 0.14, "granite_3b_a800m": 0.14}
# The software GPU takes no tensor above 128 MiB, so that llama.cpp keeps it on the CPU; these models have none.
ON_SOFTWARE_GPU = ["olmoe_1b_7b", "granite_3b_a800m", "lfm2_8b_a1b"]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Every model as a shape file, by name."""
    folder = tmp_path_factory.mktemp("shapes")
    return {made.__name__: write_model(folder / f"{made.__name__}.gguf", made()) for made in MODELS}


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    """What asks llama.cpp for its own account."""
    return breakdown_library(tmp_path_factory.mktemp("library"))


def plan_of(facts, case, gpu=None, lane=CPU_LANE):
    n_ctx, conversations, batch = case
    lanes = dict.fromkeys(facts.moe_layers, lane)
    return Plan(
        model_files=facts.files, gpu=gpu, expert_lanes=lanes, n_ctx=n_ctx, n_ubatch=batch, n_seq_max=conversations
    )


@pytest.fixture(scope="module")
def on_cpu(files, library):
    """Facts, plan and llama.cpp's words for every model and case on the CPU."""
    facts = {name: read_facts(path) for name, path in files.items()}
    cases = {(name, case): plan_of(facts[name], case) for name in files for case in CASES}
    results = dry_runs(cases.values(), library=library)
    return {key: (facts[key[0]], plan, result) for (key, plan), result in zip(cases.items(), results, strict=True)}


def estimate(facts, plan, machine=None):
    parts = predict(facts, machine or make_machine(), plan)
    return {(part.device, part.part): part.bytes for part in parts}


def weights(sizes, device):
    return sizes.get((device, "weights"), 0) + sizes.get((device, "experts"), 0)


def test_the_models_are_of_at_least_twelve_architectures(files):
    assert len({read_facts(path).architecture for path in files.values()}) >= 12


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("name", [made.__name__ for made in MODELS])
def test_estimate_and_dry_run_are_llama_cpps_own_account(on_cpu, name, case):
    facts, plan, result = on_cpu[name, case]
    dry, told, guessed = result["dry"], result["breakdown"][CPU_LANE], estimate(facts, plan)
    model = told["model"]
    if name == "gemma4_26b_a4b":
        # llama.cpp counts its embeddings twice, which it maps twice: they are the output as well.
        model -= facts.bytes.embeddings
    for sizes in (dry, guessed):
        assert weights(sizes, CPU_LANE) == pytest.approx(model, rel=0.001)
        assert sizes[CPU_LANE, "kv"] == pytest.approx(told["context"], rel=0.001)
    # Exact, but for the log's hundredths of a MiB in each of two buffers.
    assert dry[CPU_LANE, "compute"] == pytest.approx(told["compute"], abs=0.011 * MIB)
    compute = dry[CPU_LANE, "compute"] + dry[CPU_LANE, "output"]
    assert 0.99 * compute <= guessed[CPU_LANE, "compute"] <= (1 + MOST_ABOVE.get(name, 0.1)) * compute


@pytest.mark.parametrize("lane", [CPU_LANE, "Vulkan0"])
def test_with_a_gpu_each_device_has_what_llama_cpp_says(files, library, any_gpu, lane):
    machine = make_machine(make_gpu(device=any_gpu, kind=GpuKind.DISCRETE))
    facts = {name: read_facts(files[name]) for name in ON_SOFTWARE_GPU}
    plans = {name: plan_of(facts[name], CASES[0], any_gpu, lane) for name in ON_SOFTWARE_GPU}
    for name, result in zip(plans, dry_runs(plans.values(), library=library, gpu=True), strict=True):
        guessed = estimate(facts[name], plans[name], machine)
        for device in (CPU_LANE, any_gpu):
            dry, told = result["dry"], result["breakdown"][device]
            for sizes in (dry, guessed):
                assert weights(sizes, device) == pytest.approx(told["model"], rel=0.001), name
                assert sizes.get((device, "kv"), 0) == pytest.approx(told["context"], rel=0.001), name
            assert dry[device, "compute"] == pytest.approx(told["compute"], abs=0.011 * MIB), name
            compute = dry[device, "compute"] + dry.get((device, "output"), 0)
            assert 0.99 * compute <= guessed[device, "compute"] <= 1.25 * compute, name


def test_a_prediction_with_a_dry_run_takes_its_figures(on_cpu):
    from app.placement.report import BufferReport

    facts, plan, result = on_cpu["mixtral_8x7b", CASES[0]]
    buffers = [BufferReport(device=device, part=part, bytes=size) for (device, part), size in result["dry"].items()]
    plan = msgspec.structs.replace(plan, memory=predict(facts, make_machine(), plan, buffers))
    assert plan.dry_run
    taken = {part.part: (part.bytes, part.basis) for part in plan.memory}
    dry = result["dry"]
    assert taken["compute"] == (dry[CPU_LANE, "compute"] + dry[CPU_LANE, "output"], "dry run")
    assert taken["kv"] == (dry[CPU_LANE, "kv"], "dry run")
    assert taken["experts"][1] == "tables"

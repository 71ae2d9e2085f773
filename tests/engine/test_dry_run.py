"""Dry runs beside real loads: what llama.cpp said that it would allocate is what it allocates."""

import inspect
import time

import msgspec
import pytest
import tiny_hybrids
import tiny_shapes
from dry_runs import dry_runs
from engine_driver import answer, plan_for

from app.engine import protocol
from app.engine.client import EngineClient
from app.engine.dry_run import LayoutLog
from app.errors import AppError, ErrorCode
from app.model import read_facts
from app.placement.plan import CPU_LANE

MIB = 1024**2
SAME = ("kv", "compute", "output")  # reported alike by both; weights are mapped by a load
SHAPES = [
    name
    for name, made in vars(tiny_shapes).items()
    if inspect.isfunction(made) and made.__module__ in (tiny_shapes.__name__, tiny_hybrids.__name__)
]


@pytest.fixture(scope="module")
def tiny_files(tmp_path_factory):
    """A tiny model of every shape of an expert's chain."""
    folder = tmp_path_factory.mktemp("tiny")
    for name in SHAPES:
        getattr(tiny_shapes, name)(folder / f"{name}.gguf")
    return {name: folder / f"{name}.gguf" for name in SHAPES}


def alike(buffers):
    """Of sizes by (device, part) those that dry run and load report alike."""
    return {key: size for key, size in buffers.items() if key[1] in SAME}


def tiny_plans(files, gpu):
    """Each model with its experts kept in both ways; with a GPU those of the first MoE layer are on it."""
    plans = {}
    for name, path in files.items():
        layers = read_facts(path).moe_layers
        lanes = {layer: gpu if gpu and layer == layers[0] else CPU_LANE for layer in layers}
        for residency in ("mapped", "repacked"):
            plans[name, residency] = plan_for(path, gpu, expert_lanes=lanes, residency=residency)
    return plans


def test_the_tiny_models_are_of_many_architectures(tiny_files):
    assert len({read_facts(path).architecture for path in tiny_files.values()}) >= 12


@pytest.mark.parametrize("on_gpu", [False, True])
def test_compute_and_cache_buffers_of_a_dry_run_are_those_of_the_load(tiny_files, on_gpu, request):
    gpu = request.getfixturevalue("any_gpu") if on_gpu else None
    plans = tiny_plans(tiny_files, gpu)
    results = dict(zip(plans, dry_runs(plans.values(), load=True, gpu=on_gpu), strict=True))
    for case, result in results.items():
        dry, loaded = (
            {key: size for key, size in result[kind].items() if key[1] in SAME} for kind in ("dry", "loaded")
        )
        assert dry == loaded, case
        assert (gpu or CPU_LANE, "compute") in dry, case
        if gpu:
            # Both name the GPU's weights: a load in hundredths of a MiB, and with gaps between tensors.
            sizes = result["dry"]
            held = sizes[gpu, "weights"] + sizes[gpu, "experts"]
            assert result["loaded"][gpu, "weights"] == pytest.approx(held, abs=0.006 * MIB), case


@pytest.mark.parametrize("changes", [{"n_seq_max": 4}, {"kv_type": "q8_0"}, {"n_ubatch": 128}])
def test_conversations_cache_types_and_batches_count_in_a_dry_run_as_in_the_load(tiny_files, demo_model, changes):
    plans = [plan_for(demo_model, **changes)]
    if "kv_type" not in changes:  # the tiny models' heads are no whole block of it
        plans += [plan_for(tiny_files[name], **changes) for name in ("gpt_oss", "delta_net")]
    for result in dry_runs(plans, load=True):
        assert alike(result["dry"]) == alike(result["loaded"])


# ---- through the engine child ------------------------------------------------------------------


def sizes(buffers):
    return {(buffer.device, buffer.part): buffer.bytes for buffer in buffers}


def ask(client, plan):
    return client.request(protocol.DryRun, protocol.DryRan, plan=plan)


@pytest.mark.parametrize("on_gpu", [False, True])
def test_a_dry_run_of_the_demo_tells_what_its_load_then_reports(demo_model, on_gpu, request, monkeypatch):
    gpu = request.getfixturevalue("any_gpu") if on_gpu else None
    if gpu:
        monkeypatch.setenv("GGML_VK_VISIBLE_DEVICES", "0")
    plan = plan_for(demo_model, gpu, n_ctx=4096)
    with EngineClient() as client:
        dry = sizes(ask(client, plan).buffers)
        report = client.request(protocol.Load, protocol.Loaded, plan=plan)
        again = sizes(ask(client, plan).buffers)
    loaded = sizes(report.buffers)
    assert alike(dry) == alike(loaded)
    assert again == dry
    assert dry["CPU", "experts"] == loaded["CPU", "experts"]
    if gpu:
        assert loaded[gpu, "weights"] == pytest.approx(dry[gpu, "weights"], abs=0.006 * MIB)


def test_a_loaded_model_stays_loaded_and_answers_as_before(loaded, demo_model):
    before = answer(loaded).text
    facts = read_facts(demo_model)
    other = plan_for(demo_model, n_ctx=2048, residency="repacked", expert_lanes=dict.fromkeys(facts.moe_layers, "CPU"))
    begin = time.monotonic()
    ran = ask(loaded, other)
    assert 0 < ran.seconds < time.monotonic() - begin
    assert sizes(ran.buffers)["CPU", "kv"] == 45 * MIB
    assert answer(loaded).text == before
    counts = loaded.request(protocol.ReadRouting, protocol.Routing)
    assert sum(map(sum, counts.decode.values())) > 0


def test_a_load_tells_what_the_system_shows_of_it(loaded, demo_model):
    plan = plan_for(demo_model)
    report = loaded.request(protocol.Load, protocol.Loaded, plan=plan)
    [ram] = [its for its in report.observed if its.device == CPU_LANE]
    kv = sizes(report.buffers)["CPU", "kv"]
    # The cache is written to when it is made, so it is resident; pages of the model are no memory of its own.
    assert ram.own_bytes > kv
    assert ram.bytes >= ram.own_bytes > ram.idle_bytes > 0
    assert not report.differences


def test_what_cannot_be_laid_out_is_refused_with_its_reason(loaded, demo_model, tmp_path):
    def refused(plan):
        with pytest.raises(AppError) as caught:
            ask(loaded, plan)
        return caught.value

    assert refused(plan_for(demo_model, gpu="Vulkan9")).code is ErrorCode.DEVICE_MISSING
    assert refused(plan_for(demo_model, n_seq_max=0)).code is ErrorCode.BAD_USAGE
    assert refused(plan_for(demo_model, n_seq_max=257)).code is ErrorCode.BAD_USAGE
    short = tmp_path / "short.gguf"
    short.write_bytes(demo_model.read_bytes()[:4_000_000])
    damaged = refused(msgspec.structs.replace(plan_for(demo_model), model_files=(str(short),)))
    assert damaged.code is ErrorCode.MODEL_DAMAGED
    gone = refused(msgspec.structs.replace(plan_for(demo_model), model_files=(str(tmp_path / "gone.gguf"),)))
    assert gone.code is ErrorCode.FILE_MISSING
    assert answer(loaded).text  # the child lives on


# ---- the log -----------------------------------------------------------------------------------

# Written by the pinned engine for two layers, one with experts, attention on a GPU, and a tied output.
LINES = """\
create_tensor: loading tensor token_embd.weight
create_tensor: loading tensor output_norm.weight
create_tensor: loading tensor output.weight
create_tensor: loading tensor token_embd.weight
load_tensors: layer   0 assigned to device Vulkan0, is_swa = 0
load_tensors: layer   1 assigned to device Vulkan0, is_swa = 0
load_tensors: layer   2 assigned to device Vulkan0, is_swa = 0
create_tensor: loading tensor blk.0.attn_norm.weight
create_tensor: loading tensor blk.1.ffn_up_exps.weight
tensor blk.1.ffn_up_exps.weight (0 MiB f32) buffer type overridden to EXPERTS
create_tensor: loading tensor blk.2.attn_norm.weight
model has unused tensor blk.2.attn_norm.weight (size = 9 bytes) -- ignoring
load_tensors:      Vulkan0 model buffer size =     0.00 MiB
llama_kv_cache:    Vulkan0 KV buffer size =     0.00 MiB
llama_kv_cache: size =   12.50 MiB (  1024 cells,   2 layers,  1/1 seqs), K (f16):   6.25 MiB, V (f16):    6.25 MiB
llama_memory_recurrent:    Vulkan0 RS buffer size =     1.25 MiB
llama_memory_recurrent: size =    1.25 MiB (     1 cells,   2 layers,  1 seqs  0 rs_seq), R (f32):    1.25 MiB
sched_reserve:    Vulkan0 compute buffer size =     3.00 MiB
sched_reserve: Vulkan_Host compute buffer size =     0.50 MiB
"""


def test_the_log_gives_every_part_its_device():
    log = LayoutLog()
    for line in LINES.splitlines():
        log.feed(line)
    tensors = {
        "token_embd.weight": 1000,
        "output_norm.weight": 10,
        "blk.0.attn_norm.weight": 20,
        "blk.1.ffn_up_exps.weight": 500,
        "blk.2.attn_norm.weight": 9,
    }
    assert sizes(log.buffers(tensors)) == {
        ("CPU", "weights"): 1000,
        ("CPU", "experts"): 500,
        ("CPU", "compute"): MIB // 2,
        ("Vulkan0", "weights"): 1030,
        ("Vulkan0", "kv"): round(13.75 * MIB),
        ("Vulkan0", "compute"): 3 * MIB,
    }

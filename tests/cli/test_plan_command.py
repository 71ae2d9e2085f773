"""`plan` for machines that are not this one: no engine is asked, so it runs inside the tests' own process."""

import json
from datetime import UTC, datetime

import msgspec
import pytest
from factories import ENGINE, GIB, make_gpu, make_machine
from gguf_files import Model, Tensor, write_file, write_model
from model_shapes import qwen3_30b_a3b

from app import cli
from app.hardware.facts import GpuKind
from app.hardware.fingerprint import engine_name, fingerprint
from app.library import calibrations, tuned_plans
from app.model import read_facts
from app.placement.evidence import planned
from app.placement.plan import Plan
from app.placement.planner import Wishes
from app.placement.scenarios.figure import Figure
from app.placement.speed.calibration import Calibration, ComputeRate, CopyRate
from app.placement.tuner.types import Tried, TunedPlan


@pytest.fixture
def model(tmp_path):
    return write_model(tmp_path / "qwen3.gguf", qwen3_30b_a3b())


@pytest.fixture
def plan_of(tmp_path, capsys, monkeypatch):
    """Runs `plan` on a machine; returns status, standard output and standard error."""
    monkeypatch.setenv("EXPERT_LANES_HOME", str(tmp_path / "home"))

    def run(model, machine, *options):
        profile = tmp_path / "machine.json"
        if machine is not None:
            profile.write_bytes(machine if isinstance(machine, bytes) else msgspec.json.encode(machine))
        try:
            status = cli.main(["plan", str(model), "--hardware", str(profile), *map(str, options)])
        except SystemExit as left:
            status = left.code
        out, err = capsys.readouterr()
        return status, out, err

    return run


def as_json(ran):
    status, out, err = ran
    assert status == 0, err
    assert out.count("\n") == 1
    return json.loads(out)


def error_of(ran):
    status, out, _ = ran
    return status, json.loads(out)["error"]


def test_a_plan_for_another_machine_needs_no_engine_and_is_the_same_each_time(model, plan_of, monkeypatch):
    def no_engine(*_arguments, **_options):
        raise AssertionError("an engine was started")

    monkeypatch.setattr("app.commands.plan.EngineClient", no_engine)
    machine = make_machine(make_gpu(7 * GIB))
    first, second = (as_json(plan_of(model, machine, "--json")) for _ in range(2))
    assert first == second
    plan = msgspec.convert(first, Plan, strict=False)
    assert (plan.gpu, plan.goal) == ("CUDA0", "speed")
    assert plan.pool_bytes > 3 * GIB
    assert plan.speed.basis == "assumed"
    assert first["words"].startswith("2 of 10 experts are on the GPU; expect ")
    assert "tokens/s (predicted from typical rates of such hardware)" in first["words"]
    [note] = first["notes"]
    assert "Nothing was measured on the machine of this plan" in note


def test_what_was_measured_on_this_machine_is_used_and_for_another_not(model, plan_of, tmp_path):
    here, other = make_machine(make_gpu(7 * GIB)), make_machine(make_gpu(7 * GIB), cores=16)
    as_json(plan_of(model, here, "--json"))  # sets the home folder
    calibrations.keep(
        Calibration(
            machine=fingerprint(here),
            engine=engine_name(ENGINE),
            measured_at=datetime.now(UTC).isoformat(),
            seconds=20,
            compute=tuple(
                ComputeRate(device=device, type="q4_K", threads=threads, bytes_per_second=rate, flops_per_second=1e12)
                for device, threads, rate in (("CPU", 6, 21e9), ("CUDA0", 0, 150e9))
            ),
        )
    )
    plan = as_json(plan_of(model, here, "--json"))
    assert (plan["speed"]["basis"], plan["notes"]) == ("calibrated", [])
    assert "from this machine's measured rates" in plan["words"]
    elsewhere = as_json(plan_of(model, other, "--json"))
    assert elsewhere["speed"]["basis"] == "assumed"
    assert "what was measured on another is not used" in elsewhere["notes"][0]
    larger = as_json(plan_of(model, here, "--vram", "24GiB", "--json"))
    assert larger["speed"]["basis"] == "assumed"
    assert "another machine than the one that is planned for" in larger["notes"][0]
    # A record that cannot be read is told, and typical rates are used.
    [record] = (tmp_path / "home" / "data" / "machine").glob("calibration-*.json")
    record.write_bytes(b"{")
    damaged = as_json(plan_of(model, here, "--json"))
    assert damaged["speed"]["basis"] == "assumed"
    assert "is damaged" in damaged["notes"][0]


def test_a_tuned_plan_is_used_and_said_unless_told_otherwise(model, plan_of, tmp_path):
    machine = make_machine(make_gpu(7 * GIB))
    untuned = as_json(plan_of(model, machine, "--json"))
    facts = read_facts(model)
    names = tuned_plans.key(facts, machine)
    figures = [
        Tried(words="", decode=Figure(median=its, least=its, most=its, samples=5), prompt=None) for its in (5, 6)
    ]
    plan = planned(facts, machine, Wishes())
    kept = TunedPlan(
        model=names[0], machine=names[1], engine=names[2], plan=msgspec.structs.replace(plan, threads=3),
        words="3 threads", before=figures[0], after=figures[1], tuned_at="2026-01-02T10:00:00+00:00",
    )  # fmt: skip
    tuned_plans.keep_tuned(kept, facts, machine)
    tuned = as_json(plan_of(model, machine, "--json"))
    assert (untuned["threads"], tuned["threads"]) == (6, 3)
    assert tuned["words"].endswith("; tuned on 2026-01-02 (3 threads): decoding 1.20× the default, measured")
    assert as_json(plan_of(model, machine, "--no-tuned", "--json")) == untuned
    wished = as_json(plan_of(model, machine, "--threads", 5, "--json"))
    assert (wished["threads"], wished["steps"][0]["name"]) == (5, "tuned plan not used")
    [record] = (tmp_path / "home" / "data" / "machine" / "tuned").glob("*.json")
    record.write_bytes(b"{")
    damaged = as_json(plan_of(model, machine, "--json"))
    assert damaged["threads"] == 6
    assert any("The tuned plan is not used" in note for note in damaged["notes"])


def test_memory_is_page_locked_where_that_was_measured_to_gain_unless_it_is_wished_off(model, plan_of):
    machine = make_machine(make_gpu(7 * GIB), ram=30 * GIB)
    plan_of(model, machine)  # the home is this test's now
    calibrations.keep(
        Calibration(
            machine=fingerprint(machine),
            engine=engine_name(ENGINE),
            measured_at=datetime.now(UTC).isoformat(),
            seconds=20.0,
            compute=(
                ComputeRate(device="CUDA0", type="q4_K", bytes_per_second=300e9, flops_per_second=600e9),
                ComputeRate(device="CPU", type="q4_K", threads=6, bytes_per_second=20e9, flops_per_second=40e9),
            ),
            copies=tuple(
                CopyRate(device="CUDA0", direction="to_device", pinned=pinned, bytes_per_second=rate)
                for pinned, rate in ((True, 38.6e9), (False, 7.1e9))
            ),
        )
    )
    plan = as_json(plan_of(model, machine, "--json"))
    assert plan["policy"]["lock_bytes"] > GIB
    assert [step["name"] for step in plan["steps"]] == ["page-locked memory"]
    status, out, _ = plan_of(model, machine)
    assert status == 0
    assert "page-locked for copies to CUDA0" in out
    assert "step: page-locked memory: CUDA0 was measured to copy experts 5.4 times as fast" in out
    off = as_json(plan_of(model, machine, "--lock", 0, "--json"))
    assert (off["policy"]["lock_bytes"], off["steps"]) == (0, [])
    assert off["speed"]["prompt"]["likely"] < plan["speed"]["prompt"]["likely"]
    kind = as_json(plan_of(model, machine, "--policy", "decay", "--json"))["policy"]
    assert (kind["kind"], kind["lock_bytes"]) == ("decay", plan["policy"]["lock_bytes"])


def test_without_a_calibration_memory_is_page_locked_only_where_that_is_wished(model, plan_of):
    machine = make_machine(make_gpu(7 * GIB))
    assert as_json(plan_of(model, machine, "--json"))["policy"]["lock_bytes"] == 0
    locked = as_json(plan_of(model, machine, "--lock", "4GiB", "--json"))["policy"]
    assert (locked["lock_bytes"], locked["kind"], locked["stream"]) == (4 * GIB, "lru", "auto")
    assert as_json(plan_of(model, machine, "--lock", "off", "--json"))["policy"]["lock_bytes"] == 0
    status, _, err = plan_of(model, machine, "--lock", "much")
    assert status == 2
    assert "is not a size" in err


def test_the_plan_in_words_has_its_speed_lanes_and_memory(model, plan_of):
    status, out, _ = plan_of(model, make_machine(make_gpu(7 * GIB)))
    assert status == 0
    assert out.startswith("2 of 10 experts are on the GPU; expect ")
    assert "Bound by " in out
    assert "CUDA0: pool for single experts" in out
    assert "(predicted" in out


def test_other_graphics_and_main_memory_make_another_plan(model, plan_of):
    machine = make_machine(make_gpu(7 * GIB))
    larger = as_json(plan_of(model, machine, "--vram", "24GiB", "--json"))
    assert set(larger["expert_lanes"].values()) == {"CUDA0"}
    none = as_json(plan_of(model, machine, "--vram", "0", "--json"))
    assert none["gpu"] is None
    assert [step["name"] for step in none["steps"]] == ["cpu only"]
    tiny = as_json(plan_of(model, machine, "--vram", "0", "--ram", "4GiB", "--json"))
    assert "disk" in tiny["expert_lanes"].values()
    hopeless = as_json(plan_of(model, machine, "--vram", "0", "--ram", "64MiB", "--json"))
    assert hopeless["steps"][-1]["name"] == "does not fit"


def test_goals_and_whole_layers_are_wishes(model, plan_of):
    machine = make_machine(make_gpu(8 * GIB))
    context = as_json(plan_of(model, machine, "--goal", "context", "--json"))
    assert (context["n_ctx"], context["goal"]) == (32_768, "context")
    quiet = as_json(plan_of(model, machine, "--goal", "quiet", "--json"))
    assert quiet["threads"] == 3
    layers = as_json(plan_of(model, machine, "--layers", 3, "--pool", "off", "--json"))
    assert [layer for layer, lane in layers["expert_lanes"].items() if lane == "CUDA0"] == ["0", "1", "2"]


def test_a_machine_with_integrated_graphics_keeps_experts_in_one_memory(model, plan_of):
    machine = make_machine(make_gpu(8 * GIB, device="Vulkan0", kind=GpuKind.INTEGRATED))
    plan = as_json(plan_of(model, machine, "--json"))
    assert len(set(plan["expert_lanes"].values())) == 1
    assert plan["pool_bytes"] == 0


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--vram", "1EiB"), "no machine has more than 64.0 TiB"),
        (("--ram", "9000000000G"), "larger than any memory"),
        (("--ram", "-1"), "is not a size"),
        (("--vram", "much"), "is not a size"),
        (("--ctx", "50000"), "this model takes 1 to 32,768"),
        (("--layers", "49"), "48 layers with experts"),
        (("--layers", "-1"), "not a whole number"),
        (("--goal", "cheap"), "invalid choice"),
        (("--gpu", "CUDA3"), "there are: CUDA0"),
        (("--kv", "q5_0"), "invalid choice"),
    ],
)
def test_impossible_wishes_are_refused_in_words(model, plan_of, options, words):
    status, _, err = plan_of(model, make_machine(make_gpu()), *options)
    assert status == 2
    assert words in err


def test_graphics_memory_without_a_gpu_is_refused(model, plan_of):
    status, error = error_of(plan_of(model, make_machine(), "--vram", "8GiB", "--json"))
    assert (status, error["code"]) == (2, "bad_usage")
    assert "no GPU" in error["message"]


@pytest.mark.parametrize("data", [None, b"not a profile", b"{}"])
def test_a_missing_or_damaged_profile_is_refused(model, plan_of, data):
    status, error = error_of(plan_of(model, data, "--json"))
    assert status == (3 if data is None else 2)
    assert "machine.json" in error["message"]


def test_weights_of_a_type_that_the_engine_does_not_know_are_refused(tmp_path, plan_of):
    known = Model("llama", {}, (Tensor("token_embd.weight", (32, 32), "F32"),))
    path = write_file(tmp_path / "unknown.gguf", known.metadata, known.tensors)
    data = path.read_bytes()
    name = b"token_embd.weight"
    # After the name: the number of dimensions, the dimensions, then the type.
    place = data.index(name) + len(name) + 4 + 2 * 8
    path.write_bytes(data[:place] + (4).to_bytes(4, "little") + data[place + 4 :])
    status, error = error_of(plan_of(path, make_machine(), "--json"))
    assert (status, error["code"]) == (3, "model_unsupported")
    assert "tensor type 4" in error["message"]


@pytest.mark.parametrize(("resident", "decides"), [("off", "system"), ("4GiB", "engine")])
def test_who_decides_which_experts_stay_in_memory_is_told_in_json_and_in_words(model, plan_of, resident, decides):
    options = ("--resident", resident)
    plan = as_json(plan_of(model, make_machine(ram=10 * GIB), *options, "--json"))
    share = plan["experts_in_memory"]
    assert share["decides"] == decides
    assert share["layers"] == list(range(48))
    assert 0 < share["kept_bytes"] < share["total_bytes"]
    assert ("The system decides which experts stay in memory" in plan["words"]) == (decides == "system")
    (line,) = plan["lanes"]
    assert line.startswith("CPU: experts of 48 layers (0–47), ")
    assert line.endswith("stay in memory")
    _, out, _ = plan_of(model, make_machine(ram=10 * GIB), *options)
    assert f"  {line}\n" in out


def test_where_memory_has_room_for_all_experts_nobody_has_to_decide(model, plan_of):
    plan = as_json(plan_of(model, make_machine(ram=40 * GIB, ram_total=48 * GIB), "--resident", "off", "--json"))
    assert plan["experts_in_memory"] is None

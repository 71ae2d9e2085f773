"""The hardware package on a Windows Python under Wine: it runs whole, in time, and what Wine lacks is missing with why.

Skipped where there is no Wine, or where `python tests/wine/lay_windows_python.py` was not run. Wine is no Windows:
what is asserted is that calls are made as Windows' ABI wants them and that no refusal becomes a figure.
"""

import json
import shutil
import subprocess
from pathlib import Path

import lay_windows_python
import psutil
import pytest

HERE = Path(__file__).parent
CHECKOUT = HERE.parents[1]
WATCHED_SECONDS = "2"
LIMIT_SECONDS = 120


def windows_path(path):
    """Wine shows the whole of this system's files as drive Z."""
    return "Z:" + str(path).replace("/", "\\")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Runs the Windows Python, and gives what it printed."""
    made = lay_windows_python.folder()
    if not shutil.which("wine"):
        pytest.skip("Wine is not installed.")
    if not (made / "python.exe").is_file() or not (made / "prefix" / "system.reg").is_file():
        pytest.skip("No Windows Python is laid out: tests/wine/lay_windows_python.py does that.")
    settings = lay_windows_python.environment(tmp_path_factory.mktemp("home"))
    settings[lay_windows_python.CHECKOUT] = windows_path(CHECKOUT)

    def started(*arguments, **more):
        command = ["wine", str(made / "python.exe"), "-X", "utf8", *arguments]
        # Pipes on every side: without them programs end at once under some releases of Wine.
        pipes = {"input": b"\n", "capture_output": True}
        done = subprocess.run(command, check=False, env=settings | more, timeout=LIMIT_SECONDS, **pipes)
        assert done.returncode == 0, done.stderr.decode(errors="replace")[-2000:]
        return done.stdout.decode()

    return started


@pytest.fixture(scope="module")
def told(run):
    """What the whole of the package answered there."""
    return json.loads(run(windows_path(HERE / "windows_machine.py"), WATCHED_SECONDS))


def test_it_is_a_windows_and_every_module_can_be_imported_there(told):
    assert told["system"] == "win32"


def test_the_probe_is_done_in_two_seconds_with_cards_and_without(told):
    assert told["probe"]["seconds"] < 2
    assert told["probe with cards"]["seconds"] < 2


def test_processor_and_memory_are_those_of_this_machine(told):
    machine = told["probe"]["answer"]
    assert machine["os"].startswith("Windows 1")
    assert machine["cpu"]["logical_cores"] == psutil.cpu_count()
    assert 1 <= machine["cpu"]["performance_cores"] <= machine["cpu"]["physical_cores"] <= psutil.cpu_count()
    assert machine["cpu"]["name"] not in {"", "a processor"}
    assert machine["cpu"]["isa"]
    assert machine["cpu"]["caches"]
    assert machine["cpu"]["numa_nodes"] >= 1
    total = psutil.virtual_memory().total
    assert machine["ram"]["total_bytes"] == pytest.approx(total, rel=0.01)
    assert 0 < machine["ram"]["available_bytes"] <= total


def test_what_is_not_told_is_missing_with_a_reason_and_never_a_zero(told):
    machine = told["probe"]["answer"]
    why = {each["fact"]: each["why"] for each in machine["unseen"]}
    for fact, value in (
        ("ram.modules", machine["ram"]["modules"] or None),
        ("ram.swap_total_bytes", machine["ram"]["swap_total_bytes"]),
        ("disk.bus", machine["disk"]["bus"]),
        ("product", machine["product"]),
        ("virtual", machine["virtual"]),
    ):
        assert (value is None) == bool(why.get(fact)), f"{fact}: {value!r}, {why.get(fact)!r}"
    assert not [words for words in (*why.values(), *machine["notes"]) if "could not be read" in words], "a call broke"


@pytest.mark.parametrize("name", ["cores", "drive", "firmware", "memory nodes", "own peak", "power", "processor times"])
def test_calls_that_wine_knows_are_answered(told, name):
    assert told["calls"][name].get("answer"), told["calls"][name]


@pytest.mark.parametrize(
    "name", ["active power scheme", "dxgi", "engine counters", "gpu counters", "nvml", "page files"]
)
def test_calls_that_wine_may_not_know_are_refused_in_words_where_it_does_not(told, name):
    call = told["calls"][name]
    if "refused" in call:
        assert call["kind"] == "NotSeenError"
        assert call["refused"].endswith(".")


def test_the_share_of_a_mapped_file_follows_the_pages_that_were_read(told):
    none, half, whole = told["shares"]["answer"]
    assert none < 0.05
    assert half == pytest.approx(0.5, abs=0.05)
    assert whole == 1.0


def test_the_watch_sees_another_program_and_says_what_it_cannot_see(told):
    watch = told["watch"]
    sample = watch["last"]
    assert watch["samples"] >= 5
    assert watch["slowest_seconds"] < 1.0
    assert sample["engine_rss_bytes"] > 1 << 20
    assert sample["engine_peak_bytes"] >= sample["engine_rss_bytes"]
    assert sample["engine_major_faults"] is None
    assert "does not count" in sample["reasons"]["engine_major_faults"]
    assert sample["engine_read_bytes"] != 0, "it has read its own modules, at least"
    assert sample["reasons"]["engine_read_bytes"]
    assert sample["ram_available_bytes"] > 0
    assert 0 <= sample["cpu"]["kinds"][0]["busy_percent"] <= 100
    # Wine tells no working set but the own one.
    assert (sample["model_share"] is None) or 0 < sample["model_share"] <= 1
    assert sample["reasons"]["model_share"]
    for card, load in zip(sample["gpus"], sample["gpu_loads"], strict=True):
        assert card["used_bytes"] is None, "there is no such card"
        assert card["missing"].endswith(".")
        assert load["busy_percent"] is None
        assert load["reasons"]["busy_percent"].endswith(".")


def test_a_program_that_ended_has_no_memory_and_the_own_process_has_no_mapped_model(told):
    gone = told["gone"]["last"]
    assert gone["engine_rss_bytes"] is None
    assert "has ended" in gone["reasons"]["engine_rss_bytes"]
    assert gone["model_share"] is None
    own = told["own"]["last"]
    assert own["engine_rss_bytes"] > 1 << 20
    assert "has not mapped" in own["reasons"]["model_share"]


def test_a_record_of_this_windows_is_played_back(told):
    assert told["played alike"] is True


@pytest.fixture
def display():
    """A screen that nobody sees: without one Wine has no graphics cards."""
    if not shutil.which("Xvfb"):
        pytest.skip("Xvfb is not installed.")
    command = ["Xvfb", "-displayfd", "1", "-screen", "0", "640x480x24", "-nolisten", "tcp"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as screen:
        yield f":{screen.stdout.readline().decode().strip()}"
        screen.terminate()


def test_a_graphics_card_is_described_through_windows_own_interface(run, display):
    words = "from app.hardware import dxgi; import json; print(json.dumps([vars(it) for it in dxgi.read_adapters()]))"
    cards = json.loads(run("-c", words, DISPLAY=display))
    assert cards, "Wine lists one for every screen"
    for card in cards:
        assert card["name"]
        assert card["name"].isprintable()
        assert card["luid"] > 0
        assert card["vendor"] > 0
        assert card["dedicated_bytes"] > 1 << 20


def test_the_doctor_judges_a_windows_whose_engine_is_not_there(run):
    diagnosis = json.loads(run("-m", "app", "doctor", "--json"))
    assert any("engine cannot be used" in note for note in diagnosis["notes"])
    assert isinstance(diagnosis["hints"], list)

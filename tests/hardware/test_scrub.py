"""What is private does not reach a snapshot's file."""

from pathlib import PurePosixPath, PureWindowsPath

import pytest
from firmware_tables import SERIAL, module, table

from app.hardware.answers import Answer
from app.hardware.facts import EngineBuild
from app.hardware.scrub import scrubbed
from app.hardware.smbios import parse_modules
from app.hardware.snapshot import Hex, Snapshot

HOME = PurePosixPath("/home/alice")
UUID = "GPU-0f1e2d3c-aaaa-bbbb-cccc-0123456789ab"


def snapshot(**fields):
    return Snapshot(**({"origin": "recorded", "system": "linux", "models_folder": "/models"} | fields))


def scrub(home=HOME, host="wonderland", **fields):
    return scrubbed(snapshot(**fields), home, host)


def test_paths_below_the_home_folder_are_hidden_wherever_they_stand():
    build = EngineBuild(
        llama_cpp_python="1",
        ggml="1",
        build="CPU",
        backends=("CPU",),
        expert_device=False,
        notes=("failed to load /home/alice/My secret/lib.so: no such file",),
    )
    made = scrub(
        models_folder="/home/alice/models",
        engine=build,
        answers={"disk space": Answer(value=["/home/alice/models", 2, 1])},
    )
    assert made.models_folder == "~/(scrubbed)"
    assert made.answers["disk space"].value == ["~/(scrubbed)", 2, 1]
    assert made.engine.notes == ("failed to load ~/(scrubbed)",)
    assert "Paths below the home folder." in made.scrubbed


def test_the_users_and_the_machines_name_are_hidden_in_other_paths_only():
    files = {"proc/self/cgroup": "0::/lxc/wonderland/alice\n", "x": "alice wonderland /malice/x"}
    made = scrub(models_folder="/media/alice/disk", files=files)
    assert made.models_folder == "/media/user/disk"
    assert made.files == {"proc/self/cgroup": "0::/lxc/host/user\n", "x": "alice wonderland /malice/x"}


def test_a_windows_home_is_hidden_too():
    home = PureWindowsPath("C:\\Users\\alice")
    made = scrub(home, models_folder="C:\\Users\\alice\\AppData\\models", system="win32")
    assert made.models_folder == "~/(scrubbed)"


def test_serial_numbers_of_processors_and_modules_are_hidden():
    files = {
        "proc/cpuinfo": "processor\t: 0\nSerial\t\t: 00000000aabbccdd\n",
        "run/udev/data/+dmi:id": f"E:MEMORY_DEVICE_0_SIZE=1\nE:MEMORY_DEVICE_0_SERIAL_NUMBER={SERIAL}\n",
    }
    made = scrub(files=files)
    assert "aabbccdd" not in made.files["proc/cpuinfo"]
    assert SERIAL not in made.files["run/udev/data/+dmi:id"]
    assert "E:MEMORY_DEVICE_0_SIZE=1" in made.files["run/udev/data/+dmi:id"]


@pytest.mark.parametrize("system", ["linux", "win32"])
def test_the_firmwares_tables_keep_modules_and_lose_serial_numbers(system):
    whole = table(module("DIMM_A1"))
    head = bytes([0, 3, 4, 0]) + len(whole).to_bytes(4, "little")
    made = scrub(
        files={"sys/firmware/dmi/tables/DMI": Hex(whole.hex())},
        answers={"windows.GetSystemFirmwareTable.RSMB": Answer(value=(head + whole).hex())},
        system=system,
    )
    kept = bytes.fromhex(made.files["sys/firmware/dmi/tables/DMI"].hex)
    answer = bytes.fromhex(made.answers["windows.GetSystemFirmwareTable.RSMB"].value)
    for each in (kept, answer[8:]):
        assert SERIAL.encode() not in each
        assert parse_modules(each) == parse_modules(whole)
    assert int.from_bytes(answer[4:8], "little") == len(answer) - 8


def test_cards_names_and_containers_identifiers_are_replaced():
    container = "9" * 64
    made = scrub(
        files={"proc/self/cgroup": f"0::/docker/{container}\n", f"sys/fs/cgroup/docker/{container}/memory.max": "1\n"},
        answers={"nvml": Answer(value=[{"details": {"uuid": UUID}}, {"details": {"uuid": UUID}}])},
    )
    assert made.files == {
        "proc/self/cgroup": "0::/docker/(scrubbed)\n",
        "sys/fs/cgroup/docker/(scrubbed)/memory.max": "1\n",
    }
    first, second = (card["details"]["uuid"] for card in made.answers["nvml"].value)
    assert first == second != UUID
    assert len(made.scrubbed) == 2


def test_of_this_programs_status_only_the_allowed_processors_stay():
    made = scrub(files={"proc/self/status": "Name:\tpython\nUid:\t1000\nCpus_allowed_list:\t0-3\nGroups:\t27\n"})
    assert made.files == {"proc/self/status": "Cpus_allowed_list:\t0-3\n"}


def test_a_record_without_anything_private_stays_as_it_is():
    plain = snapshot(files={"proc/swaps": "Filename\n"})
    assert scrubbed(plain, HOME, "wonderland") == plain

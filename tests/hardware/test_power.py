"""Battery, mains and power savers, as Linux and Windows tell them."""

import pytest
from hardware_trees import CPUS, write
from hypothesis import given
from hypothesis import strategies as st

from app.hardware.answers import LIVE
from app.hardware.facts import Power
from app.hardware.power import parse_status, read_power
from app.hardware.sources import NotSeenError


def linux(root):
    return read_power(root, "linux", LIVE)


def supply(root, name, **fields):
    for field, value in fields.items():
        write(root, f"sys/class/power_supply/{name}/{field}", value)


def clocks(root, governor, driver, preference=""):
    write(root, f"{CPUS}/online", "0-1")
    for cpu in range(2):
        write(root, f"{CPUS}/cpu{cpu}/cpufreq/scaling_governor", governor)
        write(root, f"{CPUS}/cpu{cpu}/cpufreq/scaling_driver", driver)
        if preference:
            write(root, f"{CPUS}/cpu{cpu}/cpufreq/energy_performance_preference", preference)


def test_a_laptop_that_empties_its_battery_is_on_battery(tmp_path):
    supply(tmp_path, "BAT0", type="Battery", status="Discharging", capacity=34)
    supply(tmp_path, "AC", type="Mains", online=0)
    power = linux(tmp_path)
    assert (power.laptop, power.on_battery, power.battery_percent) == (True, True, 34)


@pytest.mark.parametrize("status", ["Charging", "Full", "Not charging", "Unknown"])
def test_a_laptop_on_mains_is_not(tmp_path, status):
    supply(tmp_path, "BAT0", type="Battery", status=status, capacity=100)
    supply(tmp_path, "AC", type="Mains", online=1)
    assert linux(tmp_path).on_battery is False


def test_a_mouses_battery_makes_no_laptop(tmp_path):
    supply(tmp_path, "hidpp_battery_0", type="Battery", scope="Device", status="Discharging", capacity=50)
    write(tmp_path, "sys/class/dmi/id/chassis_type", 3)
    power = linux(tmp_path)
    assert (power.laptop, power.on_battery, power.battery_percent) == (False, None, None)


def test_the_low_power_profile_is_a_saver(tmp_path):
    write(tmp_path, "sys/firmware/acpi/platform_profile", "low-power")
    assert linux(tmp_path) == Power(saver=True, profile="low-power")


@pytest.mark.parametrize(
    ("governor", "driver", "preference", "saver"),
    [
        ("powersave", "intel_pstate", "balance_performance", False),
        ("powersave", "amd-pstate-epp", "power", True),
        ("powersave", "acpi-cpufreq", "", True),
        ("schedutil", "acpi-cpufreq", "", False),
        ("performance", "intel_pstate", "performance", False),
    ],
)
def test_the_rule_powersave_saves_only_where_the_processor_does_not_choose(
    tmp_path, governor, driver, preference, saver
):
    clocks(tmp_path, governor, driver, preference)
    power = linux(tmp_path)
    assert (power.saver, power.governor, power.preference) == (saver, governor, preference or None)


def test_a_system_that_tells_nothing_is_not_seen(tmp_path):
    with pytest.raises(NotSeenError):
        linux(tmp_path)
    with pytest.raises(NotSeenError):
        read_power(tmp_path, "haiku", LIVE)


def test_windows_tells_battery_and_saver():
    assert parse_status(bytes([0, 1, 47, 1])) == Power(laptop=True, on_battery=True, battery_percent=47, saver=True)
    assert parse_status(bytes([1, 128, 255, 0])) == Power(laptop=False, on_battery=False, saver=False)
    assert parse_status(bytes([255, 255, 255, 0])) == Power(saver=False)


@given(st.binary(max_size=16))
def test_any_power_status_is_read_or_not_seen(status):
    try:
        power = parse_status(status)
    except NotSeenError:
        return
    assert power.battery_percent is None or 0 <= power.battery_percent <= 100

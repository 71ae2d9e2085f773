"""Where the machine's power comes from, and whether a power saver keeps it slow."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

from app.hardware import windows_calls
from app.hardware.answers import Answers
from app.hardware.facts import Power
from app.hardware.files import read_cpu_list, read_int, read_text
from app.hardware.sources import NotSeenError
from app.hardware.tree import KernelPath, children

_T = TypeVar("_T")

_CPUS = "sys/devices/system/cpu"
# Numbers of SMBIOS' chassis types that are carried with a battery.
_PORTABLE = {8, 9, 10, 11, 14, 30, 31, 32}
# With these drivers the processor chooses its clocks itself, and "powersave" is their usual rule: the preference
# tells what is meant.
_SELF_CHOOSING = ("intel_pstate", "amd-pstate-epp", "amd_pstate_epp")
_SCHEMES = {
    "381b4222-f694-41f0-9685-ff5bb260df2e": "balanced",
    "8c5e7fda-e8bf-4a96-9a85-a6e23a8c635c": "high performance",
    "a1841308-3541-4fab-bc81-f71556f20b4a": "power saver",
    "e9a42b02-d5df-448d-aa00-03f14749eb61": "ultimate performance",
}
_UNKNOWN = 255
_NO_BATTERY = 128


def read_power(root: KernelPath, system: str, answers: Answers) -> Power:
    """Battery, mains, profile and clocks.

    Raises:
        NotSeenError: nothing of it is told.
    """
    if system == "win32":
        return _from_windows(answers)
    if not system.startswith("linux"):
        raise NotSeenError(f"Power is not read on {system}.")
    power = _from_linux(root)
    if power == Power():
        raise NotSeenError("This system tells nothing of batteries, power profiles or clocks.")
    return power


def parse_status(status: bytes) -> Power:
    """What Windows' SYSTEM_POWER_STATUS says.

    Raises:
        NotSeenError: it is too short.
    """
    if len(status) < 4:
        raise NotSeenError("Windows' power status cannot be read.")
    mains, battery, percent, saver = status[:4]
    laptop = None if battery == _UNKNOWN else not battery & _NO_BATTERY
    return Power(
        laptop=laptop,
        on_battery=mains == 0 if mains in {0, 1} else None,
        battery_percent=percent if percent <= 100 and laptop else None,
        saver=saver == 1,
    )


def _from_windows(answers: Answers) -> Power:
    told = _attempt(lambda: parse_status(windows_calls.power_status(answers)))
    scheme = _attempt(partial(windows_calls.power_scheme, answers))
    if told is None and scheme is None:
        raise NotSeenError("Windows tells nothing of its power.")
    power = told or Power()
    profile = _SCHEMES.get(scheme, "the user's or the maker's own") if scheme else None
    return Power(
        laptop=power.laptop,
        on_battery=power.on_battery,
        battery_percent=power.battery_percent,
        saver=True if profile == "power saver" else power.saver,
        profile=profile,
    )


def _from_linux(root: KernelPath) -> Power:
    mains: list[bool] = []
    batteries: list[KernelPath] = []
    for supply in children(root / "sys/class/power_supply"):
        kind = read_text(supply / "type")
        if kind == "Battery" and read_text(supply / "scope") != "Device":  # a mouse's battery is its own
            batteries.append(supply)
        elif kind in {"Mains", "USB"} and (online := read_int(supply / "online")) is not None:
            mains.append(online == 1)
    profile = read_text(root / "sys/firmware/acpi/platform_profile") or None
    governors = _of_cpus(root, "scaling_governor")
    preferences = _of_cpus(root, "energy_performance_preference")
    driver = read_text(root / f"{_CPUS}/cpu0/cpufreq/scaling_driver") or ""
    return Power(
        laptop=_laptop(root, batteries),
        on_battery=_on_battery(mains, batteries),
        battery_percent=_percent(batteries),
        saver=_saver(profile, governors, preferences, driver),
        profile=profile,
        governor=", ".join(governors) or None,
        preference=", ".join(preferences) or None,
    )


def _laptop(root: KernelPath, batteries: Sequence[KernelPath]) -> bool | None:
    if batteries:
        return True
    number = read_int(root / "sys/class/dmi/id/chassis_type")
    return None if number is None else number in _PORTABLE


def _on_battery(mains: Sequence[bool], batteries: Sequence[KernelPath]) -> bool | None:
    if not batteries:
        return None
    states = {read_text(battery / "status") for battery in batteries}
    # A weak USB charger may be plugged in while the battery still empties.
    if "Discharging" in states:
        return True
    if any(mains) or states & {"Charging", "Full", "Not charging"}:
        return False
    return True if mains else None


def _percent(batteries: Sequence[KernelPath]) -> int | None:
    told = [percent for battery in batteries if (percent := read_int(battery / "capacity")) is not None]
    return max((percent for percent in told if 0 <= percent <= 100), default=None)


def _saver(profile: str | None, governors: Sequence[str], preferences: Sequence[str], driver: str) -> bool | None:
    if not (profile or governors or preferences):
        return None
    kept_slow = "powersave" in governors and driver not in _SELF_CHOOSING
    return profile == "low-power" or "power" in preferences or kept_slow


def _of_cpus(root: KernelPath, name: str) -> tuple[str, ...]:
    online = sorted(read_cpu_list(root / f"{_CPUS}/online") or ())
    told = (read_text(root / f"{_CPUS}/cpu{cpu}/cpufreq/{name}") for cpu in online)
    return tuple(dict.fromkeys(text for text in told if text))


def _attempt(read: Callable[[], _T]) -> _T | None:
    try:
        return read()
    except NotSeenError:
        return None

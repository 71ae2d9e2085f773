"""Whether orders for the expert cache can be carried out: its policy's values, pins, sizes and residency."""

import math
from collections.abc import Iterable, Mapping

from app.errors import AppError, ErrorCode
from app.placement.plan import PINS, POLICIES, RESIDENCIES, STREAMS, CachePolicy, ExpertPin
from app.units import format_bytes

_MOST_BYTES = 2**62
_MOST_COUNT = 2**31 - 1  # what the native policy counts with


def check_policy(policy: CachePolicy) -> None:
    """Refuse a policy that the cache cannot follow.

    Raises:
        AppError: bad_usage, naming the value and what is possible.
    """
    if policy.kind not in POLICIES:
        raise _refusal(f"There is no cache policy '{policy.kind}'; there are: {', '.join(POLICIES)}.")
    if policy.stream not in STREAMS:
        raise _refusal(f"Missing experts cannot be streamed '{policy.stream}'; possible: {', '.join(STREAMS)}.")
    bounds = (
        ("insert cap", policy.insert_cap, 1, _MOST_COUNT),
        ("window", policy.window, 0, _MOST_COUNT),
        ("margin", policy.margin, 1, math.inf),
        ("threshold", policy.threshold, 0, 1),
        ("locked memory", policy.lock_bytes, 0, _MOST_BYTES),
    )
    for name, value, least, most in bounds:
        if not least <= value <= most or math.isinf(value):
            upper = f" to {most:,}" if most < math.inf else " on"
            raise _refusal(f"A {name} of {value:,} is impossible: it is from {least:,}{upper}.")
    if not 0 < policy.decay <= 1:
        raise _refusal(f"A decay of {policy.decay:,} is impossible: it is above 0 and at most 1.")


def check_pool(pool_bytes: int, staging_bytes: int) -> None:
    """Refuse sizes that no memory has.

    Raises:
        AppError: bad_usage, naming the size.
    """
    for what, size in (("pool", pool_bytes), ("staging area", staging_bytes)):
        if not 0 <= size <= _MOST_BYTES:
            shown = f"{size:,} bytes" if size < 0 else format_bytes(size)
            raise _refusal(f"A {what} of {shown} is impossible; 0 is none.")


def check_resident(resident_bytes: int) -> None:
    """Refuse a budget of main memory that no machine has.

    Raises:
        AppError: bad_usage, naming the size.
    """
    if not 0 <= resident_bytes <= _MOST_BYTES:
        shown = f"{resident_bytes:,} bytes" if resident_bytes < 0 else format_bytes(resident_bytes)
        raise _refusal(f"{shown} of main memory for experts are impossible; 0 leaves it to the system.")


def check_pins(pins: Iterable[ExpertPin], experts: Mapping[int, int]) -> None:
    """Refuse pins of experts that do not exist.

    Args:
        pins: The orders.
        experts: Layers whose experts can be pinned, to how many they have.

    Raises:
        AppError: bad_usage, naming the first wrong pin and what is possible.
    """
    for pin in pins:
        if pin.pin not in PINS:
            raise _refusal(f"There is no pin '{pin.pin}'; there are: {', '.join(PINS)}.")
        if pin.layer not in experts:
            layers = ", ".join(map(str, sorted(experts))) or "none"
            raise _refusal(f"Layer {pin.layer} has no experts that can be pinned; layers that have: {layers}.")
        if not 0 <= pin.expert < experts[pin.layer]:
            raise _refusal(f"Layer {pin.layer} has no expert {pin.expert}; it has 0 to {experts[pin.layer] - 1}.")


def check_residency(residency: str) -> None:
    """Refuse an unknown residency.

    Raises:
        AppError: bad_usage, naming those there are.
    """
    if residency not in RESIDENCIES:
        raise _refusal(f"Experts cannot be kept '{residency}'; possible: {', '.join(RESIDENCIES)}.")


def _refusal(message: str) -> AppError:
    return AppError(ErrorCode.BAD_USAGE, message)

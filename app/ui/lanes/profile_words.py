"""A profile of orders in words: what is in it, and how it differs from the orders of now. Pure, no Qt widgets."""

from collections.abc import Iterable
from datetime import datetime

import msgspec
from PySide6.QtCore import QDateTime, QLocale

from app.library.order_profiles import OrderProfile
from app.placement.plan import CachePolicy, Plan
from app.placement.words import layer_runs
from app.ui.lanes.words import budget_text, translate
from app.ui.live_plan import AUTO_PIN, CPU_PIN, GPU_PIN, MemoryBudget, Pins, pins_of
from app.ui.words import in_bytes, number

NAMED_LAYERS = 12
"""Layers that a comparison spells out for one kind of difference."""


def pins_of_profile(profile: OrderProfile) -> dict[tuple[int, int], str]:
    """The profile's pins by layer and expert."""
    return {(pin.layer, pin.expert): pin.pin for pin in profile.pins if pin.pin != AUTO_PIN}


def memory_of_profile(profile: OrderProfile) -> MemoryBudget | None:
    """The profile's budget of main memory; None where it has none, so that the budget of now is left."""
    return None if profile.resident_bytes is msgspec.UNSET else MemoryBudget(profile.resident_bytes)


def profile_text(profile: OrderProfile) -> str:
    """What a profile orders: "12 on the GPU, 3 on the CPU, pool 64.0 MiB, policy lru"."""
    pins = list(pins_of_profile(profile).values())
    parts = []
    if pins.count(GPU_PIN):
        parts.append(translate("Lanes", "{count} on the GPU").format(count=number(pins.count(GPU_PIN))))
    if pins.count(CPU_PIN):
        parts.append(translate("Lanes", "{count} on the CPU").format(count=number(pins.count(CPU_PIN))))
    if not parts:
        parts.append(translate("Lanes", "all automatic"))
    size = in_bytes(profile.pool_bytes) if profile.pool_bytes else translate("Lanes", "none")
    parts.append(translate("Lanes", "pool {size}").format(size=size))
    memory = memory_of_profile(profile)
    if memory is not None:
        parts.append(translate("Lanes", "memory for experts: {budget}").format(budget=budget_text(memory.bytes)))
    parts.append(translate("Lanes", "policy {policy}").format(policy=profile.policy.kind))
    return ", ".join(parts)


def saved_text(profile: OrderProfile) -> str:
    """When it was saved, as the user's language writes it."""
    try:
        moment = datetime.fromisoformat(profile.saved_at)
    except ValueError:
        return profile.saved_at
    return QLocale.system().toString(
        QDateTime.fromSecsSinceEpoch(int(moment.timestamp())), QLocale.FormatType.ShortFormat
    )


def comparison(profile: OrderProfile, plan: Plan) -> tuple[str, ...]:
    """How the orders of now differ from a profile, a paragraph for each kind of difference; empty for not at all."""
    lines = []
    if profile.pool_bytes != plan.pool_bytes:
        none = translate("Lanes", "none")
        before, now = (in_bytes(size) if size else none for size in (profile.pool_bytes, plan.pool_bytes))
        lines.append(translate("Lanes", "Pool: {before} in the profile, {now} now.").format(before=before, now=now))
    memory = memory_of_profile(profile)
    if memory is not None and plan.residency == "mapped" and memory.bytes != plan.resident_bytes:
        words = translate("Lanes", "Memory for experts: {before} in the profile, {now} now.")
        lines.append(words.format(before=budget_text(memory.bytes), now=budget_text(plan.resident_bytes)))
    lines += _policy_lines(profile.policy, plan.policy)
    saved, present = pins_of_profile(profile), pins_of(plan)
    for in_profile in (GPU_PIN, CPU_PIN, AUTO_PIN):
        for now in (GPU_PIN, CPU_PIN, AUTO_PIN):
            if in_profile != now:
                cells = _cells(saved, present, in_profile, now)
                if cells:
                    lines.append(_pins_line(cells, in_profile, now))
    return tuple(lines)


def _policy_lines(before: CachePolicy, now: CachePolicy) -> list[str]:
    names = {
        "kind": translate("Lanes", "Policy"),
        "insert_cap": translate("Lanes", "Most experts copied for a layer and token"),
        "window": translate("Lanes", "Admission window in tokens"),
        "decay": translate("Lanes", "Decay of heat"),
        "margin": translate("Lanes", "Margin over the coldest"),
        "threshold": translate("Lanes", "Least routing weight"),
        "stream": translate("Lanes", "Copying over for one batch"),
        "lock_bytes": translate("Lanes", "Page-locked memory"),
    }
    words = translate("Lanes", "{name}: {before} in the profile, {now} now.")
    return [
        words.format(name=name, before=_policy_word(before, field), now=_policy_word(now, field))
        for field, name in names.items()
        if getattr(before, field) != getattr(now, field)
    ]


def _policy_word(policy: CachePolicy, field: str) -> str:
    value = getattr(policy, field)
    if field == "lock_bytes":
        return in_bytes(value) if value else translate("Lanes", "none")
    if isinstance(value, float):
        return number(value, 3)
    return number(value) if isinstance(value, int) else str(value)


def _cells(saved: Pins, present: Pins, in_profile: str, now: str) -> list[tuple[int, int]]:
    return [
        cell
        for cell in sorted(saved.keys() | present.keys())
        if saved.get(cell, AUTO_PIN) == in_profile and present.get(cell, AUTO_PIN) == now
    ]


def _pins_line(cells: list[tuple[int, int]], in_profile: str, now: str) -> str:
    places = {
        GPU_PIN: translate("Lanes", "on the GPU"),
        CPU_PIN: translate("Lanes", "on the CPU"),
        AUTO_PIN: translate("Lanes", "automatic"),
    }
    words = (
        translate("Lanes", "1 expert is {before} in the profile, {now} now: {where}.")
        if len(cells) == 1
        else translate("Lanes", "{count} experts are {before} in the profile, {now} now: {where}.")
    )
    return words.format(count=number(len(cells)), before=places[in_profile], now=places[now], where=_where(cells))


def _where(cells: Iterable[tuple[int, int]]) -> str:
    """The cells by layer: "layer 3: 1, 4–7; layer 5: 0"."""
    by_layer: dict[int, list[int]] = {}
    for layer, expert in cells:
        by_layer.setdefault(layer, []).append(expert)
    words = translate("Lanes", "layer {layer}: {experts}")
    named = [
        words.format(layer=layer, experts=layer_runs(experts))
        for layer, experts in list(by_layer.items())[:NAMED_LAYERS]
    ]
    rest = len(by_layer) - len(named)
    if rest:
        named.append(translate("Lanes", "and in {count} more layers").format(count=number(rest)))
    return "; ".join(named)

"""`simulate`: what a recorded routing tells of expert pools of any size and of every cache policy."""

import argparse
import re
import time
from typing import TYPE_CHECKING

import msgspec

from app.commands.common import AddCommand, facts_of, positive, print_json, size
from app.errors import EXIT_OK, AppError, ErrorCode
from app.library import folders
from app.placement.cache.orders import check_pins, check_policy, check_pool
from app.placement.plan import POLICIES, CachePolicy, ExpertPin
from app.units import format_bytes

if TYPE_CHECKING:
    from app.placement.cache.simulation import Pool
    from app.placement.cache.trace import Trace

_ORACLE, _ALL = "oracle", "all"
_DEFAULT_POOLS = ("10%", "20%", "30%", "50%", "70%")
_SHARE = re.compile(r"(\d{1,3}(?:\.\d{1,6})?)\s*%", re.ASCII)
_SLOTS = re.compile(r"(\d{1,9})\s*slots?", re.ASCII | re.IGNORECASE)
_PIN = re.compile(r"(\d{1,9}):(\d{1,9}(?:,\d{1,9})*)", re.ASCII)


class _PoolWish(msgspec.Struct, frozen=True):
    """A pool as it was asked for: `kind` is share (of 1), slots (in each layer) or bytes."""

    words: str
    kind: str
    value: float


def add(add_command: AddCommand) -> None:
    """Add the command."""
    command = add_command(
        "simulate", _run, "what a recorded routing tells of expert pools; all of it is simulated, nothing is timed"
    )
    command.add_argument("trace", metavar="TRACE", help="a routing trace, as `chat --trace FILE` records it")
    command.add_argument(
        "--policy",
        choices=(*POLICIES, _ORACLE, _ALL),
        default=_ALL,
        help="which experts the pool holds; 'oracle' is the best possible with knowledge of the future, "
        "'frozen' is filled beforehand with the trace's own favourites, 'manual' holds those of --pin only",
    )
    command.add_argument(
        "--pool",
        metavar="SIZE",
        type=_pool,
        action="append",
        help="a pool: 30%% of the experts, 16slots in each layer, or with --model a size such as 2GiB; "
        f"may be repeated; {', '.join(_DEFAULT_POOLS).replace('%', '%%')} unless told",
    )
    command.add_argument("--model", metavar="MODEL", help="the model that was recorded: for sizes in bytes")
    defaults = CachePolicy()
    command.add_argument(
        "--insert-cap", metavar="N", type=positive, default=defaults.insert_cap, help="most copies a layer and token"
    )
    command.add_argument(
        "--window", metavar="N", type=_count, default=defaults.window,
        help="lru: admit what was routed to within so many tokens before; 0 admits at once",
    )  # fmt: skip
    command.add_argument("--decay", metavar="F", type=float, default=defaults.decay, help="heat kept for each token")
    command.add_argument(
        "--margin", metavar="F", type=float, default=defaults.margin, help="decay: how much hotter a newcomer must be"
    )
    command.add_argument(
        "--threshold", metavar="F", type=float, default=defaults.threshold, help="least routing weight of a newcomer"
    )
    command.add_argument(
        "--pin", metavar="LAYER:EXPERT[,EXPERT]", type=_pins, action="append", default=[],
        help="experts that stay in the pool; may be repeated",
    )  # fmt: skip


def _run(parsed: argparse.Namespace) -> int:
    # numpy comes with these; the other commands start faster without it.
    from app.commands import simulate_words  # noqa: PLC0415
    from app.placement.cache import simulation  # noqa: PLC0415
    from app.placement.cache.memory_simulation import memory_points  # noqa: PLC0415
    from app.placement.cache.trace import read_trace  # noqa: PLC0415

    policy = CachePolicy(
        insert_cap=parsed.insert_cap,
        window=parsed.window,
        decay=parsed.decay,
        margin=parsed.margin,
        threshold=parsed.threshold,
    )
    check_policy(policy)
    pins = tuple(pin for pins in parsed.pin for pin in pins)
    trace = read_trace(folders.user_path(parsed.trace))
    check_pins(pins, trace.header.experts)
    expert_bytes = None
    if parsed.model is not None:
        expert_bytes = simulation.recorded_expert_bytes(trace, facts_of(parsed.model))
    pools = [_pool_of(wish, trace, expert_bytes) for wish in parsed.pool or map(_pool, _DEFAULT_POOLS)]
    settings = simulation.Settings(kinds=_kinds(parsed.policy, pins), policy=policy, pins=pins)
    started = time.perf_counter()
    found = simulation.simulate(trace, pools, settings, expert_bytes)
    seconds = time.perf_counter() - started
    if parsed.json:
        told = {
            "trace": {**msgspec.to_builtins(trace.header, str_keys=True), "lost": trace.lost},
            "policy": msgspec.to_builtins(policy),
            **msgspec.to_builtins(found, str_keys=True),
            "memory": msgspec.to_builtins(memory_points(trace, expert_bytes)),
            "seconds": seconds,
        }
        print_json(told)
    else:
        for line in simulate_words.describe(trace, found, policy, seconds):
            print(line)
    return EXIT_OK


def _kinds(asked: str, pins: tuple[ExpertPin, ...]) -> tuple[str, ...]:
    if asked == _ALL:
        return tuple(kind for kind in (*POLICIES, _ORACLE) if kind != "manual" or pins)
    if asked == "manual" and not pins:
        raise AppError(ErrorCode.BAD_USAGE, "The manual policy holds pinned experts only: name some with --pin.")
    return (asked,)


def _pool_of(wish: _PoolWish, trace: "Trace", expert_bytes: dict[int, int] | None) -> "Pool":
    """The pool that was asked for.

    Raises:
        AppError: bad_usage, no pool of the recorded experts can be like that.
    """
    from app.placement.cache import simulation  # noqa: PLC0415 - with numpy, see above

    if wish.kind == "bytes":
        if expert_bytes is None:
            raise AppError(
                ErrorCode.BAD_USAGE,
                f"A pool of {format_bytes(int(wish.value))} can be simulated only with --model, for a trace does not "
                "say how large experts are; without it, write a share such as 30% or slots such as 16slots.",
            )
        check_pool(int(wish.value), 0)
        return simulation.pool_of_bytes(wish.words, trace, expert_bytes, int(wish.value))
    if wish.kind == "share":
        if wish.value > 1:
            raise AppError(ErrorCode.BAD_USAGE, f"A pool of {wish.words} is impossible: 100% are all experts.")
        return simulation.pool_of_share(wish.words, trace, expert_bytes, wish.value)
    most = max(trace.header.experts.values(), default=0)
    if wish.value > most:
        raise AppError(ErrorCode.BAD_USAGE, f"A pool of {wish.words} is impossible: a layer has {most:,} experts.")
    return simulation.pool_of_slots(wish.words, trace, expert_bytes, int(wish.value))


def _pool(text: str) -> _PoolWish:
    """A pool's size, as an argument."""
    words = text.strip()
    if match := _SHARE.fullmatch(words):
        return _PoolWish(words, "share", float(match[1]) / 100)
    if match := _SLOTS.fullmatch(words):
        return _PoolWish(words, "slots", int(match[1]))
    try:
        return _PoolWish(words, "bytes", size(words))
    except argparse.ArgumentTypeError as error:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no pool; write a share such as 30%, slots in each layer such as 16slots, "
            "or a size such as 2GiB"
        ) from error


def _pins(text: str) -> tuple[ExpertPin, ...]:
    """Experts of one layer that are pinned to the pool, as an argument."""
    match = _PIN.fullmatch(text.strip())
    if match is None:
        raise argparse.ArgumentTypeError(f"'{text}' is no pin; write it like 3:17 or 3:17,20")
    return tuple(ExpertPin(layer=int(match[1]), expert=int(expert), pin="gpu") for expert in match[2].split(","))


def _count(text: str) -> int:
    """A whole number from 0, as an argument."""
    return 0 if text.strip() == "0" else positive(text)

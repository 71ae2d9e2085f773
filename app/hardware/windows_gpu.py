"""GPU memory as Windows counts it, by card and by program: what is the card's own, and what spilled into main memory.

The performance counters name a card by its locally unique number (LUID) only; DXGI tells which card has it.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from app.hardware.cards import CardMemory
from app.hardware.dxgi import Adapter, read_adapters
from app.hardware.facts import Gpu, GpuKind
from app.hardware.pdh import PdhCounters
from app.hardware.samples import GpuSample
from app.hardware.sources import NotSeenError

COUNTERS = "Windows' performance counters"
CARD_DEDICATED = r"\GPU Adapter Memory(*)\Dedicated Usage"
CARD_SHARED = r"\GPU Adapter Memory(*)\Shared Usage"
PROGRAM_DEDICATED = r"\GPU Process Memory(*)\Dedicated Usage"
PROGRAM_SHARED = r"\GPU Process Memory(*)\Shared Usage"
PATHS = (CARD_DEDICATED, CARD_SHARED, PROGRAM_DEDICATED, PROGRAM_SHARED)
# "pid_4488_luid_0x00000000_0x0000D2A1_phys_0"; without the program's number for a card's total.
_INSTANCE = re.compile(r"(?:pid_(?P<pid>\d+)_)?luid_0x(?P<high>[0-9a-f]+)_0x(?P<low>[0-9a-f]+)_phys_\d+", re.IGNORECASE)
_MAKER_WORDS = re.compile(r"\((?:R|TM|C)\)|[^0-9a-z]+", re.IGNORECASE)


@dataclass(frozen=True)
class GpuCounters:
    """What is asked on Windows: the cards, and how to read the counters.

    Attributes:
        adapters: Every card that DXGI lists.
        read: Gives, for each of `PATHS`, the value of every instance in bytes; may raise `NotSeenError`.
        close: Gives the counters back.
    """

    adapters: Sequence[Adapter]
    read: Callable[[], Mapping[str, Mapping[str, int]]]
    close: Callable[[], None]


def open_counters() -> GpuCounters:
    """The counters of this machine.

    Raises:
        NotSeenError: this is not Windows, or it has no such counters (before Windows 10, version 1709).
    """
    counters = PdhCounters(PATHS)
    try:
        return GpuCounters(read_adapters(), counters.read, counters.close)
    except NotSeenError:
        counters.close()
        raise


def program_bytes(instances: Mapping[str, int], pid: int) -> dict[int, int]:
    """LUID to bytes of one program, over the instances of a "GPU Process Memory" counter."""
    return _by_luid(instances, lambda found: found["pid"] is not None and int(found["pid"]) == pid)


def card_bytes(instances: Mapping[str, int]) -> dict[int, int]:
    """LUID to bytes over all programs, over the instances of a "GPU Adapter Memory" counter."""
    return _by_luid(instances, lambda found: found["pid"] is None)


def _by_luid(instances: Mapping[str, int], meant: Callable[[re.Match[str]], bool]) -> dict[int, int]:
    sums: dict[int, int] = {}
    for name, value in instances.items():
        found = _INSTANCE.fullmatch(name)
        if found and meant(found) and value >= 0:
            luid = (int(found["high"], 16) << 32) | int(found["low"], 16)
            sums[luid] = sums.get(luid, 0) + value
    return sums


def adapter_of(gpu: Gpu, adapters: Sequence[Adapter]) -> Adapter:
    """The card that the engine calls `gpu`.

    Raises:
        NotSeenError: no card, or more than one, may be meant.
    """
    cards = list({adapter.luid: adapter for adapter in adapters if not adapter.software}.values())
    alike = [adapter for adapter in cards if _plain(adapter.name) == _plain(gpu.name)]
    if len(alike) == 1:
        return alike[0]
    if not alike and len(cards) == 1:
        return cards[0]
    if len(alike) > 1:
        raise NotSeenError(f"Windows lists {len(alike)} cards like {gpu.device}; which it is cannot be told.")
    raise NotSeenError(f"Windows lists no card like {gpu.device} ({gpu.name}).")


def _plain(name: str) -> str:
    return _MAKER_WORDS.sub(" ", name).strip().lower()


class CardCounters:
    """Counters that are opened when they are first read; a refusal is remembered, and they are not opened again.

    All calls belong to one thread, which may be kept waiting.
    """

    def __init__(self, open_all: Callable[[], GpuCounters]) -> None:
        """Opens nothing yet."""
        self._open = open_all
        self._counters: GpuCounters | None = None
        self._refusal = ""

    def opened(self) -> GpuCounters:
        """The counters.

        Raises:
            NotSeenError: there are no such counters.
        """
        if self._refusal:
            raise NotSeenError(self._refusal)
        if self._counters is None:
            try:
                self._counters = self._open()
            except NotSeenError as error:
                self._refusal = str(error)
                raise
        return self._counters

    def close(self) -> None:
        """Give the counters back."""
        if self._counters is not None:
            self._counters.close()
            self._counters = None


class WindowsMemory:
    """Reads every card through the performance counters. All calls belong to one thread, which may be kept waiting."""

    def __init__(self, gpus: Sequence[Gpu], pid: int, open_all: Callable[[], GpuCounters] = open_counters) -> None:
        """Opens nothing yet; `pid` is the engine's process."""
        self._gpus = tuple(gpus)
        self._pid = pid
        self._source = CardCounters(open_all)

    def read(self) -> dict[str, GpuSample]:
        """Engine name to that card's memory now.

        Raises:
            NotSeenError: there are no such counters; they are not opened again.
        """
        counters = self._source.opened()
        values = counters.read()
        use = {path: card_bytes(values.get(path, {})) for path in (CARD_DEDICATED, CARD_SHARED)}
        use |= {path: program_bytes(values.get(path, {}), self._pid) for path in (PROGRAM_DEDICATED, PROGRAM_SHARED)}
        return {gpu.device: self._sample(gpu, counters.adapters, use) for gpu in self._gpus}

    def close(self) -> None:
        """Give the counters back."""
        self._source.close()

    def _sample(self, gpu: Gpu, adapters: Sequence[Adapter], use: Mapping[str, Mapping[int, int]]) -> GpuSample:
        try:
            adapter = adapter_of(gpu, adapters)
        except NotSeenError as error:
            return GpuSample(device=gpu.device, source=COUNTERS, missing=str(error))
        luid = adapter.luid
        total, used, process = adapter.dedicated_bytes, use[CARD_DEDICATED].get(luid), use[PROGRAM_DEDICATED].get(luid)
        shared = use[PROGRAM_SHARED].get(luid)
        if gpu.kind is GpuKind.INTEGRATED:
            # Its memory is main memory, of which Windows calls a small part its own: nothing spills, it all counts.
            total += adapter.shared_bytes
            used = None if used is None else used + use[CARD_SHARED].get(luid, 0)
            process, shared = (None if process is None else process + (shared or 0)), None
        if used is None:
            return GpuSample(device=gpu.device, source=COUNTERS, missing=f"Windows counts no memory of {gpu.device}.")
        if doubt := CardMemory(used, total).doubt:
            return GpuSample(device=gpu.device, source=COUNTERS, missing=f"{gpu.device}: {doubt}.")
        missing = "" if process is not None else f"Windows counts no memory of the engine on {gpu.device}."
        return GpuSample(
            device=gpu.device,
            used_bytes=used,
            total_bytes=total,
            process_bytes=process,
            shared_bytes=shared,
            source=COUNTERS,
            missing=missing,
        )

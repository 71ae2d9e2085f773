"""What main memory keeps of a mapped model's experts: the budget that the engine chooses, orders, and facts."""

import logging
from collections.abc import Iterable
from pathlib import Path

import msgspec
import numpy as np
import numpy.typing as npt

from app.engine.cache import ExpertDevice
from app.engine.cache_types import LayerStruct, Residency
from app.errors import AppError, ErrorCode
from app.hardware.facts import Ram
from app.hardware.memory import read_ram
from app.hardware.page_cache import tells_of
from app.model import ModelFacts
from app.placement.cache.facts import MemoryFacts
from app.placement.cache.orders import check_resident
from app.units import format_bytes

log = logging.getLogger(__name__)

# Left free: this process grows, other programs do, and where memory is short the kernel does not read ahead. Measured
# with a limit of 3.8 GB: with 5 % as share 230 MB were left while decoding, and one expert was taken back in 72 tokens.
_LEAST_RESERVE = 64 << 20
_RESERVE_SHARE = 0.03  # of what is available, in addition
# Of the budget, the hottest experts: under pressure the system takes others' memory, and colder experts, first.
_LOCKED_SHARE = 0.25
_UNTOLD = (
    "The system tells only the owner of the model file which of its pages are in memory, so it decides itself which "
    "experts stay there."
)
_LETTERS = "dr"  # by the library's flag: on the disk only, in main memory


def resident_budget(ram: Ram, other_bytes: int, expert_bytes: int) -> int:
    """Bytes of experts that stay in main memory while a model runs; all of them where there is room.

    Args:
        ram: As the process may use it, the model loaded and its first token computed. Pages of files count as
            available.
        other_bytes: Of the mapped files, what is no expert's: it is needed for every token.
        expert_bytes: Of all experts that lie in the mapped files.
    """
    reserve = _LEAST_RESERVE + int(_RESERVE_SHARE * ram.available_bytes)
    # At least a few experts: 0 would leave all to the system.
    return min(expert_bytes, max(1, ram.available_bytes - other_bytes - reserve))


class ContextMemory:
    """The main memory of one context's mapped experts.

    Until `prepare` has set a budget, and where a plan leaves it to the system, the device reads, gives up and locks
    nothing: all is as with llama.cpp's own mapping, there are no facts, and only `release` is an order to it.

    Attributes:
        fault: Why the budget that the plan asks for is not the one in use, as a sentence; else empty.
    """

    def __init__(self, device: ExpertDevice, context: int, facts: ModelFacts, layers: Iterable[LayerStruct]) -> None:
        self._device = device
        self._context = context
        self._facts = facts
        layers = tuple(layers)
        self._copied = bool(layers)  # if none of the layers lies in the file
        self._mapped_bytes = sum(its.experts * its.expert_bytes for its in layers if its.residency == Residency.MAPPED)
        self._budget = 0  # as asked for last
        self._told = all(tells_of(Path(path)) for path in facts.files)
        self._failures = self._refused = 0
        self.fault = ""

    # ---- orders ------------------------------------------------------------------------------

    def prepare(self, wished_bytes: int | None) -> None:
        """Set the budget of a plan: None is what fits now, 0 leaves it to the system, as it is before.

        More than is available is no failure: the engine chooses then, and `fault` says so.
        """
        if not self._mapped_bytes:
            if wished_bytes:
                self.fault = f"{_asked(wished_bytes)}; {self._none()}"
            return
        if wished_bytes == 0:
            return
        if not self._told:
            if wished_bytes:
                self.fault = f"{_asked(wished_bytes)}. {_UNTOLD}"
            return
        if wished_bytes is not None:
            try:
                self.set_budget(wished_bytes)
            except AppError as error:
                self.fault = f"{_asked(wished_bytes)}: {error.message} The engine chose what fits."
            else:
                return
        self._order(self._fitting())

    def set_budget(self, budget_bytes: int | None) -> None:
        """Keep at most so many bytes of experts in main memory from now on; 0 leaves that to the system.

        None is what fits now, and more than all experts is all of them.

        Raises:
            AppError: bad_usage, a negative number, or no experts lie in a mapped file, or the system does not tell
                which are in memory; out_of_memory, it is more than is available now, and more than the budget before.
        """
        check_resident(budget_bytes or 0)
        self._need_mapped()
        if budget_bytes != 0 and not self._told:
            raise AppError(ErrorCode.BAD_USAGE, _UNTOLD)
        if budget_bytes is None:
            self._order(self._fitting())
            return
        budget = min(budget_bytes, self._mapped_bytes)
        available = self._available().available_bytes
        if budget > max(available, self._budget):
            raise AppError(
                ErrorCode.OUT_OF_MEMORY,
                f"{format_bytes(budget)} of main memory cannot be kept for experts: {format_bytes(available)} is "
                "available now.",
            )
        self._order(budget)

    def warm_up(self) -> None:
        """Read the hottest experts in, in the background.

        Raises:
            AppError: bad_usage, no experts lie in a mapped file, or the system decides which stay.
        """
        self._need_mapped()
        if not self._budget:
            raise AppError(
                ErrorCode.BAD_USAGE,
                "The system decides which experts are in main memory: they are read in only within a budget.",
            )
        self._device.warm_up(self._context)

    def release(self) -> None:
        """Give up the memory; experts are read again when they are needed.

        Raises:
            AppError: bad_usage, no experts lie in a mapped file.
        """
        self._need_mapped()
        self._device.release(self._context)

    def _fitting(self) -> int:
        """Bytes of experts that main memory has room for now, as `resident_budget` says."""
        every = sum(its * self._facts.expert_count for its in self._facts.expert_bytes.values())
        return resident_budget(self._available(), max(0, self._facts.file_bytes - every), self._mapped_bytes)

    def _available(self) -> Ram:
        """Main memory as experts may use it: their pages count as available, but for those that are locked."""
        ram = _ram()
        locked = int(self._device.memory(self._context).locked)
        return msgspec.structs.replace(ram, available_bytes=ram.available_bytes + locked)

    def _order(self, budget: int) -> None:
        self._device.set_memory_lock(self._context, int(_LOCKED_SHARE * budget))
        self._device.set_resident(self._context, budget)
        self._budget = budget
        log.info("main memory of experts: %s", self.facts())

    def _need_mapped(self) -> None:
        if not self._mapped_bytes:
            sentence = self._none()
            raise AppError(ErrorCode.BAD_USAGE, f"{sentence[0].upper()}{sentence[1:]}")

    def _none(self) -> str:
        """Why there are no experts whose main memory could be given up."""
        if self._copied:
            return (
                "the experts were copied into the CPU's faster layout when the model was loaded: with residency "
                "'mapped' they stay in the file."
            )
        return "no experts of this model are computed by the CPU from its file."

    # ---- facts -------------------------------------------------------------------------------

    def facts(self) -> MemoryFacts | None:
        """What is in memory; None where no experts lie in a mapped file, or the system decides.

        The budget is the one that was asked for last, also while a layer that is being computed puts it off.
        """
        its = self._device.memory(self._context)
        if self._budget == 0 or its.budget == 0 or its.total == 0:
            return None
        return MemoryFacts(
            budget_bytes=self._budget,
            trusted_bytes=min(its.trusted, self._budget),
            resident_bytes=its.resident,
            total_bytes=its.total,
            evictions=its.evictions,
            stale=its.stale,
            reads=bool(its.on),
            locked_bytes=its.locked,
            reason=its.reason.decode(errors="replace"),
        )

    def letters(self) -> list[str]:
        """By layer, one letter for each expert (of the widest layer): r in main memory, d on the disk only."""
        found: npt.NDArray[np.uint8] = self._device.residents(self._context)
        return ["".join(_LETTERS[flag] for flag in row) for row in found.tolist()]

    def reading_error(self) -> AppError | None:
        """Why a batch failed, if it is that experts could not be read since the last call.

        Returns:
            model_damaged where the file or its drive is the reason, out_of_memory where the system had no room.
        """
        its = self._device.memory(self._context)
        failures, refused = int(its.failures) - self._failures, int(its.refused) - self._refused
        self._failures, self._refused = int(its.failures), int(its.refused)
        if failures:
            return AppError(
                ErrorCode.MODEL_DAMAGED,
                "The model file was changed, or its drive failed, while the engine read it.",
                f"{failures} experts could not be read.",
            )
        if refused:
            return AppError(
                ErrorCode.OUT_OF_MEMORY,
                "The system had no main memory left to read experts into. End other programs, or keep fewer experts in "
                "memory (--resident).",
                f"{refused} experts were not read.",
            )
        return None


def _ram() -> Ram:
    ram, _notes = read_ram(Path("/"))
    return ram


def _asked(wished_bytes: int) -> str:
    return f"The plan said {format_bytes(wished_bytes)} of main memory for mapped experts"

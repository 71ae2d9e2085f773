"""What main memory keeps of a mapped model's experts: the budget that the engine chooses, orders, and facts."""

import logging
from pathlib import Path

import numpy as np
import numpy.typing as npt

from app.engine.cache import ExpertDevice
from app.errors import AppError, ErrorCode
from app.hardware.facts import Ram
from app.hardware.memory import read_ram
from app.model import ModelFacts
from app.placement.cache.facts import MemoryFacts

log = logging.getLogger(__name__)

# Left free: this process grows, other programs do, and where memory is short the kernel does not read ahead. Measured
# with a limit of 3.8 GB: with 5 % as share 230 MB were left while decoding, and one expert was taken back in 72 tokens.
_LEAST_RESERVE = 64 << 20
_RESERVE_SHARE = 0.03  # of what is available, in addition
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
    """The main memory of one context's mapped experts. Without effect where they are repacked or read into memory."""

    def __init__(self, device: ExpertDevice, context: int, facts: ModelFacts) -> None:
        self._device = device
        self._context = context
        self._facts = facts
        self._failures = 0

    def choose(self, expert_bytes: int) -> None:
        """Set the budget that fits what is available now, for layers that the device computes.

        `expert_bytes` is of all their experts.
        """
        if expert_bytes == 0:
            return
        every = sum(its * self._facts.expert_count for its in self._facts.expert_bytes.values())
        ram, _notes = read_ram(Path("/"))
        budget = resident_budget(ram, max(0, self._facts.file_bytes - every), expert_bytes)
        self.set_budget(budget)

    def set_budget(self, budget_bytes: int) -> None:
        """Keep at most so many bytes of experts in main memory from now on; 0 leaves that to the system.

        Raises:
            AppError: bad_usage, a negative number.
        """
        if budget_bytes < 0:
            raise AppError(ErrorCode.BAD_USAGE, "Memory for experts cannot be less than 0 bytes.")
        self._device.set_resident(self._context, budget_bytes)
        log.info("main memory of experts: %s", self.facts())

    def warm_up(self) -> None:
        """Read the hottest experts in, in the background."""
        self._device.warm_up(self._context)

    def release(self) -> None:
        """Give up the memory; experts are read again when they are needed."""
        self._device.release(self._context)

    def facts(self) -> MemoryFacts | None:
        """What is in memory; None where no experts lie in a mapped file, or the system decides."""
        its = self._device.memory(self._context)
        if its.budget == 0 or its.total == 0:
            return None
        return MemoryFacts(
            budget_bytes=its.budget,
            trusted_bytes=its.trusted,
            resident_bytes=its.resident,
            total_bytes=its.total,
            evictions=its.evictions,
            stale=its.stale,
            reads=bool(its.on),
        )

    def letters(self) -> list[str]:
        """By layer, one letter for each expert (of the widest layer): r in main memory, d on the disk only."""
        found: npt.NDArray[np.uint8] = self._device.residents(self._context)
        return ["".join(_LETTERS[flag] for flag in row) for row in found.tolist()]

    def reading_error(self) -> AppError | None:
        """Why a batch failed, if it is that experts could not be read since the last call."""
        failures = int(self._device.memory(self._context).failures)
        before, self._failures = self._failures, failures
        if failures == before:
            return None
        return AppError(
            ErrorCode.MODEL_DAMAGED,
            "The model file was changed, or its drive failed, while the engine read it.",
            f"{failures - before} experts could not be read.",
        )

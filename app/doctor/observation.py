"""Everything the rules judge by: what was seen of the machine, the plan, the load and the answers."""

from typing import Literal

import msgspec

from app.doctor.hints import UnjudgedError
from app.engine import protocol
from app.hardware.engine_files import EngineFiles
from app.hardware.facts import Disk, Gpu, Machine
from app.hardware.ram_programs import RamProgram
from app.hardware.samples import GpuSample, Sample
from app.model.facts import ModelFacts
from app.placement.plan import Plan
from app.placement.speed.calibration import Calibration
from app.placement.speed.calibration_words import busy_note

NO_MODEL = "It is judged for a model and its plan: name a model."
NO_ENGINE = "The engine cannot be used, so that there is no plan to judge."
SILENT_MODEL = "The model's file did not answer in time, so that there is no plan to judge."
NOT_LOADED = "It is judged while a model is loaded."
NO_ANSWER = "It is judged by answers of the loaded model, and there was none yet."
LEAST_TOKENS = 64
"""Decoded tokens from which on it is judged what the expert cache counted: which experts are hot, which are in it."""
NOT_CALIBRATED = (
    "This machine's speed was not measured yet: `calibrate`, or the window's page of the machine, does that."
)


class AnswerFigures(msgspec.Struct, frozen=True, kw_only=True):
    """What answers of the loaded model since its load were like.

    Attributes:
        answers: How many there were.
        longest_tokens: Most tokens that one of them had in the context at its end: prompt and answer.
    """

    answers: int
    longest_tokens: int


class SilentFile(msgspec.Struct, frozen=True, kw_only=True):
    """A model's file that was waited for in vain.

    Attributes:
        path: The file.
        seconds: How long it was waited for.
        step: What it was to give: its tables, or what the engine needs for a load or an answer.
    """

    path: str
    seconds: float
    step: Literal["tables", "load", "answer"]


class Observation(msgspec.Struct, frozen=True, kw_only=True):
    """What was seen; None or empty where nobody looked.

    Attributes:
        machine: What the probe found. Free memory in it counts for a plan only while that is not loaded.
        calibration: What the machine was measured to do.
        facts: The model.
        plan: How it is loaded, or would be.
        no_plan: The sentence that says why there is no plan, where there is none.
        model_disk: The disk of the model's files.
        loaded: What the engine reported of its load as `plan` says.
        cache: The expert cache's facts, single experts included.
        earlier: The same at moments of the last answer before that, oldest first; single experts may be left out.
        answers: What the answers were like.
        decoding: Samples during one answer's decoding, oldest first.
        latest: The last sample since the load.
        engine_pid: The engine's process, 0 where there is none.
        programs: Other programs that hold main memory, largest first.
        engine_files: Whether the engine's own files are as they were installed.
        silent_file: The model's file, where it did not answer in time.
    """

    machine: Machine
    calibration: Calibration | None = None
    facts: ModelFacts | None = None
    plan: Plan | None = None
    no_plan: str = NO_MODEL
    model_disk: Disk | None = None
    loaded: protocol.Loaded | None = None
    cache: protocol.CacheFacts | None = None
    earlier: tuple[protocol.CacheFacts, ...] = ()
    answers: AnswerFigures | None = None
    decoding: tuple[Sample, ...] = ()
    latest: Sample | None = None
    engine_pid: int = 0
    programs: tuple[RamProgram, ...] = ()
    engine_files: EngineFiles | None = None
    silent_file: SilentFile | None = None

    @property
    def needed_plan(self) -> tuple[Plan, ModelFacts]:
        """Plan and model.

        Raises:
            UnjudgedError: there is none.
        """
        if self.plan is None or self.facts is None:
            raise UnjudgedError(self.no_plan)
        return self.plan, self.facts

    @property
    def needed_load(self) -> protocol.Loaded:
        """What the engine reported of the load.

        Raises:
            UnjudgedError: nothing is loaded.
        """
        if self.loaded is None:
            raise UnjudgedError(NOT_LOADED if self.plan is not None else self.no_plan)
        return self.loaded

    @property
    def needed_cache(self) -> protocol.CacheFacts:
        """The expert cache's facts, after tokens were decoded.

        Raises:
            UnjudgedError: nothing is loaded, nobody read them, or nothing was decoded yet.
        """
        _ = self.needed_load
        if self.cache is None or not self.cache.decode.tokens:
            raise UnjudgedError(NO_ANSWER)
        return self.cache

    @property
    def needed_calibration(self) -> Calibration:
        """What the machine was measured to do.

        Raises:
            UnjudgedError: it was not, or other programs were too busy meanwhile.
        """
        if self.calibration is None:
            raise UnjudgedError(NOT_CALIBRATED)
        if self.calibration.misleads:
            raise UnjudgedError(busy_note(self.calibration))
        return self.calibration

    def gpu(self, device: str | None) -> Gpu | None:
        """The GPU with that engine name."""
        return next((gpu for gpu in self.machine.gpus if gpu.device == device), None)

    def card_now(self, device: str | None) -> GpuSample | None:
        """The last sample of a card's memory; None where there is none, or its figures are of no card."""
        sampled = next((its for its in (self.latest.gpus if self.latest else ()) if its.device == device), None)
        return sampled if sampled is not None and _possible(sampled) else None

    def why_unseen(self, fact: str, otherwise: str, device: str = "") -> UnjudgedError:
        """Why the probe did not see a fact, as the error that says so.

        Args:
            fact: Its place in `Machine`.
            otherwise: What is said where the probe gives no reason.
            device: The engine's name of the GPU concerned.
        """
        for unseen in self.machine.unseen:
            if unseen.fact == fact and unseen.device in ("", device):
                return UnjudgedError(unseen.why)
        return UnjudgedError(otherwise)


def _possible(sampled: GpuSample) -> bool:
    """Whether a card can be so: drivers have been seen to tell more in use than there is."""
    total = sampled.total_bytes
    parts = (sampled.used_bytes, sampled.process_bytes)
    if total is None or total <= 0:
        return all(part is None for part in parts)
    return all(part is None or 0 <= part <= total for part in parts)

"""What was measured on a machine, gathered for plans of a model and predictions of its speed there."""

import logging

from app.errors import AppError
from app.hardware.facts import Machine
from app.hardware.fingerprint import engine_name, fingerprint
from app.library import calibrations, routing_records, speed_records, tuned_plans
from app.model.facts import ModelFacts
from app.model.tensor_types import ggml_name
from app.placement.cache.recorded_hits import RecordedHits
from app.placement.evidence import Evidence
from app.placement.speed.calibration import Calibration
from app.placement.speed.learning import Learned, learn
from app.placement.tuner.types import TunedPlan

log = logging.getLogger(__name__)

NOT_MEASURED = (
    "Nothing was measured on the machine of this plan (the command calibrate measures, or the window's page of the "
    "machine); what was measured on another is not used, and speeds are predicted from typical rates of such hardware."
)


def evidence_of(facts: ModelFacts, machine: Machine) -> Evidence:
    """All that is kept of `machine`, of this model's speed there and its tuned plan; a note tells what is lacking."""
    notes: list[str] = []
    calibration = _calibration(facts, machine, notes)
    learned = _learned(facts, machine, calibration, notes)
    if calibration is None and learned is None and not notes:
        notes.append(NOT_MEASURED)
    tuned = _tuned(facts, machine, notes)
    recorded = _recorded(facts, notes)
    return Evidence(calibration=calibration, learned=learned, tuned=tuned, recorded=recorded, notes=tuple(notes))


def calibration_of(machine: Machine) -> Calibration | None:
    """What `machine` was measured to do, of whatever types, even if it misleads; None where nothing can be read."""
    if machine.engine is None:
        return None
    try:
        found = calibrations.find(fingerprint(machine), engine_name(machine.engine))
    except AppError as error:
        log.warning("the calibration is not used: %s", error.message)
        return None
    return found.calibration if found is not None else None


def _tuned(facts: ModelFacts, machine: Machine, notes: list[str]) -> TunedPlan | None:
    try:
        return tuned_plans.tuned_plan(facts, machine)
    except AppError as error:
        notes.append(f"The tuned plan is not used: {error.message}")
        return None


def _calibration(facts: ModelFacts, machine: Machine, notes: list[str]) -> Calibration | None:
    if machine.engine is None:
        return None
    types = frozenset({ggml_name(facts.quantization)})
    try:
        found = calibrations.find(fingerprint(machine), engine_name(machine.engine), types)
    except AppError as error:
        notes.append(f"The calibration is not used: {error.message}")
        return None
    if found is None:
        return None
    if found.aged or found.calibration.misleads:
        notes.append(found.sentence)
    return None if found.calibration.misleads else found.calibration


def _learned(facts: ModelFacts, machine: Machine, calibration: Calibration | None, notes: list[str]) -> Learned | None:
    try:
        seen = speed_records.observations(facts, machine)
    except AppError as error:
        notes.append(f"How fast answers were is not used: {error.message}")
        return None
    return learn(facts, machine, seen, calibration=calibration)


def _recorded(facts: ModelFacts, notes: list[str]) -> RecordedHits | None:
    try:
        return routing_records.recorded_hits(facts)
    except AppError as error:
        notes.append(f"The recorded routing is not used: {error.message}")
        return None

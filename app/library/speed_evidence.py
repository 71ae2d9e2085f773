"""What was measured on a machine, gathered for plans of a model and predictions of its speed there."""

from app.errors import AppError
from app.hardware.facts import Machine
from app.hardware.fingerprint import engine_name, fingerprint
from app.library import calibrations, speed_records, tuned_plans
from app.model.facts import ModelFacts
from app.model.tensor_types import ggml_name
from app.placement.evidence import Evidence
from app.placement.speed.calibration import Calibration
from app.placement.speed.learning import Learned, learn
from app.placement.tuner.types import TunedPlan

_NOT_MEASURED = (
    "Nothing was measured on the machine of this plan (the command calibrate measures, or the window's page of the "
    "machine); what was measured on another is not used, and speeds are predicted from typical rates of such hardware."
)


def evidence_of(facts: ModelFacts, machine: Machine) -> Evidence:
    """All that is kept of `machine`, of this model's speed there and its tuned plan; a note tells what is lacking."""
    notes: list[str] = []
    calibration = _calibration(facts, machine, notes)
    learned = _learned(facts, machine, calibration, notes)
    if calibration is None and learned is None and not notes:
        notes.append(_NOT_MEASURED)
    return Evidence(calibration=calibration, learned=learned, tuned=_tuned(facts, machine, notes), notes=tuple(notes))


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

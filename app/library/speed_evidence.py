"""What was measured on a machine, gathered for predictions of a model's speed there."""

from app.errors import AppError
from app.hardware.facts import Machine
from app.hardware.fingerprint import engine_name, fingerprint
from app.library import calibrations, speed_records
from app.model.facts import ModelFacts
from app.model.tensor_types import ggml_name
from app.placement.evidence import Evidence
from app.placement.speed.calibration import Calibration
from app.placement.speed.learning import Learned, learn

_NOT_MEASURED = (
    "Nothing was measured on the machine of this plan (`calibrate` measures); what was measured on another is not "
    "used, and speeds are predicted from typical rates of such hardware."
)


def evidence_of(facts: ModelFacts, machine: Machine) -> Evidence:
    """All that is kept of `machine`, and of this model's speed there; what is lacking is told in a note."""
    notes: list[str] = []
    calibration = _calibration(facts, machine, notes)
    learned = _learned(facts, machine, calibration, notes)
    if calibration is None and learned is None:
        notes.append(_NOT_MEASURED)
    return Evidence(calibration=calibration, learned=learned, notes=tuple(notes))


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
    if found.aged:
        notes.append(found.sentence)
    return found.calibration


def _learned(facts: ModelFacts, machine: Machine, calibration: Calibration | None, notes: list[str]) -> Learned | None:
    try:
        seen = speed_records.observations(facts, machine)
    except AppError as error:
        notes.append(f"How fast answers were is not used: {error.message}")
        return None
    return learn(facts, machine, seen, calibration=calibration)

"""A plan as this app's own JSON, for one model and any machine: everything but predictions and steps."""

import json
from typing import Any

import msgspec

from app.errors import AppError, ErrorCode
from app.hardware.facts import Machine
from app.model.facts import ModelFacts
from app.placement.exchange.check_plan import checked
from app.placement.exchange.formats import Exported, Imported
from app.placement.plan import Plan

KIND = "expert-lanes plan"
VERSION = 1
# Follows from the machine, or belongs to the place where the plan was made.
_LEFT_OUT = ("model_files", "memory", "steps", "speed", "tuned")


def named_model(facts: ModelFacts) -> dict[str, str]:
    """The model that a plan is for, as its JSON tells it."""
    return {"name": facts.name, "fingerprint": facts.fingerprint}


def export_json(plan: Plan, facts: ModelFacts) -> Exported:
    """`plan` as JSON; nothing is lost."""
    fields = msgspec.to_builtins(plan, str_keys=True)
    for name in _LEFT_OUT:
        fields.pop(name)
    whole = {
        "kind": KIND,
        "version": VERSION,
        "model": named_model(facts),
        "plan": fields,
    }
    return Exported(text=json.dumps(whole, indent=1, ensure_ascii=False))


def import_json(text: str, facts: ModelFacts, machine: Machine) -> Imported:
    """The plan that `export_json` wrote or `plan --json` printed, for the same model, checked for this machine.

    Raises:
        AppError: bad_usage, it is no such JSON, of another version, for another model, or names what the model
            does not have; device_missing.
    """
    whole = _as_exported(_decoded(text))
    fields = whole.get("plan")
    if whole.get("kind") != KIND or not isinstance(fields, dict):
        raise AppError(ErrorCode.BAD_USAGE, f"The JSON is no plan of this app: its kind is not '{KIND}'.")
    if whole.get("version") != VERSION:
        raise AppError(
            ErrorCode.BAD_USAGE, f"The plan is of version {whole.get('version')}; this app reads version {VERSION}."
        )
    model = whole.get("model")
    model = model if isinstance(model, dict) else {}
    if model.get("fingerprint") != facts.fingerprint:
        raise AppError(
            ErrorCode.BAD_USAGE,
            f"The plan is for another model, '{model.get('name')}': its tensors are not those of '{facts.name}'.",
        )
    known = set(Plan.__struct_fields__) - set(_LEFT_OUT)
    remarks = [f"The plan's '{name}' is not known here and is passed over." for name in sorted(set(fields) - known)]
    try:
        given = {name: value for name, value in fields.items() if name in known}
        plan = msgspec.convert({**given, "model_files": facts.files}, Plan, str_keys=True)
    except msgspec.ValidationError as error:
        raise AppError(ErrorCode.BAD_USAGE, f"The plan's JSON is damaged: {error}.") from error
    return checked(plan, facts, machine, remarks)


def _as_exported(whole: dict[str, Any]) -> dict[str, Any]:
    """What `plan --json` prints in the form of `export_json`; anything else as it is."""
    if "kind" in whole or not {"model", "expert_lanes", "n_ctx"} <= set(whole):
        return whole
    kept = set(Plan.__struct_fields__) - set(_LEFT_OUT)
    fields = {name: value for name, value in whole.items() if name in kept}
    return {"kind": KIND, "version": VERSION, "model": whole["model"], "plan": fields}


def _decoded(text: str) -> dict[str, Any]:
    try:
        whole = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as error:
        raise AppError(ErrorCode.BAD_USAGE, f"The text is not JSON: {error}.") from error
    if not isinstance(whole, dict):
        raise AppError(ErrorCode.BAD_USAGE, "The JSON is no plan of this app: it is no object.")
    return whole

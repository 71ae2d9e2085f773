"""What commands share of the memory model: plans that a dry run checked, and what a load took, as JSON."""

import msgspec

from app.commands.common import Json
from app.engine import protocol
from app.engine.client import EngineClient
from app.hardware.facts import Machine
from app.model import ModelFacts
from app.placement import memory_learning, planner
from app.placement.comparison import memory_table
from app.placement.evidence import Evidence, planned
from app.placement.plan import Plan
from app.placement.refine import refine
from app.placement.report import BufferReport

# A dry run takes a fraction of a second; starting a GPU's driver takes the rest.
_DRY_RUN_SECONDS = 60.0


def checked_plan(
    client: EngineClient, facts: ModelFacts, machine: Machine, wishes: planner.Wishes, evidence: Evidence
) -> Plan:
    """The plan for this machine, its memory as llama.cpp's own dry run gives it.

    Raises:
        AppError: what the planner raises.
    """

    def lay_out(plan: Plan) -> tuple[BufferReport, ...]:
        return client.request(protocol.DryRun, protocol.DryRan, timeout=_DRY_RUN_SECONDS, plan=plan).buffers

    return refine(facts, machine, lambda its: planned(facts, its, wishes, evidence), lay_out)


def memory_json(plan: Plan, machine: Machine, loaded: protocol.Loaded) -> Json:
    """Predicted, reported and observed memory, by part and by device."""
    totals = memory_learning.device_totals(plan, machine, loaded.buffers, loaded.observed)
    return {
        "dry_run": plan.dry_run,
        "parts": msgspec.to_builtins(memory_table(plan, loaded.buffers)),
        "devices": msgspec.to_builtins(totals),
    }

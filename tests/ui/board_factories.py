"""Boards and plans for the tests of the lanes, and an engine in this process that answers when it is told to."""

import collections
import itertools
from collections.abc import Mapping
from typing import Any

import msgspec
from PySide6.QtCore import QObject, Signal
from scripted_cache import ScriptedCache
from scripted_engine import BUILD, CHANGES, GPU
from ui_factories import make_facts

from app.engine import client, protocol
from app.model.facts import ModelFacts
from app.placement.cache.facts import LayerExperts
from app.placement.plan import Plan
from app.ui.lanes.board import Board, Change

LANES = ("Vulkan0", "CPU", "disk")


def plan_of(*lanes: str, **fields: Any) -> Plan:
    """A plan with one layer in each of these lanes."""
    return Plan(model_files=("m.gguf",), gpu="Vulkan0", n_ctx=512, expert_lanes=dict(enumerate(lanes)), **fields)


def shown(
    plan: Plan,
    reported: Mapping[int, LayerExperts] | None = None,
    facts: ModelFacts | None = None,
    lanes: tuple[str, ...] = LANES,
    pool_device: str | None = "Vulkan0",
    ordered: Mapping[tuple[int, int], str] | None = None,
) -> Board:
    """A new board of a model of 4 layers with 8 experts, unless `facts` are others."""
    board = Board()
    board.show(facts or make_facts(layers=4), plan, lanes, reported or {}, pool_device, ordered)
    return board


def again(board: Board, plan: Plan, reported: Mapping[int, LayerExperts], facts: ModelFacts | None = None) -> Change:
    """Show a board made by `shown` something else."""
    return board.show(facts or make_facts(layers=4), plan, LANES, reported, "Vulkan0")


class AnsweringEngine(QObject):
    """Stands where `Engine` would, without a child: every request waits until `answer`.

    Attributes:
        told: Lanes it tells of experts instead of the scripted cache's own, one letter each, by layer.
        refuses: An error code it answers the next requests with; empty for none.
        waiting: Requests without an answer.
    """

    ready = Signal(object)
    event = Signal(object)
    log_line = Signal(object)
    ended = Signal(object)
    failed = Signal(object)

    def __init__(self, experts: int = 8, expert_bytes: int = 1024**2) -> None:
        super().__init__()
        self._ids = itertools.count(1)
        self.experts, self.expert_bytes = experts, expert_bytes
        self.told: dict[int, str] = {}
        self.refuses = ""
        self.waiting: collections.deque[protocol.AnyRequest] = collections.deque()
        self.cache: ScriptedCache | None = None
        self.running = True
        self.pid = 0

    def send(self, request_type: type[protocol.Request], **fields: Any) -> int:
        request = request_type(id=next(self._ids), **fields)
        client.encode_request(request)
        self.waiting.append(request)
        return request.id

    def answer(self, most: int = 1000) -> None:
        """Answer the oldest requests; what is asked meanwhile is answered too, as far as `most` reaches."""
        while self.waiting and most > 0:
            most -= 1
            event = self._answer(self.waiting.popleft())
            if event is not None:
                self.event.emit(event)

    def shutdown(self) -> None:
        """Nothing runs."""

    def kill(self) -> None:
        """Nothing loaded, nothing answered any more."""
        self.waiting.clear()
        self.cache = None
        self.ended.emit(client.ProcessOutcome(0, True, ""))

    def _answer(self, request: protocol.AnyRequest) -> protocol.AnyEvent | None:
        if self.refuses:
            return protocol.Failed(id=request.id, code=self.refuses, message="The script refuses.", detail="")
        if isinstance(request, protocol.ListDevices):
            return protocol.Devices(id=request.id, gpus=(GPU,), build=BUILD)
        if isinstance(request, protocol.Load):
            self.cache, self.told = ScriptedCache(request.plan, self.experts, self.expert_bytes), {}
            lanes = request.plan.expert_lanes
            return protocol.Loaded(
                id=request.id,
                seconds=1.0,
                n_ctx=request.plan.n_ctx,
                buffers=(),
                expert_layers=lanes,
                differences=(),
                expert_device=True,
            )
        if not isinstance(request, CHANGES):
            return None
        if self.cache is None:
            return protocol.Failed(id=request.id, code="bad_usage", message="No model is loaded.", detail="")
        if isinstance(request, protocol.SetPool):
            self.cache.resize(request.pool_bytes, request.staging_bytes)
        elif isinstance(request, protocol.SetPins):
            self.cache.pin(request.pins)
        elif isinstance(request, protocol.SetPolicy):
            self.cache.policy = request.policy
        elif isinstance(request, protocol.SetMemory):
            self.cache.set_memory(request.budget_bytes)
        elif isinstance(request, protocol.WarmMemory):
            self.cache.warm_memory()
        elif isinstance(request, protocol.ReleaseMemory):
            self.cache.release_memory()
        facts = self.cache.facts(request.id, experts=True)
        layers = {
            layer: msgspec.structs.replace(its, lanes=self.told.get(layer, its.lanes))
            for layer, its in facts.layers.items()
        }
        return msgspec.structs.replace(facts, layers=layers)

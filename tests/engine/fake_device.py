"""An expert device without a library: what it was told is kept, what it tells is set by the test."""

import numpy as np

from app.engine.cache import Experts, Phase, Result
from app.engine.cache_types import LayerStruct, MemoryStruct, PoolStruct, RoutingEntryStruct, TokenStruct, TotalsStruct
from app.errors import AppError, ErrorCode

EXPERT_BYTES = 1000


class FakeDevice:
    """Three layers (2, 3 and 5) of four experts, top-2; as `ExpertDevice` where it has the method."""

    def __init__(self) -> None:
        self.told: list[tuple] = []
        self.decode = TotalsStruct()
        self.prompt = TotalsStruct()
        self.pool_struct = PoolStruct()
        self.memory_struct = MemoryStruct()
        self.resident = np.ones((6, 4), np.uint8)
        self.no_pool_facts = False
        self.answers = {"set_pool": Result.OK, "set_layer_device": Result.OK, "add_source": Result.OK}
        self.tokens: list[TokenStruct] = []
        self.recorded: list[tuple[int, int, int, float]] = []
        self.lost = 0
        self.layer_structs = [
            LayerStruct(layer=layer, experts=4, used=2, expert_bytes=EXPERT_BYTES, slots=1) for layer in (2, 3, 5)
        ]
        self.heat = np.zeros((6, 4), np.float32)
        self.lane = np.zeros((6, 4), np.uint8)
        self.pin = np.zeros((6, 4), np.uint8)

    def names(self) -> list[str]:
        return [call[0] for call in self.told]

    def _tell(self, *call):
        self.told.append(call)
        return self.answers.get(call[0], Result.OK)

    def add_source(self, context, path, tensor, offset, size):
        return self._tell("add_source", context, path, tensor, offset, size)

    def layers(self, _context):
        return self.layer_structs

    def set_layer_device(self, context, device):
        return self._tell("set_layer_device", context, device)

    def set_pool(self, context, device, pool_bytes, staging_bytes):
        return self._tell("set_pool", context, device, pool_bytes, staging_bytes)

    def pool(self, _context, _device):
        if self.no_pool_facts:
            raise AppError(ErrorCode.ENGINE_FAILED, "refused")
        return self.pool_struct

    def set_memory_lock(self, _context, most_bytes):
        self.locked_bytes = most_bytes

    def set_policy(self, context, policy):
        self._tell("set_policy", context, policy)

    def set_pins(self, context, pins):
        self._tell("set_pins", context, tuple(pins))

    def set_heat(self, context, layer, heat):
        self._tell("set_heat", context, layer, tuple(heat))

    def routing(self, _context, phase):
        counts = np.zeros((6, 4), np.uint64)
        counts[2] = (5, 0, 1, 0) if phase is Phase.DECODE else (9, 9, 9, 9)
        return counts

    def experts(self, _context):
        return Experts(self.heat, self.lane, self.pin)

    def totals(self, _context, phase):
        return self.decode if phase is Phase.DECODE else self.prompt

    def batches(self, _context, since):
        return [token for token in self.tokens if token.index >= since]

    def set_resident(self, context, resident_bytes):
        self._tell("set_resident", context, resident_bytes)

    def warm_up(self, context):
        self._tell("warm_up", context)

    def release(self, context):
        self._tell("release", context)

    def memory(self, _context):
        return self.memory_struct

    def residents(self, _context):
        return self.resident

    def set_trace(self, context, capacity):
        self._tell("set_trace", context, capacity)

    def read_trace(self, _context, limit):
        taken, self.recorded = self.recorded[:limit], self.recorded[limit:]
        return b"".join(bytes(RoutingEntryStruct(*entry)) for entry in taken), len(taken), self.lost

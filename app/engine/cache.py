"""The ctypes face of the native expert device (`native/expert_device.h`): one method for each of its functions."""

import ctypes
import os
from collections.abc import Iterable
from ctypes import POINTER
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from app import native_library
from app.engine.cache_types import (
    RESULT_WORDS,
    LayerStruct,
    MemoryStruct,
    Phase,
    PinEntryStruct,
    PolicyStruct,
    PoolStruct,
    RatesStruct,
    Residency,
    Result,
    RoutingEntryStruct,
    TokenStruct,
    TotalsStruct,
    pin_struct,
    policy_struct,
)
from app.errors import AppError, ErrorCode
from app.placement.plan import CachePolicy, ExpertPin

__all__ = ["ABI", "ExpertDevice", "Experts", "Phase", "Residency", "Result", "library_path"]

ABI = 7
MAX_LAYERS = 1024
_BATCHES_AT_ONCE = 1024  # as many as the library keeps
_ALL_LAYERS = -1

i32, i64, u64 = ctypes.c_int32, ctypes.c_int64, ctypes.c_uint64
text, raw = ctypes.c_char_p, ctypes.c_void_p
# Name (without the prefix) to result and arguments of every function that is called.
_SIGNATURES: dict[str, tuple[Any, list[Any]]] = {
    "abi": (i32, []),
    "built_for": (text, []),
    "running_with": (text, []),
    "register": (i32, []),
    "keep_threads": (i32, [i32, raw]),
    "set_residency": (i32, [i32]),
    "last_context": (i64, []),
    "set_phase": (i32, [i64, i32]),
    "add_source": (i32, [i64, text, text, u64, u64]),
    "read_layers": (i32, [i64, POINTER(LayerStruct), i32]),
    "set_layer_device": (i32, [i64, i32, text]),
    "set_pool": (i32, [i64, text, u64, u64]),
    "read_pool": (i32, [i64, text, POINTER(PoolStruct)]),
    "set_policy": (i32, [i64, POINTER(PolicyStruct)]),
    "set_host_lock": (i32, [i64, u64]),
    "set_pins": (i32, [i64, POINTER(PinEntryStruct), i32]),
    "set_heat": (i32, [i64, i32, raw, i32]),
    "shape": (i32, [i64, POINTER(i32), POINTER(i32)]),
    "read_routing": (i32, [i64, i32, raw, i32, i32]),
    "read_experts": (i32, [i64, raw, raw, raw, i32, i32]),
    "read_totals": (i32, [i64, i32, POINTER(TotalsStruct)]),
    "read_tokens": (i32, [i64, u64, POINTER(TokenStruct), i32]),
    "set_trace": (i32, [i64, i32]),
    "read_trace": (i32, [i64, POINTER(RoutingEntryStruct), i32, POINTER(u64)]),
    "set_resident": (i32, [i64, u64]),
    "set_memory_lock": (i32, [i64, u64]),
    "warm_up": (i32, [i64]),
    "release": (i32, [i64]),
    "read_memory": (i32, [i64, POINTER(MemoryStruct)]),
    "read_residents": (i32, [i64, raw, i32, i32]),
    "read_rates": (i32, [i64, text, POINTER(RatesStruct)]),
    "read_work": (i32, [i64, POINTER(u64), POINTER(u64)]),
}


class Experts(NamedTuple):
    """Every expert's state, each [layers, experts]: heat float32; lane and pin uint8, as the library numbers them."""

    heat: npt.NDArray[np.float32]
    lane: npt.NDArray[np.uint8]
    pin: npt.NDArray[np.uint8]


def library_path() -> Path:
    """The built library, beside this package (in the source tree or in the installed one).

    Raises:
        AppError: engine_missing, it is in neither.
    """
    return native_library.find("engine", "expert_device", "The native expert device")


class ExpertDevice:
    """The device registered with this process's ggml; one object a process.

    Create it after ggml's backends are loaded and before any model is. All methods may be called from any
    thread. Those that take a context raise AppError engine_failed where the library refuses; those that
    answer a `Result` leave the words to the caller.

    Raises:
        AppError: engine_missing when the library is absent, engine_failed when it was built for
            another ggml or another interface.
    """

    def __init__(self, path: Path | None = None) -> None:
        # ggml's CUDA backend locks memory only in a process that has this; what is locked is the policy's to say.
        os.environ.setdefault("GGML_CUDA_REGISTER_HOST", "1")
        try:
            self._library = ctypes.CDLL(str(path or library_path()))
            self._library.expert_device_abi.restype = i32
            abi = self._library.expert_device_abi()
        except (OSError, AttributeError) as error:
            raise AppError(
                ErrorCode.ENGINE_MISSING,
                "The native expert device cannot be loaded.",
                native_library.why_not_loaded(error),
            ) from error
        if abi != ABI:
            raise AppError(ErrorCode.ENGINE_FAILED, f"The native expert device has interface {abi}, expected {ABI}.")
        for name, (result, arguments) in _SIGNATURES.items():
            function = getattr(self._library, f"expert_device_{name}")
            function.restype, function.argtypes = result, arguments
        registered = self._library.expert_device_register()
        if registered == Result.WRONG_GGML:
            raise AppError(
                ErrorCode.ENGINE_FAILED,
                f"The native expert device was built for ggml {self.built_for}, this is ggml {self.running_with}.",
            )
        if registered != Result.OK:
            raise AppError(ErrorCode.ENGINE_FAILED, "The native expert device found no CPU backend.")

    @property
    def built_for(self) -> str:
        """ggml version the library was compiled against."""
        return str(self._library.expert_device_built_for().decode())

    @property
    def running_with(self) -> str:
        """ggml version of this process."""
        return str(self._library.expert_device_running_with().decode())

    @property
    def abort_when_set(self) -> Any:
        """C function pointer usable as llama.cpp's abort callback; its data is a `ctypes.c_int32`."""
        return self._library.expert_device_abort_when_set

    def keep_threads(self, count: int, threads: int | None) -> None:
        """Compute with the `ggml_threadpool` given wherever `count` threads compute, or with None as ggml does."""
        self._check(self._library.expert_device_keep_threads(count, threads))

    # ---- a model's load ----------------------------------------------------------------------

    def set_residency(self, residency: Residency) -> None:
        """Say where the experts of models loaded from now on are kept on the CPU side."""
        self._check(self._library.expert_device_set_residency(int(residency)))

    def last_context(self) -> int:
        """Id of the llama.cpp context this thread made last, 0 for none."""
        return int(self._library.expert_device_last_context())

    def set_phase(self, context: int, phase: Phase) -> None:
        """Say what the next graphs of `context` count as."""
        self._check(self._library.expert_device_set_phase(context, int(phase)))

    def add_source(self, context: int, path: str, tensor: str, offset: int, size: int) -> Result:
        """Say where the bytes of a tensor lie, for slots that are filled from the file."""
        found = self._library.expert_device_add_source(context, path.encode(), tensor.encode(), offset, size)
        return Result(found)

    def layers(self, context: int) -> list[LayerStruct]:
        """The expert layers that `context` has computed so far, in order."""
        out = (LayerStruct * MAX_LAYERS)()
        count = self._library.expert_device_read_layers(context, out, MAX_LAYERS)
        return list(out[: max(min(count, MAX_LAYERS), 0)])

    # ---- pool and policy ---------------------------------------------------------------------

    def set_layer_device(self, context: int, device: str, layer: int = _ALL_LAYERS) -> Result:
        """Say which ggml device holds the pool of `layer`, or of all layers; counts at the next `set_pool`."""
        return Result(self._library.expert_device_set_layer_device(context, layer, device.encode()))

    def set_pool(self, context: int, device: str, pool_bytes: int, staging_bytes: int) -> Result:
        """Resize the pool on `device`; may take as long as a layer's computing and the copies of kept experts."""
        return Result(self._library.expert_device_set_pool(context, device.encode(), pool_bytes, staging_bytes))

    def pool(self, context: int, device: str) -> PoolStruct:
        """What the pool on `device` is."""
        out = PoolStruct()
        self._check(self._library.expert_device_read_pool(context, device.encode(), ctypes.byref(out)))
        return out

    def set_policy(self, context: int, policy: CachePolicy, *, wait_for_copies: bool = False) -> None:
        """Say how the pool is filled; the values must have been checked. Memory is locked by the next `set_pool`."""
        given = policy_struct(policy, wait_for_copies=wait_for_copies)
        self._check(self._library.expert_device_set_policy(context, ctypes.byref(given)))
        self._check(self._library.expert_device_set_host_lock(context, policy.lock_bytes))

    def set_pins(self, context: int, pins: Iterable[ExpertPin]) -> None:
        """Set pins, all or (when one is refused) none."""
        entries = [pin_struct(pin.layer, pin.expert, pin.pin) for pin in pins]
        array = (PinEntryStruct * len(entries))(*entries)
        self._check(self._library.expert_device_set_pins(context, array, len(entries)))

    def set_heat(self, context: int, layer: int, heat: Iterable[float]) -> None:
        """Set the heat of one layer's experts, as saved from an earlier run."""
        values = np.fromiter(heat, dtype=np.float32)
        self._check(self._library.expert_device_set_heat(context, layer, values.ctypes.data, len(values)))

    # ---- main memory -------------------------------------------------------------------------

    def set_resident(self, context: int, resident_bytes: int) -> None:
        """Keep at most so many bytes of the mapped file's experts in main memory; 0 leaves that to the system."""
        self._check(self._library.expert_device_set_resident(context, resident_bytes))

    def set_memory_lock(self, context: int, most_bytes: int) -> None:
        """Lock at most so many bytes of the hottest experts in main memory, while there is a budget; 0 for none."""
        self._check(self._library.expert_device_set_memory_lock(context, most_bytes))

    def warm_up(self, context: int) -> None:
        """Read the hottest experts into main memory, in the background, as many as may stay there."""
        self._check(self._library.expert_device_warm_up(context))

    def release(self, context: int) -> None:
        """Give up the main memory that the mapped file's experts take."""
        self._check(self._library.expert_device_release(context))

    def memory(self, context: int) -> MemoryStruct:
        """What main memory holds of the mapped file's experts."""
        out = MemoryStruct()
        self._check(self._library.expert_device_read_memory(context, ctypes.byref(out)))
        return out

    def residents(self, context: int) -> npt.NDArray[np.uint8]:
        """Which experts main memory holds: [layers, experts], 0 for those it was found to lack."""
        found = np.ones(self.shape(context), dtype=np.uint8)
        self._check(self._library.expert_device_read_residents(context, found.ctypes.data, *found.shape))
        return found

    # ---- facts -------------------------------------------------------------------------------

    def shape(self, context: int) -> tuple[int, int]:
        """One past the highest layer seen, and the experts of the widest layer."""
        layers, experts = i32(), i32()
        self._check(self._library.expert_device_shape(context, ctypes.byref(layers), ctypes.byref(experts)))
        return layers.value, experts.value

    def routing(self, context: int, phase: Phase) -> npt.NDArray[np.uint64]:
        """Routings since the context was made.

        Returns:
            uint64 [layers, experts]; layers the device does not compute hold zeros.
        """
        counts = np.zeros(self.shape(context), dtype=np.uint64)
        self._check(self._library.expert_device_read_routing(context, int(phase), counts.ctypes.data, *counts.shape))
        return counts

    def experts(self, context: int) -> Experts:
        """Heat, lane and pin of every expert."""
        shape = self.shape(context)
        found = Experts(np.zeros(shape, np.float32), np.zeros(shape, np.uint8), np.zeros(shape, np.uint8))
        self._check(
            self._library.expert_device_read_experts(
                context, found.heat.ctypes.data, found.lane.ctypes.data, found.pin.ctypes.data, *shape
            )
        )
        return found

    def totals(self, context: int, phase: Phase) -> TotalsStruct:
        """Sums over one phase since the context was made."""
        out = TotalsStruct()
        self._check(self._library.expert_device_read_totals(context, int(phase), ctypes.byref(out)))
        return out

    def batches(self, context: int, since: int) -> list[TokenStruct]:
        """Batches whose index is `since` or more, oldest first, as far as they are kept."""
        out = (TokenStruct * _BATCHES_AT_ONCE)()
        count = self._library.expert_device_read_tokens(context, since, out, _BATCHES_AT_ONCE)
        return list(out[: max(count, 0)])

    def set_trace(self, context: int, capacity: int) -> None:
        """Begin to record decoded routings, of which `capacity` are kept until they are read; 0 ends it."""
        self._check(self._library.expert_device_set_trace(context, capacity))

    def read_trace(self, context: int, limit: int) -> tuple[bytes, int, int]:
        """Take recorded routings out, oldest first.

        Returns:
            Their bytes (12 each, as in `RoutingEntryStruct`), how many they are, how many were lost for
            want of room since recording began.
        """
        out, dropped = (RoutingEntryStruct * limit)(), u64()
        count = max(self._library.expert_device_read_trace(context, out, limit, ctypes.byref(dropped)), 0)
        return bytes(memoryview(out).cast("B")[: count * ctypes.sizeof(RoutingEntryStruct)]), count, dropped.value

    def rates(self, context: int, device: str) -> RatesStruct | None:
        """What copies and products were measured to cost on `device`; None where nothing was measured."""
        out = RatesStruct()
        result = self._library.expert_device_read_rates(context, device.encode(), ctypes.byref(out))
        if result == Result.NOT_READY:
            return None
        self._check(result)
        return out

    def work(self, context: int) -> tuple[int, int]:
        """Graphs and nodes `context` has computed."""
        graphs, nodes = u64(), u64()
        self._check(self._library.expert_device_read_work(context, ctypes.byref(graphs), ctypes.byref(nodes)))
        return graphs.value, nodes.value

    def _check(self, result: int) -> None:
        if result != Result.OK:
            words = RESULT_WORDS.get(Result(result), "")
            raise AppError(ErrorCode.ENGINE_FAILED, f"The native expert device refused: {words}.")

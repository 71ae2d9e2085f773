"""The ctypes face of the native trace simulator (`engine/native/simulate.h`): one method for each of its functions."""

import ctypes
import enum
from ctypes import POINTER
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from app import native_library
from app.errors import AppError, ErrorCode
from app.placement.plan import POLICIES, CachePolicy

ABI = 1
QUARTERS = 4

_i32, _i64, _f32, _raw = ctypes.c_int32, ctypes.c_int64, ctypes.c_float, ctypes.c_void_p


class LayerTrace(NamedTuple):
    """What one layer was routed to.

    Attributes:
        experts: How many the layer has.
        starts: int64 [steps + 1]: step i (a decoded token of this layer) has the entries from starts[i] to before
            starts[i + 1].
        routed: int32 [entries], experts. Those of one step are distinct.
        weights: float32 [entries], routing weights, NaN where unknown.
    """

    experts: int
    starts: npt.NDArray[np.int64]
    routed: npt.NDArray[np.int32]
    weights: npt.NDArray[np.float32]

    @property
    def steps(self) -> int:
        """Decoded tokens of this layer."""
        return len(self.starts) - 1


class LayerCounts(NamedTuple):
    """What a cache made of one layer's routing; each array is int64 [QUARTERS], by quarter of the layer's steps.

    Attributes:
        hits: Routed experts that were in the pool when their token came. misses: those that were not.
        inserts: Experts copied in. evictions: those that lost their slot to another.
        filled: Experts copied in before the first step.
    """

    hits: npt.NDArray[np.int64]
    misses: npt.NDArray[np.int64]
    inserts: npt.NDArray[np.int64]
    evictions: npt.NDArray[np.int64]
    filled: int


class _LayerStruct(ctypes.Structure):
    """`expert_simulator_layer`."""

    _fields_ = (("experts", _i32), ("steps", _i64), ("starts", _raw), ("routed", _raw), ("weights", _raw))


class _PolicyStruct(ctypes.Structure):
    """`expert_simulator_policy`."""

    _fields_ = (
        ("kind", _i32),
        ("insert_cap", _i32),
        ("window", _i32),
        ("decay", _f32),
        ("margin", _f32),
        ("threshold", _f32),
    )


class _Result(enum.IntEnum):
    OK = 0
    BAD_ARGUMENT = 1
    BAD_ROUTING = 2
    NO_MEMORY = 3


_REFUSALS = {
    _Result.BAD_ARGUMENT: (ErrorCode.BAD_USAGE, "The simulator refused the values."),
    _Result.BAD_ROUTING: (
        ErrorCode.FILE_UNREADABLE,
        "The routing is damaged: a token is routed to an expert that the layer does not have, or to one twice.",
    ),
    _Result.NO_MEMORY: (ErrorCode.OUT_OF_MEMORY, "There is not enough memory to simulate this trace."),
}
_SIGNATURES: dict[str, list[Any]] = {
    "lru_curve": [POINTER(_LayerStruct), _f32, _raw],
    "replay": [POINTER(_LayerStruct), POINTER(_PolicyStruct), _i32, _raw, _raw, _raw, POINTER(_i32)],
    "oracle": [POINTER(_LayerStruct), _i32, _i32, _raw, POINTER(_i32)],
}


class SimulatorLibrary:
    """The simulator, loaded. Its methods keep nothing and may be called from any thread.

    Raises:
        AppError: engine_missing, the library is absent or of another version.
    """

    def __init__(self, path: Path | None = None) -> None:
        words = "The native trace simulator"
        try:
            self._library = ctypes.CDLL(str(path or native_library.find("placement", "expert_simulator", words)))
            abi = self._library.expert_simulator_abi()
        except (OSError, AttributeError) as error:
            raise AppError(
                ErrorCode.ENGINE_MISSING, f"{words} cannot be loaded.", native_library.why_not_loaded(error)
            ) from error
        if abi != ABI:
            raise AppError(ErrorCode.ENGINE_MISSING, f"{words} has interface {abi}, expected {ABI}.")
        for name, arguments in _SIGNATURES.items():
            function = getattr(self._library, f"expert_simulator_{name}")
            function.restype, function.argtypes = _i32, arguments

    def lru_curve(self, layer: LayerTrace, decay: float) -> npt.NDArray[np.int64]:
        """Hits of a plain LRU cache: int64 [QUARTERS, experts + 1], by slots from 0 on.

        Args:
            layer: The routing.
            decay: Of the heat that decides which expert of one token goes first, above 0 to 1.
        """
        hits = np.zeros((QUARTERS, layer.experts + 1), dtype=np.int64)
        _check(self._library.expert_simulator_lru_curve(_struct(layer), decay, hits.ctypes.data))
        return hits

    def replay(
        self,
        layer: LayerTrace,
        policy: CachePolicy,
        slots: int,
        pins: npt.NDArray[np.uint8] | None = None,
        heat: npt.NDArray[np.float32] | None = None,
    ) -> LayerCounts:
        """What `policy` makes of the layer with `slots` slots.

        Args:
            layer: The routing.
            policy: The settings, valid.
            slots: From 0; more than the layer has experts are as many as that.
            pins: uint8 [experts], index into plan.PINS.
            heat: float32 [experts], as saved: slots are filled by it, and pins placed, before the first step.
        """
        settings = _PolicyStruct(
            kind=POLICIES.index(policy.kind),
            insert_cap=policy.insert_cap,
            window=policy.window,
            decay=policy.decay,
            margin=policy.margin,
            threshold=policy.threshold,
        )
        pins = None if pins is None else np.ascontiguousarray(pins, dtype=np.uint8)
        heat = None if heat is None else np.ascontiguousarray(heat, dtype=np.float32)
        for given in (pins, heat):
            if given is not None and given.shape != (layer.experts,):
                raise AppError(ErrorCode.BAD_USAGE, "Pins and heat must be one value for each expert of the layer.")
        counts, filled = np.zeros((QUARTERS, 4), dtype=np.int64), _i32()
        _check(
            self._library.expert_simulator_replay(
                _struct(layer), ctypes.byref(settings), slots, _address(pins), _address(heat), counts.ctypes.data,
                ctypes.byref(filled),
            )
        )  # fmt: skip
        return _counts(counts, filled.value)

    def oracle(self, layer: LayerTrace, slots: int, *, prefilled: bool) -> LayerCounts:
        """The most hits that a cache of `slots` slots can have that copies in only what was just routed.

        Args:
            layer: The routing.
            slots: From 0.
            prefilled: It starts with the experts that are routed to first, otherwise empty.
        """
        counts, filled = np.zeros((QUARTERS, 4), dtype=np.int64), _i32()
        _check(
            self._library.expert_simulator_oracle(
                _struct(layer), slots, int(prefilled), counts.ctypes.data, ctypes.byref(filled)
            )
        )
        return _counts(counts, filled.value)


@lru_cache(maxsize=1)
def simulator_library() -> SimulatorLibrary:
    """The installed library, loaded once.

    Raises:
        AppError: engine_missing, the library is absent or of another version.
    """
    return SimulatorLibrary()


def _struct(layer: LayerTrace) -> _LayerStruct:
    """The layer as the library sees it; valid while `layer` lives."""
    entries = len(layer.routed)
    for array, kind, size in (
        (layer.starts, np.int64, len(layer.starts)),
        (layer.routed, np.int32, entries),
        (layer.weights, np.float32, entries),
    ):
        if array.dtype != kind or array.shape != (size,) or not array.flags.c_contiguous:
            raise AppError(ErrorCode.BAD_USAGE, "A layer's routing must be plain arrays of its documented types.")
    if not len(layer.starts) or layer.starts[-1] != entries:
        raise AppError(ErrorCode.BAD_USAGE, "A layer's steps must end where its entries do.")
    return _LayerStruct(
        layer.experts, layer.steps, layer.starts.ctypes.data, layer.routed.ctypes.data, layer.weights.ctypes.data
    )


def _counts(counts: npt.NDArray[np.int64], filled: int) -> LayerCounts:
    hits, misses, inserts, evictions = counts.T
    return LayerCounts(hits, misses, inserts, evictions, filled)


def _address(array: npt.NDArray[Any] | None) -> int | None:
    return None if array is None else array.ctypes.data


def _check(result: int) -> None:
    if result != _Result.OK:
        raise AppError(*_REFUSALS[_Result(result)])

"""What crosses the C interface of the native expert device: its enums and structures, as `ctypes` sees them.

Field by field those of `native/expert_device.h`; a test compares their sizes with the library's own.
"""

import ctypes
import enum

from app.placement.plan import PINS, POLICIES, STREAMS, CachePolicy

i32, u64, f32, f64 = ctypes.c_int32, ctypes.c_uint64, ctypes.c_float, ctypes.c_double


class Result(enum.IntEnum):
    """What a call of the library answers."""

    OK = 0
    WRONG_GGML = 1
    NO_CPU = 2
    NO_CONTEXT = 3
    BAD_ARGUMENT = 4
    NO_DEVICE = 5
    NOT_READY = 6
    NO_MEMORY = 7
    UNSUPPORTED = 8
    NO_SOURCE = 9
    DEVICE_FAILED = 10


RESULT_WORDS = {
    Result.WRONG_GGML: "the expert device was built for another ggml",
    Result.NO_CPU: "there is no CPU backend",
    Result.NO_CONTEXT: "the model is no longer loaded",
    Result.BAD_ARGUMENT: "the expert device refused the values",
    Result.NO_DEVICE: "the device is not there or cannot be started",
    Result.NOT_READY: "no expert layer was computed yet",
    Result.NO_MEMORY: "the device has not enough free memory",
    Result.UNSUPPORTED: "the device cannot compute these experts",
    Result.NO_SOURCE: "the experts' bytes were not found in the model file",
    Result.DEVICE_FAILED: "the device failed while computing or copying",
}


class Phase(enum.IntEnum):
    """What the next graphs count as."""

    PROMPT = 0
    DECODE = 1
    IGNORE = 2


class Residency(enum.IntEnum):
    """Where the experts of models loaded from now on are kept on the CPU side."""

    MAPPED = 0
    REPACKED = 1


LANE_LETTERS = "cgm"  # by the library's lane: CPU, GPU, being copied
PIN_LETTERS = "agc"  # by its pin: automatic, GPU, CPU


class PolicyStruct(ctypes.Structure):
    """`expert_device_policy`."""

    _fields_ = (
        ("kind", i32),
        ("insert_cap", i32),
        ("window", i32),
        ("decay", f32),
        ("margin", f32),
        ("threshold", f32),
        ("stream", i32),
        ("wait_for_copies", i32),
    )


class LayerStruct(ctypes.Structure):
    """`expert_device_layer`."""

    _fields_ = (
        ("layer", i32),
        ("experts", i32),
        ("used", i32),
        ("residency", i32),
        ("expert_bytes", u64),
        ("slots", i32),
        ("resident", i32),
    )


class PoolStruct(ctypes.Structure):
    """`expert_device_pool`."""

    _fields_ = (
        ("requested", u64),
        ("allocated", u64),
        ("staging", u64),
        ("working", u64),
        ("locked", u64),
        ("ahead", u64),
        ("slots", i32),
        ("resident", i32),
        ("unplaced_pins", i32),
        ("result", i32),
        ("reason", ctypes.c_char * 256),
    )


class TotalsStruct(ctypes.Structure):
    """`expert_device_totals`."""

    _fields_ = tuple(
        (name, u64)
        for name in (
            "tokens", "hits", "misses", "streamed", "inserts", "evictions", "inserted_bytes", "streamed_bytes",
            "layers", "total_ns", "cpu_ns", "gpu_ns", "wait_ns", "gather_ns", "scatter_ns",
            "cold_experts", "cold_reads", "cold_bytes", "stall_ns",
        )
    )  # fmt: skip


class TokenStruct(ctypes.Structure):
    """`expert_device_token`."""

    _fields_ = (
        ("index", u64),
        ("tokens", i32),
        ("phase", i32),
        ("hits", i32),
        ("misses", i32),
        ("streamed", i32),
        ("copied_bytes", u64),
        ("cpu_ns", u64),
        ("gpu_ns", u64),
        ("wait_ns", u64),
        ("total_ns", u64),
        ("cold_experts", i32),
        ("cold_reads", i32),
        ("cold_bytes", u64),
        ("stall_ns", u64),
    )


class RoutingEntryStruct(ctypes.Structure):
    """`expert_device_routing_entry`; the same 12 bytes as an entry of a trace file."""

    _fields_ = (
        ("token", ctypes.c_uint32),
        ("layer", ctypes.c_int16),
        ("expert", ctypes.c_int16),
        ("weight", f32),
    )


class PinEntryStruct(ctypes.Structure):
    """`expert_device_pin_entry`."""

    _fields_ = (("layer", i32), ("expert", i32), ("pin", i32))


class MemoryStruct(ctypes.Structure):
    """`expert_device_memory`."""

    _fields_ = (
        *(
            (name, u64)
            for name in (
                "budget",
                "trusted",
                "resident",
                "total",
                "evictions",
                "stale",
                "failures",
                "refused",
                "locked",
            )
        ),
        ("on", i32),
        ("reason", ctypes.c_char * 256),
    )


class RatesStruct(ctypes.Structure):
    """`expert_device_rates`."""

    _fields_ = tuple(
        (name, f64)
        for name in (
            "copy_bytes_per_second", "cpu_first_row_ns", "cpu_next_row_ns", "gpu_first_row_ns", "gpu_next_row_ns",
            "break_even_rows",
        )
    )  # fmt: skip


def policy_struct(policy: CachePolicy, *, wait_for_copies: bool = False) -> PolicyStruct:
    """A policy whose values were checked, as the library takes it."""
    return PolicyStruct(
        kind=POLICIES.index(policy.kind),
        insert_cap=policy.insert_cap,
        window=policy.window,
        decay=policy.decay,
        margin=policy.margin,
        threshold=policy.threshold,
        stream=STREAMS.index(policy.stream),
        wait_for_copies=wait_for_copies,
    )


def pin_struct(layer: int, expert: int, pin: str) -> PinEntryStruct:
    """A pin, one of `PINS`, as the library takes it."""
    return PinEntryStruct(layer=layer, expert=expert, pin=PINS.index(pin))

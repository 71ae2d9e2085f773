"""The ctypes face of the native measurements (`native/calibrate.h`): one method for each function."""

import ctypes
from ctypes import POINTER
from pathlib import Path
from typing import Any

from app.engine.cache import library_path
from app.engine.cache_types import Result
from app.errors import AppError, ErrorCode

CPU = "CPU"

i32, i64, u64, real = ctypes.c_int32, ctypes.c_int64, ctypes.c_uint64, ctypes.c_double
text = ctypes.c_char_p


class Pass(ctypes.Structure):
    """One run: its seconds, the bytes it read or copied, and its floating-point operations."""

    _fields_ = (("seconds", real), ("bytes", u64), ("flops", u64))


class Shares(ctypes.Structure):
    """What is left of each rate while all go on at once, as shares of 1."""

    _fields_ = (("cpu", real), ("device", real), ("copy", real))


_SIGNATURES: dict[str, tuple[Any, list[Any]]] = {
    "open": (i32, [text, POINTER(i64)]),
    "weights": (i32, [i64, text, i32, u64]),
    "run": (i32, [i64, i32, i32, POINTER(Pass)]),
    "layer": (i32, [i64, i32, POINTER(real)]),
    "copy": (i32, [i64, i32, i32, POINTER(Pass)]),
    "together": (i32, [i64, i64, i32, i32, POINTER(Shares)]),
    "close": (None, [i64]),
}


class BenchError(Exception):
    """The library refused or the device failed; `result` says which."""

    def __init__(self, result: Result) -> None:
        super().__init__(result.name)
        self.result = result


class Bench:
    """One ggml device with made-up expert weights; `close` it, or use it as a context manager.

    The expert device must have been registered, which proves that library and engine fit. One thread for all calls.

    Raises:
        BenchError: from every method, with the library's result.
        AppError: engine_missing, the library has no such functions.
    """

    def __init__(self, device: str, path: Path | None = None) -> None:
        self.device = device
        self._library = ctypes.CDLL(str(path or library_path()))
        try:
            for name, (result, arguments) in _SIGNATURES.items():
                function = getattr(self._library, f"expert_calibrate_{name}")
                function.restype, function.argtypes = result, arguments
        except AttributeError as error:
            message = "The native expert device cannot measure: it is of another version."
            raise AppError(ErrorCode.ENGINE_MISSING, message, str(error)) from error
        bench = i64()
        _check(self._library.expert_calibrate_open(device.encode(), ctypes.byref(bench)))
        self._bench = bench.value

    def __enter__(self) -> "Bench":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Free its memory."""
        self._library.expert_calibrate_close(self._bench)

    def set_weights(self, kind: str, *, repacked: bool, most_bytes: int) -> None:
        """Weights of ggml's type `kind` instead of those before, within `most_bytes`."""
        _check(self._library.expert_calibrate_weights(self._bench, kind.encode(), repacked, most_bytes))

    def run(self, threads: int, tokens: int) -> Pass:
        """Compute once with the weights: one token through layer after layer, or a batch through one."""
        out = Pass()
        _check(self._library.expert_calibrate_run(self._bench, threads, tokens, ctypes.byref(out)))
        return out

    def layer(self, threads: int) -> float:
        """Seconds of a layer beside its products."""
        out = real()
        _check(self._library.expert_calibrate_layer(self._bench, threads, ctypes.byref(out)))
        return out.value

    def copy(self, *, to_device: bool, pinned: bool) -> Pass:
        """Copy some slices of experts to the device or from it."""
        out = Pass()
        _check(self._library.expert_calibrate_copy(self._bench, to_device, pinned, ctypes.byref(out)))
        return out

    def together(self, device: "Bench", threads: int, tokens: int) -> Shares:
        """This bench, the processor's, and batches on `device` with copies to it, all at once; both have weights."""
        out = Shares()
        done = self._library.expert_calibrate_together(self._bench, device._bench, threads, tokens, ctypes.byref(out))
        _check(done)
        return out


def _check(result: int) -> None:
    if result != Result.OK:
        raise BenchError(Result(result))

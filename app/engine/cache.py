"""The ctypes face of the native expert device (`native/expert_device.h`)."""

import ctypes
import enum
import sys
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import app.engine
from app.errors import AppError, ErrorCode

ABI = 1
MAX_LAYERS = 1024


class Phase(enum.IntEnum):
    """What the next graphs count as."""

    PROMPT = 0
    DECODE = 1
    IGNORE = 2


def library_path() -> Path:
    """The built library, beside this package (in the source tree or in the installed one).

    Raises:
        AppError: engine_missing, it is in neither.
    """
    name = "expert_device.dll" if sys.platform == "win32" else "libexpert_device.so"
    for folder in app.engine.__path__:
        for path in (Path(folder) / name, Path(folder) / f"lib{name}"):
            if path.exists():
                return path
    raise AppError(ErrorCode.ENGINE_MISSING, f"The native expert device ({name}) is not installed.")


class ExpertDevice:
    """The device registered with this process's ggml; one object a process.

    Create it after ggml's backends are loaded and before any model is.

    Raises:
        AppError: engine_missing when the library is absent, engine_failed when it was built for
            another ggml or another interface.
    """

    def __init__(self, path: Path | None = None) -> None:
        try:
            self._library = ctypes.CDLL(str(path or library_path()))
        except OSError as error:
            raise AppError(
                ErrorCode.ENGINE_MISSING, "The native expert device cannot be loaded.", str(error)
            ) from error
        self._declare()
        if self._library.expert_device_abi() != ABI:
            raise AppError(
                ErrorCode.ENGINE_FAILED,
                f"The native expert device has interface {self._library.expert_device_abi()}, expected {ABI}.",
            )
        result = self._library.expert_device_register()
        if result == 1:
            raise AppError(
                ErrorCode.ENGINE_FAILED,
                f"The native expert device was built for ggml {self.built_for}, this is ggml {self.running_with}.",
            )
        if result != 0:
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

    def set_model_tag(self, tag: int) -> None:
        """Tensors loaded from now on are counted under `tag` (not 0)."""
        self._library.expert_device_set_model_tag(tag)

    def owned_layers(self, tag: int) -> frozenset[int]:
        """Layers whose expert tensors of the model `tag` the device holds."""
        layers = (ctypes.c_uint8 * MAX_LAYERS)()
        self._library.expert_device_owned_layers(tag, layers, MAX_LAYERS)
        return frozenset(index for index, owned in enumerate(layers) if owned)

    def owned_bytes(self, tag: int) -> int:
        """Bytes of the tensors of the model `tag` that the device holds."""
        return int(self._library.expert_device_owned_bytes(tag))

    def last_context(self) -> int:
        """Id of the llama.cpp context this thread made last, 0 for none."""
        return int(self._library.expert_device_last_context())

    def set_phase(self, context: int, phase: Phase) -> None:
        """Say what the next graphs of `context` count as."""
        self._check(self._library.expert_device_set_phase(context, int(phase)))

    def routing(self, context: int, phase: Phase) -> npt.NDArray[np.uint64]:
        """Routings since the context was made.

        Returns:
            uint64 [layers, experts]; layers the device does not compute hold zeros.
        """
        layers, experts = ctypes.c_int32(), ctypes.c_int32()
        self._check(self._library.expert_device_shape(context, ctypes.byref(layers), ctypes.byref(experts)))
        counts = np.zeros((layers.value, experts.value), dtype=np.uint64)
        self._check(
            self._library.expert_device_read_routing(
                context, int(phase), counts.ctypes.data, layers.value, experts.value
            )
        )
        return counts

    def work(self, context: int) -> tuple[int, int]:
        """Graphs and nodes `context` has computed."""
        graphs, nodes = ctypes.c_uint64(), ctypes.c_uint64()
        self._check(self._library.expert_device_read_work(context, ctypes.byref(graphs), ctypes.byref(nodes)))
        return graphs.value, nodes.value

    def _check(self, result: int) -> None:
        if result != 0:
            raise AppError(ErrorCode.ENGINE_FAILED, f"The native expert device answered {result}.")

    def _declare(self) -> None:
        i32, i64, u8 = ctypes.c_int32, ctypes.c_int64, ctypes.c_uint8
        pointer = ctypes.POINTER
        table: dict[str, tuple[Any, list[Any]]] = {
            "abi": (i32, []),
            "built_for": (ctypes.c_char_p, []),
            "running_with": (ctypes.c_char_p, []),
            "register": (i32, []),
            "last_context": (i64, []),
            "set_phase": (i32, [i64, i32]),
            "owned_layers": (i32, [i64, pointer(u8), i32]),
            "owned_bytes": (ctypes.c_uint64, [i64]),
            "set_model_tag": (None, [i64]),
            "shape": (i32, [i64, pointer(i32), pointer(i32)]),
            "read_routing": (i32, [i64, i32, ctypes.c_void_p, i32, i32]),
            "read_work": (i32, [i64, pointer(ctypes.c_uint64), pointer(ctypes.c_uint64)]),
        }
        for name, (result, arguments) in table.items():
            function = getattr(self._library, f"expert_device_{name}")
            function.restype, function.argtypes = result, arguments

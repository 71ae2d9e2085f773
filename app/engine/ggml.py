"""ggml's own functions that llama-cpp-python does not declare: backends, devices, versions."""

import ctypes
import itertools
import re
import sys
from dataclasses import dataclass
from pathlib import Path

import llama_cpp
from llama_cpp import llama_cpp as _llama  # noqa: F401 - loads the libraries this module looks up

from app.hardware.facts import Gpu, GpuKind
from app.native_library import why_not_loaded

# Vulkan drivers that compute on the CPU announce themselves as a GPU; their names are all they can be told by.
_SOFTWARE_DRIVERS = ("llvmpipe", "swiftshader", "lavapipe", "basic render driver")
_TYPE_GPU, _TYPE_INTEGRATED = 1, 2

# The engine's backends as files of their own, but for the processor's and what all of them share.
_BACKEND_FILE = re.compile(r"^(?:lib)?ggml-(?!base|cpu)(\w+)\.(?:so|dll)$")

BACKEND_INTERFACE = 2
"""Version of the interface between ggml and its backends in this engine: the first number of every registration."""


@dataclass(frozen=True)
class Device:
    """A ggml device: its handle and what it says of itself."""

    handle: int
    name: str
    description: str
    backend: str
    type: int


def library_folder() -> Path:
    """Where the installed engine's libraries lie."""
    return Path(llama_cpp.__file__).parent / "lib"


def not_loaded(folder: Path, loaded: tuple[str, ...]) -> tuple[str, ...]:
    """Why backends that lie in `folder` are not among `loaded`, one sentence each; ggml says nothing of it.

    What computes on the processor is left out: of several builds one is loaded.
    """
    there = {found[1]: path for path in sorted(folder.iterdir()) if (found := _BACKEND_FILE.match(path.name))}
    have = {name.casefold() for name in loaded}
    sentences = []
    for name, path in there.items():
        if name in have:
            continue
        try:
            ctypes.CDLL(str(path))
            reason = "it found nothing that it could use"
        except OSError as error:
            reason = why_not_loaded(error)
        sentences.append(f"The engine's part for {name.capitalize()} could not be loaded: {reason}.")
    return tuple(sentences)


class _DeviceProperties(ctypes.Structure):
    """`ggml_backend_dev_props` of backend API 2."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("description", ctypes.c_char_p),
        ("memory_free", ctypes.c_size_t),
        ("memory_total", ctypes.c_size_t),
        ("type", ctypes.c_int),
        ("device_id", ctypes.c_char_p),
        ("capabilities", ctypes.c_bool * 5),
    )


class _Feature(ctypes.Structure):
    """`ggml_backend_feature`: a name and "1", "0" or a word; the last of a list has no name."""

    _fields_ = (("name", ctypes.c_char_p), ("value", ctypes.c_char_p))


class BufferTypeOverride(ctypes.Structure):
    """`llama_model_tensor_buft_override`: tensors matching the pattern go to the buffer type."""

    _fields_ = (("pattern", ctypes.c_char_p), ("buffer_type", ctypes.c_void_p))


def _loaded_library(name: str) -> ctypes.CDLL:
    """The very library that libllama uses.

    The wheel holds each library under several names as separate files. Only the name in libllama's
    own dependencies (the soname) is the copy with the registry that matters; by path another would load.
    """
    if sys.platform == "win32":
        return ctypes.CDLL(str(library_folder() / f"{name}.dll"))
    return ctypes.CDLL(f"lib{name}.so.0")


class Ggml:
    """The process's ggml. `load_backends` first; the rest reads its registry."""

    def __init__(self) -> None:
        self._base = _loaded_library("ggml-base")
        self._ggml = _loaded_library("ggml")
        pointer, text, size = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t
        for library, name, result, arguments in (
            (self._base, "ggml_version", text, []),
            (self._base, "ggml_backend_dev_name", text, [pointer]),
            (self._base, "ggml_backend_dev_description", text, [pointer]),
            (self._base, "ggml_backend_dev_type", ctypes.c_int, [pointer]),
            (self._base, "ggml_backend_dev_get_props", None, [pointer, ctypes.POINTER(_DeviceProperties)]),
            (self._base, "ggml_backend_dev_backend_reg", pointer, [pointer]),
            (self._base, "ggml_backend_dev_buffer_type", pointer, [pointer]),
            (self._base, "ggml_backend_reg_name", text, [pointer]),
            (self._base, "ggml_backend_reg_get_proc_address", pointer, [pointer, text]),
            (self._ggml, "ggml_backend_load_all_from_path", None, [text]),
            (self._ggml, "ggml_backend_register", None, [pointer]),
            (self._ggml, "ggml_backend_dev_count", size, []),
            (self._ggml, "ggml_backend_dev_get", pointer, [size]),
            (self._ggml, "ggml_backend_reg_count", size, []),
            (self._ggml, "ggml_backend_reg_get", pointer, [size]),
        ):
            function = getattr(library, name)
            function.restype, function.argtypes = result, arguments

    @property
    def version(self) -> str:
        """ggml's version, such as 0.25.3."""
        return str(self._base.ggml_version().decode())

    def load_backends(self) -> None:
        """Load every backend library that lies beside the engine and whose driver is present."""
        self._ggml.ggml_backend_load_all_from_path(str(library_folder()).encode())

    def register_backend(self, library: ctypes.CDLL) -> str:
        """Offer the backend of a library that is loaded already.

        Not by its path, as ggml can: on Windows that takes only paths in the system's old code page.

        Returns:
            Why it is none for this process, as a sentence; empty where it is offered now.
        """
        begin = getattr(library, "ggml_backend_init", None)
        if begin is None:
            return "it is no backend of ggml."
        score = getattr(library, "ggml_backend_score", None)
        if score is not None and score() == 0:
            return "this machine does not have what it is made for."
        begin.restype, begin.argtypes = ctypes.c_void_p, []
        registration = begin()
        if not registration:
            return "it found no driver."
        interface = ctypes.c_int.from_address(registration).value
        if interface != BACKEND_INTERFACE:
            return f"its interface is of version {interface}, and this engine has {BACKEND_INTERFACE}."
        self._ggml.ggml_backend_register(registration)
        return ""

    def backends(self) -> tuple[str, ...]:
        """Names of the loaded backends."""
        return tuple(
            str(self._base.ggml_backend_reg_name(self._ggml.ggml_backend_reg_get(i)).decode())
            for i in range(self._ggml.ggml_backend_reg_count())
        )

    def cpu_features(self) -> tuple[str, ...]:
        """What the code for the processor was built with, most of it instruction sets; empty where it does not tell."""
        address = self.cpu_function("ggml_backend_get_features")
        if address is None:
            return ()
        features = ctypes.CFUNCTYPE(ctypes.POINTER(_Feature), ctypes.c_void_p)(address)(self._cpu())
        listed = itertools.takewhile(lambda feature: feature.name, (features[place] for place in itertools.count()))
        return tuple(feature.name.decode() for feature in listed if feature.value == b"1")

    def cpu_function(self, name: str) -> int | None:
        """Address of a function that the processor's backend offers by name; None where it does not."""
        reg = self._cpu()
        found = self._base.ggml_backend_reg_get_proc_address(reg, name.encode()) if reg else None
        return int(found) if found else None

    def _cpu(self) -> int | None:
        """Handle of the processor's backend; None where none was loaded."""
        for index in range(self._ggml.ggml_backend_reg_count()):
            reg = self._ggml.ggml_backend_reg_get(index)
            if self._base.ggml_backend_reg_name(reg) == b"CPU":
                return int(reg)
        return None

    def devices(self) -> tuple[Device, ...]:
        """Every registered device, the CPU and accelerators included."""
        found = []
        for index in range(self._ggml.ggml_backend_dev_count()):
            handle = self._ggml.ggml_backend_dev_get(index)
            reg = self._base.ggml_backend_dev_backend_reg(handle)
            found.append(
                Device(
                    handle=handle,
                    name=self._base.ggml_backend_dev_name(handle).decode(),
                    description=self._base.ggml_backend_dev_description(handle).decode(errors="replace"),
                    backend=self._base.ggml_backend_reg_name(reg).decode(),
                    type=self._base.ggml_backend_dev_type(handle),
                )
            )
        return tuple(found)

    def gpus(self) -> tuple[Gpu, ...]:
        """The GPUs with their memory now, as the drivers report it."""
        found = []
        for device in self.devices():
            if device.type not in (_TYPE_GPU, _TYPE_INTEGRATED):
                continue
            properties = _DeviceProperties()
            self._base.ggml_backend_dev_get_props(device.handle, ctypes.byref(properties))
            software = any(name in device.description.lower() for name in _SOFTWARE_DRIVERS)
            integrated = GpuKind.INTEGRATED if device.type == _TYPE_INTEGRATED else GpuKind.DISCRETE
            found.append(
                Gpu(
                    name=device.description,
                    backend=device.backend,
                    device=device.name,
                    kind=GpuKind.SOFTWARE if software else integrated,
                    total_bytes=properties.memory_total,
                    free_bytes=properties.memory_free,
                    pci_id=properties.device_id.decode() if properties.device_id else None,
                )
            )
        return tuple(found)

    def buffer_type(self, device: Device) -> int:
        """Handle of the device's default buffer type."""
        return int(self._base.ggml_backend_dev_buffer_type(device.handle))

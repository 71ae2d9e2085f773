"""PyInstaller: the native libraries of our own, beside the packages that use them (app/native_library.py)."""

from app import native_library

_LIBRARIES = (("engine", "expert_device"), ("placement", "expert_simulator"))
binaries = [(str(native_library.find(package, name, name)), f"app/{package}") for package, name in _LIBRARIES]

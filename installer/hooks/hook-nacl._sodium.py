"""PyInstaller: the library that checks signatures imports this from its C code, where no import is seen."""

hiddenimports = ["_cffi_backend"]

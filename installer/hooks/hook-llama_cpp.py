"""PyInstaller: llama_cpp and ggml load their libraries from the folder `lib` of the package."""

from pathlib import Path

from frozen_contents import is_engine_library
from PyInstaller.utils.hooks import get_module_file_attribute

_FOLDER = Path(get_module_file_attribute("llama_cpp")).parent / "lib"
binaries = [(str(file), "llama_cpp/lib") for file in sorted(_FOLDER.iterdir()) if is_engine_library(file.name)]

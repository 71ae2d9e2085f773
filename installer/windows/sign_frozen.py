"""Signs what is ours in a frozen folder: the two programs, and the libraries that were compiled for it.

The compiler's own libraries, which lie beside the engine's and come without a signature, are signed with them. What
others made, such as Python and Qt, stays as its makers signed it, or did not.
"""

from __future__ import annotations

from pathlib import Path

import frozen_contents
import nsis
from sign import Certificate, sign

_INTERNAL = "_internal"
_COMPILED = ("app", "llama_cpp/lib")


def own_files(frozen: Path) -> list[Path]:
    """The programs and libraries below `frozen` that are ours to sign, sorted.

    Raises:
        SystemExit: a program is missing, or there is no library: the folder is no frozen app.
    """
    programs = [frozen / name for name in nsis.PROGRAMS]
    libraries = [file for folder in _COMPILED for file in (frozen / _INTERNAL / folder).rglob("*.dll")]
    missing = [str(file) for file in programs if not file.is_file()]
    if missing or not libraries:
        raise SystemExit(f"sign: {', '.join(missing) or f'{frozen}: no library to sign'} is missing")
    return sorted([*programs, *libraries])


def sign_frozen(frozen: Path, certificate: Certificate) -> list[Path]:
    """Sign them, and have the records of what is installed tell of the files as they are then.

    Returns:
        The files that were signed.

    Raises:
        SystemExit: one could not be signed, or a record names a file that is not there.
    """
    files = own_files(frozen)
    for file in files:
        sign(file, certificate)
    internal = frozen / _INTERNAL
    ours = {file.relative_to(internal).as_posix() for file in files if file.is_relative_to(internal)}
    for record in sorted(internal.glob("*.dist-info/RECORD")):
        names = [line.partition(",")[0] for line in record.read_text("utf-8").splitlines()]
        if not ours.isdisjoint(names):
            gone = [name for name in names if not (internal / name).is_file()]
            if gone:
                raise SystemExit(f"sign: {record} names what is not there: {', '.join(gone)}")
            record.write_text(frozen_contents.record({name: internal / name for name in names}), "utf-8")
    return files

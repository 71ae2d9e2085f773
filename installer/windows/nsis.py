"""Makes the Windows installer of a frozen folder, with NSIS: `make_setup`. The script is setup.nsi.

The files are named one by one and sorted, so that the same folder gives the same installer; the list of their names
lies beside them where they are installed, and is all that an uninstaller or an update deletes.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path, PurePosixPath

import identity
import project
import sign

HERE = Path(__file__).resolve().parent
DRAWING = HERE.parents[1] / "resources" / "linux" / "expert-lanes.svg"
PROGRAMS = tuple(f"{name}.exe" for name in reversed(project.PROGRAMS))
"""The one with a window first."""
LIST_NAME = "installed-files.txt"
LIST_HEADER = "expert-lanes files 1"
"""The list's first line: its form, which the uninstallers of other versions must know."""
_REFUSED = re.compile(r'[<>:"|?*\\\x00-\x1f]|[. ]$|\$[{%(]|\.\.')
"""What no name may hold: what Windows forbids, what makensis would read, and two dots, for which the uninstaller would
pass the file over (trees.nsh)."""
_SIDE_PICTURE = "side.bmp"
_MEBIBYTE = 1 << 20
_SPARE_MEBIBYTES = 16  # for what file systems round up to, the uninstaller and shortcuts


def package_name(version: str) -> str:
    """What the names of the packages for Windows begin with."""
    return f"{project.NAME}-{version}-windows-x86_64"


def setup_file(version: str) -> Path:
    """Where the Setup of a version is made."""
    return project.DIST / f"{package_name(version)}-setup.exe"


def laid_names(frozen: Path) -> list[str]:
    """Every file below `frozen`, with slashes, in the order in which they are laid.

    Raises:
        SystemExit: a program is missing, or a name that Windows cannot have, or that it takes for another one's.
    """
    names = []
    for path in frozen.rglob("*"):
        name = path.relative_to(frozen).as_posix()
        if path.is_symlink():
            raise SystemExit(f"package: {name} is a link, which a Windows installer cannot lay")
        if any(_REFUSED.search(part) for part in name.split("/")):
            raise SystemExit(f"package: the installer can lay no file named {name!r}")
        if path.is_file():
            names.append(name)
    seen: dict[str, str] = {LIST_NAME: "the list of the files"}
    for name in names:
        other = seen.setdefault(name.lower(), name)
        if other != name:
            raise SystemExit(f"package: on Windows {name} and {other} are the same file")
    for program in PROGRAMS:
        if program not in names:
            raise SystemExit(f"package: {frozen} holds no {program}")
    # Of one kind together: files that are alike are packed best when they are near each other.
    return sorted(names, key=lambda name: (str(PurePosixPath(name).parent), PurePosixPath(name).suffix, name))


def file_list(names: list[str]) -> str:
    """The list that lies beside the files: its form, the programs first, every file, then the folders from below."""
    files = [*PROGRAMS, *sorted(name for name in names if name not in PROGRAMS)]
    folders = {str(folder) for name in names for folder in PurePosixPath(name).parents} - {"."}
    deepest_first = sorted(folders, key=lambda folder: (-folder.count("/"), folder))
    lines = [LIST_HEADER, *files, *(f"{folder}/" for folder in deepest_first)]
    return "".join(line.replace("/", "\\") + "\r\n" for line in lines)


def laying_script(frozen: str, names: list[str]) -> str:
    """The commands that lay the files below $Laid.

    Args:
        frozen: The folder, as makensis finds it from where setup.nsi is.
        names: What `laid_names` gave.
    """
    lines: list[str] = []
    before = None
    for name in names:
        folder = PurePosixPath(name).parent
        if folder != before:
            inner = "" if str(folder) == "." else "\\" + _quoted(str(folder).replace("/", "\\"))
            lines.append(f'SetOutPath "$Laid{inner}"')
            before = folder
        # A dollar begins a variable in the name under which it is laid, and is only itself in the name of what is read.
        file = PurePosixPath(name).name
        under = f'"/oname={_quoted(file)}" ' if "$" in file else ""
        lines.append(f'File {under}"{frozen}/{name}"')
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    return text.replace("$", "$$")


def needed_mebibytes(frozen: Path, names: list[str]) -> int:
    """Room that the installed files take, in MiB, rounded up."""
    size = sum((frozen / name).stat().st_size for name in names)
    return -(-size // _MEBIBYTE) + _SPARE_MEBIBYTES


def draw(folder: Path, version: str) -> None:
    """Draw into `folder` what the installer shows: its icon, and the picture beside the last page's words."""
    identity.lay(folder, DRAWING, version)
    from PySide6.QtCore import QRectF  # noqa: PLC0415 - needed by this alone, after what identity.py sets up for it
    from PySide6.QtGui import QColor, QImage, QPainter  # noqa: PLC0415
    from PySide6.QtSvg import QSvgRenderer  # noqa: PLC0415

    image = QImage(164, 314, QImage.Format.Format_RGB32)
    image.fill(QColor("#2b303b"))
    painter = QPainter(image)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    QSvgRenderer(str(DRAWING)).render(painter, QRectF(34, 40, 96, 96))
    painter.end()
    target = folder / _SIDE_PICTURE
    if not image.save(str(target), "BMP"):  # the size and the format are NSIS's
        raise SystemExit(f"package: {target} could not be written")


def make_setup(
    frozen: Path, version: str, date: int, target: Path, pictures: Path | None = None, *, quick: bool = False
) -> Path:
    """Make the installer. Where a certificate is configured (sign.py), it and its uninstaller are signed.

    Args:
        frozen: The folder with expert-lanes.exe, expert-lanes-window.exe and everything they need.
        version: Of the app; also the name of its folder where it is installed.
        date: The time that every file gets, in seconds since 1970; those in `frozen` are set to it.
        target: The file to write.
        pictures: The folder that `draw` has filled; None to draw anew, which needs Qt.
        quick: Pack nothing, which takes no time and much room: for an installer that is only tried.

    Returns:
        `target`.

    Raises:
        SystemExit: NSIS is missing or failed, nothing is drawn in `pictures`, `frozen` cannot be installed on Windows,
            or it could not be signed.
    """
    program = shutil.which("makensis")
    if program is None:
        raise SystemExit("package: makensis is missing; on Debian it is in the package nsis")
    certificate = sign.configured()
    names = laid_names(frozen)
    for name in names:
        os.utime(frozen / name, (date, date))
    target.parent.mkdir(parents=True, exist_ok=True)
    target.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        _lay_pictures(scratch, version, pictures)
        listed, script = scratch / LIST_NAME, scratch / "files.nsh"
        listed.write_bytes(file_list(names).encode("utf-16-le"))
        # Relative: makensis works where setup.nsi is, and takes what begins with a slash for an option.
        script.write_text(laying_script(os.path.relpath(frozen, HERE), names), "utf-8")
        for file in scratch.iterdir():
            os.utime(file, (date, date))  # some of them are in the installer too, with their times
        told = {
            "VERSION": version,
            "VERSION_NUMBERS": ".".join(str(number) for number in identity.numbers(version)),
            "TARGET": os.path.relpath(target, HERE),
            "FILES": os.path.relpath(script, HERE),
            "LIST": os.path.relpath(listed, HERE),
            "LIST_HEADER": LIST_HEADER,
            "LONGEST_NAME": str(max(len(name.encode("utf-16-le")) // 2 for name in [*names, LIST_NAME])),
            "NEEDED_MB": str(needed_mebibytes(frozen, names)),
            "ICON": os.path.relpath(scratch / identity.ICON, HERE),
            "SIDE_PICTURE": os.path.relpath(scratch / _SIDE_PICTURE, HERE),
        }
        if certificate is not None:
            told["SIGN"] = f'"{sys.executable}" "{HERE / "sign.py"}"'
        if quick:
            told["QUICK"] = "1"
        command = [program, "-V2", "-WX", "-INPUTCHARSET", "UTF8", *(f"-D{key}={value}" for key, value in told.items())]
        done = subprocess.run(
            [*command, "setup.nsi"],
            cwd=HERE,
            # In a locale without Unicode, makensis dies of a file's name that is not of ASCII.
            env=dict(os.environ, SOURCE_DATE_EPOCH=str(date), LC_ALL="C.UTF-8"),
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
    if done.returncode != 0 or not target.is_file():
        raise SystemExit(f"package: makensis failed ({done.returncode})\n{(done.stdout + done.stderr).strip()[-4000:]}")
    if certificate is not None:
        try:
            sign.sign(target, certificate)
        except BaseException:
            target.unlink()  # one without a signature must not be taken for the one with it
            raise
    return target


def _lay_pictures(scratch: Path, version: str, pictures: Path | None) -> None:
    if pictures is None:
        draw(scratch, version)
        return
    for file in (pictures / identity.ICON, pictures / _SIDE_PICTURE):
        if not file.is_file():
            raise SystemExit(f"package: {file} is not drawn")
        shutil.copyfile(file, scratch / file.name)

"""What a Debian package tells of itself: control, changelog, copyright, manual page, lintian's exceptions. Pure."""

from __future__ import annotations

import datetime
import email.utils
import re
from collections.abc import Iterable, Sequence
from pathlib import PurePosixPath

from licences import Part
from project import NAME

# There is no address yet at which anybody reads; lintian is told so.
MAINTAINER = "Expert Lanes contributors <contributors@expertlanes.invalid>"
RECOMMENDED = ("mesa-vulkan-drivers | vulkan-icd",)
LICENCES = f"usr/share/doc/{NAME}/licenses"
_NO_LICENCE = "not-stated"
_MOST_LISTED = 60

# Each with its reason, which stands above it in the file; others are mended instead.
OVERRIDES = {
    "unstripped-binary-or-object": "Qt, NumPy and others are as their makers publish them, for any distribution.",
    "shared-library-lacks-prerequisites": "Some of Python's modules, and ICU's data, call nothing outside themselves.",
    "library-not-linked-against-libc": "Some of Python's modules call only Python.",
    "hardening-no-pie": "The programs' first step is PyInstaller's, as its makers publish it.",
    "embedded-library": "Python and PyYAML bring their own copies, and another distribution's bzip2 has another name.",
    "initial-upload-closes-no-bugs": "The package is not made for an upload to Debian.",
}


def control(version: str, architecture: str, kibibytes: int, depends: Iterable[str], recommends: Iterable[str]) -> str:
    """The file DEBIAN/control.

    Args:
        version: With Debian's revision.
        architecture: As dpkg calls it.
        kibibytes: What the installed files take.
        depends: Packages without which it does not start.
        recommends: Packages without which it does less.
    """
    return f"""Package: {NAME}
Version: {version}
Section: science
Priority: optional
Architecture: {architecture}
Maintainer: {MAINTAINER}
Installed-Size: {kibibytes}
Depends: {", ".join(depends)}
Recommends: {", ".join([*recommends, *RECOMMENDED])}
Description: local chat with Mixture-of-Experts models
 Shows which experts of a model work, where each layer's experts are computed
 and what that costs, and lets you move them between the graphics card and the
 processor while you chat. A small demo model is made on first use; nothing is
 downloaded.
"""


def changelog(version: str, date: int) -> str:
    """The changelog of the packaging, for the release of `date` (seconds since 1970)."""
    day = email.utils.format_datetime(datetime.datetime.fromtimestamp(date, datetime.UTC))
    return f"""{NAME} ({version}) unstable; urgency=medium

  * Release {version.rpartition("-")[0]}, frozen with all that it needs but the system's own libraries.

 -- {MAINTAINER}  {day}
"""


def copyright_file(parts: Sequence[Part], year: int) -> str:
    """The copyright file, in paragraphs of fields; the texts themselves lie beside it, in the folder `licenses`."""
    paragraphs = [
        "Upstream-Name: Expert Lanes\n"
        "Comment: The package was made with PyInstaller from the parts below, each under its own licence. Their\n"
        f" texts are in /{LICENCES}, each in a folder of the part's name.",
        f"Files: *\nCopyright: {year} Expert Lanes contributors\nLicense: {_NO_LICENCE}",
    ]
    for part in parts:
        patterns = _patterns(part)
        if patterns:
            paragraphs.append(
                "Files: " + "\n ".join(patterns) + "\n"
                "Copyright: "
                + "\n ".join(_holders(part))
                + f"\nLicense: {_short_name(part)}\nComment: {part.name} {part.version}".rstrip()
            )
    paragraphs.append(f"License: {_NO_LICENCE}\n The contributors have not stated a licence for their own work yet.")
    for name in sorted({_short_name(part) for part in parts if _patterns(part)}):
        folders = "\n".join(
            f" {_place(part, text)}" for part in parts if _short_name(part) == name for text in part.texts
        )
        paragraphs.append(f"License: {name}\n The whole text:\n{folders}")
    return "\n\n".join(paragraphs) + "\n"


def _patterns(part: Part) -> list[str]:
    """Where the part's own files are: each of few, the folders of many. Modules in the programs are no files."""
    paths = [PurePosixPath(file) for file in part.files if "/" in file or re.search(r"\.so(\.|$)|\.zip$", file)]
    few = len(paths) <= _MOST_LISTED
    found = {f"usr/lib/{NAME}/_internal/{path if few else f'{path.parts[0]}/*'}" for path in paths}
    if part.name.lower() == "pyinstaller":
        found |= {f"usr/lib/{NAME}/{NAME}", f"usr/lib/{NAME}/{NAME}-window"}
    return sorted(pattern.replace(" ", "?") for pattern in found)


def _place(part: Part, text: str) -> str:
    """Where a licence's text is: Debian's own copy where there is one, as its policy asks."""
    if re.fullmatch(r"(L?GPL|GFDL|MPL|Apache|CC0|Artistic|BSD)(-[\d.]+)?", text):
        return f"/usr/share/common-licenses/{text}"
    return f"/{LICENCES}/{part.name}/{text}"


def _holders(part: Part) -> list[str]:
    """The lines of its licences that name who holds the rights."""
    lines = []
    for text in part.texts.values():
        lines += re.findall(
            r"^\W*(?:copyright:?\s*)+(?:\(c\)|©)?\W*(\d{4}[^\n]*[\w>)])", text, re.IGNORECASE | re.MULTILINE
        )
    return list(dict.fromkeys(line.strip() for line in lines)) or [f"the makers of {part.name}"]


def _short_name(part: Part) -> str:
    """The licence in one word, as the format asks; one that is told in a sentence goes by its part's name."""
    plain = re.sub(r"[^\w.+-]+", "-", part.licence).strip("-")
    return (
        plain if re.fullmatch(r"[\w.+ -]{2,40}", part.licence) and len(part.licence.split()) <= 3 else part.name.lower()
    )


def manual_page(version: str, date: int, commands: Iterable[tuple[str, str]]) -> str:
    """The manual page of both programs, in man's format.

    Args:
        version: The app's.
        date: Seconds since 1970.
        commands: Names of the program's commands, each with one line about it.
    """
    day = datetime.datetime.fromtimestamp(date, datetime.UTC).date().isoformat()
    listed = "".join(f".TP\n.B {_roff(name)}\n{_roff(line)}\n" for name, line in commands)
    return f""".TH EXPERT\\-LANES 1 "{day}" "Expert Lanes {_roff(version)}" "User Commands"
.SH NAME
expert\\-lanes, expert\\-lanes\\-window \\- local chat with Mixture\\-of\\-Experts models
.SH SYNOPSIS
.B expert\\-lanes\\-window
.RI [ FILE.gguf ]
.PP
.B expert\\-lanes
.I COMMAND
.RI [ OPTION ...]
.SH DESCRIPTION
.B expert\\-lanes\\-window
opens the window: choose a model in a GGUF file, see where each layer's experts are computed and what that costs, and
move them between the graphics card and the processor while you chat. With a file it opens with that model chosen.
.PP
.B expert\\-lanes
is the same program for a terminal. Each command tells its options with
.BR \\-\\-help .
.SH COMMANDS
{listed}.SH EXIT STATUS
0 done, 2 bad usage, 3 missing, damaged or unsupported model, 4 out of memory, 5 engine failure.
.SH ENVIRONMENT
.TP
.B EXPERT_LANES_HOME
The folder for everything that the program writes, in place of the user's data, cache and log folders.
"""


def _roff(text: str) -> str:
    """Text that man shows as it stands."""
    plain = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{plain}" if plain.startswith((".", "'")) else plain


def overrides() -> str:
    """The file that tells lintian what does not apply, and why."""
    return "".join(f"# {reason}\n{NAME}: {tag}\n" for tag, reason in OVERRIDES.items())

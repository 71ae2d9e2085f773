"""Taking out of a record what is nobody else's concern: serial numbers, user names, paths below a home folder."""

import re
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from app.hardware import smbios
from app.hardware.windows_calls import without_serials

_T = TypeVar("_T", bound=msgspec.Struct)

_GPU_UUID = re.compile(r"\b(?:GPU|MIG)-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", re.IGNORECASE)
_SERIAL_LINE = re.compile(r"^((?:Serial|E:\w*(?:SERIAL|UUID|ASSET)\w*)\s*[:=]).*$", re.MULTILINE)
_IDENTIFIER = re.compile(r"(?<=[/\\_-])[0-9a-f]{32,}\b")
HIDDEN = "(scrubbed)"
"""What stands in a record for what was taken out."""
_STATUS = "proc/self/status"
_TABLE = "sys/firmware/dmi/tables/DMI"
_WINDOWS_TABLE = "windows.GetSystemFirmwareTable.RSMB"
_NO_HOST = {"", "localhost"}


def scrubbed(snapshot: _T, home: Path | None = None, host: str | None = None) -> _T:
    """`snapshot` without what is private, and with a sentence in its `scrubbed` for each kind that was taken out.

    Args:
        snapshot: A `snapshot.Snapshot`.
        home: The user's home folder; this user's by default.
        host: The machine's name on the network; its own by default.
    """
    data = msgspec.to_builtins(snapshot)
    done: dict[str, None] = {}
    _scrub_tables(data, done)
    if status := data["files"].get(_STATUS):
        kept = [line for line in status.splitlines() if line.startswith("Cpus_allowed_list:")]
        data["files"][_STATUS] = "".join(f"{line}\n" for line in kept)
        done["All but the allowed processors of this program's status."] = None
    folder = home or Path.home()
    name = socket.gethostname() if host is None else host
    data = _each_text(data, lambda text: _scrub_text(text, folder, name, done))
    data["scrubbed"] = [*data["scrubbed"], *done]
    return msgspec.convert(data, type(snapshot))


def _scrub_tables(data: dict[str, Any], done: dict[str, None]) -> None:
    """The firmware's tables: what is read of them, without serial numbers."""
    words = (
        "Serial numbers, asset tags, the machine's UUID and all entries that are not used, of the firmware's tables."
    )
    table = data["files"].get(_TABLE)
    if isinstance(table, dict):
        table["hex"] = smbios.without_private_parts(bytes.fromhex(table["hex"])).hex()
        done[words] = None
    elif isinstance(table, str):
        data["files"][_TABLE] = {"hex": smbios.without_private_parts(table.encode()).hex()}
        done[words] = None
    answer = data["answers"].get(_WINDOWS_TABLE)
    if answer and answer.get("value"):
        answer["value"] = without_serials(answer["value"])
        done[words] = None


def _scrub_text(text: str, home: Path, host: str, done: dict[str, None]) -> str:
    text, serials = _SERIAL_LINE.subn(rf"\1{HIDDEN}", text)
    if serials:
        done["Serial numbers."] = None
    text = _GPU_UUID.sub(lambda found: _numbered(found[0], done), text)
    text, identifiers = _IDENTIFIER.subn(HIDDEN, text)
    if identifiers:
        done["Identifiers of containers and sessions."] = None
    if len(home.parts) > 1:
        # To the end of the line: names of folders may hold blanks.
        text, paths = re.subn(re.escape(str(home)) + r"[^\n\"']*", f"~/{HIDDEN}", text)
        if paths:
            done["Paths below the home folder."] = None
        user = re.escape(home.name)
        text, users = re.subn(rf"(?<=[/\\]){user}(?![\w.-])", "user", text)
        if users and home.name != "root":
            done["The user's name in paths."] = None
    if host.lower() not in _NO_HOST:
        text, hosts = re.subn(rf"(?<=[/\\]){re.escape(host)}(?![\w.-])", "host", text)
        if hosts:
            done["The machine's name in paths."] = None
    return text


def _numbered(uuid: str, done: dict[str, None]) -> str:
    """A name in place of a card's own: the same card stays the same within one record."""
    words = "NVIDIA's names of cards (UUID)."
    done[words] = None
    return f"{uuid[:3]}-00000000-0000-0000-0000-{sum(uuid.encode()) % 10**12:012d}"


def _each_text(data: Any, change: Callable[[str], str]) -> Any:
    if isinstance(data, str):
        return change(data)
    if isinstance(data, dict):
        if data.keys() == {"hex"}:
            return data  # bytes, of which the private parts were taken out before
        return {change(key) if isinstance(key, str) else key: _each_text(value, change) for key, value in data.items()}
    if isinstance(data, (list, tuple)):
        return [_each_text(value, change) for value in data]
    return data

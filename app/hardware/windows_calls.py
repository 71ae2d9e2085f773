"""Calls of Windows that only the probe makes; each through `Answers`, so that its bytes can be recorded.

Importable everywhere; the calls themselves work on Windows only.
"""

import ctypes
import mmap
import struct
import sys
from dataclasses import dataclass
from typing import Any

from app.hardware import smbios
from app.hardware.answers import Answers
from app.hardware.sources import NotSeenError

_NOT_WINDOWS = "This is not Windows."
_RSMB = 0x52534D42
# RawSMBIOSData before its table: Used20CallingMethod, major and minor version, DmiRevision, Length.
_FIRMWARE_HEAD = struct.Struct("<4BI")
_DRIVE_REMOTE = 4
_QUERY_PROPERTY = 0x2D1400
# STORAGE_PROPERTY_QUERY: PropertyId, QueryType (standard), AdditionalParameters.
_QUERY = struct.Struct("<II4x")
_DEVICE_PROPERTY, _SEEK_PROPERTY = 0, 7
_BUS_PLACE = 28
"""Of BusType in STORAGE_DEVICE_DESCRIPTOR."""
_BUSES = {
    3: "SATA",
    7: "USB",
    8: "RAID",
    9: "network",
    10: "SAS",
    11: "SATA",
    12: "MMC",
    13: "MMC",
    14: "virtual",
    15: "virtual",
    16: "RAID",
    17: "NVMe",
}
# ENUM_PAGE_FILE_INFORMATION on 64-bit Windows: its size, Reserved, TotalSize, TotalInUse, PeakUsage; in pages.
_PAGE_FILE = struct.Struct("<II3Q")
_DISPLAY_CLASS = r"SYSTEM\CurrentControlSet\Control\Class\{4d36e968-e325-11ce-bfc1-08002be10318}"


@dataclass(frozen=True)
class Drive:
    """The drive of a folder: whether it is another machine's, and what its driver answers, as hex; empty for nothing.

    Attributes:
        device: A STORAGE_DEVICE_DESCRIPTOR.
        seek: A DEVICE_SEEK_PENALTY_DESCRIPTOR.
    """

    kind: int
    device: str = ""
    seek: str = ""

    @property
    def network(self) -> bool:
        """Whether it is a share."""
        return self.kind == _DRIVE_REMOTE

    @property
    def bus(self) -> str | None:
        """As in `Disk.bus`."""
        if self.network:
            return "network"
        answer = _bytes(self.device)
        return _BUSES.get(int.from_bytes(answer[_BUS_PLACE : _BUS_PLACE + 4], "little")) if answer else None

    @property
    def rotational(self) -> bool | None:
        """Whether a search costs time, which Windows knows of hard disks."""
        answer = _bytes(self.seek)
        return bool(answer[8]) if len(answer) > 8 else None


@dataclass(frozen=True)
class PageFiles:
    """What Windows may write out of main memory, in bytes; nothing where it has no page file."""

    total_bytes: int
    used_bytes: int


def firmware_tables(answers: Answers) -> bytes:
    """The firmware's tables without the head that Windows adds.

    Raises:
        NotSeenError: Windows gives none, or something else.
    """
    raw = _bytes(answers.ask("windows.GetSystemFirmwareTable.RSMB", _firmware_table, str))
    if len(raw) < _FIRMWARE_HEAD.size:
        raise NotSeenError("Windows gave firmware tables that cannot be read.")
    length = _FIRMWARE_HEAD.unpack_from(raw)[4]
    return raw[_FIRMWARE_HEAD.size : _FIRMWARE_HEAD.size + length]


def without_serials(answer: str) -> str:
    """An answer that `firmware_tables` reads, without serial numbers."""
    raw = _bytes(answer)
    table = smbios.without_private_parts(raw[_FIRMWARE_HEAD.size :])
    return (raw[:4] + len(table).to_bytes(4, "little") + table).hex()


def power_status(answers: Answers) -> bytes:
    """SYSTEM_POWER_STATUS."""
    return _bytes(answers.ask("windows.GetSystemPowerStatus", _power_status, str))


def power_scheme(answers: Answers) -> str:
    """The active power scheme's GUID, in small letters."""
    return answers.ask("windows.PowerGetActiveScheme", _power_scheme, str).lower()


def cache_records(answers: Answers) -> bytes:
    """What GetLogicalProcessorInformationEx(RelationCache) wrote."""
    return _bytes(answers.ask("windows.GetLogicalProcessorInformationEx.cache", lambda: _processor_records(2), str))


def core_records(answers: Answers) -> bytes:
    """What GetLogicalProcessorInformationEx(RelationProcessorCore) wrote."""
    return _bytes(answers.ask("windows.GetLogicalProcessorInformationEx.core", lambda: _processor_records(0), str))


def numa_nodes(answers: Answers) -> int:
    """How many memory nodes there are."""
    return answers.ask("windows.GetNumaHighestNodeNumber", _highest_node, int) + 1


def display_drivers(answers: Answers) -> tuple[tuple[str, str], ...]:
    """Name and driver version of every graphics card that has a driver, from the registry."""
    return answers.ask("windows.registry.display", _display_drivers, tuple[tuple[str, str], ...])


def drive(answers: Answers, folder: str) -> Drive:
    """The drive that `folder` is on."""
    return answers.ask("windows.drive", lambda: _drive(folder), Drive)


def _bytes(digits: str) -> bytes:
    try:
        return bytes.fromhex(digits)
    except ValueError as error:
        raise NotSeenError("An answer of Windows is not written in hexadecimal digits.") from error


def _library(name: str) -> Any:
    if sys.platform != "win32":
        raise NotSeenError(_NOT_WINDOWS)
    return ctypes.WinDLL(name, use_last_error=True)


def _firmware_table() -> str:
    ask = _library("kernel32").GetSystemFirmwareTable
    ask.argtypes = [ctypes.c_uint32, ctypes.c_uint32, ctypes.c_void_p, ctypes.c_uint32]
    ask.restype = ctypes.c_uint32
    size = ask(_RSMB, 0, None, 0)
    buffer = ctypes.create_string_buffer(size or 1)
    written = ask(_RSMB, 0, buffer, size)
    if not size or written != size:
        raise NotSeenError("Windows does not give the firmware's tables.")
    return buffer.raw[:written].hex()


def _power_status() -> str:
    ask = _library("kernel32").GetSystemPowerStatus
    ask.argtypes, ask.restype = [ctypes.c_void_p], ctypes.c_int
    buffer = ctypes.create_string_buffer(12)
    if not ask(buffer):
        raise NotSeenError("Windows does not tell where its power comes from.")
    return buffer.raw.hex()


def _power_scheme() -> str:
    import uuid  # noqa: PLC0415 - Windows only

    ask = _library("powrprof").PowerGetActiveScheme
    ask.argtypes, ask.restype = [ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p)], ctypes.c_uint32
    scheme = ctypes.c_void_p()
    if ask(None, ctypes.byref(scheme)) or not scheme.value:
        raise NotSeenError("Windows does not tell its power scheme.")
    try:
        return str(uuid.UUID(bytes_le=ctypes.string_at(scheme.value, 16)))
    finally:
        free = _library("kernel32").LocalFree
        free.argtypes, free.restype = [ctypes.c_void_p], ctypes.c_void_p
        free(scheme)


def _processor_records(relation: int) -> str:
    ask = _library("kernel32").GetLogicalProcessorInformationEx
    ask.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(ctypes.c_ulong)]
    ask.restype = ctypes.c_int
    size = ctypes.c_ulong(0)
    ask(relation, None, ctypes.byref(size))  # only tells the size, and fails by design
    buffer = ctypes.create_string_buffer(size.value or 1)
    if not ask(relation, buffer, ctypes.byref(size)):
        raise NotSeenError("Windows does not describe the processor.")
    return buffer.raw[: size.value].hex()


def _highest_node() -> int:
    ask = _library("kernel32").GetNumaHighestNodeNumber
    ask.argtypes, ask.restype = [ctypes.POINTER(ctypes.c_ulong)], ctypes.c_int
    highest = ctypes.c_ulong(0)
    if not ask(ctypes.byref(highest)):
        raise NotSeenError("Windows does not tell its memory nodes.")
    return int(highest.value)


def page_files() -> PageFiles:
    """All page files together, asked live.

    Raises:
        NotSeenError: this is not Windows, or it does not list them.
    """
    if sys.platform != "win32":
        raise NotSeenError(_NOT_WINDOWS)
    pages: list[tuple[int, int]] = []

    def take(_context: int | None, record: int, _name: str | None) -> int:
        _size, _reserved, total, used, _peak = _PAGE_FILE.unpack(ctypes.string_at(record, _PAGE_FILE.size))
        pages.append((total, used))
        return 1

    taker = ctypes.WINFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_wchar_p)
    ask = _library("kernel32").K32EnumPageFilesW
    ask.argtypes, ask.restype = [taker, ctypes.c_void_p], ctypes.c_int
    if not ask(taker(take), None):
        raise NotSeenError("Windows does not list its page files.")
    return PageFiles(*(mmap.PAGESIZE * sum(sizes) for sizes in (zip(*pages, strict=True) if pages else ((), ()))))


def _display_drivers() -> tuple[tuple[str, str], ...]:
    if sys.platform != "win32":
        raise NotSeenError(_NOT_WINDOWS)
    import winreg  # noqa: PLC0415 - exists on Windows only

    found = []
    with winreg.OpenKey(winreg.HKEY_LOCAL_MACHINE, _DISPLAY_CLASS) as folder:
        for index in range(winreg.QueryInfoKey(folder)[0]):
            try:
                with winreg.OpenKey(folder, winreg.EnumKey(folder, index)) as key:
                    name, version = (
                        str(winreg.QueryValueEx(key, value)[0]) for value in ("DriverDesc", "DriverVersion")
                    )
            except OSError:
                continue  # a key without a driver, or one that programs may not read
            found.append((name, version))
    return tuple(found)


def _drive(folder: str) -> Drive:
    kernel = _library("kernel32")
    volume = ctypes.create_unicode_buffer(1024)
    kernel.GetVolumePathNameW.argtypes = [ctypes.c_wchar_p, ctypes.c_wchar_p, ctypes.c_ulong]
    if not kernel.GetVolumePathNameW(folder, volume, len(volume)):
        raise NotSeenError("Windows does not tell which drive the models are on.")
    kernel.GetDriveTypeW.argtypes, kernel.GetDriveTypeW.restype = [ctypes.c_wchar_p], ctypes.c_uint
    kind = int(kernel.GetDriveTypeW(volume.value))
    root = volume.value.rstrip("\\")
    if kind == _DRIVE_REMOTE or not root.endswith(":"):
        return Drive(kind)
    kernel.CreateFileW.restype = ctypes.c_void_p
    kernel.CreateFileW.argtypes = [
        ctypes.c_wchar_p, ctypes.c_ulong, ctypes.c_ulong, ctypes.c_void_p, ctypes.c_ulong, ctypes.c_ulong,
        ctypes.c_void_p,
    ]  # fmt: skip
    # Without any right to read: enough to ask what it is, and no administrator is needed. 3: shared; 3: if it is there.
    handle = kernel.CreateFileW(f"\\\\.\\{root}", 0, 3, None, 3, 0, None)
    if handle in (None, ctypes.c_void_p(-1).value):
        return Drive(kind)
    try:
        return Drive(kind, *(_storage_answer(kernel, handle, number) for number in (_DEVICE_PROPERTY, _SEEK_PROPERTY)))
    finally:
        kernel.CloseHandle.argtypes = [ctypes.c_void_p]
        kernel.CloseHandle(handle)


def _storage_answer(kernel: Any, handle: int, number: int) -> str:
    query = _QUERY.pack(number, 0)
    answer = ctypes.create_string_buffer(1024)
    written = ctypes.c_ulong(0)
    kernel.DeviceIoControl.argtypes = [
        ctypes.c_void_p, ctypes.c_ulong, ctypes.c_char_p, ctypes.c_ulong, ctypes.c_void_p, ctypes.c_ulong,
        ctypes.POINTER(ctypes.c_ulong), ctypes.c_void_p,
    ]  # fmt: skip
    done = kernel.DeviceIoControl(
        handle, _QUERY_PROPERTY, query, len(query), answer, len(answer), ctypes.byref(written), None
    )
    # The descriptor's head is enough; what follows holds the disk's serial number.
    return answer.raw[: min(written.value, 36)].hex() if done else ""

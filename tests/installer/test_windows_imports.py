"""What Windows' programs and libraries are linked to, read from tiny ones, and what of it may be outside of the app."""

import struct
import subprocess

import imports
import mingw
import pe
import pytest

SECTION, RAW = 0x1000, 0x200


def tiny_library(linked, delayed=None):
    """A library of Windows without code: `linked` names libraries, each with functions or their numbers."""
    content = bytearray()

    def put(data):
        content.extend(bytes(-len(content) % 8))
        address = SECTION + len(content)
        content.extend(data)
        return address

    def functions(asked):
        entries = [1 << 63 | each if isinstance(each, int) else put(b"\0\0" + each.encode() + b"\0") for each in asked]
        return put(b"".join(struct.pack("<Q", entry) for entry in (*entries, 0)))

    now = [(functions(asked), put(name.encode() + b"\0")) for name, asked in linked.items()]
    late = [(functions(asked), put(name.encode() + b"\0")) for name, asked in (delayed or {}).items()]
    directories = [(0, 0)] * 16
    rows = [struct.pack("<IIIII", names, 0, 0, name, names) for names, name in now]
    directories[1] = (put(b"".join(rows) + bytes(20)), 20 * len(rows))
    if late:
        rows = [struct.pack("<IIIIIIII", 1, name, 0, names, names, 0, 0, 0) for names, name in late]
        directories[13] = (put(b"".join(rows) + bytes(32)), 32 * len(rows))
    optional = struct.pack("<H106xI", 0x20B, 16) + b"".join(struct.pack("<II", *entry) for entry in directories)
    section = struct.pack("<8sIIII16x", b".idata", len(content), SECTION, len(content), RAW)
    header = b"MZ".ljust(0x3C, b"\0") + struct.pack("<I", 0x40)
    coff = b"PE\0\0" + struct.pack("<HHIIIHH", 0x8664, 1, 0, 0, 0, len(optional), 0x2022)
    return (header + coff + optional + section).ljust(RAW, b"\0") + bytes(content)


# ---- what a library is linked to ----------------------------------------------------------------


def test_libraries_and_functions_that_a_file_asks_for_are_read_also_those_loaded_later():
    made = tiny_library({"KERNEL32.dll": ["Sleep", 7], "Qt6Core.dll": ["qVersion"]}, {"dwmapi.dll": ["DwmFlush"]})
    assert pe.parse_imports(made) == {
        "kernel32.dll": ("Sleep", "#7"),
        "qt6core.dll": ("qVersion",),
        "dwmapi.dll": ("DwmFlush",),
    }


def test_a_library_that_asks_for_nothing_has_no_imports():
    assert pe.parse_imports(tiny_library({})) == {}


@pytest.mark.parametrize("size", [0, 1, 0x3E, 0x48, 0x60, 0x150, RAW + 4, RAW + 40])
def test_a_file_that_is_cut_off_is_told_and_not_taken_for_one_without_imports(size):
    whole = tiny_library({"KERNEL32.dll": ["Sleep"]})
    assert size < len(whole)
    with pytest.raises(pe.NotPeError):
        pe.parse_imports(whole[:size])


def test_a_file_of_another_system_is_told_with_its_name(tmp_path):
    path = tmp_path / "other.dll"
    path.write_bytes(b"\x7fELF" + bytes(200))
    with pytest.raises(pe.NotPeError, match=r"other\.dll"):
        pe.imports(path)


def test_what_the_compiler_for_windows_links_is_read(tmp_path):
    if not mingw.is_here():
        pytest.skip("no compiler for Windows here")
    source = tmp_path / "asks.c"
    source.write_text("__declspec(dllimport) void Sleep(unsigned long);\nvoid waits(void) { Sleep(1); }\n")
    library = tmp_path / "asks.dll"
    subprocess.run([mingw.tool("gcc"), "-shared", "-o", str(library), str(source)], check=True)
    found = pe.imports(library)
    assert "Sleep" in found["kernel32.dll"]
    assert not set(found) & {name.lower() for name in mingw.RUNTIME}


def test_needs_are_told_by_the_names_that_files_have_whatever_their_case(tmp_path):
    (tmp_path / "a.pyd").write_bytes(tiny_library({"QT6CORE.DLL": ["qVersion"], "kernel32.dll": ["Sleep"]}))
    (tmp_path / "b.dll").write_bytes(tiny_library({}))
    files = {"PySide6/QtCore.pyd": tmp_path / "a.pyd", "PySide6/Qt6Core.dll": tmp_path / "b.dll"}
    assert pe.needs_among(files) == {"PySide6/QtCore.pyd": {"Qt6Core.dll"}, "PySide6/Qt6Core.dll": set()}


# ---- what may be outside of the frozen app -------------------------------------------------------


def test_libraries_in_the_app_or_in_windows_are_found():
    found = imports.compare(
        {
            "expert-lanes.exe": ["kernel32.dll", "api-ms-win-crt-runtime-l1-1-0.dll"],
            "_internal/python311.dll": ["vcruntime140.dll", "ws2_32.dll"],
            "_internal/VCRUNTIME140.dll": ["ucrtbase.dll"],
            "_internal/PySide6/QtCore.pyd": ["qt6core.dll", "python3.dll"],
            "_internal/PySide6/plugins/platforms/qwindows.dll": ["qt6core.dll"],
            "_internal/PySide6/Qt6Core.dll": ["icuuc.dll"],
            "_internal/python3.dll": [],
            "_internal/llama_cpp/lib/ggml-vulkan.dll": ["ggml-base.dll", "vulkan-1.dll"],
            "_internal/llama_cpp/lib/ggml-base.dll": ["msvcrt.dll"],
            "_internal/app/engine/expert_device.dll": ["ggml-base.dll"],
        }
    )
    assert found.missing == {}
    assert found.files == 10
    assert found.system["vulkan-1.dll"] == "_internal/llama_cpp/lib/ggml-vulkan.dll"


@pytest.mark.parametrize(
    "library", ["msvcp140.dll", "vcruntime140_1.dll", "libstdc++-6.dll", "vcomp140.dll", "qt6pdf.dll", "libomp.dll"]
)
def test_a_library_that_a_fresh_windows_lacks_is_missing(library):
    asks = "_internal/llama_cpp/lib/ggml.dll"
    assert imports.compare({asks: [library]}).missing == {library: (asks,)}


def test_a_library_where_windows_does_not_look_is_missing():
    found = imports.compare({"_internal/app/engine/x.dll": ["y.dll"], "_internal/numpy/linalg/y.dll": []})
    assert found.missing == {"y.dll": ("_internal/app/engine/x.dll",)}


def test_the_check_ends_the_build_with_what_lacks_and_who_asks(tmp_path):
    (tmp_path / "app.exe").write_bytes(tiny_library({"KERNEL32.dll": ["Sleep"], "lacks.dll": ["all"]}))
    with pytest.raises(SystemExit, match=r"lacks\.dll, which app\.exe needs"):
        imports.check(tmp_path)
    (tmp_path / "lacks.dll").write_bytes(tiny_library({}))
    assert imports.check(tmp_path).system == {"kernel32.dll": "app.exe"}


def test_every_library_that_may_be_outside_has_its_reason():
    for reason in (*imports.OF_THE_SYSTEM.values(), *imports.SEARCHED.values()):
        assert len(reason.split()) >= 2

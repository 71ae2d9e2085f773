"""Signatures of the Windows programs, by a certificate made here: what is signed, what stays, what is never told."""

import shutil
import struct
import subprocess
import sys
from pathlib import Path

import certificates
import frozen_contents
import nsis
import pytest
import sign
import sign_frozen

COMPILER = "x86_64-w64-mingw32-gcc"
DATE = 1_767_225_600


@pytest.fixture(scope="session")
def signing_tools():
    if certificates.lacking() or shutil.which(COMPILER) is None:
        pytest.skip("osslsigncode, openssl or MinGW is not installed.")


@pytest.fixture(scope="session")
def authority(tmp_path_factory, signing_tools):
    return certificates.make(tmp_path_factory.mktemp("certificate"))


@pytest.fixture
def configured(authority, monkeypatch):
    """A certificate is configured."""
    for name, value in certificates.environment(authority).items():
        monkeypatch.setenv(name, value)
    return sign.configured()


@pytest.fixture(autouse=True)
def unconfigured(monkeypatch):
    for name in (sign.CERTIFICATE, sign.PASSWORD, sign.TIMESTAMP_URL):
        monkeypatch.delenv(name, raising=False)


def has_signature(file):
    """True where a program's header tells of a signature at all."""
    content = file.read_bytes()
    (header,) = struct.unpack_from("<I", content, 0x3C)
    return struct.unpack_from("<I", content, header + 24 + 112 + 4 * 8)[0] != 0


@pytest.fixture(scope="session")
def library(tmp_path_factory, signing_tools):
    folder = tmp_path_factory.mktemp("library")
    (folder / "empty.c").write_text("int answer(void) { return 42; }\n")
    subprocess.run([COMPILER, "-shared", "-s", "-o", folder / "empty.dll", folder / "empty.c"], check=True)
    return folder / "empty.dll"


OURS = ("_internal/app/engine/expert_device.dll", "_internal/llama_cpp/lib/ggml.dll")
OTHERS = ("_internal/python311.dll", "_internal/PySide6/Qt6Core.dll")


@pytest.fixture
def frozen(tmp_path, library):
    """A folder as a frozen app's: programs and libraries of ours and of others, with the records of what is in it."""
    folder = tmp_path / "frozen"
    for name in (*nsis.PROGRAMS, *OURS, *OTHERS):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(library, folder / name)
    for name in nsis.PROGRAMS:
        with (folder / name).open("ab") as program:
            program.write(b"what PyInstaller hangs on a program, of an odd length")
    (folder / "_internal" / "readme.txt").write_text("a text")
    for distribution, name in (("expert_lanes-1", OURS[0]), ("llama_cpp_python-1", OURS[1]), ("other-1", OTHERS[0])):
        info = folder / "_internal" / f"{distribution}.dist-info"
        info.mkdir()
        inner = name.removeprefix("_internal/")
        (info / "RECORD").write_text(frozen_contents.record({inner: folder / name}), "utf-8")
    return folder


def test_the_programs_and_the_libraries_compiled_for_it_are_signed_and_those_of_others_stay(
    frozen, configured, authority
):
    before = {name: (frozen / name).read_bytes() for name in OTHERS}
    record = (frozen / "_internal" / "other-1.dist-info" / "RECORD").read_bytes()
    signed = sign_frozen.sign_frozen(frozen, configured)
    assert {file.relative_to(frozen).as_posix() for file in signed} == {*nsis.PROGRAMS, *OURS}
    assert all(certificates.has_signed(authority, file) for file in signed)
    assert {name: (frozen / name).read_bytes() for name in OTHERS} == before
    assert (frozen / "_internal" / "other-1.dist-info" / "RECORD").read_bytes() == record
    assert not [path for path in frozen.rglob("*") if path.name.startswith("tmp")]


def test_the_records_tell_of_the_files_as_they_are_once_signed(frozen, configured):
    sign_frozen.sign_frozen(frozen, configured)
    for distribution, name in (("expert_lanes-1", OURS[0]), ("llama_cpp_python-1", OURS[1])):
        record = (frozen / "_internal" / f"{distribution}.dist-info" / "RECORD").read_text()
        assert record == frozen_contents.record({name.removeprefix("_internal/"): frozen / name})


def test_signing_again_replaces_the_signature(frozen, configured, authority):
    sign_frozen.sign_frozen(frozen, configured)
    size = (frozen / OURS[0]).stat().st_size
    sign_frozen.sign_frozen(frozen, configured)
    assert (frozen / OURS[0]).stat().st_size == size
    assert certificates.has_signed(authority, frozen / OURS[0])


def test_a_folder_that_is_no_frozen_app_is_refused(frozen, configured):
    (frozen / nsis.PROGRAMS[1]).unlink()
    with pytest.raises(SystemExit, match=r"expert-lanes\.exe is missing"):
        sign_frozen.sign_frozen(frozen, configured)


def test_without_a_certificate_nothing_is_signed_and_half_of_one_is_an_error(authority):
    file = str(authority / "certificate.p12")
    assert sign.configured({}) is None
    assert sign.configured({sign.TIMESTAMP_URL: "http://time.example"}) is None
    with pytest.raises(SystemExit, match=sign.PASSWORD):
        sign.configured({sign.CERTIFICATE: file})
    with pytest.raises(SystemExit, match=sign.CERTIFICATE):
        sign.configured({sign.PASSWORD: file})
    with pytest.raises(SystemExit, match=sign.CERTIFICATE):
        sign.configured({sign.CERTIFICATE: f"{file}.gone", sign.PASSWORD: file})


def test_a_wrong_password_is_an_error_that_tells_no_password_and_leaves_the_file(frozen, authority, tmp_path):
    wrong = tmp_path / "wrong"
    wrong.write_text("another secret")
    before = (frozen / OURS[0]).read_bytes()
    with pytest.raises(SystemExit, match="osslsigncode failed") as failure:
        sign.sign(frozen / OURS[0], sign.Certificate(authority / "certificate.p12", wrong, ""))
    assert "another secret" not in str(failure.value)
    assert (frozen / OURS[0]).read_bytes() == before
    assert not [path for path in (frozen / OURS[0]).parent.iterdir() if path.name.startswith("tmp")]


def test_a_timestamp_server_that_does_not_answer_is_asked_more_than_once_and_then_an_error(
    frozen, configured, monkeypatch
):
    asked, run = [], subprocess.run
    monkeypatch.setattr(sign, "_PAUSE_SECONDS", 0)
    monkeypatch.setattr(subprocess, "run", lambda command, **more: asked.append(command) or run(command, **more))
    told = sign.Certificate(configured.file, configured.password, "http://127.0.0.1:9/nobody")
    with pytest.raises(SystemExit, match="osslsigncode failed"):
        sign.sign(frozen / OURS[0], told)
    assert len(asked) == 3
    assert all("-ts" in command for command in asked)
    assert not has_signature(frozen / OURS[0])


def test_a_timestamp_server_that_keeps_one_waiting_is_an_error_and_no_unsigned_setup_stays(
    frozen, configured, makensis, tmp_path, monkeypatch
):
    run = subprocess.run

    def slow_signer(command, **more):
        if "sign" in command:
            raise subprocess.TimeoutExpired(command, more["timeout"])
        return run(command, **more)

    def laid(command, **more):
        if "makensis" not in command[0]:
            return slow_signer(command, **more)
        (tmp_path / "made.exe").write_bytes(b"a setup that is not signed")
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(sign, "_PAUSE_SECONDS", 0)
    monkeypatch.setattr(subprocess, "run", laid)
    with pytest.raises(SystemExit, match=r"osslsigncode failed \(not over after"):
        nsis.make_setup(frozen, "0.1.0", DATE, tmp_path / "made.exe")
    assert not (tmp_path / "made.exe").exists()


def test_the_script_signs_what_its_command_line_names_and_says_nothing_of_the_secret(frozen, configured, authority):
    script = Path(sign.__file__)
    done = subprocess.run(
        [sys.executable, "-I", "-S", script, frozen / OURS[0]], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert certificates.has_signed(authority, frozen / OURS[0])
    assert certificates.PASSWORD not in done.stdout + done.stderr


def test_the_script_without_a_certificate_is_an_error(library):
    done = subprocess.run([sys.executable, sign.__file__, library], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert sign.CERTIFICATE in done.stderr


@pytest.fixture
def makensis():
    if shutil.which("makensis") is None:
        pytest.skip("NSIS is not installed.")


def test_a_setup_is_signed_where_a_certificate_is_configured(frozen, configured, authority, makensis, tmp_path):
    setup = nsis.make_setup(frozen, "0.1.0", DATE, tmp_path / "made.exe")
    assert certificates.has_signed(authority, setup)


def test_a_setup_whose_uninstaller_or_self_cannot_be_signed_is_not_made(
    frozen, configured, makensis, tmp_path, monkeypatch
):
    wrong = tmp_path / "wrong"
    wrong.write_text("another secret")
    monkeypatch.setenv(sign.PASSWORD, str(wrong))
    with pytest.raises(SystemExit) as failure:
        nsis.make_setup(frozen, "0.1.0", DATE, tmp_path / "made.exe")
    assert "another secret" not in str(failure.value)
    assert not (tmp_path / "made.exe").exists()


def test_unsigned_setups_of_the_same_files_are_the_same_whoever_drew_the_pictures(frozen, makensis, tmp_path):
    one = nsis.make_setup(frozen, "0.1.0", DATE, tmp_path / "one.exe")
    (tmp_path / "pictures").mkdir()
    nsis.draw(tmp_path / "pictures", "0.1.0")
    other = nsis.make_setup(frozen, "0.1.0", DATE, tmp_path / "other.exe", tmp_path / "pictures")
    assert one.read_bytes() == other.read_bytes()
    assert not has_signature(one)


def test_pictures_that_were_not_drawn_are_missed(frozen, makensis, tmp_path):
    with pytest.raises(SystemExit, match="is not drawn"):
        nsis.make_setup(frozen, "0.1.0", DATE, tmp_path / "made.exe", tmp_path / "nothing")

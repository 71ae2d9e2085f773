"""Rules about files: the engine's own, compared with the record of the installation, and the model's disk."""

import base64
import hashlib

from doctor_factories import MODEL, hint, is_fine, machine, planned, replaced, seen_of, why

from app.doctor.observation import SilentFile
from app.hardware import engine_files
from app.hardware.engine_files import EngineFiles, read_engine_files

CARD = "desktop_nvidia_x16_dual_channel"


def test_files_that_a_virus_scanner_took_are_named():
    files = EngineFiles(checked=6, missing=("ggml-vulkan.dll",), changed=("llama.dll",))
    found = hint(seen_of(CARD, engine_files=files), "engine-files")
    assert "Of 6 files" in found.evidence
    assert "ggml-vulkan.dll is missing" in found.evidence
    assert "llama.dll was changed" in found.evidence
    assert found.severity == "problem"
    assert is_fine(seen_of(CARD, engine_files=EngineFiles(checked=6)), "engine-files")


def test_an_installation_without_records_is_not_judged():
    assert "no record" in why(
        seen_of(CARD, engine_files=EngineFiles(why_not="This installation keeps no record.")), "engine-files"
    )


def test_this_installations_engine_is_as_it_was_installed():
    found = read_engine_files(contents=True)
    assert found.checked >= 5
    assert (found.missing, found.changed) == ((), ())


def test_missing_emptied_and_changed_libraries_are_found(tmp_path, monkeypatch):
    """A real distribution on disk, with its record, whose files were tampered with afterwards."""
    package = tmp_path / "llama_cpp" / "lib"
    package.mkdir(parents=True)
    record = []
    for name in ("kept.so", "gone.so", "short.so", "other.so"):
        (package / name).write_bytes(b"library " + name.encode())
        digest = hashlib.sha256((package / name).read_bytes()).digest()
        coded = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        record.append(f"llama_cpp/lib/{name},sha256={coded},{(package / name).stat().st_size}")
    info = tmp_path / "llama_cpp_python-9.9.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: llama_cpp_python\nVersion: 9.9\n")
    (info / "RECORD").write_text("\n".join(record) + "\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(engine_files, "_ENGINE", (("llama_cpp_python", "llama_cpp/"),))
    assert read_engine_files(contents=True) == EngineFiles(checked=4)
    (package / "gone.so").unlink()
    (package / "short.so").write_bytes(b"")
    (package / "other.so").write_bytes(b"LIBRARY other.so")
    assert read_engine_files(contents=False) == EngineFiles(checked=4, missing=("gone.so",), changed=("short.so",))
    assert read_engine_files(contents=True).changed == ("short.so", "other.so")


def test_a_slow_disk_only_slows_answers_where_experts_are_read_while_answering():
    disk = machine("desktop_models_on_usb_hard_disk").disk
    seen = replaced(planned(CARD), model_disk=disk)
    assert hint(seen, "slow-disk").severity == "note"
    lanes = dict.fromkeys(MODEL.expert_bytes, "disk")
    read = replaced(seen, plan=replaced(seen.plan, expert_lanes=lanes))
    assert hint(read, "slow-disk").severity == "slower"


def test_a_disk_is_judged_by_its_measured_speed_first():
    its = machine(CARD)
    slow = replaced(its, disk=replaced(its.disk, read_bytes_per_second=120e6))
    assert "120 MB/s" in hint(seen_of(slow), "slow-disk").evidence
    usb = machine("desktop_models_on_usb_hard_disk")
    fast = replaced(usb, disk=replaced(usb.disk, read_bytes_per_second=900e6))
    assert is_fine(seen_of(fast), "slow-disk")


def test_only_a_file_that_gave_not_even_its_tables_shows_that_the_disk_is_at_fault():
    def told(step):
        return hint(seen_of(CARD, silent_file=SilentFile(path="/m/x.gguf", seconds=60.0, step=step)), "silent-disk")

    assert told("tables").title == "The model's disk does not answer"
    for step, words in (("load", "While /m/x.gguf was loaded"), ("answer", "While /m/x.gguf answered")):
        assert told(step).evidence.startswith(words)
        assert "disk" not in told(step).title
        assert told(step).severity == "problem"


def test_a_silent_file_on_a_network_disk_is_told_to_be_on_one():
    silent = SilentFile(path="/mnt/nas/models/x.gguf", seconds=15.0, step="tables")
    found = hint(seen_of("desktop_models_on_network", silent_file=silent), "silent-disk")
    assert found.evidence.endswith("for 15 seconds. It is on another machine (nfs4).")
    assert is_fine(planned(CARD), "silent-disk")
    assert "name a model" in why(seen_of(CARD), "silent-disk")

"""What the system shows of the engine's own memory."""

from types import SimpleNamespace

from app.engine import observer


def test_memory_that_a_windows_does_not_tell_is_unknown_and_no_failure(monkeypatch):
    def refuse():
        raise OSError(22, "Invalid parameter")

    monkeypatch.setattr(observer, "sys", SimpleNamespace(platform="win32"))
    monkeypatch.setattr(observer.psutil, "Process", lambda: SimpleNamespace(memory_full_info=refuse))
    assert observer.own_bytes() is None


def test_own_memory_is_told_where_the_system_tells_it():
    assert observer.own_bytes() > 1 << 20

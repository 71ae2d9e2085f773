"""A signed Windows installer under Wine: everything of ours that lies there afterwards is signed, and works."""

import shutil

import certificates
import nsis
import pytest
import sign
import sign_frozen
from windows_setups import DATE, until


@pytest.fixture
def certificate(tmp_path, monkeypatch):
    """A certificate is configured."""
    if certificates.lacking():
        pytest.skip("osslsigncode or openssl is not installed.")
    made = tmp_path / "certificate"
    made.mkdir()
    for name, value in certificates.environment(certificates.make(made)).items():
        monkeypatch.setenv(name, value)
    return made


def test_what_a_signed_setup_installs_is_signed_runs_and_is_removed_by_a_signed_uninstaller(
    windows, trees, setups, certificate, tmp_path, run_app
):
    frozen = tmp_path / "frozen"
    shutil.copytree(trees["0.2.0"], frozen)
    library = frozen / "_internal" / "app" / "engine" / "expert_device.dll"
    library.parent.mkdir()
    shutil.copy(frozen / nsis.PROGRAMS[0], library)  # any file of that form
    sign_frozen.sign_frozen(frozen, sign.configured())
    setup = nsis.make_setup(frozen, "0.2.0", DATE, tmp_path / "signed.exe")
    assert windows.install(setups["0.1.0"]) == 0
    assert not certificates.has_signed(certificate, windows.installed / "uninstall.exe")
    assert windows.install(setup) == 0
    laid = windows.installed / "0.2.0"
    programs = [laid / name for name in nsis.PROGRAMS]
    for file in (setup, *programs, laid / library.relative_to(frozen), windows.installed / "uninstall.exe"):
        assert certificates.has_signed(certificate, file), file.name
    app = run_app(programs[0])
    app.end()
    assert app.told == ["opened", "ended"]
    # As Windows' own settings would run it, from a copy of itself.
    windows.run(windows.installed / "uninstall.exe", "/S")
    until(lambda: windows.registered() == {}, "uninstalled")
    assert not windows.installed.exists()

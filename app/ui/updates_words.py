"""What the settings say of updates: how far the search is, and how to go back to the version before."""

from PySide6.QtCore import QCoreApplication

from app.ui.updates import Step, Updates
from app.ui.words import in_bytes
from app.updates.feed import Release, ReleaseFile
from app.updates.installation import APPIMAGE, ARCHIVE, DEB, NO_PACKAGE, SETUP, Installation


def status_words(updates: Updates) -> str:
    """How far it is, in a sentence or two."""
    checked = updates.checked
    release, file = (checked.release, checked.file) if checked else (None, None)
    found = _found_words(release, file, updates.installation()) if release else ""
    words = {
        Step.CHECKING: _tr("Looking for a newer version…"),
        Step.NEWEST: _tr("Version {version} is the newest."),
        Step.FOUND: found,
        Step.FETCHING: _tr("Fetching {name}…"),
        Step.PROVING: _tr("Making sure that the file is genuine…"),
        Step.READY: _tr(
            "{name} is here, and genuine: its size and its SHA-256 are those of the signed list of releases. "
            "Nothing is installed yet."
        ),
    }.get(updates.step, _tr("Version {version} is installed."))
    return words.format(version=updates.installation().version, name=file.name if file else "")


def _found_words(release: Release, file: ReleaseFile | None, installed: Installation) -> str:
    words = _tr("Version {version} of {date} is published; version {installed} is installed.").format(
        version=release.version, date=release.date.isoformat(), installed=installed.version
    )
    return words if file is not None else f"{words} {_no_file_words(installed)}"


def progress_words(have: int, whole: int) -> str:
    """How much of a download is there."""
    if not whole:
        return _tr("Waiting for the server…")
    return _tr("{have} of {whole}").format(have=in_bytes(have), whole=in_bytes(whole))


def way_back_words(installed: Installation) -> str:
    """What becomes of the version that is installed, engine included, and how to return to it."""
    words = {
        SETUP: _tr(
            "The setup asks this window to close, and lays the new version with its engine into a folder of its own. "
            "Version {installed} stays beside it: to go back, start the previous version from the Start menu."
        ),
        DEB: _tr(
            "Your system's package program replaces version {installed} with its engine. To go back, install the "
            "package of that version again: keep its file, or know where to get it, before you go on."
        ),
        APPIMAGE: _tr(
            "The new version with its engine is one file beside the old one, which stays as it is: start that to go "
            "back."
        ),
        ARCHIVE: _tr(
            "Unpack it where you like: the new version with its engine has a folder of its own. The folder of version "
            "{installed} stays as it is: start the app there to go back."
        ),
    }
    return words.get(installed.kind, "").format(installed=installed.version)


def is_opened(installed: Installation) -> bool:
    """Whether the file is one that a program of the system installs, and not one that the user puts somewhere."""
    return installed.kind in (SETUP, DEB)


def _no_file_words(installed: Installation) -> str:
    if installed.kind == NO_PACKAGE:
        return _tr("This app runs from its source: update that the way you got it.")
    return _tr("It has no file for this kind of installation: look where you got this one.")


def _tr(text: str) -> str:
    return QCoreApplication.translate("updates", text)

"""Looking for a newer release and fetching it, off the UI thread; what the settings and the Help menu show of it."""

import datetime
import enum
import logging
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, QTimer, QUrl, Signal
from PySide6.QtGui import QDesktopServices

from app.errors import AppError, ErrorCode
from app.ui.background import Background
from app.ui.settings import DAILY, UPDATE_CHECK, Settings
from app.updates.source import Source, known_source

if TYPE_CHECKING:
    from app.updates.check import Checked
    from app.updates.installation import Installation
    from app.updates.transport import Transport

log = logging.getLogger(__name__)

LOOK_AFTER_MILLISECONDS = 20_000
"""After the start: the first seconds belong to the window and the engine."""

LOOK_AGAIN_MILLISECONDS = 3_600_000
"""Between looks whether a day is over, in a window that stays open."""


class Step(enum.StrEnum):
    """How far it is."""

    IDLE = "idle"
    CHECKING = "checking"
    NEWEST = "newest"
    FOUND = "found"
    FETCHING = "fetching"
    PROVING = "proving"
    READY = "ready"


class _Fetch:
    """A download under way, as both threads see it."""

    def __init__(self) -> None:
        self.have = self.whole = 0
        self.cancelled = threading.Event()

    def report(self, have: int, whole: int) -> None:
        """Take the progress; called on the worker."""
        self.have, self.whole = have, whole


class Updates(QObject):
    """Asks for releases when told to, or daily where the user chose that; never installs anything.

    Attributes:
        source: Where releases are published; None where this build does not know.

    Signals:
        changed: `step`, `checked`, `path` or `error` are others now.
        newer_found: A daily check found a newer version (its number).
    """

    changed = Signal()
    newer_found = Signal(str)

    def __init__(
        self,
        settings: Settings,
        parent: QObject | None = None,
        *,
        source: Source | None = None,
        transport: "Callable[[], Transport] | None" = None,
        installed: "Callable[[], Installation] | None" = None,
        open_url: Callable[[QUrl], bool] = QDesktopServices.openUrl,
    ) -> None:
        """`source`, `transport` and `installed` are those of this build and program unless given."""
        super().__init__(parent)
        self.source = source or known_source()
        self._settings = settings
        self._make_transport = transport or _https
        self._installed = installed or _this_installation
        self._open_url = open_url
        self._background = Background(self)  # a download must not keep the window's own work waiting
        self._step = Step.IDLE
        self._checked: Checked | None = None
        self._path: Path | None = None
        self._error: AppError | None = None
        self._fetch: _Fetch | None = None
        self._clock = QTimer(self)
        self._clock.timeout.connect(self._look_if_due)
        if self.source is not None:
            self._clock.start(LOOK_AFTER_MILLISECONDS)

    @property
    def step(self) -> Step:
        """How far it is."""
        return self._step

    @property
    def checked(self) -> "Checked | None":
        """What the latest check found; None before one."""
        return self._checked

    @property
    def path(self) -> Path | None:
        """The file that was fetched and proved genuine; None before."""
        return self._path

    @property
    def error(self) -> AppError | None:
        """Why the latest check or download came to nothing; None where it did not fail."""
        return self._error

    @property
    def fetched(self) -> tuple[int, int]:
        """Bytes of the running download that are there, and of the whole; (0, 0) while none runs."""
        return (self._fetch.have, self._fetch.whole) if self._fetch else (0, 0)

    @property
    def busy(self) -> bool:
        """True while something runs."""
        return self._step in (Step.CHECKING, Step.FETCHING, Step.PROVING)

    def installation(self) -> "Installation":
        """What is installed."""
        return self._installed()

    # ---- checking -----------------------------------------------------------------------------

    def check(self) -> None:
        """Look for a newer version; `changed` tells. Nothing where this build knows no source, or something runs."""
        self._check(told=False)

    def _look_if_due(self) -> None:
        self._clock.start(LOOK_AGAIN_MILLISECONDS)
        if self._settings.get(UPDATE_CHECK) != DAILY or self._step not in (Step.IDLE, Step.NEWEST):
            return

        def look() -> bool:
            from app.updates import check  # noqa: PLC0415 - no start of the window needs it

            return check.is_due(check.seen_record(), datetime.datetime.now(datetime.UTC))

        # The user may have begun something meanwhile, which counts for more.
        def seen(due: bool) -> None:
            if due and self._step in (Step.IDLE, Step.NEWEST):
                self._check(told=True)

        def failed(error: AppError) -> None:
            if not self.busy:
                self._end(self._step, error)

        self._background.run(look).success(seen).failure(failed)

    def _check(self, *, told: bool) -> None:
        """`told` marks a daily check, which says only what is worth a word."""
        source = self.source
        if source is None or self.busy:
            return
        before = self._step
        self._begin(Step.CHECKING)

        def look() -> "Checked":
            from app.updates import check  # noqa: PLC0415 - as above
            from app.updates.download import drop_older  # noqa: PLC0415

            installed = self._installed()
            drop_older(installed.version)
            now = datetime.datetime.now(datetime.UTC)
            return check.check(source, installed, self._make_transport(), check.seen_record(), now)

        def found(checked: "Checked") -> None:
            self._checked, self._path = checked, None
            self._end(Step.FOUND if checked.release else Step.NEWEST)
            if told and checked.release:
                self.newer_found.emit(checked.release.version)

        def failed(error: AppError) -> None:
            # A daily check without a network is no news: the next hour tries again.
            self._end(before, None if told and error.code is ErrorCode.NO_NETWORK else error)

        self._background.run(look).always(self._unexpected).success(found).failure(failed)

    # ---- fetching -----------------------------------------------------------------------------

    def fetch(self) -> None:
        """Fetch the file that was found, or the rest of it; nothing where there is none, or something runs."""
        checked = self._checked
        if self.busy or checked is None or checked.release is None or checked.file is None:
            return
        release, file, url = checked.release, checked.file, checked.url
        self._fetch = fetch = _Fetch()
        self._begin(Step.FETCHING)

        def load() -> Path:
            from app.updates.download import download, folder_of  # noqa: PLC0415 - as above

            transport = self._make_transport()
            return download(file, url, folder_of(release), transport, fetch.report, fetch.cancelled.is_set)

        def fetched(path: Path) -> None:
            self._path = path
            self._end(Step.READY)

        def failed(error: AppError) -> None:
            self._end(Step.FOUND, None if error.code is ErrorCode.CANCELLED else error)

        self._background.run(load).always(self._unexpected).success(fetched).failure(failed)

    def cancel(self) -> None:
        """Stop the running download; what is there stays for the next try."""
        if self._fetch is not None:
            self._fetch.cancelled.set()

    # ---- opening ------------------------------------------------------------------------------

    def open_file(self) -> None:
        """Prove the fetched file once more and have the system open it."""
        self._prove(lambda path: path)

    def open_folder(self) -> None:
        """Prove the fetched file once more and have the system show its folder."""
        self._prove(lambda path: path.parent)

    def _prove(self, what: Callable[[Path], Path]) -> None:
        checked, path = self._checked, self._path
        if self.busy or path is None or checked is None or checked.file is None:
            return
        file = checked.file
        self._begin(Step.PROVING)

        def prove() -> None:
            from app.updates.download import verify  # noqa: PLC0415 - as above

            verify(file, path)

        def proved(_none: None) -> None:
            target = what(path)
            self._end(Step.READY)
            if not self._open_url(QUrl.fromLocalFile(str(target))):
                message = f"The system has no program that opens {target}."
                self._end(Step.READY, AppError(ErrorCode.FILE_UNREADABLE, message))

        def failed(error: AppError) -> None:
            self._path = None
            self._end(Step.FOUND, error)

        self._background.run(prove).always(self._unexpected).success(proved).failure(failed)

    def shutdown(self) -> None:
        """The window goes: stop what runs."""
        self._clock.stop()
        self.cancel()
        self._background.wait()

    def _unexpected(self, error: Exception | None) -> None:
        """What nobody expected is told elsewhere; here it must not look as if something ran on for ever."""
        if error is not None and not isinstance(error, AppError):
            self._end(Step.IDLE)

    def _begin(self, step: Step) -> None:
        self._step, self._error = step, None
        self.changed.emit()

    def _end(self, step: Step, error: AppError | None = None) -> None:
        self._step, self._error, self._fetch = step, error, None
        self.changed.emit()


def _https() -> "Transport":
    from app.updates.transport import HttpsTransport  # noqa: PLC0415 - brings ssl, which no start needs

    return HttpsTransport()


def _this_installation() -> "Installation":
    from app.updates.installation import this_installation  # noqa: PLC0415 - as above

    return this_installation()

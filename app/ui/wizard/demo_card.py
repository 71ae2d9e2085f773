"""The card that builds the demo model in one click, and offers it when it is there."""

import threading
from pathlib import Path

from PySide6.QtCore import QTimer, Signal
from PySide6.QtWidgets import QHBoxLayout, QProgressBar, QPushButton, QWidget

from app.errors import AppError, ErrorCode
from app.library.demo import DemoModel, build_demo, demo_model_path
from app.ui.background import Background
from app.ui.theme import GRID, Theme, set_kind
from app.ui.wizard.widgets import Card, label
from app.ui.words import in_bytes, number

POLL_MILLISECONDS = 50
STEPS = 1000


class _Build:
    """A build under way, as both threads see it: the worker reports, the window reads and cancels."""

    def __init__(self) -> None:
        self.fraction = 0.0
        self.cancelled = threading.Event()
        self.superseded = False

    def report(self, fraction: float) -> None:
        """Take the progress; called on the worker.

        Raises:
            AppError: cancelled, which ends the build and leaves no file behind.
        """
        if self.cancelled.is_set():
            raise AppError(ErrorCode.CANCELLED, "The demo model was not built.")
        self.fraction = fraction


class DemoCard(Card):
    """What the demo model is, and the button that builds it or uses it.

    Signals:
        wanted: The demo model is there and shall be used (Path).
        failed: It could not be built (AppError).
    """

    wanted = Signal(object)
    failed = Signal(object)

    def __init__(self, background: Background, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(theme, parent=parent)
        self._background = background
        self._build: _Build | None = None
        self.set_heading(self.tr("Try the demo model"))
        self._promise = label("", "strong")
        self._honest = label(
            self.tr(
                "It is a small chat model whose layers were given 8 identical experts each, so it shows how "
                "experts are placed, watched and moved. It is not a good model: expect simple, often wrong answers."
            ),
            "muted",
        )
        self.button = QPushButton(self)
        self.button.clicked.connect(self._clicked)
        self.cancel_button = QPushButton(self.tr("Cancel"), self)
        self.cancel_button.clicked.connect(self.cancel)
        self.progress = QProgressBar(self)
        self.progress.setRange(0, STEPS)
        self.progress.setTextVisible(False)
        self.progress.setAccessibleName(self.tr("Building the demo model"))
        row = QHBoxLayout()
        row.setSpacing(2 * GRID)
        row.addWidget(self.button)
        row.addWidget(self.cancel_button)
        row.addWidget(self.progress, 1)
        row.addStretch(0)
        self.column.addWidget(self._promise)
        self.column.addWidget(self._honest)
        self.column.addSpacing(GRID // 2)
        self.column.addLayout(row)
        self._poll = QTimer(self)
        self._poll.setInterval(POLL_MILLISECONDS)
        self._poll.timeout.connect(self._show_progress)
        self.refresh()

    @property
    def building(self) -> bool:
        """True until a build has ended, also one that was cancelled."""
        return self._build is not None

    @property
    def text(self) -> str:
        """What it says of the demo now."""
        return self._promise.text()

    def refresh(self) -> None:
        """Look whether the demo is there, and say so."""
        if self._build is not None:
            return
        path = demo_model_path()
        size = path.stat().st_size if path.is_file() else 0
        if size:
            self._promise.setText(self.tr("Ready on this machine, {size}.").format(size=in_bytes(size)))
            self.button.setText(self.tr("Use the demo model"))
        else:
            self._promise.setText(self.tr("One click, about 0.5 GB written, nothing downloaded."))
            self.button.setText(self.tr("Build the demo model"))
        self._set_building(False)

    def set_prominent(self, prominent: bool) -> None:
        """Whether its button is the first thing to do on the page."""
        set_kind(self.button, "primary" if prominent else "")

    def cancel(self) -> None:
        """Stop a running build; the file it was writing goes."""
        if self._build is not None:
            self._build.cancelled.set()
            self.cancel_button.setEnabled(False)
            self._promise.setText(self.tr("Cancelling…"))

    def supersede(self) -> None:
        """Another model was chosen meanwhile: a running build goes on, and its model is only offered."""
        if self._build is not None:
            self._build.superseded = True

    def _clicked(self) -> None:
        path = demo_model_path()
        if path.is_file():
            self.wanted.emit(path)
            return
        self._build = build = _Build()
        self._set_building(True)
        self._show_progress()
        self.cancel_button.setFocus()
        job = self._background.run(lambda: build_demo(path, on_progress=build.report))
        job.always(self._build_ended).success(self._built).failure(self._not_built)

    def _build_ended(self, error: Exception | None) -> None:
        """A failure that nobody expected must not leave the card building for ever."""
        if error is not None and not isinstance(error, AppError):
            self._end()

    def _built(self, model: DemoModel) -> None:
        build = self._build
        self._end()
        # A cancel that came too late to stop the build is one all the same.
        if build is not None and not build.cancelled.is_set() and not build.superseded:
            self.wanted.emit(Path(model.path))

    def _not_built(self, error: AppError) -> None:
        self._end()
        if error.code is not ErrorCode.CANCELLED:
            self.failed.emit(error)

    def _end(self) -> None:
        had_focus = self.cancel_button.hasFocus()
        self._build = None
        self.refresh()
        if had_focus:
            self.button.setFocus()

    def _show_progress(self) -> None:
        if self._build is None or self._build.cancelled.is_set():
            return
        self.progress.setValue(round(self._build.fraction * STEPS))
        percent = number(100 * self._build.fraction)
        self._promise.setText(self.tr("Building the demo model: {percent} %").format(percent=percent))

    def _set_building(self, building: bool) -> None:
        self.button.setVisible(not building)
        self.cancel_button.setVisible(building)
        self.cancel_button.setEnabled(building)
        self.progress.setVisible(building)
        if building:
            self._poll.start()
        else:
            self._poll.stop()

"""Python's cycle collector on the UI thread only: Qt objects must not be destroyed by a pool thread."""

import gc

from PySide6.QtCore import QObject, QTimer

INTERVAL_MILLISECONDS = 1000


class UiThreadCollector(QObject):
    """Stops automatic collection and collects on its own thread instead, by Python's own thresholds.

    Automatic collection runs on whichever thread happens to allocate: a window that became garbage
    would then be destroyed off the UI thread, which Qt does not survive.
    """

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        gc.disable()
        self._timer = QTimer(self)
        self._timer.setInterval(INTERVAL_MILLISECONDS)
        self._timer.timeout.connect(self.collect)
        self._timer.start()

    def collect(self) -> None:
        """Collect the oldest generation that is due, if any is."""
        for generation, (count, threshold) in reversed(
            list(enumerate(zip(gc.get_count(), gc.get_threshold(), strict=True)))
        ):
            if count > threshold:
                gc.collect(generation)
                return

    def stop(self) -> None:
        """Hand collection back to Python."""
        self._timer.stop()
        gc.enable()

"""The contents of the graphs dock: every graph over one recorder and one stretch of time, and their export."""

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QFileDialog, QLabel, QScrollArea, QVBoxLayout, QWidget

from app.ui.announce import announce
from app.ui.banner import Banner
from app.ui.controller import Controller
from app.ui.graphs.export import csv_text, png_bytes, table_of, titled_picture, write_whole
from app.ui.graphs.page import GraphsPage
from app.ui.graphs.plot import LivePlot
from app.ui.graphs.recorder import Recorder
from app.ui.graphs.specs import ALWAYS, GPU, GROUPS, GraphSpec, device_specs, fixed_specs, group_titles
from app.ui.graphs.time_window import TimeWindow
from app.ui.graphs.toolbar import Toolbar
from app.ui.lazy_dock import DockContent
from app.ui.machine_words import why_no_gpu
from app.ui.settings import GRAPHS_HIDDEN, Settings
from app.ui.theme import GRID, Theme, set_role

WIDTH_HINT, HEIGHT_HINT = 420, 360
GIB = 1024**3


class GraphsPanel(DockContent):
    """Every graph. Drawn is what is in sight, sampled what is shown."""

    def __init__(
        self,
        controller: Controller,
        theme: Theme,
        parent: QWidget | None = None,
        recorder: Recorder | None = None,
        settings: Settings | None = None,
    ) -> None:
        super().__init__(parent)
        self._controller = controller
        self._theme = theme
        self._settings = settings
        self._missing_told: dict[str, str] = {}
        self.recorder = recorder or Recorder(controller, self)
        self.time_window = TimeWindow(self)
        hidden = (settings.get(GRAPHS_HIDDEN) if settings else GRAPHS_HIDDEN.default).split(",")
        self.toolbar = Toolbar(self.time_window, [group for group in GROUPS if group not in hidden], self)
        self.banner = Banner(self)
        self.banner.set_focus_after(self.toolbar.export_button)
        self.no_gpu = QLabel(self)
        self.missing = QLabel(self)
        self.saved = QLabel(self)
        for label, role in ((self.no_gpu, "muted"), (self.missing, "small"), (self.saved, "small")):
            label.setWordWrap(True)
            label.setTextFormat(Qt.TextFormat.PlainText)
            set_role(label, role)
            label.hide()
        self.saved.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.page = GraphsPage(self.time_window, self)
        self._scroll = QScrollArea(self)
        set_role(self._scroll, "bare")
        self._scroll.setWidgetResizable(True)
        self._scroll.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self._scroll.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self._scroll.setWidget(self.page)
        self._plots: dict[str, LivePlot] = {spec.key: self._make_plot(spec) for spec in fixed_specs()}
        self._device_of: dict[str, str] = {}
        column = QVBoxLayout(self)
        column.setContentsMargins(GRID, GRID, GRID, GRID)
        column.setSpacing(GRID)
        for widget in (self.toolbar, self.banner, self.no_gpu):
            column.addWidget(widget)
        column.addWidget(self._scroll, 1)
        column.addWidget(self.missing)
        column.addWidget(self.saved)
        self.setAccessibleName(self.tr("Live graphs"))
        self.recorder.set_groups(self.toolbar.groups)
        self.recorder.recorded.connect(self._recorded)
        self.recorder.gpus_changed.connect(self._make_gpu_plots)
        self._scroll.verticalScrollBar().valueChanged.connect(self.redraw)
        self.time_window.changed.connect(self.redraw)
        self.toolbar.groups_chosen.connect(self._choose_groups)
        self.toolbar.pause_wanted.connect(self._hold)
        self.toolbar.csv_wanted.connect(self._export_csv)
        self.toolbar.png_wanted.connect(self._export_png)
        self.page.pause_wanted.connect(lambda: self._hold(not self.time_window.held))
        self.page.pan_wanted.connect(self._pan)
        controller.machine_changed.connect(self._show_words)
        self._make_gpu_plots()

    @property
    def plots(self) -> list[LivePlot]:
        """The graphs that are shown, as they are arranged."""
        groups = self.toolbar.groups
        return [
            plot
            for group in GROUPS
            for plot in self._plots.values()
            if plot.spec.group == group in groups and self._has_something(plot.spec)
        ]

    def _has_something(self, spec: GraphSpec) -> bool:
        """Whether a graph says something; that of a GPU which is gone does while the history still has it."""
        history, device = self.recorder.history, self._device_of.get(spec.key)
        if device is not None and device not in self.recorder.devices:
            return any(history.holds(key) for key in spec.keys)
        return spec.group in ALWAYS or any(key in history.keys for key in spec.keys)

    def plot(self, key: str) -> LivePlot:
        """The graph of that name, shown or not: a group's, or "gpu." with a device."""
        return self._plots[key]

    def set_active(self, active: bool) -> None:
        """Measure only while the dock is seen."""
        if active:
            self.recorder.start()
        else:
            self.recorder.stop()

    def shutdown(self) -> None:
        """End the measurements."""
        self.recorder.shutdown()

    # ---- making -------------------------------------------------------------------------------

    def _make_plot(self, spec: GraphSpec) -> LivePlot:
        plot = LivePlot(
            spec,
            self.recorder.history,
            self.time_window,
            self._theme,
            wheel_zooms=lambda: not self._scroll.verticalScrollBar().maximum(),
            clock_offset=self._clock_offset,
            why_at=partial(self.recorder.why_at, spec),
            parent=self.page,
        )
        plot.hide()
        plot.canvas.panned.connect(self._pan)
        return plot

    def _make_gpu_plots(self) -> None:
        for device in self.recorder.known:
            for spec in device_specs(device):
                if spec.key not in self._plots:
                    self._plots[spec.key] = self._make_plot(spec)
                    self._device_of[spec.key] = device
        self._arrange()
        self._show_words()
        self.redraw()

    # ---- showing ------------------------------------------------------------------------------

    def redraw(self, _value: object = None, *, everything: bool = False) -> None:
        """Draw the graphs that are in sight, or every one that is shown."""
        recorder = self.recorder
        now = recorder.now
        for plot in self.plots:
            if everything or not plot.visibleRegion().isEmpty():
                plot.redraw(now, recorder.why(plot.spec), self._limit(plot.spec))

    def _recorded(self) -> None:
        self._arrange()
        self._show_words()
        if not self.time_window.held:
            self.redraw()

    def _limit(self, spec: GraphSpec) -> float | None:
        total = self.recorder.totals.get(spec.key.removeprefix(f"{GPU}.")) if spec.group == GPU else None
        return None if total is None else total / GIB

    def _show_words(self, _machine: object = None) -> None:
        """What cannot be measured, in words."""
        groups = self.toolbar.groups
        words = self.tr("GPU memory: {why}").format(why=why_no_gpu(self._controller.machine))
        _say(self.no_gpu, words if GPU in groups and not self.recorder.devices else "")
        shown = {plot.spec.group for plot in self.plots}
        loaded = self._controller.loaded_facts is not None
        reasons = self.recorder.reasons
        missing = {
            group: reasons[group]
            for group in GROUPS
            if group in groups and group not in shown and reasons.get(group) and loaded
        }
        if missing == self._missing_told:
            return
        self._missing_told = missing
        titles = group_titles()
        lines = [f"{titles[group]}: {why}" for group, why in missing.items()]
        _say(self.missing, "\n".join([self.tr("Not measured here:"), *lines]) if lines else "")
        self.toolbar.tell_missing(missing)

    def _choose_groups(self, groups: frozenset[str]) -> None:
        self.recorder.set_groups(groups)
        if self._settings is not None:
            self._settings.set(GRAPHS_HIDDEN, ",".join(group for group in GROUPS if group not in groups))
        self._arrange()
        self._show_words()
        self.redraw()

    def _hold(self, hold: bool) -> None:
        if hold:
            self.time_window.hold(self.recorder.now)
        else:
            self.time_window.go_live()

    def _pan(self, seconds: float) -> None:
        history, now = self.recorder.history, self.recorder.now
        oldest = float(history.times[0]) if len(history) else now
        self.time_window.pan(seconds, now, oldest)

    def sizeHint(self) -> QSize:
        """Room for a few graphs one over the other."""
        return QSize(WIDTH_HINT, HEIGHT_HINT)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Side by side where graphs have room, one over the other where not."""
        super().resizeEvent(event)
        self._arrange()

    def _arrange(self) -> None:
        self.page.arrange(self.plots, self.width() - 2 * GRID)

    # ---- export -------------------------------------------------------------------------------

    def _clock_offset(self) -> float:
        return time.time() - self.recorder.now

    def _export_csv(self) -> None:
        path = self._ask_path("csv", self.tr("Table (*.csv)"))
        if path is not None:
            specs = [plot.spec for plot in self._in_order()]
            table = table_of(self.recorder.history, specs, self._clock_offset())
            self._write(path, lambda: csv_text(table).encode())

    def _export_png(self) -> None:
        path = self._ask_path("png", self.tr("Picture (*.png)"))
        if path is not None:
            self.redraw(everything=True)
            facts = self._controller.loaded_facts
            title = self.tr("Live graphs · {model}").format(model=facts.name) if facts else self.tr("Live graphs")
            end = self.time_window.end(self.recorder.now) + self._clock_offset()
            date = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(end))
            image = titled_picture(self.page.grab(), title, date, self._theme.colors)
            self._write(path, lambda: png_bytes(image))

    def _in_order(self) -> list[LivePlot]:
        return [plot for group in GROUPS for plot in self._plots.values() if plot.spec.group == group]

    def _ask_path(self, kind: str, filter_text: str) -> Path | None:
        self.banner.clear()
        self.saved.hide()
        name = f"expert-lanes-{time.strftime('%Y-%m-%d-%H%M')}.{kind}"
        chosen, _ = QFileDialog.getSaveFileName(self, self.tr("Export graphs"), str(Path.home() / name), filter_text)
        if not chosen:
            return None
        path = Path(chosen)
        return path if path.suffix else path.with_suffix(f".{kind}")

    def _write(self, path: Path, make: Callable[[], bytes]) -> None:
        """Make the file's bytes and write them off the UI thread: an hour has half a million figures."""
        job = self._controller.background.run(partial(_make_and_write, path, make))
        job.success(self._written).failure(self.banner.tell)

    def _written(self, path: Path) -> None:
        _say(self.saved, self.tr("Saved as {path}").format(path=path))
        announce(self.saved)


def _make_and_write(path: Path, make: Callable[[], bytes]) -> Path:
    return write_whole(path, make())


def _say(label: QLabel, words: str) -> None:
    if label.text() != words:
        label.setText(words)
    label.setVisible(bool(words))

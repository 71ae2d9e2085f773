"""The contents of the graphs dock: one graph per GPU, one of main memory, one of the speed."""

from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QBoxLayout, QComboBox, QHBoxLayout, QLabel, QPushButton, QScrollArea, QVBoxLayout, QWidget

from app.ui.controller import Controller
from app.ui.graphs.plot import Line, LivePlot
from app.ui.graphs.recorder import GpuSeries, Recorder, has_pool
from app.ui.lazy_dock import DockContent
from app.ui.machine_words import why_no_gpu
from app.ui.theme import GRID, Theme, set_kind, set_role
from app.ui.words import number

PLOT_WIDTH = 300
"""Pixels a graph needs beside others; with less room the graphs are stacked."""
WIDTH_HINT, HEIGHT_HINT = 420, 360
SPANS_SECONDS = (60, 300, 600)


class GraphsPanel(DockContent):
    """Every graph, over one recorder."""

    def __init__(
        self,
        controller: Controller,
        theme: Theme,
        parent: QWidget | None = None,
        recorder: Recorder | None = None,
    ) -> None:
        super().__init__(parent)
        self._controller = controller
        self._theme = theme
        self.recorder = recorder or Recorder(controller, self)
        self._span = SPANS_SECONDS[0]
        self.no_gpu = QLabel(self)
        self.no_gpu.setWordWrap(True)
        set_role(self.no_gpu, "muted")
        self.gpu_plots: dict[str, LivePlot] = {}
        self.ram_plot = self._make_ram_plot()
        self.rate_plot = self._make_rate_plot()
        self.hit_plot = self._make_hit_plot()
        self.span_box = self._make_span_box()
        self.pause_button = QPushButton(self.tr("Pause"), self)
        set_kind(self.pause_button, "quiet")
        self.pause_button.setCheckable(True)
        self.pause_button.setToolTip(self.tr("Hold the picture still; measuring goes on."))
        self.pause_button.toggled.connect(self._paused)
        top = QHBoxLayout()
        top.addWidget(self.span_box)
        top.addStretch(1)
        top.addWidget(self.pause_button)
        page = QWidget(self)
        set_role(page, "page")
        self._plots = QBoxLayout(QBoxLayout.Direction.TopToBottom, page)
        self._plots.setContentsMargins(0, 0, 0, 0)
        self._plots.setSpacing(2 * GRID)
        scroll = QScrollArea(self)
        set_role(scroll, "bare")
        scroll.setWidgetResizable(True)
        scroll.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        scroll.setWidget(page)
        column = QVBoxLayout(self)
        column.setContentsMargins(GRID, GRID, GRID, GRID)
        column.setSpacing(GRID)
        column.addLayout(top)
        column.addWidget(self.no_gpu)
        column.addWidget(scroll, 1)
        self.setAccessibleName(self.tr("Live graphs"))
        self.recorder.recorded.connect(self._recorded)
        self.recorder.gpus_changed.connect(self._make_gpu_plots)
        controller.machine_changed.connect(self._redraw)
        self._make_gpu_plots()

    @property
    def plots(self) -> list[LivePlot]:
        """Every graph, as they are arranged; that of hits is shown only while there is a pool."""
        return [*self.gpu_plots.values(), self.ram_plot, self.rate_plot, self.hit_plot]

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

    def _make_ram_plot(self) -> LivePlot:
        lines = (
            (Line(self.tr("engine"), 3), self.recorder.engine_ram),
            (Line(self.tr("available"), 5, dashed=True), self.recorder.available_ram),
        )
        return LivePlot(self.tr("Main memory"), "GiB", lines, self._theme, parent=self)

    def _make_rate_plot(self) -> LivePlot:
        lines = ((Line("", 0), self.recorder.tokens_per_second),)
        return LivePlot(
            self.tr("Speed"),
            self.tr("tokens/s"),
            lines,
            self._theme,
            decimals=1,
            smallest_top=5.0,
            parent=self,
        )

    def _make_hit_plot(self) -> LivePlot:
        plot = LivePlot(
            self.tr("Routed experts found in the GPU pool"),
            "%",
            ((Line("", 1), self.recorder.hit_percent),),
            self._theme,
            decimals=0,
            parent=self,
        )
        plot.set_limit(100.0)
        plot.hide()
        return plot

    def _make_gpu_plot(self, title: str, series: GpuSeries) -> LivePlot:
        lines = (
            (Line(self.tr("all programs"), 1), series.used),
            (Line(self.tr("engine"), 3), series.process),
        )
        return LivePlot(title, "GiB", lines, self._theme, parent=self)

    def _make_gpu_plots(self) -> None:
        for plot in self.gpu_plots.values():
            self._plots.removeWidget(plot)
            plot.hide()
            plot.deleteLater()
        self.gpu_plots = {
            device: self._make_gpu_plot(self.tr("GPU memory · {device}").format(device=device), series)
            for device, series in self.recorder.gpus.items()
        }
        for place, plot in enumerate(self.plots):
            self._plots.removeWidget(plot)
            self._plots.insertWidget(place, plot, 1)
            plot.set_span(self._span)
        self._redraw()

    def _make_span_box(self) -> QComboBox:
        box = QComboBox(self)
        for seconds in SPANS_SECONDS:
            minutes = seconds // 60
            text = (
                self.tr("Last minute")
                if minutes == 1
                else self.tr("Last {minutes} minutes").format(minutes=number(minutes))
            )
            box.addItem(text, seconds)
        box.setAccessibleName(self.tr("Time shown"))
        box.currentIndexChanged.connect(self._span_chosen)
        return box

    # ---- showing ------------------------------------------------------------------------------

    def _recorded(self) -> None:
        if not self.pause_button.isChecked() and not self.window().isMinimized():
            self._redraw()

    def _redraw(self) -> None:
        recorder = self.recorder
        now = recorder.now
        self.no_gpu.setVisible(not self.gpu_plots)
        self.no_gpu.setText(self.tr("GPU memory: {why}").format(why=why_no_gpu(self._controller.machine)))
        for device, plot in self.gpu_plots.items():
            series = recorder.gpus[device]
            plot.set_limit(series.total_gib)
            plot.redraw(now, series.missing)
        self.ram_plot.redraw(now, recorder.ram_missing)
        idle = recorder.tokens_per_second.latest is None
        self.rate_plot.redraw(now, self.tr("No answer is running.") if idle else "")
        pooled = has_pool(self._controller.cache.facts)
        if pooled == self.hit_plot.isHidden():
            self.hit_plot.setVisible(pooled)
            self._arrange()
        if pooled:
            quiet = recorder.hit_percent.latest is None
            self.hit_plot.redraw(now, self.tr("No answer is running.") if quiet else "")

    def _span_chosen(self) -> None:
        self._span = self.span_box.currentData()
        for plot in self.plots:
            plot.set_span(self._span)
        self._redraw()

    def _paused(self, paused: bool) -> None:
        self.pause_button.setText(self.tr("Resume") if paused else self.tr("Pause"))
        if not paused:
            self._redraw()

    def sizeHint(self) -> QSize:
        """Room for the graphs one over the other."""
        return QSize(WIDTH_HINT, HEIGHT_HINT)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Side by side where every graph has room, stacked where not."""
        super().resizeEvent(event)
        self._arrange()

    def _arrange(self) -> None:
        shown = sum(not plot.isHidden() for plot in self.plots)
        beside = self.width() >= shown * (PLOT_WIDTH + 2 * GRID)
        direction = QBoxLayout.Direction.LeftToRight if beside else QBoxLayout.Direction.TopToBottom
        self._plots.setDirection(direction)

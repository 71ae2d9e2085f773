"""The status bar's permanent line: what is loaded, where, and the prediction beside the engine's own report."""

from PySide6.QtCore import QCoreApplication
from PySide6.QtWidgets import QHBoxLayout, QSizePolicy, QWidget

from app.engine.protocol import Loaded
from app.placement.comparison import memory_table
from app.placement.plan import CPU_LANE, Plan
from app.ui.controller import FAILED, LOADING, Controller
from app.ui.expert_cache import ExpertCache
from app.ui.theme import GRID, set_role
from app.ui.widgets import ElidedLabel
from app.ui.words import in_bytes, in_percent, number, part_in_words


class TruthLine(QWidget):
    """Model, devices, memory, expert device; details in the tooltips."""

    def __init__(self, controller: Controller, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._controller = controller
        self.model = ElidedLabel("", self)
        self.devices = ElidedLabel("", self)
        self.memory = ElidedLabel("", self)
        self.expert_device = ElidedLabel("", self)
        self.difference = ElidedLabel("", self)
        set_role(self.difference, "warning")
        self.model.setAccessibleName(self.tr("Model"))
        self.devices.setAccessibleName(self.tr("Devices"))
        self.memory.setAccessibleName(self.tr("Memory"))
        self.expert_device.setAccessibleName(self.tr("Expert device"))
        self.difference.setAccessibleName(self.tr("Differences from the plan"))
        row = QHBoxLayout(self)
        row.setContentsMargins(GRID, 0, GRID, 0)
        row.setSpacing(GRID)
        for label in (self.model, self.devices, self.memory, self.difference, self.expert_device):
            label.setSizePolicy(QSizePolicy.Policy.Maximum, QSizePolicy.Policy.Preferred)
            label.setMinimumWidth(4 * GRID)  # so that a narrow window shortens the words, with an ellipsis
            row.addWidget(label)
        row.addStretch(1)
        controller.state_changed.connect(lambda _state: self._update())
        controller.loaded.connect(lambda _report: self._update())
        controller.cache.changed.connect(self._show_pool)
        self._update()

    @property
    def text(self) -> str:
        """The whole line."""
        labels = (self.model, self.devices, self.memory, self.difference, self.expert_device)
        return " | ".join(label.text() for label in labels if label.text())

    def _update(self) -> None:
        controller = self._controller
        facts, plan, report = controller.loaded_facts, controller.loaded_plan, controller.loaded_report
        if facts is None or plan is None or report is None:
            self._show_nothing_loaded(controller.state)
            return
        self.model.setText(f"{facts.name} ({facts.quantization})")
        self.model.setToolTip("\n".join(facts.files))
        self.devices.setText(devices_in_words(plan, report))
        self.devices.setToolTip(lanes_in_words(report))
        self.memory.setText(memory_in_words(plan, report))
        self.memory.setToolTip(memory_in_detail(plan, report))
        self._show_pool()
        count = len(report.differences)
        one = self.tr("1 difference from the plan")
        many = self.tr("{count} differences from the plan").format(count=number(count))
        self.difference.setText(("" if not count else one) if count < 2 else many)
        self.difference.setToolTip("\n".join(report.differences))
        self.difference.setVisible(count > 0)

    def _show_pool(self) -> None:
        """The expert device, or the pool it fills where one was asked for."""
        facts, report = self._controller.loaded_facts, self._controller.loaded_report
        if facts is None or report is None:
            return
        words, reason = pool_in_words(self._controller.cache)
        self.expert_device.setText(words or expert_device_in_words(report, moe=bool(facts.moe_layers)))
        self.expert_device.setToolTip(reason if words else report.reason)

    def _show_nothing_loaded(self, state: str) -> None:
        words = {
            LOADING: self.tr("Loading the model…"),
            FAILED: self.tr("No model is loaded: the last load or the engine failed"),
        }
        self.model.setText(words.get(state, self.tr("No model is loaded")))
        self.model.setToolTip("")
        for label in (self.devices, self.memory, self.expert_device, self.difference):
            label.clear()
            label.setToolTip("")
        self.difference.hide()


def devices_in_words(plan: Plan, report: Loaded) -> str:
    """Where attention and experts are, as the engine reports it.

    Attention is where its cache is; what the engine reports no cache of is named as planned.
    """
    translate = QCoreApplication.translate
    lanes = sorted(set(report.expert_layers.values()))
    caches = sorted({buffer.device for buffer in report.buffers if buffer.part == "kv" and buffer.bytes})
    if caches and lanes in ([], caches):
        return " + ".join(caches)
    attention = " + ".join(caches)
    if not caches:
        attention = translate("TruthLine", "{device} (planned)").format(device=plan.gpu or CPU_LANE)
    if not lanes:
        return attention
    words = translate("TruthLine", "attention on {attention}, experts on {lanes}")
    return words.format(attention=attention, lanes=" + ".join(lanes))


def lanes_in_words(report: Loaded) -> str:
    """How many layers' experts each lane holds, one line each."""
    counts: dict[str, int] = {}
    for lane in report.expert_layers.values():
        counts[lane] = counts.get(lane, 0) + 1
    words = QCoreApplication.translate("TruthLine", "Experts of {count} layers on {lane}")
    return "\n".join(words.format(count=number(counts[lane]), lane=lane) for lane in sorted(counts))


def memory_in_words(plan: Plan, report: Loaded) -> str:
    """Prediction and report, of the parts that both name: nothing else may be compared."""
    both = [
        (row.predicted_bytes, row.reported_bytes)
        for row in memory_table(plan, report.buffers)
        if row.predicted_bytes is not None and row.reported_bytes is not None
    ]
    translate = QCoreApplication.translate
    if not both:
        return translate("TruthLine", "The engine reports nothing that was predicted")
    words = translate("TruthLine", "Predicted {predicted} · reported by the engine {reported}")
    predicted, reported = (sum(sizes) for sizes in zip(*both, strict=True))
    return words.format(predicted=in_bytes(predicted), reported=in_bytes(reported))


def memory_in_detail(plan: Plan, report: Loaded) -> str:
    """Prediction and report by device and part, also of what only one of them names."""
    translate = QCoreApplication.translate
    both = translate("TruthLine", "{device}, {part}: predicted {predicted}, reported {reported}")
    predicted_only = translate("TruthLine", "{device}, {part}: predicted {predicted}, not reported by the engine")
    reported_only = translate("TruthLine", "{device}, {part}: not predicted, reported {reported}")
    lines = []
    for row in memory_table(plan, report.buffers):
        words = both
        if row.reported_bytes is None:
            words = predicted_only
        elif row.predicted_bytes is None:
            words = reported_only
        lines.append(
            words.format(
                device=row.device,
                part=part_in_words(row.part),
                predicted=in_bytes(row.predicted_bytes or 0),
                reported=in_bytes(row.reported_bytes or 0),
            )
        )
    return "\n".join(lines)


def pool_in_words(cache: ExpertCache) -> tuple[str, str]:
    """The pool's three facts, and why it is not used; empty where none was asked for or nobody has looked.

    The latest facts count; who has not looked still has the last answer's report.
    """
    pool, last = cache.facts.pool if cache.facts else None, cache.last_answer
    told = pool or last
    if told is None or not told.requested_bytes:
        return "", ""
    translate = QCoreApplication.translate
    words = translate("TruthLine", "Expert pool: requested {requested}, allocated {allocated}, {used}").format(
        requested=in_bytes(told.requested_bytes),
        allocated=in_bytes(told.allocated_bytes),
        used=translate("TruthLine", "in use") if told.used else translate("TruthLine", "not in use"),
    )
    if last is not None and last.hits and last.misses is not None:
        share = in_percent(last.hits / (last.hits + last.misses))
        words += translate("TruthLine", ", hits {share}").format(share=share)
    return words, told.reason


def expert_device_in_words(report: Loaded, *, moe: bool) -> str:
    """Whether the routings of the CPU lane's experts are counted."""
    translate = QCoreApplication.translate
    if not moe:
        return translate("TruthLine", "Dense model: it has no experts")
    if report.expert_device:
        return translate("TruthLine", "Expert device on: routings on the CPU lane are counted")
    words = translate("TruthLine", "Expert device off: routings are not counted")
    return f"{words} ({report.reason})" if report.reason else words

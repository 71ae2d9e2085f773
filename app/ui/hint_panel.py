"""What the button of hints opens: every hint with its figures and action, and fixes that are shown first."""

from PySide6.QtCore import QEvent, QObject, QPoint, QRect, QSize, Qt
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QFrame, QLabel, QPushButton, QScrollArea, QVBoxLayout, QWidget

from app.doctor.hints import Hint
from app.ui.controller import Controller
from app.ui.hint_button import count_text
from app.ui.hint_card import HintCard
from app.ui.hint_fixes import Fixed, fixed
from app.ui.hint_place import place
from app.ui.hints import HintWatch
from app.ui.orders import Orders
from app.ui.theme import GRID, set_kind, set_role
from app.ui.words import number

WIDTH, MOST_HEIGHT = 520, 560
"""Pixels of what the button opens."""


class HintPanel(QFrame):
    """All hints below each other; Escape closes it, and so does a click beside it."""

    def __init__(self, watch: HintWatch, controller: Controller, orders: Orders, parent: QWidget) -> None:
        super().__init__(parent, Qt.WindowType.Popup)
        set_role(self, "popup")
        self.setAccessibleName(self.tr("Hints"))
        self._watch = watch
        self._controller = controller
        self._orders = orders
        self._base: object = None
        self._button: QWidget | None = None
        self.cards: dict[tuple[str, str], HintCard] = {}
        self._page = QWidget(self)
        self._page.setProperty("role", "page")
        self._column = QVBoxLayout(self._page)
        self._column.setContentsMargins(2 * GRID, 2 * GRID, 2 * GRID, 2 * GRID)
        self._column.setSpacing(GRID)
        self._heading = QLabel(self._page)
        set_role(self._heading, "heading")
        self.hidden_button = QPushButton(self._page)
        set_kind(self.hidden_button, "quiet")
        self.hidden_button.clicked.connect(watch.show_hidden)
        self._column.addWidget(self._heading)
        self._column.addWidget(self.hidden_button, 0, Qt.AlignmentFlag.AlignLeft)
        self._column.addStretch(1)
        self._scroll = QScrollArea(self)
        set_role(self._scroll, "bare")
        self._scroll.setWidgetResizable(True)
        self._scroll.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self._scroll.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self._scroll.setWidget(self._page)
        column = QVBoxLayout(self)
        column.setContentsMargins(1, 1, 1, 1)
        column.addWidget(self._scroll)
        self._page.installEventFilter(self)
        watch.changed.connect(self._show)
        controller.plan_changed.connect(self._show)
        self._show()

    def stand_at(self, button: QWidget) -> None:
        """As high as its hints, right at the button that opens it; so it stays while they change."""
        self._button = button
        self._stand()

    def _stand(self) -> None:
        if self._button is None:
            return
        for widget in (self, *self.findChildren(QWidget)):
            widget.ensurePolished()  # what was never shown has neither its font nor its margins yet
        around = self.contentsMargins() + self.layout().contentsMargins()
        frame = 2 * self._scroll.frameWidth()
        width = WIDTH - around.left() - around.right() - frame
        column = self._column
        # Nothing but the hint's height: the size hint of wrapped words is that of a narrower column, and taller.
        needed = column.totalHeightForWidth(width) if column.hasHeightForWidth() else column.totalSizeHint().height()
        wanted = QSize(WIDTH, min(needed + around.top() + around.bottom() + frame, MOST_HEIGHT))
        button = QRect(self._button.mapToGlobal(QPoint()), self._button.size())
        self.setGeometry(place(wanted, button, self._button.screen().availableGeometry(), GRID // 2))

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Stands anew when the hints take another height."""
        if watched is self._page and event.type() == QEvent.Type.LayoutRequest and self.isVisible():
            self._stand()
        return super().eventFilter(watched, event)

    def focus_first(self) -> None:
        """The keyboard goes to the first thing to press."""
        for card in self.cards.values():
            button = card.hide_button if card.show_button.isHidden() else card.show_button
            button.setFocus(Qt.FocusReason.PopupFocusReason)
            return
        self.hidden_button.setFocus(Qt.FocusReason.PopupFocusReason)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Escape closes it."""
        if event.key() == Qt.Key.Key_Escape:
            self.close()
            return
        super().keyPressEvent(event)

    # ---- what is shown ------------------------------------------------------------------------

    def _show(self, *_: object) -> None:
        hints = {(hint.rule, hint.about): hint for hint in self._watch.hints}
        for key in self.cards.keys() - hints.keys():
            card = self.cards.pop(key)
            self._column.removeWidget(card)
            card.hide()
            card.deleteLater()
        fixable = self._fixable
        for row, (key, hint) in enumerate(hints.items(), start=1):
            card = self.cards.get(key) or self._added(key, hint)
            card.show_hint(hint, fixable=fixable)
            if self._column.indexOf(card) != row:
                self._column.removeWidget(card)
                self._column.insertWidget(row, card)
        self.cards = {key: self.cards[key] for key in hints}
        self._heading.setText(count_text(len(hints)))
        hidden = self._watch.hidden
        self.hidden_button.setText(
            self.tr("Show 1 hidden hint again")
            if hidden == 1
            else self.tr("Show {count} hidden hints again").format(count=number(hidden))
        )
        self.hidden_button.setVisible(bool(hidden))
        if self.isVisible() and not hints and not hidden:
            self.close()

    def _added(self, key: tuple[str, str], hint: Hint) -> HintCard:
        card = self.cards[key] = HintCard(hint, self._page)
        card.fix_wanted.connect(lambda: self._work_out(key))
        card.accepted.connect(lambda its: self._change(key, its))
        card.hide_wanted.connect(lambda: self._watch.hide(card.hint))
        return card

    # ---- fixes --------------------------------------------------------------------------------

    @property
    def _fixable(self) -> bool:
        """Whether the plan being edited is of the model that was judged."""
        controller = self._controller
        judged = self._watch.facts
        return judged is not None and controller.facts is judged and controller.plan is not None

    def _work_out(self, key: tuple[str, str]) -> None:
        controller, card = self._controller, self.cards[key]
        facts, machine, plan = controller.facts, controller.machine, controller.plan
        if not self._fixable or facts is None or machine is None or plan is None:
            return
        changes, at_load = card.hint.fix, controller.plan_at_load
        job = controller.background.run(lambda: fixed(changes, facts, machine, plan, at_load))
        job.success(lambda result: self._worked_out(key, plan, result))

    def _worked_out(self, key: tuple[str, str], plan: object, result: Fixed) -> None:
        card = self.cards.get(key)
        if card is None:
            return
        if self._controller.plan is not plan:  # changed by other hands meanwhile
            self._work_out(key)
            return
        self._base = plan
        card.show_fix(result)

    def _change(self, key: tuple[str, str], result: Fixed) -> None:
        card = self.cards.get(key)
        if card is None or result.plan is None:
            return
        if self._controller.plan is not self._base:
            self._work_out(key)  # what was shown is of another plan: show the change anew
            return
        text = "; ".join(difference.text for difference in result.differences)
        self._orders.edit_plan(result.plan, text)
        card.show_done(result)

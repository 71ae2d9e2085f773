"""One knob: its name, the control, what its value does, what that is predicted to cost, and the ways back."""

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QHBoxLayout, QLabel, QPushButton, QVBoxLayout, QWidget

from app.ui.announce import announce
from app.ui.theme import GRID, set_kind
from app.ui.tuning.knob_editors import ChoiceEditor, DecimalEditor, NumberEditor, editor_for
from app.ui.tuning.knob_values import Situation, Turned, Value, bounds, choices, follows, value_of, why_not
from app.ui.tuning.knob_words import choice_word, does, knob_name, value_word, when_text, why_not_text
from app.ui.tuning.memory_editor import MemoryEditor
from app.ui.widgets import FoldingRow
from app.ui.wizard.widgets import label


class KnobRow(QWidget):
    """Shows where the knob stands in the plan being edited, and tells what the user wants of it.

    Signals:
        wanted: Another value is wanted (the knob's key, the value).
        automatic_wanted: The planner's choice is wanted (the knob's key).
        revert_wanted: What is loaded is wanted again (the knob's key).
    """

    wanted = Signal(str, object)
    automatic_wanted = Signal(str)
    revert_wanted = Signal(str)

    def __init__(self, key: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.key = key
        self._nearest: Value = None
        self._blocked = ""
        self.editor = (
            MemoryEditor(self)
            if key == "resident_bytes"
            else editor_for(key, self.tr("none"), self.tr("at once"), self)
        )
        self._name = label(knob_name(key), "strong", parent=self)
        self._name.setBuddy(self.editor.widget)
        self._badge = label("", "warning", wraps=False, parent=self)
        self._badge.setText(self.tr("changes answers"))
        self._badge.setVisible(key == "experts_used")
        self.automatic_button = QPushButton(self.tr("Automatic"), self)
        self.revert_button = QPushButton(self.tr("Back"), self)
        self.offer_button = QPushButton(self.tr("Use"), self)
        for button in (self.automatic_button, self.revert_button, self.offer_button):
            set_kind(button, "quiet")
        self._sentence = label("", "small", parent=self)
        self._when = label("", "small", parent=self)
        self._consequence = label("", parent=self)
        self._refusal = label("", "warning", parent=self)
        self._loaded = label("", "small", parent=self)
        self._lay_out()
        self.editor.changed.connect(self._changed)
        self.automatic_button.clicked.connect(lambda: self.automatic_wanted.emit(self.key))
        self.revert_button.clicked.connect(lambda: self.revert_wanted.emit(self.key))
        self.offer_button.clicked.connect(self._take_offer)
        self.clear_refusal()
        self.show_consequence("")

    def _lay_out(self) -> None:
        title = FoldingRow(self, spacing=GRID)
        title.add(self._name, 1)
        title.add(self._badge)
        controls = FoldingRow(self, spacing=GRID // 2)
        controls.add(self.editor.widget, 1)
        controls.add(self.automatic_button)
        back = QHBoxLayout()
        back.setSpacing(GRID // 2)
        back.addWidget(self._loaded, 1)
        back.addWidget(self.revert_button)
        back.addWidget(self.offer_button)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, GRID)
        column.setSpacing(GRID // 2)
        column.addWidget(title)
        column.addWidget(controls)
        for words in (self._sentence, self._when, self._consequence, self._refusal):
            column.addWidget(words)
        column.addLayout(back)

    @property
    def text(self) -> str:
        """Everything it says now."""
        labels: list[QLabel] = [self._name, self._sentence, self._when, self._consequence, self._refusal, self._loaded]
        return "\n".join(words.text() for words in labels if words.isVisibleTo(self) and words.text())

    # ---- what is shown ------------------------------------------------------------------------

    def show_plan(
        self,
        situation: Situation,
        loaded: Value,
        *,
        is_loaded: bool,
        followed: bool = False,
        blocked: str = "",
    ) -> None:
        """Show where the knob stands.

        Args:
            situation: Model, machine and the plan being edited.
            loaded: Where the knob goes back to: where it stands in what runs now, or where it stood at the load if it
                is `followed`.
            is_loaded: Whether the model is; else `loaded` says nothing.
            followed: Whether the loaded model has taken the knob's value since the load, without a reload.
            blocked: Why it cannot be turned, in words, where that does not follow from the situation.
        """
        value = value_of(situation.plan, self.key, situation.facts)
        self._show_value(value, situation)
        self._blocked = blocked or why_not_text(why_not(self.key, situation))
        self.editor.widget.setEnabled(not self._blocked)
        self._sentence.setText(does(self.key, value, situation))
        self._when.setText(self._blocked or when_text(self.key, live=follows(self.key, situation), loaded=is_loaded))
        changed = is_loaded and value != loaded
        machine = situation.machine
        words = value_word(self.key, loaded, machine) if is_loaded else ""
        # The mark is a word, not a colour: "(changed)" is heard too.
        name = knob_name(self.key)
        marked = self.tr("{name} (changed since the load)") if followed else self.tr("{name} (changed)")
        self._name.setText(marked.format(name=name) if changed else name)
        self._show_button(self.revert_button, changed)
        was = self.tr("At the load: {value}") if followed else self.tr("Runs now with: {value}")
        self._loaded.setText(was.format(value=words) if changed else "")
        back = (
            self.tr("{name}: back to {value}, as it was loaded")
            if followed
            else self.tr("{name}: back to {value}, as it runs now")
        )
        self.revert_button.setAccessibleName(back.format(name=name, value=words))
        self.revert_button.setToolTip(
            self.tr("Back to what was loaded") if followed else self.tr("Back to what runs now")
        )
        self._describe()

    def show_automatic(self, value: Value, situation: Situation, *, known: bool) -> None:
        """Say what the planner would choose; `known` is false until that was found out."""
        here = value_of(situation.plan, self.key, situation.facts)
        words = value_word(self.key, value, situation.machine) if known else ""
        self.automatic_button.setEnabled(known and value != here and not self._blocked)
        text = self.tr("The planner's choice: {value}").format(value=words) if known else ""
        self.automatic_button.setToolTip(text)
        self.automatic_button.setAccessibleName(self.tr("{name}: automatic").format(name=knob_name(self.key)))
        self.automatic_button.setAccessibleDescription(text)

    def show_consequence(self, text: str) -> None:
        """What the value is predicted to change; empty for nothing to tell."""
        self._consequence.setText(text)
        self._consequence.setVisible(bool(text))
        self._describe()

    def show_refusal(self, wanted: Value, turned: Turned, situation: Situation) -> None:
        """Say why `wanted` was refused, and offer the nearest value that fits."""
        machine = situation.machine
        what = self.tr("Not {value}: {reason}").format(
            value=value_word(self.key, wanted, machine), reason=turned.refusal
        )
        self._refusal.setText(what)
        self._refusal.show()
        self._nearest = turned.nearest
        self.offer_button.setText(self.tr("Use {value}").format(value=value_word(self.key, turned.nearest, machine)))
        self.offer_button.setAccessibleName(f"{knob_name(self.key)}: {self.offer_button.text()}")
        self._show_button(self.offer_button, turned.nearest is not None)
        self._show_value(value_of(situation.plan, self.key, situation.facts), situation)
        self._describe()
        self.setAccessibleName(what)
        announce(self)

    def clear_refusal(self) -> None:
        """Nothing is refused any more."""
        self._nearest = None
        self.setAccessibleName(knob_name(self.key))
        self._refusal.clear()
        self._refusal.hide()
        self._show_button(self.offer_button, False)
        self._describe()

    def _show_value(self, value: Value, situation: Situation) -> None:
        editor = self.editor
        if isinstance(editor, ChoiceEditor):
            words = ((choice_word(self.key, item, situation.machine), item) for item in choices(self.key, situation))
            editor.show_choices(value, tuple(words))
            return
        least, most = bounds(self.key, situation)
        if isinstance(editor, MemoryEditor):
            editor.show_budget(value if isinstance(value, int) else None, int(most))
        elif isinstance(editor, NumberEditor) and isinstance(value, int):
            editor.show_number(value, int(least), int(most))
        elif isinstance(editor, DecimalEditor) and isinstance(value, int | float):
            editor.show_number(float(value), least, most)

    def _show_button(self, button: QPushButton, shown: bool) -> None:
        if not shown and button.hasFocus():
            # Hiding the button that has the keyboard would hand it on to anything.
            self.editor.widget.setFocus(Qt.FocusReason.OtherFocusReason)
        button.setVisible(shown)
        # Beside a button it takes the room that is left, also without a word.
        self._loaded.setVisible(not (self.revert_button.isHidden() and self.offer_button.isHidden()))

    def _describe(self) -> None:
        control = self.editor.widget
        control.setAccessibleName(knob_name(self.key))
        said = (self._badge, self._sentence, self._when, self._consequence, self._refusal, self._loaded)
        control.setAccessibleDescription(" ".join(words.text() for words in said if not words.isHidden()))
        control.setToolTip(self._sentence.text())

    # ---- what the user does -------------------------------------------------------------------

    def _changed(self) -> None:
        self.clear_refusal()
        self.wanted.emit(self.key, self.editor.value)

    def _take_offer(self) -> None:
        nearest = self._nearest
        self.clear_refusal()
        if nearest is not None:
            self.wanted.emit(self.key, nearest)

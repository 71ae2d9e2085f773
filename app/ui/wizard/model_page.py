"""Page 1: three ways to choose a model, and what the chosen one is."""

from pathlib import Path

from PySide6.QtCore import QTimer, Signal
from PySide6.QtWidgets import QFileDialog, QHBoxLayout, QPushButton, QWidget

from app.errors import AppError
from app.library.demo import demo_model_path
from app.library.models import LocalModel
from app.model.facts import ModelFacts
from app.ui.background import Background
from app.ui.theme import GRID, Theme, set_role
from app.ui.widgets import StackedBar, Swatch
from app.ui.wizard.bars import part_color, part_segment
from app.ui.wizard.demo_card import DemoCard
from app.ui.wizard.model_list import ModelList
from app.ui.wizard.widgets import Card, Columns, FactRows, Page, label
from app.ui.wizard.words import model_meaning, model_rows
from app.ui.words import in_bytes


class ModelPage(Page):
    """The demo, the models found here, any file; beside them the chosen one.

    Signals:
        chosen: The user chose a model file (Path); whether it is one is not known yet.
    """

    chosen = Signal(object)

    def __init__(
        self, background: Background, theme: Theme, models_folder: Path, parent: QWidget | None = None
    ) -> None:
        super().__init__(
            self.tr("Choose a model"),
            self.tr("A model is one GGUF file, or several that belong together. It stays on this machine."),
            parent,
        )
        self._models_folder = models_folder
        self._facts: ModelFacts | None = None
        self.demo = DemoCard(background, theme)
        self.demo.wanted.connect(self.chosen)
        self.demo.failed.connect(self.banner.tell)
        self.models = ModelList(theme)
        self.models.chosen.connect(self.chosen)
        self._none_found = label("", "muted")
        self.open_button = QPushButton(self.tr("&Open a GGUF file…"))
        self.open_button.clicked.connect(self._open)
        self.card = ChosenCard(theme)
        columns = Columns(6, 5)
        columns.left.addWidget(self.demo)
        columns.left.addWidget(self._here(theme))
        columns.left.addStretch(1)
        columns.right.addWidget(self.card)
        columns.right.addStretch(1)
        self.column.addWidget(columns)
        self.column.addStretch(1)
        self.show_models(())

    def _here(self, theme: Theme) -> Card:
        here = Card(theme, self.tr("Models on this machine"))
        here.column.addWidget(self._none_found)
        here.column.addWidget(self.models)
        row = QHBoxLayout()
        row.setSpacing(2 * GRID)
        row.addWidget(self.open_button)
        row.addWidget(label(self.tr("or drop one anywhere on this window"), "muted"), 1)
        here.column.addSpacing(GRID // 2)
        here.column.addLayout(row)
        return here

    def first_focus(self) -> QWidget | None:
        """The demo for a newcomer, the button that goes on for who has chosen already."""
        return self.demo.button if self._facts is None else None

    def show_models(self, models: tuple[LocalModel, ...]) -> None:
        """Show the models found on this machine; the demo has its own card."""
        listed = [model for model in models if model.path != demo_model_path()]
        self.models.show_models(listed)
        self.models.setVisible(bool(listed))
        self._none_found.setVisible(not listed)
        self._none_found.setText(self.tr("No other models in {folder}.").format(folder=self._models_folder))
        self.demo.refresh()
        self._mark_chosen()

    def show_reading(self, path: Path) -> None:
        """A file is being read; what was chosen before stays until it proves to be a model."""
        self.demo.supersede()
        self.banner.clear()
        self.card.show_reading(path)

    def show_facts(self, facts: ModelFacts) -> None:
        """Show the chosen model."""
        self._facts = facts
        self.banner.clear()
        self.card.show_facts(facts)
        self._mark_chosen()
        # In a narrow window the card is below the fold; it has its size after the next layout.
        QTimer.singleShot(0, self, lambda: self.ensureWidgetVisible(self.card, 0, GRID))

    def show_failure(self, error: AppError) -> None:
        """Tell why a file cannot be used; what was chosen before stays chosen."""
        self.banner.tell(error)
        self.ensureWidgetVisible(self.banner)
        self.end_reading()

    def end_reading(self) -> None:
        """Nothing is being read any more: show what is chosen."""
        if self._facts is not None:
            self.card.show_facts(self._facts)
        else:
            self.card.show_nothing()
        self._mark_chosen()

    def _mark_chosen(self) -> None:
        path = Path(self._facts.files[0]) if self._facts else None
        self.demo.set_prominent(path is None)
        self.demo.selected = path is not None and path == demo_model_path()
        self.models.select(path)

    def _open(self) -> None:
        folder = Path(self._facts.files[0]).parent if self._facts else self._models_folder
        # Of a folder that is not there the dialog would make the name of a file in the one above.
        name, _ = QFileDialog.getOpenFileName(
            self,
            self.tr("Open a GGUF file"),
            str(folder if folder.is_dir() else Path.home()),
            self.tr("GGUF models (*.gguf *.GGUF);;All files (*)"),
        )
        if name:
            self.chosen.emit(Path(name))


class ChosenCard(Card):
    """What the chosen model is, in words and as one bar."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(theme, parent=parent)
        self._note = label("", "muted")
        self._rows = FactRows()
        self._bar = StackedBar(theme)
        self._bar_caption = label(self.tr("Where its bytes are"), "muted")
        self._legend = QWidget()
        self._experts, self._rest = label(wraps=False), label(wraps=False)
        legend = QHBoxLayout(self._legend)
        legend.setContentsMargins(0, 0, 0, 0)
        legend.setSpacing(GRID)
        for part, words in (("experts", self._experts), ("weights", self._rest)):
            legend.addWidget(Swatch(part_color(part), theme))
            legend.addWidget(words)
            legend.addSpacing(GRID)
        legend.addStretch(1)
        self._meaning = label()
        self._path = label("", "small", selectable=True)
        self.column.addWidget(self._note)
        self.column.addWidget(self._rows)
        self.column.addSpacing(GRID // 2)
        for widget in (self._bar_caption, self._bar, self._legend):
            self.column.addWidget(widget)
        self.column.addSpacing(GRID // 2)
        self.column.addWidget(self._meaning)
        self.column.addWidget(self._path)
        self.show_nothing()

    @property
    def text(self) -> str:
        """Everything it says."""
        labels = (self.heading, self._note, self._experts, self._rest, self._meaning)
        said = [words.text() for words in labels if not words.isHidden()]
        return "\n".join([*said, self._rows.text])

    def show_nothing(self) -> None:
        """No model is chosen."""
        self._show_note(
            self.tr("No model chosen yet"),
            self.tr("Here you will see what is in it: its layers, its experts, and how much of it each token reads."),
        )

    def show_reading(self, path: Path) -> None:
        """A file is being read."""
        self._show_note(path.name, self.tr("Reading what is in it…"))

    def show_facts(self, facts: ModelFacts) -> None:
        """What the file says."""
        self.set_heading(facts.name)
        self._rows.show_rows(model_rows(facts))
        rest = facts.bytes.total - facts.bytes.experts
        experts, other = in_bytes(facts.bytes.experts), in_bytes(rest)
        self._experts.setText(self.tr("experts {size}").format(size=experts))
        self._rest.setText(self.tr("everything else {size}").format(size=other))
        segments = (part_segment("experts", facts.bytes.experts), part_segment("weights", rest))
        words = self.tr("Experts {experts}, everything else {other}").format(experts=experts, other=other)
        self._bar.show_segments(segments, facts.bytes.total, words)
        self._meaning.setText(model_meaning(facts))
        set_role(self._meaning, "" if facts.moe_layers else "warning")
        self._path.setText(facts.files[0])
        self._set_shown(facts=True, bar=bool(facts.moe_layers))

    def _show_note(self, heading: str, note: str) -> None:
        self.set_heading(heading)
        self._note.setText(note)
        self._rows.show_rows(())
        self._set_shown(facts=False, bar=False)

    def _set_shown(self, *, facts: bool, bar: bool) -> None:
        self._note.setVisible(not facts)
        for widget in (self._rows, self._meaning, self._path):
            widget.setVisible(facts)
        for widget in (self._bar_caption, self._bar, self._legend):
            widget.setVisible(bar)

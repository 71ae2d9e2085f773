"""Which experts of the board are selected: by hand, as the hottest ones, and what a search for one means."""

import re

import numpy as np
from PySide6.QtCore import QObject, Signal

from app.errors import AppError, ErrorCode
from app.ui.lanes.board import Board, Mask
from app.ui.lanes.words import runs_text, translate
from app.ui.words import in_bytes, number

LONGEST_SEARCH = 60
"""Characters: more is no layer and expert."""
_TOKENS = re.compile(r"[^\W\d_]+|[0-9]+|[\s,/:.#]+")
_LAYER_WORDS = ("layer", "l", "row")
_EXPERT_WORDS = ("expert", "e", "x")


class Selection(QObject):
    """Selected cells of a board, whatever lane each is in.

    It stays while the engine moves experts about, and is empty again when the board shows other cells.

    Signals:
        changed: Other cells are selected.
    """

    changed = Signal()

    def __init__(self, board: Board, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._board = board
        self._mask: Mask = np.zeros(board.lane.shape, bool)

    @property
    def mask(self) -> Mask:
        """The selected cells, shape (rows, experts) of the board; not to be written to."""
        if self._mask.shape != self._board.lane.shape:  # the board was rebuilt and nobody has said so yet
            self._mask = np.zeros(self._board.lane.shape, bool)
        return self._mask

    @property
    def count(self) -> int:
        """How many experts are selected."""
        return int(np.count_nonzero(self.mask))

    @property
    def bytes(self) -> int:
        """What the selected experts weigh."""
        return int(self.mask.sum(axis=1) @ self._board.expert_bytes)

    def cells(self) -> dict[int, tuple[int, ...]]:
        """The selected experts by layer, both rising."""
        return self._board.cells(self.mask)

    def set(self, mask: Mask) -> None:
        """Select these and no others.

        Raises:
            ValueError: `mask` has not the board's shape.
        """
        self._take(self._checked(mask).copy())

    def add(self, mask: Mask) -> None:
        """Select these too; raises as `set` does."""
        self._take(self.mask | self._checked(mask))

    def toggle(self, mask: Mask) -> None:
        """Select those of these that are not selected, and no longer the others; raises as `set` does."""
        self._take(self.mask ^ self._checked(mask))

    def clear(self) -> None:
        """Select nothing."""
        self._take(np.zeros(self._board.lane.shape, bool))

    def hottest(self, percent: float, layer: int | None = None) -> None:
        """Select the experts that were routed to most often, `percent` of one layer's or of every layer's.

        Every layer is taken by itself, for the pool has as many slots for each: at least one expert of a layer,
        and none that was never routed to. Of equally hot ones the first are taken.

        Args:
            percent: Above 0, to 100.
            layer: One layer's index in the model file; None for every layer whose routings are counted.

        Raises:
            AppError: bad_usage: no such share or layer, or nothing was counted.
        """
        board = self._board
        if not 0 < percent <= 100:
            raise _refusal(translate("Lanes", "Choose a share above 0 and up to 100 %."))
        rows = np.arange(board.rows) if layer is None else np.array([self._row(layer)])
        routed = board.routed[rows]
        if not routed.any():
            raise _refusal(self._why_not_counted(layer))
        wanted = max(int(board.experts * percent / 100 + 0.5), 1)
        order = np.argsort(-routed, axis=1, kind="stable")[:, :wanted]
        mask = np.zeros(board.lane.shape, bool)
        mask[rows[:, None], order] = np.take_along_axis(routed, order, axis=1) > 0
        self._take(mask)

    def search(self, text: str) -> tuple[int, int | None]:
        """What a search means: a layer, or a layer and an expert of it.

        "layer 12 expert 7", "L12 E7", "12/7", "12 7", "expert 7, layer 12" and "12" are all understood.

        Returns:
            The layer's index in the model file and the expert's in the layer, None for the whole layer.

        Raises:
            AppError: bad_usage: it means neither, or the model does not have it.
        """
        layer, expert = _understood(text)
        self._row(layer)
        if expert is not None and expert >= self._board.experts:
            words = translate("Lanes", "Layer {layer} has no expert {expert}: its experts are 0 to {last}.")
            raise _refusal(words.format(layer=layer, expert=expert, last=self._board.experts - 1))
        return layer, expert

    def spoken(self) -> str:
        """The selection in a sentence: "12 experts of 3 layers selected, 32.6 MiB"."""
        rows, count = np.flatnonzero(self.mask.any(axis=1)), self.count  # every lane asks, also with all selected
        if not count:
            return translate("Lanes", "Nothing selected")
        layer, size = self._board.layers[rows[0]], in_bytes(self.bytes)
        if count == 1:
            words = translate("Lanes", "Layer {layer}, expert {expert} selected, {size}")
            return words.format(layer=layer, expert=int(self.mask[rows[0]].argmax()), size=size)
        if len(rows) == 1:
            words = translate("Lanes", "{count} experts of layer {layer} selected, {size}")
            return words.format(count=number(count), layer=layer, size=size)
        words = translate("Lanes", "{count} experts of {layers} layers selected, {size}")
        return words.format(count=number(count), layers=number(len(rows)), size=size)

    # ---- inside -------------------------------------------------------------------------------

    def _take(self, mask: Mask) -> None:
        if not np.array_equal(mask, self.mask):
            self._mask = mask
            self.changed.emit()

    def forget(self) -> None:
        """The board shows other cells: select none of them."""
        had = bool(self._mask.any())
        self._mask = np.zeros(self._board.lane.shape, bool)
        if had:
            self.changed.emit()

    def _checked(self, mask: Mask) -> Mask:
        if mask.shape != self._board.lane.shape:
            raise ValueError(f"a mask of {mask.shape} for a board of {self._board.lane.shape}")
        return mask

    def _row(self, layer: int) -> int:
        board = self._board
        if not board.rows:
            raise _refusal(translate("Lanes", "No experts are shown: choose a model that has some."))
        try:
            return board.row_of(layer)
        except KeyError:
            words = translate("Lanes", "No layer {layer} with experts: the model has {layers}.")
            raise _refusal(words.format(layer=layer, layers=runs_text(board.layers))) from None

    def _why_not_counted(self, layer: int | None) -> str:
        if not self._board.rows:
            return translate("Lanes", "No experts are shown: choose a model that has some.")
        if not self._board.counted.any():
            return translate(
                "Lanes",
                "Which experts are the hottest is not known: no routings are counted now. Load the model and ask "
                "something.",
            )
        if layer is not None and not self._board.counted[self._board.row_of(layer)]:
            words = translate("Lanes", "Layer {layer} was loaded on a GPU as a whole: its routings are not counted.")
            return words.format(layer=layer)
        return translate(
            "Lanes", "Which experts are the hottest is not known: nothing was routed yet. Ask the model something."
        )


def _understood(text: str) -> tuple[int, int | None]:
    """Layer and expert that a text names."""
    named: dict[str, int] = {}
    kind = ""
    found = "".join(match.group() for match in _TOKENS.finditer(text)) if len(text) <= LONGEST_SEARCH else ""
    if found != text or not text.strip():
        raise _not_understood(text)
    for token in _TOKENS.findall(text):
        word = token.casefold()
        if word[0].isdecimal():
            kind = kind or ("expert" if "layer" in named else "layer")
            if kind in named:
                raise _not_understood(text)
            named[kind], kind = int(word), ""
        elif word in _words_for(_LAYER_WORDS, translate("Lanes", "layer")):
            kind = "layer"
        elif word in _words_for(_EXPERT_WORDS, translate("Lanes", "expert")):
            kind = "expert"
        elif word.strip(" \t,/:.#"):
            raise _not_understood(text)
    if kind or not named:
        raise _not_understood(text)
    if "layer" not in named:
        words = translate("Lanes", "Every layer has an expert {expert}. Say which layer too, such as “12/{expert}”.")
        raise _refusal(words.format(expert=named["expert"]))
    return named["layer"], named.get("expert")


def _words_for(english: tuple[str, ...], translated: str) -> set[str]:
    return {*english, translated.casefold()}


def _not_understood(text: str) -> AppError:
    shown = text.strip()
    if len(shown) > LONGEST_SEARCH:
        shown = shown[:LONGEST_SEARCH] + "…"
    words = translate("Lanes", "“{text}” names no layer and expert. Try “layer 12 expert 7”, “12/7” or “12”.")
    return _refusal(words.format(text=shown))


def _refusal(text: str) -> AppError:
    return AppError(ErrorCode.BAD_USAGE, text)

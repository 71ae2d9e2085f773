"""An answer as it grows: finished blocks are laid out once, only what may still change is drawn again."""

import itertools
from typing import TypeVar

from PySide6.QtWidgets import QWidget

from app.ui.chat.markdown import Block, TextLook, split_blocks
from app.ui.chat.stack import Stack
from app.ui.chat.text_view import CodeView, TextView
from app.ui.theme import GRID

View = TypeVar("View", TextView, CodeView)


class AnswerBody(Stack):
    """Markdown in a column of prose and code views.

    The first `_solid` views hold finished blocks. What follows the finished blocks, in the last solid
    view and in further ones, is the tail: the one or two blocks that more text may still change.
    """

    def __init__(self, look: TextLook, accessible_name: str, parent: QWidget | None = None) -> None:
        super().__init__(GRID + 4, parent=parent)
        self._look = look
        self._name = accessible_name
        self._source = ""
        self._half_line_end = ""
        self._finished = 0
        self._views: list[TextView | CodeView] = []
        self._solid = 0
        self._used = 0

    @property
    def source(self) -> str:
        """The markdown shown."""
        return self._source

    @property
    def views(self) -> tuple[TextView | CodeView, ...]:
        """The views, from the top."""
        return tuple(self._views)

    def append(self, text: str) -> None:
        """More of the answer."""
        text = self._half_line_end + text
        self._half_line_end = "\r" if text.endswith("\r") else ""
        text = text.removesuffix("\r").replace("\r\n", "\n").replace("\r", "\n")
        self._source += text
        self._draw_from(self._finished)

    def set_look(self, look: TextLook) -> None:
        """Draw everything again in another look."""
        self._look = look
        self._remove_views(0)
        self._solid = 0
        self._finished = 0
        self._draw_from(0)

    def _draw_from(self, start: int) -> None:
        rest = self._source[start:]
        blocks = split_blocks(rest)
        self._used = solid_before = self._solid
        last_solid = self._views[self._solid - 1] if self._solid else None
        if isinstance(last_solid, TextView):
            last_solid.drop_tail()
        for block, following in itertools.zip_longest(blocks, blocks[1:]):
            view = self._draw(block)
            # A block has ended once another begins on a line that is whole: half a line ("*") may yet
            # turn out to be part of the block before it.
            has_ended = following is not None and "\n" in rest[following.start :]
            if has_ended and (isinstance(view, CodeView) or view.commit()):
                self._solid = self._used
                self._finished = start + block.end
        self._remove_views(self._used)
        for view in self._views[max(0, solid_before - 1) :]:
            if isinstance(view, TextView):
                view.fit()

    def _draw(self, block: Block) -> TextView | CodeView:
        """Show `block` after those drawn before it, in a view of its kind; tail views are used again."""
        if block.code is not None:
            code_view = self._next_view(CodeView)
            code_view.set_language(block.language)
            code_view.set_code(block.code)
            return code_view
        current = self._views[self._used - 1] if self._used else None
        if not isinstance(current, TextView):
            current = self._next_view(TextView)
            current.drop_tail()
        current.write(block, self._look)
        return current

    def _next_view(self, kind: type[View]) -> View:
        if self._used == len(self._views) or not isinstance(self._views[self._used], kind):
            self._remove_views(self._used)
            made = kind(self)
            if isinstance(made, TextView):
                made.setAccessibleName(self._name)
            self._views.append(made)
            self.add(made)
        view = self._views[self._used]
        assert isinstance(view, kind)
        self._used += 1
        return view

    def _remove_views(self, first: int) -> None:
        while len(self._views) > first:
            self.remove(self._views.pop())

"""Markdown to rich text, block by block: nothing is fetched, no HTML is obeyed, links are http(s) only.

Qt's own importer replaces whole documents and its fragments do not join cleanly, so the parser's
tokens are written with a text cursor; finished blocks then never need to be touched again.
"""

import functools
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from PySide6.QtCore import Qt
from PySide6.QtGui import (
    QColor,
    QFont,
    QTextBlock,
    QTextBlockFormat,
    QTextCharFormat,
    QTextCursor,
    QTextFormat,
    QTextFrameFormat,
    QTextLength,
    QTextList,
    QTextListFormat,
    QTextTableFormat,
)

from app.ui.theme import GRID, Colors

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

LINE_BREAK = "\u2028"
LINE_HEIGHT_PERCENT = 138.0
_RULE = QTextFormat.Property.BlockTrailingHorizontalRulerWidth
_ALIGNMENT = {
    "text-align:center": Qt.AlignmentFlag.AlignHCenter,
    "text-align:right": Qt.AlignmentFlag.AlignRight,
}
_HEADING_SCALE = {1: 1.5, 2: 1.3, 3: 1.15}
_BULLETS = (
    QTextListFormat.Style.ListDisc,
    QTextListFormat.Style.ListCircle,
    QTextListFormat.Style.ListSquare,
)


@functools.cache
def _parser() -> "MarkdownIt":
    # Imported with the first message: it would delay the first window by a fifth.
    from markdown_it import MarkdownIt  # noqa: PLC0415

    return MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])


def warm_up() -> None:
    """Load the parser; call it off the UI thread before the first message."""
    _parser().parse("")


@dataclass(frozen=True)
class Block:
    """One top-level block: `source[start:end]` and its tokens; `code` is set for a code block."""

    start: int
    end: int
    tokens: "tuple[Token, ...]"
    code: str | None = None
    language: str = ""


def split_blocks(source: str) -> list[Block]:
    """The top-level blocks of `source`, in order. Only the last may still change when text is added."""
    starts = [0, *(index + 1 for index, character in enumerate(source) if character == "\n")]

    def offset(line: int) -> int:
        return starts[line] if line < len(starts) else len(source)

    blocks = []
    for group in _top_level(_parser().parse(source)):
        first = group[0]
        assert first.map is not None, "a top-level block token knows its lines"
        start, end = offset(first.map[0]), offset(first.map[1])
        if first.type in ("fence", "code_block"):
            language = first.info.split()[0] if first.info.split() else ""
            blocks.append(Block(start, end, tuple(group), first.content.rstrip("\n"), language))
        else:
            blocks.append(Block(start, end, tuple(group)))
    return blocks


def _top_level(tokens: "Sequence[Token]") -> "Iterator[list[Token]]":
    group: list[Token] = []
    depth = 0
    for token in tokens:
        group.append(token)
        depth += token.nesting
        if depth == 0:
            yield group
            group = []


@dataclass(frozen=True)
class TextLook:
    """How rich text looks: the font's size in points and the colours."""

    points: float
    monospace: QFont
    colors: Colors


@dataclass
class _List:
    format: QTextListFormat
    made: QTextList | None = None


@dataclass
class Writer:
    """Writes blocks at a cursor that stands at the end of its document."""

    cursor: QTextCursor
    look: TextLook
    _lists: list[_List] = field(default_factory=list)
    _item_pending: bool = False
    _quotes: int = 0
    _heading: int = 0

    def write(self, block: Block) -> None:
        """Append one top-level block."""
        tokens = iter(block.tokens)
        self.cursor.beginEditBlock()  # one layout for all of it
        for token in tokens:
            if token.type == "table_open":
                self._table(list(itertools.takewhile(lambda inner: inner.type != "table_close", tokens)))
            else:
                self._block_token(token)
        self.cursor.endEditBlock()

    def write_plain(self, text: str) -> None:
        """Append `text` as one paragraph, exactly as it is."""
        self._begin_block(self._paragraph_format(tight=True))
        self.cursor.insertText(text.replace("\n", LINE_BREAK), self._text_format())

    def _block_token(self, token: "Token") -> None:
        match token.type:
            case "paragraph_open":
                self._begin_block(self._paragraph_format(tight=token.hidden))
            case "heading_open":
                self._heading = int(token.tag[1])
                self._begin_block(self._heading_format(self._heading))
            case "heading_close":
                self._heading = 0
            case "inline":
                self._inline(token, self._text_format())
            case "bullet_list_open" | "ordered_list_open":
                self._lists.append(_List(self._list_format(token)))
            case "bullet_list_close" | "ordered_list_close":
                self._lists.pop()
                self._item_pending = False
            case "list_item_open":
                self._item_pending = True
            case "blockquote_open":
                self._quotes += 1
            case "blockquote_close":
                self._quotes -= 1
            case "fence" | "code_block":
                self._begin_block(self._code_block_format())
                code = token.content.rstrip("\n").replace("\n", LINE_BREAK)
                self.cursor.insertText(code, self._code_format())
            case "hr":
                ruled = QTextBlockFormat()
                ruled.setProperty(
                    _RULE,
                    QTextLength(QTextLength.Type.PercentageLength, 100),
                )
                self._begin_block(ruled)
                # An empty block would lose its format when the tail after it is taken away.
                small = self._text_format()
                small.setFontPointSize(self.look.points / 2)
                self.cursor.insertText("\u00a0", small)
            case _:
                pass  # closing tokens carry nothing

    # ---- blocks -------------------------------------------------------------------------------

    def _begin_block(self, block_format: QTextBlockFormat) -> None:
        block = self.cursor.block()
        if block.blockNumber() == 0 and not block.text():
            block_format.setTopMargin(0)
        if is_spare(block):
            self.cursor.setBlockFormat(block_format)
            self.cursor.setBlockCharFormat(self._text_format())
        else:
            self.cursor.insertBlock(block_format, self._text_format())
        if self._item_pending and self._lists:
            current = self._lists[-1]
            if current.made is None:
                current.made = self.cursor.createList(current.format)
            else:
                current.made.add(self.cursor.block())
            self._item_pending = False

    def _paragraph_format(self, *, tight: bool) -> QTextBlockFormat:
        made = QTextBlockFormat()
        _set_line_height(made)
        gap = GRID // 4 if tight else GRID // 2 + 1
        made.setTopMargin(gap)
        made.setBottomMargin(gap)
        if self._lists and not self._item_pending:
            made.setIndent(len(self._lists))
        made.setLeftMargin(2 * GRID * self._quotes)
        return made

    def _heading_format(self, level: int) -> QTextBlockFormat:
        made = self._paragraph_format(tight=False)
        made.setHeadingLevel(level)
        made.setTopMargin(2 * GRID if level < 3 else GRID + 4)
        made.setBottomMargin(GRID // 2)
        return made

    def _code_block_format(self) -> QTextBlockFormat:
        made = self._paragraph_format(tight=False)
        made.setBackground(self.look.colors.raised)
        made.setNonBreakableLines(False)
        return made

    def _list_format(self, token: "Token") -> QTextListFormat:
        made = QTextListFormat()
        depth = len(self._lists)
        made.setIndent(depth + 1)
        if token.type == "ordered_list_open":
            made.setStyle(QTextListFormat.Style.ListDecimal)
            made.setStart(int(token.attrGet("start") or 1))
        else:
            made.setStyle(_BULLETS[min(depth, len(_BULLETS) - 1)])
        return made

    def _table(self, tokens: "list[Token]") -> None:
        rows: list[list[tuple[Token, Token]]] = []
        for opening, inline in itertools.pairwise(tokens):
            if opening.type == "tr_open":
                rows.append([])
            if opening.type in ("th_open", "td_open"):
                rows[-1].append((opening, inline))
        table_format = QTextTableFormat()
        table_format.setBorder(1)
        table_format.setBorderCollapse(True)
        table_format.setBorderStyle(QTextFrameFormat.BorderStyle.BorderStyle_Solid)
        table_format.setBorderBrush(self.look.colors.border)
        table_format.setCellPadding(GRID - 2)
        table_format.setCellSpacing(0)
        table_format.setTopMargin(GRID)
        table_format.setBottomMargin(GRID)
        table = self.cursor.insertTable(len(rows), max(len(row) for row in rows), table_format)
        for row_number, row in enumerate(rows):
            for column, (opening, inline) in enumerate(row):
                cell = Writer(table.cellAt(row_number, column).firstCursorPosition(), self.look)
                text_format = cell._text_format()
                if opening.type == "th_open":
                    text_format.setFontWeight(QFont.Weight.DemiBold)
                aligned = QTextBlockFormat()
                aligned.setAlignment(_ALIGNMENT.get(str(opening.attrGet("style")), Qt.AlignmentFlag.AlignLeft))
                cell.cursor.setBlockFormat(aligned)
                cell._inline(inline, text_format)
        self.cursor.movePosition(QTextCursor.MoveOperation.End)

    # ---- text ---------------------------------------------------------------------------------

    def _text_format(self) -> QTextCharFormat:
        made = QTextCharFormat()
        made.setForeground(self.look.colors.muted_text if self._quotes else self.look.colors.text)
        made.setFontPointSize(self.look.points * _HEADING_SCALE.get(self._heading, 1.0))
        if self._heading:
            made.setFontWeight(QFont.Weight.DemiBold)
        return made

    def _code_format(self) -> QTextCharFormat:
        made = QTextCharFormat()
        made.setFont(self.look.monospace)
        made.setForeground(self.look.colors.text)
        made.setBackground(self.look.colors.raised)
        return made

    def _inline(self, token: "Token", plain: QTextCharFormat) -> None:
        formats = [plain]
        for child in token.children or []:
            current = formats[-1]
            match child.type:
                case "text":
                    self.cursor.insertText(child.content, current)
                case "softbreak" | "hardbreak":
                    # A model's line ends mean something (verses, addresses), so they are kept.
                    self.cursor.insertText(LINE_BREAK, current)
                case "code_inline":
                    self.cursor.insertText(child.content, self._code_format())
                case "image":
                    source = str(child.attrGet("src") or "")
                    self.cursor.insertText(child.content or source, self._linked(current, source))
                case "link_open":
                    formats.append(self._linked(current, str(child.attrGet("href") or "")))
                case "strong_open" | "em_open" | "s_open":
                    formats.append(_emphasised(current, child.type))
                case "link_close" | "strong_close" | "em_close" | "s_close":
                    formats.pop()
                case _:
                    self.cursor.insertText(child.content, current)

    def _linked(self, base: QTextCharFormat, address: str) -> QTextCharFormat:
        made = QTextCharFormat(base)
        if is_web_address(address):
            made.setAnchor(True)
            made.setAnchorHref(address)
            made.setToolTip(address)
            made.setForeground(QColor(self.look.colors.accent))
            made.setFontUnderline(True)
        return made


def is_web_address(address: str) -> bool:
    """True for what a click may open."""
    return address.lower().startswith(("http://", "https://"))


def _emphasised(base: QTextCharFormat, kind: str) -> QTextCharFormat:
    made = QTextCharFormat(base)
    if kind == "strong_open":
        made.setFontWeight(QFont.Weight.Bold)
    elif kind == "em_open":
        made.setFontItalic(True)
    else:
        made.setFontStrikeOut(True)
    return made


def _set_line_height(block_format: QTextBlockFormat) -> None:
    block_format.setLineHeight(LINE_HEIGHT_PERCENT, QTextBlockFormat.LineHeightTypes.ProportionalHeight.value)


def is_spare(block: QTextBlock) -> bool:
    """True for the empty block that a new document and the end of a table come with."""
    if block.text() or block.textList() is not None or block.blockFormat().headingLevel():
        return False  # an empty item and a heading without words are no spare blocks
    before = block.previous()
    return not before.isValid() or QTextCursor(before).currentTable() is not None

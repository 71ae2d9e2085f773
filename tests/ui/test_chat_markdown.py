"""Answers as rich text: streamed in pieces as in one piece, nothing fetched, no HTML obeyed."""

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from PySide6.QtCore import QUrl
from PySide6.QtGui import QDesktopServices, QGuiApplication, QTextCursor
from PySide6.QtWidgets import QPushButton, QVBoxLayout, QWidget

from app.ui.chat.answer_body import AnswerBody
from app.ui.chat.markdown import split_blocks
from app.ui.chat.message import text_look
from app.ui.chat.text_view import CodeView, TextView, open_link
from app.ui.theme import DARK, GRID

EVERYTHING = """# Heading

Words *soft*, **strong**, ~~gone~~, `code` and [a link](https://example.org).
second line

Setext
======

1. one
2. two
   - inner

   more of two
3. three

```python
def f(x):
    return x < 1
```

| a | b |
|:--|--:|
| 1 | 2 |

> said

---

- last
"""

PIECES = st.lists(
    st.sampled_from(
        [
            "# ",
            "\n",
            "\n\n",
            "word",
            " ",
            "**",
            "*",
            "`",
            "```",
            "```py\n",
            "- ",
            "1. ",
            "> ",
            "---",
            "===",
            "| a | b |\n",
            "|--|--|\n",
            "    ",
            "<b>",
            "[x](http://y)",
            "![x](file:///z)",
            "\\",
            "&amp;",
            "\r\n",
            "é",
            "\U0001f600",
            "~~",
        ]
    ),
    max_size=25,
)


@pytest.fixture
def body(qtbot, theme):
    """`body(text, *more) -> AnswerBody` that got the texts one after the other."""

    def make(*texts):
        made = AnswerBody(text_look(theme), "Answer")
        qtbot.addWidget(made)
        made.resize(600, 400)
        for text in texts:
            made.append(text)
        return made

    return make


def rendered(answer):
    return [view.code if isinstance(view, CodeView) else view.toHtml() for view in answer.views]


def plain(answer):
    return "\n".join(view.code if isinstance(view, CodeView) else view.toPlainText() for view in answer.views)


def html(answer):
    return "\n".join(view.toHtml() for view in answer.views if isinstance(view, TextView))


@pytest.mark.parametrize("size", [1, 3, 7, 40])
def test_a_streamed_answer_looks_like_one_that_came_whole(body, size):
    pieces = [EVERYTHING[start : start + size] for start in range(0, len(EVERYTHING), size)]
    assert rendered(body(*pieces)) == rendered(body(EVERYTHING))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)
@given(PIECES)
@example(["| a | b |\n", "|--|--|\n", "- ", "word", "\n\n", "---", "\n\n", "word"])
@example(["| a | b |\n", "# ", "\n", "| a | b |\n", "# "])
@example(["```py\n", "word", "\n", "```", "\n\n", "word"])
@example(["- ", "# ", "\n", "- ", "# "])
@example(["# ", "\n", "# ", "\n", "- ", "# ", "# "])
def test_any_pieces_give_what_the_whole_gives(body, pieces):
    assert rendered(body(*pieces)) == rendered(body("".join(pieces)))


@given(st.text(max_size=200))
def test_blocks_cover_the_source_in_order(source):
    source = source.replace("\r\n", "\n").replace("\r", "\n")
    blocks = split_blocks(source)
    edges = [edge for block in blocks for edge in (block.start, block.end)]
    assert edges == sorted(edges)
    assert all(0 <= edge <= len(source) for edge in edges)
    outside = "".join(
        source[end:start] for end, start in zip([0, *edges[1::2]], [*edges[::2], len(source)], strict=True)
    )
    assert not outside.strip() or "]:" in source, "only white space and link definitions are in no block"


def test_every_word_of_an_answer_is_shown(body):
    text = plain(body(EVERYTHING))
    for words in (
        "Heading",
        "Words soft, strong, gone, code and a link.",
        "second line",
        "return x < 1",
        "more of two",
    ):
        assert words in text


def test_line_ends_of_the_model_are_kept(body):
    assert plain(body("Roses are red,\nviolets are blue")).splitlines() == ["Roses are red,", "violets are blue"]


def test_html_is_shown_as_text_and_not_obeyed(body):
    answer = body('<b>bold?</b>\n\n<script>alert(1)</script>\n\n<img src="http://example.org/x.png">')
    assert "<b>bold?</b>" in plain(answer)
    assert "<script>alert(1)</script>" in plain(answer)
    assert "<img" in plain(answer)
    assert "<img" not in html(answer)


def test_pictures_are_never_fetched_but_named(body, monkeypatch):
    asked = []
    monkeypatch.setattr(TextView, "loadResource", lambda _self, *what: asked.append(what))
    answer = body("Look: ![a cat](https://example.org/cat.png) ![etc](file:///etc/passwd)")
    answer.show()
    answer.grab()
    assert asked == []
    assert "a cat" in plain(answer)
    assert "<img" not in html(answer)


def test_nothing_is_loaded_even_if_the_document_asks(body):
    answer = body("word")
    view = answer.views[0]
    QTextCursor(view.document()).insertHtml('<img src="file:///etc/hostname">')
    assert view.loadResource(2, QUrl("file:///etc/hostname")) is None


@pytest.mark.parametrize(
    ("address", "is_link"),
    [
        ("https://example.org/a?b=1", True),
        ("http://example.org", True),
        ("file:///etc/passwd", False),
        ("javascript:alert(1)", False),
        ("data:text/html,x", False),
        ("ftp://example.org", False),
    ],
)
def test_only_web_addresses_are_links_and_opened(body, monkeypatch, address, is_link):
    opened = []
    monkeypatch.setattr(QDesktopServices, "openUrl", opened.append)
    assert ("href" in html(body(f"[words]({address})"))) is is_link
    open_link(QUrl(address))
    assert (opened == [QUrl(address)]) is is_link


def test_code_is_shown_apart_as_written_and_can_be_copied(body, qtbot):
    answer = body("Try:\n\n```python\nif a < b:\n\tprint('*a*')\n```\n\nDone.")
    kinds = [type(view) for view in answer.views]
    assert kinds == [TextView, CodeView, TextView]
    code = answer.views[1]
    assert code.code == "if a < b:\n\tprint('*a*')"
    code.findChild(QPushButton).click()
    assert QGuiApplication.clipboard().text() == code.code


def test_code_is_shown_while_it_still_comes(body):
    answer = body("Try:\n\n```py", "thon\nprint(", "1)\npri")
    assert [type(view) for view in answer.views] == [TextView, CodeView]
    assert answer.views[1].code == "print(1)\npri"


def test_finished_blocks_are_not_touched_when_text_comes(body):
    answer = body("First paragraph.\n\nSecond\n")
    document = answer.views[0].document()
    changes = []
    document.contentsChange.connect(lambda position, removed, added: changes.append(position))
    end_of_first = len("First paragraph.")
    answer.append("grows and grows.")
    assert changes
    assert min(changes) >= end_of_first


def test_only_the_tail_is_drawn_again(body, qtbot):
    answer = body("First paragraph of words.\n\n" * 12 + "The tail\n")
    page = QWidget()
    qtbot.addWidget(page)
    column = QVBoxLayout(page)
    column.addWidget(answer)
    column.addStretch(1)
    page.resize(600, 800)
    page.show()
    qtbot.waitExposed(page)
    view = answer.views[0]
    painted = _painted_tops(view, qtbot)
    answer.append("has one more word")
    qtbot.waitUntil(lambda: bool(painted))
    tail = view.document().lastBlock()
    tail_top = view.document().documentLayout().blockBoundingRect(tail.previous()).top()
    assert tail_top > 200
    assert min(painted) >= tail_top - GRID


def _painted_tops(view, qtbot):
    """The upper edge of every region that `view` draws from now on."""
    from PySide6.QtCore import QEvent, QObject

    tops = []

    class Watcher(QObject):
        def eventFilter(self, _watched, event):  # noqa: N802 - Qt's name
            if event.type() == QEvent.Type.Paint:
                tops.append(event.region().boundingRect().top())
            return False

    watcher = Watcher(view)
    qtbot.wait(1)
    view.viewport().installEventFilter(watcher)
    return tops


def test_views_are_as_tall_as_their_text_at_any_width(body, qtbot):
    answer = body(EVERYTHING + "\n" + "a long paragraph of many words " * 20)
    answer.show()
    heights = []
    for width in (300, 700):
        answer.resize(width, 900)
        qtbot.waitUntil(lambda width=width: answer.views[0].width() == width)
        for view in answer.views:
            if isinstance(view, TextView):
                assert abs(view.height() - view.document().size().height()) <= 1
        heights.append(sum(view.height() for view in answer.views))
    assert heights[0] > heights[1]


def test_another_look_keeps_the_words(body, dark_theme):
    answer = body(EVERYTHING)
    before = plain(answer)
    answer.set_look(text_look(dark_theme))
    assert plain(answer) == before
    assert DARK.text.name() in html(answer)


def test_selected_text_stays_selected_while_more_comes(body):
    answer = body("Keep this selected.\n\nThe tail\n")
    view = answer.views[0]
    cursor = view.textCursor()
    cursor.setPosition(0)
    cursor.setPosition(9, QTextCursor.MoveMode.KeepAnchor)
    view.setTextCursor(cursor)
    answer.append(" grows.\n\nAnd another paragraph.")
    assert view.textCursor().selectedText() == "Keep this"

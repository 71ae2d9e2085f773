"""The transcript keeps few widgets, follows the newest text, and lets the reader stay where they read."""

from datetime import UTC, datetime

import pytest

from app.chat.store import StoredMessage
from app.ui.chat.message import AnswerMessage, QuestionMessage
from app.ui.chat.transcript import EARLIER, MOST, NEWEST, Transcript


def stored(number, text="words of the conversation " * 8):
    return StoredMessage(
        id=number,
        conversation_id=1,
        parent_id=number - 1 or None,
        role="user" if number % 2 else "assistant",
        content=f"{number}: {text}",
        state="complete",
        created=datetime(2026, 1, 1, tzinfo=UTC),
        figures=None,
    )


def conversation(count):
    return tuple(stored(number) for number in range(1, count + 1))


@pytest.fixture
def make_transcript(qtbot, theme):
    def make(count):
        made = Transcript(theme)
        qtbot.addWidget(made)
        made.resize(700, 500)
        made.show()
        qtbot.waitExposed(made)
        made.set_messages(conversation(count))
        return made

    return make


def numbers(transcript):
    return [int(message.text.partition(":")[0]) for message in transcript.messages]


def is_at_end(transcript):
    bar = transcript.verticalScrollBar()
    return bar.maximum() > 0 and bar.value() == bar.maximum()


def settle(qtbot, transcript, count):
    qtbot.waitUntil(lambda: len(transcript.messages) == count, timeout=10000)
    heights = []

    def still():
        heights.append(transcript.widget().height())
        return len(heights) > 2 and heights[-1] == heights[-3]

    qtbot.waitUntil(still, timeout=10000)


def test_a_long_conversation_opens_at_its_end_with_the_newest_messages(make_transcript, qtbot):
    transcript = make_transcript(120)
    settle(qtbot, transcript, NEWEST)
    assert numbers(transcript) == list(range(121 - NEWEST, 121))
    assert is_at_end(transcript)


def test_earlier_messages_come_on_demand_without_moving_what_is_read(make_transcript, qtbot):
    transcript = make_transcript(NEWEST + EARLIER + 5)
    settle(qtbot, transcript, NEWEST)
    transcript.verticalScrollBar().setValue(0)
    first = transcript.messages[0]
    before = first.mapTo(transcript, first.rect().topLeft()).y()
    transcript.show_earlier()
    settle(qtbot, transcript, NEWEST + EARLIER)
    after = first.mapTo(transcript, first.rect().topLeft()).y()
    assert abs(after - before) <= 1
    transcript.show_earlier()
    settle(qtbot, transcript, NEWEST + EARLIER + 5)
    assert numbers(transcript)[0] == 1
    assert transcript.more_button.isHidden() or not transcript.more_button.isVisible()


def test_a_short_conversation_offers_no_earlier_messages(make_transcript, qtbot):
    transcript = make_transcript(4)
    settle(qtbot, transcript, 4)
    assert not transcript.more_button.isVisible()


def test_new_text_is_followed_only_from_the_end(make_transcript, qtbot):
    transcript = make_transcript(20)
    settle(qtbot, transcript, 20)
    answer = transcript.add_turn(conversation(22))
    for _ in range(10):
        answer.append("more words of the answer " * 20 + "\n\n")
    settle(qtbot, transcript, 22)
    assert is_at_end(transcript)
    transcript.verticalScrollBar().setValue(100)
    answer.append("and more words " * 100)
    settle(qtbot, transcript, 22)
    assert transcript.verticalScrollBar().value() == 100


def test_a_new_question_brings_the_end_into_sight(make_transcript, qtbot):
    transcript = make_transcript(20)
    settle(qtbot, transcript, 20)
    transcript.verticalScrollBar().setValue(0)
    transcript.add_turn(conversation(22))
    settle(qtbot, transcript, 22)
    assert is_at_end(transcript)


def test_a_long_session_keeps_its_widgets_few(make_transcript, qtbot):
    transcript = make_transcript(MOST)
    transcript.show_earlier()
    settle(qtbot, transcript, NEWEST + EARLIER)
    transcript.show_earlier()
    transcript.show_earlier()
    settle(qtbot, transcript, MOST)
    transcript.add_turn(conversation(MOST + 2))
    settle(qtbot, transcript, NEWEST)
    assert is_at_end(transcript)
    transcript.show_earlier()
    settle(qtbot, transcript, NEWEST + EARLIER)


def test_another_conversation_replaces_one_that_is_still_being_built(make_transcript, qtbot):
    transcript = make_transcript(NEWEST)
    transcript.set_messages(tuple(stored(number) for number in (101, 102, 103)))
    settle(qtbot, transcript, 3)
    assert numbers(transcript) == [101, 102, 103]


def test_texts_keep_within_the_column_at_any_width(make_transcript, qtbot):
    transcript = make_transcript(6)
    for width in (380, 1200):
        transcript.resize(width, 500)
        settle(qtbot, transcript, 6)
        column = transcript.messages[0].parentWidget()
        bottoms = [message.geometry().bottom() for message in transcript.messages]
        assert bottoms == sorted(bottoms)
        for message in transcript.messages:
            assert message.geometry().right() <= column.width()
            assert message.height() >= 20


def test_only_what_can_be_seen_is_made_at_once_and_long_answers_come_whole_in_idle_moments(make_transcript, qtbot):
    transcript = make_transcript(0)
    long_text = "a line of a long answer\n\n```py\ncode = 1\n```\n\n" * 200
    messages = tuple(stored(number, long_text) for number in range(1, 7))
    transcript.set_messages(messages)
    assert numbers(transcript) == [5, 6]
    qtbot.waitUntil(
        lambda: [message.text for message in transcript.messages] == [message.content for message in messages],
        timeout=10000,
    )
    assert is_at_end(transcript)


def test_scrolling_while_messages_come_above_keeps_what_is_read_in_its_place(make_transcript, qtbot):
    transcript = make_transcript(NEWEST)
    bar = transcript.verticalScrollBar()
    qtbot.waitUntil(lambda: bar.maximum() > 200, timeout=10000)
    assert len(transcript.messages) < NEWEST
    bar.setValue(bar.maximum() - 150)
    read = transcript.messages[-1]
    before = read.mapTo(transcript, read.rect().topLeft()).y()
    settle(qtbot, transcript, NEWEST)
    assert abs(read.mapTo(transcript, read.rect().topLeft()).y() - before) <= 1


def test_another_look_is_seen_at_once_in_what_is_in_sight_and_comes_to_the_rest_in_idle_moments(
    make_transcript, theme, qtbot, monkeypatch
):
    transcript = make_transcript(12)
    settle(qtbot, transcript, 12)
    dressed = []
    for kind in (QuestionMessage, AnswerMessage):
        monkeypatch.setattr(kind, "dress", lambda its, dress=kind.dress: (dressed.append(its), dress(its)))
    in_sight = [message for message in transcript.messages if not message.visibleRegion().isEmpty()]
    theme.force("light" if theme.dark else "dark")
    assert dressed == in_sight
    assert 0 < len(in_sight) < 12
    qtbot.waitUntil(lambda: len(dressed) == 12)
    assert set(dressed) == set(transcript.messages)
    assert is_at_end(transcript)

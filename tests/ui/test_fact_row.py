"""A row of facts without room: what is most important is seen whole, unless it would leave the others nothing."""

import pytest

from app.ui.fact_row import Fact, FactRow

WORDS = "a fact in many words that has no fewer"


def room_of(fact):
    return fact.width() - fact.fontMetrics().horizontalAdvance(fact.text())


@pytest.mark.parametrize("width", [800, 650, 500])
def test_where_all_end_in_ellipses_the_last_to_leave_does_not(theme, qtbot, width):
    warning, *others = facts = [Fact(keeps=True) for _ in range(4)]
    row = FactRow(facts, (*others, warning))
    qtbot.addWidget(row)
    row.resize(width, 28)
    row.show()
    for fact in facts:
        fact.show_fact(WORDS)
    warning.show_fact("The engine does not answer")
    row.fit()
    assert room_of(warning) >= 0
    assert all(room_of(fact) < 0 and fact.width() > 0 for fact in others)
    assert all(fact.geometry().right() <= width for fact in facts)


def test_one_that_says_nothing_takes_no_room(theme, qtbot):
    warning, other = Fact(keeps=True), Fact(keeps=True)
    row = FactRow((warning, other), (other, warning))
    qtbot.addWidget(row)
    row.resize(300, 28)
    row.show()
    other.show_fact(2 * WORDS)
    warning.show_fact("The engine does not answer")
    row.fit()
    assert 32 < other.width() < 150
    warning.show_fact("")
    row.fit()
    assert warning.isHidden()
    assert other.width() > 250

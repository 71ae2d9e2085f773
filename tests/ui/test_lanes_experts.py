"""One layer's experts one by one: the table, sorting, and the orders by mouse, keyboard and menu."""

import pytest
from PySide6.QtCore import QItemSelectionModel, Qt
from PySide6.QtTest import QTest
from ui_factories import make_experts

from app.ui.lanes.experts_model import EXPERT_INDEX, SORT, Column, ExpertsModel, SortedExperts
from app.ui.lanes.experts_page import ExpertsPage
from app.ui.words import number

EXPERTS = make_experts((5, 900, 0, 31), lanes="cgcm", pins="agca", slots=2, heat=(2.0, 40.2, 0.0, 11.0))


@pytest.fixture
def experts(qapp):
    made = ExpertsModel()
    made.show(12, EXPERTS)
    return made


@pytest.fixture
def page(qtbot, theme):
    """The page of layer 12, with the keyboard in its table."""
    made = ExpertsPage()
    qtbot.addWidget(made)
    made.resize(420, 400)
    made.open(12, EXPERTS)
    made.activateWindow()
    qtbot.waitUntil(made.table.hasFocus)
    return made


def column(model, which, role=Qt.ItemDataRole.DisplayRole):
    return [model.index(row, which).data(role) for row in range(model.rowCount())]


def test_the_table_and_its_sorting_keep_qts_rules(experts, qtmodeltester):
    proxy = SortedExperts(experts)
    for model in (experts, proxy):
        qtmodeltester.check(model)
    proxy.sort(Column.HEAT, Qt.SortOrder.DescendingOrder)
    experts.show(12, make_experts((6, 900, 1, 31)))
    experts.show(13, make_experts((1, 2)))
    experts.show(None, None)
    assert (experts.rowCount(), proxy.rowCount()) == (0, 0)


def test_a_row_is_what_the_engine_reported(experts):
    assert column(experts, Column.EXPERT) == ["0", "1", "2", "3"]
    assert column(experts, Column.LANE) == ["CPU", "GPU pool", "CPU", "copying"]
    assert column(experts, Column.ROUTED) == ["5", "900", "0", "31"]
    assert column(experts, Column.HEAT) == ["2.0", "40.2", "0.0", "11.0"]
    assert column(experts, Column.PIN) == ["automatic", "on GPU", "on CPU", "automatic"]
    spoken = experts.index(1, Column.LANE).data(Qt.ItemDataRole.AccessibleTextRole)
    assert spoken == "Expert 1, Lane: GPU pool"
    headers = [experts.headerData(section, Qt.Orientation.Horizontal) for section in range(5)]
    assert headers == ["Expert", "Lane", "Routed", "Heat", "Keep"]
    assert all(
        experts.headerData(section, Qt.Orientation.Horizontal, Qt.ItemDataRole.ToolTipRole) for section in range(5)
    )


@pytest.mark.parametrize(
    ("which", "order"),
    [
        (Column.EXPERT, [0, 1, 2, 3]),
        (Column.LANE, [1, 3, 0, 2]),
        (Column.ROUTED, [2, 0, 3, 1]),
        (Column.HEAT, [2, 0, 3, 1]),
        (Column.PIN, [1, 2, 0, 3]),
    ],
)
def test_figures_are_sorted_as_figures_and_lanes_and_orders_by_closeness_to_the_gpu(experts, which, order):
    proxy = SortedExperts(experts)
    proxy.sort(which)
    assert column(proxy, 0, EXPERT_INDEX) == order
    assert column(proxy, which, SORT) == sorted(column(proxy, which, SORT))


def test_rows_keep_their_places_and_selection_while_the_counts_grow(page):
    assert column(page.proxy, 0, EXPERT_INDEX) == [1, 3, 0, 2]  # most routed first
    page.table.selectRow(1)
    page.refresh(make_experts((5, 900, 2000, 31), lanes="cggm", pins="aaaa", slots=2))
    assert column(page.proxy, 0, EXPERT_INDEX) == [1, 3, 0, 2]
    assert column(page.proxy, Column.ROUTED) == ["900", "31", "5", number(2000)]
    assert page.selected_experts() == (3,)
    page.table.sortByColumn(Column.ROUTED, Qt.SortOrder.DescendingOrder)
    assert column(page.proxy, 0, EXPERT_INDEX) == [2, 1, 3, 0]


def test_the_page_tells_its_totals(page):
    assert page.text == (
        "Experts of layer 12. 1 of 4 experts in the GPU pool, 1 being copied there, 1 kept on the GPU by you, "
        "1 kept on the CPU by you"
    )
    assert page.table.accessibleName() == "Experts of layer 12"
    page.refresh(make_experts((1, 2, 3, 4)))
    assert "There is no pool" in page.text


@pytest.mark.parametrize(("key", "pin"), [(Qt.Key.Key_G, "gpu"), (Qt.Key.Key_C, "cpu"), (Qt.Key.Key_A, "auto")])
def test_arrows_and_a_letter_give_an_order_without_a_mouse(page, qtbot, key, pin):
    QTest.keyClick(page.table, Qt.Key.Key_Down)
    QTest.keyClick(page.table, Qt.Key.Key_Down, Qt.KeyboardModifier.ShiftModifier)
    with qtbot.waitSignal(page.pins_wanted, timeout=5000) as wanted:
        QTest.keyClick(page.table, key)
    assert wanted.args == [12, (0, 3), pin]


def test_buttons_and_menu_give_the_same_orders_and_only_to_a_selection(page, qtbot):
    assert not any(button.isEnabled() for button in page.buttons.values())
    assert not any(action.isEnabled() for action in page.context_menu().actions())
    with qtbot.assertNotEmitted(page.pins_wanted):
        QTest.keyClick(page.table, Qt.Key.Key_G)
    page.table.selectAll()
    for pin, button in page.buttons.items():
        with qtbot.waitSignal(page.pins_wanted, timeout=5000) as wanted:
            button.click()
        assert wanted.args == [12, (0, 1, 2, 3), pin]
    assert [action.text() for action in page.context_menu().actions()] == ["Keep on GPU", "Keep on CPU", "Automatic"]
    with qtbot.waitSignal(page.pins_wanted, timeout=5000) as wanted:
        page.context_menu().actions()[1].trigger()
    assert wanted.args == [12, (0, 1, 2, 3), "cpu"]


def test_ctrl_a_selects_all_and_is_no_order(page, qtbot):
    with qtbot.assertNotEmitted(page.pins_wanted):
        QTest.keyClick(page.table, Qt.Key.Key_A, Qt.KeyboardModifier.ControlModifier)
    assert page.selected_experts() == (0, 1, 2, 3)
    assert page._selected.text() == "4 experts selected"


def test_an_order_changes_nothing_on_screen_until_the_engine_reports_it(page):
    page.table.selectRow(2)
    page.buttons["gpu"].click()
    assert page.proxy.index(2, Column.PIN).data() == "automatic"


def test_escape_goes_back_to_the_layers(page, qtbot):
    with qtbot.waitSignal(page.closed, timeout=5000) as closed:
        QTest.keyClick(page.table, Qt.Key.Key_Escape)
    assert closed.args == [12]
    assert page.layer is None
    assert page.isHidden()


def test_tab_leaves_the_table(page):
    page.table.selectionModel().select(page.proxy.index(0, 0), QItemSelectionModel.SelectionFlag.Select)
    QTest.keyClick(page.table, Qt.Key.Key_Tab)
    assert not page.table.hasFocus()


def test_every_column_is_readable_in_a_dock_of_the_usual_width(page, theme, qapp):
    header, metrics = page.table.horizontalHeader(), page.table.fontMetrics()
    assert page.table.horizontalScrollBar().maximum() == 0
    for which, cells in ((Column.LANE, ("GPU pool", "copying")), (Column.PIN, ("automatic", "on GPU"))):
        assert header.sectionSize(which) > max(map(metrics.horizontalAdvance, cells))

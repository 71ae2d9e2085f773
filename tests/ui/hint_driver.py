"""Drives the button of hints in tests: one that judges at once, and waits for what it says."""

from ui_factories import GIB

from app.hardware.facts import Ram, RamModule
from app.ui.hint_button import HintsButton
from app.ui.hints import HintWatch
from app.ui.orders import Orders

SOON = 20
"""Milliseconds after a change."""
SLOW_RAM = Ram(
    total_bytes=16 * GIB,
    available_bytes=11 * GIB,
    modules=(RamModule(slot="DIMM_A1", size_bytes=16 * GIB, type="DDR4", rated_mts=3200, speed_mts=3200),),
    channels=1,
    free_slots=1,
    speed_mts=3200,
)


def hints_button(controller, settings):
    """A button that judges twenty milliseconds after a change; to be shut down."""
    watch = HintWatch(controller, settings, interval=SOON)
    button = HintsButton(controller, Orders(controller), settings, watch=watch)
    watch.setParent(button)
    return button


def rules(button):
    """Names of the rules that have a hint now."""
    return [hint.rule for hint in button.watch.hints]


def wait_for(qtbot, button, *wanted):
    """Until these rules have a hint."""
    qtbot.waitUntil(lambda: set(wanted) <= set(rules(button)), timeout=10000)

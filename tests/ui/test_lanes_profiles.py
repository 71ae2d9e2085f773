"""The profiles menu of the lanes dock: save, load, compare, replace, delete, reset; and files that cannot be read."""

import threading

import msgspec
import pytest
from controller_driver import PATIENCE
from lanes_driver import MIB, engine_pins, engine_pool, entries, load_on_cpu, show
from memory_driver import budget_of, mapped_panel
from PySide6.QtWidgets import QDialogButtonBox, QInputDialog
from ui_factories import make_facts

from app.library.order_profiles import OrderProfiles, profile_of
from app.placement.plan import CachePolicy
from app.ui.lanes.profile_words import comparison, profile_text
from app.ui.live_plan import pins_of, with_pins, with_policy

DECAY = CachePolicy(kind="decay")


@pytest.fixture
def panel(loaded_controller, theme, qtbot):
    """A watching panel with a pool of 16 MiB, 4 slots in each of 4 layers."""
    controller = loaded_controller()
    load_on_cpu(controller, qtbot, pool=16 * MIB)
    return show(controller, theme, qtbot)


def store(panel):
    return OrderProfiles(panel._controller.facts.fingerprint)


def profile_entries(panel, name):
    return entries(entries(panel.profiles)[name].menu())


def until_known(qtbot, panel, *names):
    qtbot.waitUntil(lambda: [its.name for its in panel.profiles.profiles] == list(names), timeout=PATIENCE)


def save(panel, qtbot, name, *known):
    panel.profiles.save(name)
    until_known(qtbot, panel, *(known or (name,)))


def test_orders_are_saved_under_a_name_and_loaded_as_one_step(panel, qtbot):
    panel.orders.pin({0: (1,), 2: (5,)}, "gpu")
    panel.orders.set_policy(DECAY)
    save(panel, qtbot, "poems")
    panel.orders.pin({0: (1,)}, "auto")
    panel.orders.pin({3: (0,)}, "cpu")
    panel.orders.set_pool(20 * MIB)
    steps = panel.orders.stack.count()
    profile_entries(panel, "poems")["Load"].trigger()
    assert panel.orders.stack.count() == steps + 1
    assert pins_of(panel._controller.plan) == {(0, 1): "gpu", (2, 5): "gpu"}
    qtbot.waitUntil(lambda: engine_pins(panel, 3) == "a" * 8 and engine_pool(panel) == 16 * MIB, timeout=PATIENCE)
    panel.orders.stack.undo()
    qtbot.waitUntil(lambda: engine_pins(panel, 3) == "caaaaaaa" and engine_pool(panel) == 20 * MIB, timeout=PATIENCE)


def test_the_name_is_asked_for_in_a_dialog(panel, qtbot):
    panel.profiles.save_action.trigger()
    dialog = panel.profiles.dialog
    assert isinstance(dialog, QInputDialog)
    dialog.setTextValue("from the dialog")
    dialog.accept()
    until_known(qtbot, panel, "from the dialog")


def test_a_name_that_is_taken_or_missing_is_told(panel, qtbot):
    save(panel, qtbot, "a")
    panel.profiles.save("a")
    qtbot.waitUntil(lambda: "“a” already" in panel.notice.text, timeout=PATIENCE)
    panel.profiles.save("  ")
    assert panel.notice.text == "A profile needs a name."


def test_a_profile_is_replaced_by_the_orders_of_now(panel, qtbot):
    save(panel, qtbot, "a")
    panel.orders.pin({0: (1,)}, "cpu")
    profile_entries(panel, "a")["Replace by the orders of now"].trigger()
    qtbot.waitUntil(lambda: len(panel.profiles.profiles[0].pins) == 1, timeout=PATIENCE)
    assert "1 on the CPU" in next(iter(profile_entries(panel, "a")))
    assert panel.notice.text == "The profile “a” has the orders of now."
    panel.notice.buttons[0].click()
    qtbot.waitUntil(lambda: panel.profiles.profiles[0].pins == (), timeout=PATIENCE)


def test_a_deleted_profile_can_be_brought_back(panel, qtbot):
    save(panel, qtbot, "a")
    profile_entries(panel, "a")["Delete"].trigger()
    until_known(qtbot, panel)
    assert "The profile “a” is deleted." in panel.notice.text
    panel.notice.buttons[0].click()
    until_known(qtbot, panel, "a")


def test_a_profile_is_compared_with_now_in_words(panel, qtbot):
    panel.orders.pin({0: (1, 2)}, "gpu")
    save(panel, qtbot, "a")
    profile_entries(panel, "a")["Compare with now…"].trigger()
    assert "No difference" in panel.profiles.dialog.words.toPlainText()
    panel.profiles.dialog.reject()
    panel.orders.pin({0: (1,)}, "auto")
    panel.orders.pin({1: (4,)}, "cpu")
    panel.orders.set_pool(20 * MIB)
    panel.orders.set_policy(DECAY)
    profile_entries(panel, "a")["Compare with now…"].trigger()
    dialog = panel.profiles.dialog
    assert dialog.words.toPlainText().split("\n\n") == [
        "Pool: 16.0 MiB in the profile, 20.0 MiB now.",
        "Policy: lru in the profile, decay now.",
        "1 expert is on the GPU in the profile, automatic now: layer 0: 1.",
        "1 expert is automatic in the profile, on the CPU now: layer 1: 4.",
    ]
    dialog.findChild(QDialogButtonBox).button(QDialogButtonBox.StandardButton.Close).click()


def test_resetting_leaves_everything_to_the_usual_policy_and_undoes(panel, qtbot):
    panel.orders.pin({0: (1,)}, "gpu")
    panel.orders.set_policy(DECAY)
    panel.profiles.reset_action.trigger()
    assert (panel._controller.plan.pins, panel._controller.plan.policy) == ((), CachePolicy())
    assert panel._controller.plan.pool_bytes == 16 * MIB
    panel.orders.stack.undo()
    assert pins_of(panel._controller.plan) == {(0, 1): "gpu"}
    panel.orders.stack.redo()
    panel.profiles.reset_action.trigger()
    assert panel.notice.text.startswith("Nothing to reset")


def test_what_of_a_profile_has_no_effect_is_told(panel, qtbot):
    plan = panel._controller.plan
    wanted = {(0, expert): "gpu" for expert in range(6)} | {(99, 0): "gpu"}
    store(panel).save(profile_of(with_pins(plan, wanted), "too much"))
    panel.profiles.refresh()
    until_known(qtbot, panel, "too much")
    profile_entries(panel, "too much")["Load"].trigger()
    assert "1 expert of it is not in this model." in panel.notice.text
    assert "2 experts that you keep on the GPU have no slot in the pool." in panel.notice.text
    assert len(panel._controller.plan.pins) == 6


def test_a_damaged_file_is_told_and_nothing_is_lost(panel, qtbot):
    path = store(panel).path
    path.parent.mkdir(parents=True)
    path.write_bytes(b"{damaged")
    panel.profiles.refresh()
    qtbot.waitUntil(lambda: "is damaged" in panel.notice.text, timeout=PATIENCE)
    assert "Profiles cannot be read" in entries(panel.profiles)
    assert not panel.profiles.save_action.isEnabled()
    panel.notice.clear()
    panel.profiles.refresh()
    qtbot.waitUntil(lambda: not panel._controller.background.busy, timeout=PATIENCE)
    assert panel.notice.text == ""  # once is enough
    assert path.read_bytes() == b"{damaged"
    path.unlink()
    panel.profiles.refresh()
    qtbot.waitUntil(panel.profiles.save_action.isEnabled, timeout=PATIENCE)


def test_another_model_shows_its_own_profiles(panel, qtbot, make_facts):
    save(panel, qtbot, "a")
    panel._controller._set_facts(make_facts(name="Another", fingerprint="77"))
    until_known(qtbot, panel)
    assert "No profiles of this model yet" in entries(panel.profiles)
    panel._controller.return_to_loaded()
    until_known(qtbot, panel, "a")


def test_opening_the_menu_reads_what_another_window_saved(panel, qtbot):
    store(panel).save(profile_of(panel._controller.plan, "elsewhere"))
    panel.profiles.aboutToShow.emit()
    until_known(qtbot, panel, "elsewhere")


def test_words_name_layers_as_runs_and_not_too_many(panel):
    plan = panel._controller.plan
    wide = with_policy(with_pins(plan, {(layer, expert): "gpu" for layer in range(20) for expert in range(3)}), DECAY)
    profile = profile_of(wide, "wide")
    (pins,) = [line for line in comparison(profile, plan) if "experts" in line]
    assert pins.startswith("60 experts are on the GPU in the profile, automatic now: layer 0: 0–2; layer 1: 0–2")
    assert pins.endswith("; and in 8 more layers.")
    assert profile_text(profile) == "60 on the GPU, pool 16.0 MiB, policy decay"


def test_a_profile_keeps_the_budget_of_main_memory_and_one_that_has_none_leaves_it(loaded_controller, theme, qtbot):
    panel = mapped_panel(loaded_controller(), theme, qtbot, budget=16 * MIB)
    save(panel, qtbot, "half")
    store(panel).save(msgspec.structs.replace(panel.profiles.profiles[0], name="old", resident_bytes=msgspec.UNSET))
    panel.profiles.refresh()
    until_known(qtbot, panel, "half", "old")
    assert "memory for experts: 16.0 MiB" in next(iter(profile_entries(panel, "half")))
    assert "memory" not in next(iter(profile_entries(panel, "old")))
    panel.orders.set_memory(8 * MIB)
    qtbot.waitUntil(lambda: budget_of(panel) == 8, timeout=PATIENCE)
    half, old = panel.profiles.profiles
    assert comparison(half, panel._controller.plan) == ("Memory for experts: 16.0 MiB in the profile, 8.0 MiB now.",)
    assert comparison(old, panel._controller.plan) == ()
    profile_entries(panel, "old")["Load"].trigger()
    assert panel._controller.plan.resident_bytes == 8 * MIB
    steps = panel.orders.stack.count()
    profile_entries(panel, "half")["Load"].trigger()
    assert panel.orders.stack.count() == steps + 1
    qtbot.waitUntil(lambda: budget_of(panel) == 16, timeout=PATIENCE)
    panel.orders.stack.undo()
    qtbot.waitUntil(lambda: budget_of(panel) == 8, timeout=PATIENCE)


def test_a_budget_of_a_profile_that_there_is_no_room_for_is_told(panel, qtbot):
    plan = panel._controller.plan
    mapped = msgspec.structs.replace(plan, residency="mapped", resident_bytes=16 * MIB)
    assert plan.residency != "mapped"
    store(panel).save(profile_of(mapped, "in the file"))
    panel.profiles.refresh()
    until_known(qtbot, panel, "in the file")
    profile_entries(panel, "in the file")["Load"].trigger()
    assert "copied into the processor’s faster layout" in panel.notice.text.replace("'", "’")
    assert panel._controller.plan.resident_bytes is None


def test_a_profile_whose_deletion_ends_when_another_model_is_shown_is_not_offered_there(panel, qtbot, monkeypatch):
    save(panel, qtbot, "a")
    go_on, real = threading.Event(), OrderProfiles.delete

    def slow(its, name):
        assert go_on.wait(10)
        real(its, name)

    monkeypatch.setattr(OrderProfiles, "delete", slow)
    panel.profiles.delete(panel.profiles.profiles[0])
    panel._controller._set_facts(make_facts(fingerprint="another"))
    go_on.set()
    qtbot.waitUntil(lambda: not panel._controller.background.busy, timeout=PATIENCE)
    assert panel.notice.text == ""
    assert panel.profiles.profiles == ()

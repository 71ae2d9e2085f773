"""Turns knobs: waits until the hand is still, tries the value beside the window, and gives the order or refuses it."""

from collections.abc import Callable

from PySide6.QtCore import QObject, QTimer, Signal

from app.errors import AppError
from app.ui.controller import Controller
from app.ui.lanes.memory_room import judge_memory
from app.ui.orders import Orders
from app.ui.refusals import judge_pool
from app.ui.tuning.knob_values import POLICY, Situation, Turned, Value, changed, turned, value_of
from app.ui.tuning.knob_words import knob_name, value_word

STILL_MILLISECONDS = 250
"""Steps of a box are one change when it has been still for so long."""


class KnobTurner(QObject):
    """One knob after the other; a newer value of the same knob replaces the one that waits.

    Signals:
        turned: A knob stands where it was wanted (its key).
        refused: A value was refused (the knob's key, the value, a Turned that says why).
    """

    turned = Signal(str)
    refused = Signal(str, object, object)

    def __init__(
        self,
        controller: Controller,
        orders: Orders,
        situation: Callable[[], Situation | None],
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._controller = controller
        self._orders = orders
        self._situation = situation
        self._wanted: dict[str, Value] = {}
        self._working = False
        self._still = QTimer(self)
        self._still.setSingleShot(True)
        self._still.setInterval(STILL_MILLISECONDS)
        self._still.timeout.connect(self._next)

    @property
    def busy(self) -> bool:
        """True while something that was wanted is not done yet."""
        return self._working or bool(self._wanted)

    def turn(self, key: str, value: Value) -> None:
        """Turn a knob when the hand is still."""
        self._wanted[key] = value
        self._still.start()

    def turn_now(self, key: str, value: Value) -> None:
        """Turn a knob at once: a button was pressed."""
        self._wanted[key] = value
        self._next()

    def rest(self) -> None:
        """What was wanted is not wanted any more."""
        self._still.stop()
        self._wanted.clear()

    def _next(self) -> None:
        self._still.stop()
        situation = self._situation()
        if self._working or not self._wanted:
            return
        key, value = next(iter(self._wanted.items()))
        del self._wanted[key]
        if situation is None:
            self._wanted.clear()
        elif value == value_of(situation.plan, key, situation.facts):
            self._done(key)
        elif key == "pool_bytes":
            self._set_pool(key, value)
        elif key == "resident_bytes":
            self._set_memory(key, value)
        elif key in POLICY:
            self._set_policy(situation, key, value)
        else:
            self._working = True
            job = self._controller.background.run(lambda: turned(situation, key, value))
            job.always(lambda error: self._ended(key, value, error))
            job.success(lambda result: self._take(situation, key, value, result)).failure(
                lambda error: self._take(situation, key, value, Turned(refusal=error.message))
            )

    def _ended(self, key: str, value: Value, error: Exception | None) -> None:
        """Whatever came of it, the next one may be turned; what nobody expected is told like a refusal."""
        self._working = False
        if error is not None and not isinstance(error, AppError):
            words = self.tr("this could not be worked out: the app met an error of its own, which its log tells.")
            self._refuse(key, value, Turned(refusal=words))

    def _take(self, situation: Situation, key: str, value: Value, result: Turned) -> None:
        now = self._situation()
        if now is None or now.facts is not situation.facts:
            self._wanted.clear()  # another model meanwhile
            return
        if key in self._wanted:
            self._next()
        elif now.plan is not situation.plan:  # the plan was changed by other hands: try on the new one
            self._wanted[key] = value
            self._next()
        elif result.plan is None:
            self._refuse(key, value, result)
        else:
            before = value_word(key, value_of(situation.plan, key, situation.facts), situation.machine)
            after = value_word(key, value_of(result.plan, key, situation.facts), situation.machine)
            self._orders.edit_plan(result.plan, f"{knob_name(key)} {before} → {after}")
            self._done(key)

    def _set_policy(self, situation: Situation, key: str, value: Value) -> None:
        try:
            plan = changed(situation, key, value)
        except AppError as error:
            self._refuse(key, value, Turned(refusal=error.message))
            return
        self._orders.set_policy(plan.policy)
        self._done(key)

    def _set_pool(self, key: str, value: Value) -> None:
        scene = self._orders.scene()
        assert isinstance(value, int)
        size, why = judge_pool(scene, value) if scene is not None else (0, "")
        if why:
            self._refuse(key, value, Turned(refusal=why, nearest=size or None))
            return
        self._orders.set_pool(value)
        self._done(key)

    def _set_memory(self, key: str, value: Value) -> None:
        scene = self._orders.scene()
        assert value is None or isinstance(value, int)
        size, why = judge_memory(scene.memory_room, value or 0) if scene is not None else (0, "")
        if why:
            self._refuse(key, value, Turned(refusal=why, nearest=size or None))
            return
        self._orders.set_memory(value)
        self._done(key)

    def _done(self, key: str) -> None:
        self.turned.emit(key)
        self._next()

    def _refuse(self, key: str, value: Value, result: Turned) -> None:
        self.refused.emit(key, value, result)
        self._next()

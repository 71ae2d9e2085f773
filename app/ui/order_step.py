"""One step of the history of orders: from one plan to another and back; and what its end is called."""

from typing import TYPE_CHECKING

from PySide6.QtGui import QUndoCommand

from app.placement.plan import Plan
from app.ui.lanes.words import translate
from app.ui.words import number

if TYPE_CHECKING:
    from app.ui.orders import Orders


class Step(QUndoCommand):
    """One step: a whole plan before and after, so that undoing is exact."""

    def __init__(self, orders: "Orders", before: Plan, after: Plan, text: str, gesture: object) -> None:
        super().__init__(text)
        self._orders = orders
        self.gesture = gesture
        self.before = before
        self.after = after

    def id(self) -> int:
        """Steps of a gesture may become one."""
        return -1 if self.gesture is None else 1

    def mergeWith(self, other: QUndoCommand) -> bool:
        """Take a later step of the same gesture into this one."""
        if not isinstance(other, Step) or other.gesture is not self.gesture:
            return False
        self.after = other.after
        self.setText(other.text())
        self.setObsolete(self.before == self.after)
        return True

    def redo(self) -> None:
        """Make the change."""
        self._orders.take(self.before, self.after)

    def undo(self) -> None:
        """Take it back."""
        self._orders.take(self.after, self.before, back=True)


def dropped_text(count: int) -> str:
    """That so many steps are no steps any more; empty for none."""
    if not count:
        return ""
    one = translate("Lanes", "Another plan was set: the step before it cannot be undone any more.")
    many = translate("Lanes", "Another plan was set: the {count} steps before it cannot be undone any more.")
    return one if count == 1 else many.format(count=number(count))

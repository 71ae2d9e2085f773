"""The menu of profiles: save, load, replace, compare, delete and reset the orders for the model shown."""

from collections.abc import Callable

import shiboken6
from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QAction
from PySide6.QtWidgets import (
    QDialog,
    QDialogButtonBox,
    QInputDialog,
    QLabel,
    QMenu,
    QPlainTextEdit,
    QVBoxLayout,
    QWidget,
)

from app.errors import AppError
from app.library.order_profiles import OrderProfile, OrderProfiles, profile_of
from app.placement.plan import CachePolicy
from app.ui.controller import Controller
from app.ui.lanes.profile_words import comparison, memory_of_profile, pins_of_profile, profile_text, saved_text
from app.ui.orders import Orders
from app.ui.theme import GRID, set_role
from app.ui.verdicts import Offer, Refusal

DIALOG_SIZE = (520, 320)


class ProfilesMenu(QMenu):
    """Reads and writes the profiles of the model shown, off the UI thread.

    Signals:
        told: Something did not succeed, or can be taken back (Refusal).
    """

    told = Signal(object)

    def __init__(self, controller: Controller, orders: Orders, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._controller = controller
        self._orders = orders
        self._profiles: tuple[OrderProfile, ...] = ()
        self._problem = ""
        self.dialog: QDialog | None = None
        self.setToolTipsVisible(True)
        self.save_action = QAction(self.tr("Save the orders of now as…"), self)
        self.save_action.triggered.connect(self.ask_name)
        self.reset_action = QAction(self.tr("Reset: all automatic"), self)
        self.reset_action.setToolTip(self.tr("No expert is kept anywhere, and the usual policy; pool and memory stay."))
        self.reset_action.triggered.connect(self.reset)
        self.aboutToShow.connect(self._about_to_show)
        controller.model_changed.connect(self.refresh)
        controller.plan_changed.connect(self._show_actions)
        self._fill()
        self.refresh()

    @property
    def profiles(self) -> tuple[OrderProfile, ...]:
        """Those of the model shown, as they were read last."""
        return self._profiles

    def refresh(self, *_changed: object) -> None:
        """Read the profiles again."""
        store = self._store()
        if store is None:
            self._take((), "")
            return
        job = self._controller.background.run(store.all)
        job.success(lambda profiles: self._taken(store, profiles)).failure(lambda error: self._failed(store, error))

    # ---- what the user does -------------------------------------------------------------------

    def ask_name(self) -> None:
        """Ask under which name to save."""
        dialog = QInputDialog(self.parentWidget())
        dialog.setInputMode(QInputDialog.InputMode.TextInput)
        dialog.setWindowTitle(self.tr("Save a profile"))
        dialog.setLabelText(self.tr("Name of the profile of pins, pool, memory and policy:"))
        dialog.textValueSelected.connect(self.save)
        self._open(dialog)

    def save(self, name: str, *, replace: bool = False) -> None:
        """Keep the orders of now under a name."""
        plan = self._controller.plan
        if plan is None:
            return
        try:
            profile = profile_of(plan, name)
        except AppError as error:
            self._tell(error)
            return
        former = next((its for its in self._profiles if its.name == profile.name), None) if replace else None
        self._change(lambda store: store.save(profile, replace=replace), lambda: self._replaced(former))

    def load(self, profile: OrderProfile) -> None:
        """Order what a profile says, as one step."""
        text = self.tr("profile “{name}”").format(name=profile.name)
        memory = memory_of_profile(profile)
        self._orders.set_all(pins_of_profile(profile), profile.policy, profile.pool_bytes, text, memory)

    def compare(self, profile: OrderProfile) -> None:
        """Tell how the orders of now differ from a profile."""
        plan = self._controller.plan
        if plan is not None:
            self._open(_Comparison(profile, comparison(profile, plan), self.parentWidget()))

    def delete(self, profile: OrderProfile) -> None:
        """Forget a profile, and offer to bring it back."""
        self._change(lambda store: store.delete(profile.name), lambda: self._deleted(profile))

    def reset(self) -> None:
        """Leave all experts to the usual policy; pool and main memory stay as they are."""
        if not self._orders.set_all({}, CachePolicy(), None, self.tr("reset of the orders")):
            self.told.emit(
                Refusal(self.tr("Nothing to reset: all experts are automatic and the policy is the usual one."))
            )

    # ---- inside -------------------------------------------------------------------------------

    def _store(self) -> OrderProfiles | None:
        facts = self._controller.facts
        return OrderProfiles(facts.fingerprint) if facts is not None and facts.moe_layers else None

    def _change(self, make: Callable[[OrderProfiles], None], then: Callable[[], None] = lambda: None) -> None:
        store = self._store()
        if store is None:
            return

        def changed(profiles: tuple[OrderProfile, ...]) -> None:
            if self._is_of_now(store):  # else what `then` offers would be done to another model's profiles
                self._take(profiles, "")
                then()

        def work() -> tuple[OrderProfile, ...]:
            make(store)
            return store.all()

        self._controller.background.run(work).success(changed).failure(self._tell)

    def _replaced(self, former: OrderProfile | None) -> None:
        if former is None:
            return
        back = self.tr("Bring the former one back")
        offer = Offer(back, lambda: self._change(lambda store: store.save(former, replace=True)))
        words = self.tr("The profile “{name}” has the orders of now.").format(name=former.name)
        self.told.emit(Refusal(words, (offer,)))

    def _deleted(self, profile: OrderProfile) -> None:
        offer = Offer(self.tr("Bring it back"), lambda: self._change(lambda store: store.save(profile)))
        self.told.emit(Refusal(self.tr("The profile “{name}” is deleted.").format(name=profile.name), (offer,)))

    def _taken(self, store: OrderProfiles, profiles: tuple[OrderProfile, ...]) -> None:
        if self._is_of_now(store):
            self._take(profiles, "")

    def _failed(self, store: OrderProfiles, error: AppError) -> None:
        if self._is_of_now(store):
            known = self._problem
            self._take((), error.message)
            if error.message != known:
                self._tell(error)

    def _is_of_now(self, store: OrderProfiles) -> bool:
        """Whether a late result is still of the model shown, and there is still a menu to show it."""
        if not shiboken6.isValid(self):
            return False
        now = self._store()
        return now is not None and now.path == store.path

    def _take(self, profiles: tuple[OrderProfile, ...], problem: str) -> None:
        if (profiles, problem) != (self._profiles, self._problem):
            self._profiles, self._problem = profiles, problem
            self._fill()
        self._show_actions()

    def _tell(self, error: AppError) -> None:
        self.told.emit(Refusal(error.message))

    def _about_to_show(self) -> None:
        self._show_actions()
        self.refresh()

    def _show_actions(self, *_changed: object) -> None:
        possible = self._controller.plan is not None and self._store() is not None
        self.save_action.setEnabled(possible and not self._problem)
        self.reset_action.setEnabled(possible)

    def _fill(self) -> None:
        for action in self.actions():
            self.removeAction(action)
            if action not in (self.save_action, self.reset_action):
                (action.menu() or action).deleteLater()
        self.addAction(self.save_action)
        self.addSeparator()
        if self._problem:
            self._note(self.tr("Profiles cannot be read"), self._problem)
        elif not self._profiles:
            self._note(self.tr("No profiles of this model yet"), "")
        for profile in self._profiles:
            self.addMenu(self._submenu(profile))
        self.addSeparator()
        self.addAction(self.reset_action)

    def _note(self, text: str, tip: str) -> None:
        note = self.addAction(text)
        note.setEnabled(False)
        note.setToolTip(tip)

    def _submenu(self, profile: OrderProfile) -> QMenu:
        menu = QMenu(profile.name.replace("&", "&&"), self)
        menu.setToolTipsVisible(True)
        menu.menuAction().setToolTip(f"{profile_text(profile)} · {saved_text(profile)}")
        about = menu.addAction(f"{profile_text(profile)} · {saved_text(profile)}")
        about.setEnabled(False)
        menu.addSeparator()
        for text, do in (
            (self.tr("Load"), lambda: self.load(profile)),
            (self.tr("Compare with now…"), lambda: self.compare(profile)),
            (self.tr("Replace by the orders of now"), lambda: self.save(profile.name, replace=True)),
            (self.tr("Delete"), lambda: self.delete(profile)),
        ):
            menu.addAction(text).triggered.connect(lambda _checked=False, do=do: do())
        return menu

    def _open(self, dialog: QDialog) -> None:
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.destroyed.connect(self._closed)
        self.dialog = dialog
        dialog.open()

    def _closed(self) -> None:
        self.dialog = None


class _Comparison(QDialog):
    """The differences between a profile and now, in words."""

    def __init__(self, profile: OrderProfile, lines: tuple[str, ...], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle(self.tr("Profile “{name}” and now").format(name=profile.name))
        title = QLabel(
            self.tr("Saved {when}: {what}.").format(when=saved_text(profile), what=profile_text(profile)), self
        )
        title.setWordWrap(True)
        set_role(title, "small")
        self.words = QPlainTextEdit(self)
        self.words.setReadOnly(True)
        self.words.setTabChangesFocus(True)
        self.words.setAccessibleName(self.tr("Differences"))
        self.words.setPlainText(
            "\n\n".join(lines) or self.tr("No difference: the orders of now are those of the profile.")
        )
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Close, self)
        buttons.rejected.connect(self.reject)
        column = QVBoxLayout(self)
        column.setContentsMargins(2 * GRID, 2 * GRID, 2 * GRID, 2 * GRID)
        column.setSpacing(GRID)
        column.addWidget(title)
        column.addWidget(self.words, 1)
        column.addWidget(buttons)
        self.resize(*DIALOG_SIZE)

"""The settings: each declared once with key, default, text and range; kept as one JSON file."""

import contextlib
import json
import logging
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from PySide6.QtCore import QT_TRANSLATE_NOOP, QObject, Signal

T = TypeVar("T", str, int, float)

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Setting(Generic[T]):
    """One thing the user (or the window itself) chooses.

    Attributes:
        key: Its name in the file.
        default: Its value until chosen; also gives the type.
        text: Its label in the dialog; empty keeps it out of the dialog.
        help: One sentence on what it does.
        choices: Allowed values with their words, for a choice.
        minimum, maximum, step: The range of a number.
    """

    key: str
    default: T
    text: str = ""
    help: str = ""
    choices: tuple[tuple[T, str], ...] = ()
    minimum: float = 0.0
    maximum: float = 0.0
    step: float = 1.0

    def accepts(self, value: object) -> bool:
        """True for a value of the right type and within the choices or the range; text must be what a file can hold."""
        kinds = (int, float) if isinstance(self.default, float) else (type(self.default),)
        if not isinstance(value, kinds) or isinstance(value, bool):
            return False
        if isinstance(value, str) and not _is_unicode(value):
            return False
        if self.choices:
            return value in [choice for choice, _ in self.choices]
        return self.maximum <= self.minimum or self.minimum <= value <= self.maximum  # type: ignore[operator]


THEME = Setting(
    "theme",
    "system",
    QT_TRANSLATE_NOOP("settings", "Look"),
    QT_TRANSLATE_NOOP("settings", "Follow the system, or always light or dark."),
    choices=(
        ("system", QT_TRANSLATE_NOOP("settings", "Like the system")),
        ("light", QT_TRANSLATE_NOOP("settings", "Light")),
        ("dark", QT_TRANSLATE_NOOP("settings", "Dark")),
    ),
)
TEMPERATURE = Setting(
    "temperature",
    0.8,
    QT_TRANSLATE_NOOP("settings", "Temperature"),
    QT_TRANSLATE_NOOP("settings", "0 always takes the likeliest word; higher values vary more."),
    maximum=2.0,
    step=0.1,
)
MAX_TOKENS = Setting(
    "max_tokens",
    2048,
    QT_TRANSLATE_NOOP("settings", "Longest answer"),
    QT_TRANSLATE_NOOP("settings", "Tokens after which an answer is cut. A token is about ¾ of an English word."),
    minimum=16,
    maximum=131072,
    step=256,
)
ASKED, DAILY = "asked", "daily"
UPDATE_CHECK = Setting(
    "update_check",
    ASKED,
    QT_TRANSLATE_NOOP("settings", "Look for newer versions"),
    QT_TRANSLATE_NOOP(
        "settings", "Fetches the list of releases and tells nothing about you. Nothing is installed unasked."
    ),
    choices=(
        (ASKED, QT_TRANSLATE_NOOP("settings", "Only when I ask")),
        (DAILY, QT_TRANSLATE_NOOP("settings", "Once a day")),
    ),
)
LAST_MODEL = Setting("last_model", "")
GEOMETRY = Setting("window_geometry", "")
LAYOUT = Setting("window_layout", "")
GRAPHS_HIDDEN = Setting("graphs_hidden", "load,clock,heat")
HIDDEN_HINTS = Setting("hidden_hints", "")

SETTINGS: tuple[Setting[Any], ...] = (
    THEME,
    TEMPERATURE,
    MAX_TOKENS,
    UPDATE_CHECK,
    LAST_MODEL,
    GEOMETRY,
    LAYOUT,
    GRAPHS_HIDDEN,
    HIDDEN_HINTS,
)


class Settings(QObject):
    """The chosen values, written to `path` at every change.

    A file that cannot be read is kept aside and the defaults are used; a value out of its range is
    replaced by its default; both are logged.

    Attributes:
        kept_aside: Where an unreadable file is kept now; None where there was none.

    Signals:
        changed: The key of the setting that changed.
    """

    changed = Signal(str)

    def __init__(self, path: Path, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._path = path
        self.kept_aside: Path | None = None
        self._values = self._read()

    def get(self, setting: Setting[T]) -> T:
        """The chosen value, or the default."""
        value = self._values.get(setting.key, setting.default)
        return type(setting.default)(value)

    def set(self, setting: Setting[T], value: T) -> None:
        """Choose a value and write the file.

        Raises:
            ValueError: the value is not one the setting accepts.
        """
        if not setting.accepts(value):
            raise ValueError(f"{setting.key} does not accept {value!r}")
        if self.get(setting) == value:
            return
        self._values[setting.key] = value
        self._write(setting.key)
        self.changed.emit(setting.key)

    def _read(self) -> dict[str, Any]:
        try:
            if self._path.exists() and not self._path.is_file():
                raise ValueError("not a file")  # a pipe would be waited for
            stored = json.loads(self._path.read_text("utf-8"))
            if not isinstance(stored, dict):
                raise ValueError("not an object")
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, RecursionError) as error:
            aside = self._path.with_suffix(".unreadable.json")
            log.warning("settings unreadable (%s); kept as %s", error, aside)
            try:
                self._path.replace(aside)
                self.kept_aside = aside
            except OSError as move_error:
                log.warning("settings could not be kept aside: %s", move_error)
            return {}
        values = {}
        for setting in SETTINGS:
            if setting.key not in stored:
                continue
            if setting.accepts(stored[setting.key]):
                values[setting.key] = stored[setting.key]
            else:
                log.warning("setting %s: %r is not accepted", setting.key, stored[setting.key])
        return values

    def _write(self, key: str) -> None:
        # Another window may have chosen something since: only `key` is this one's to change.
        values = {**self._values, **self._read(), key: self._values[key]}
        whole = self._path.with_suffix(f".{os.getpid()}.new")
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            whole.write_text(json.dumps(values, indent=1, ensure_ascii=False), "utf-8")
            os.replace(whole, self._path)  # noqa: PTH105 - the atomic one on every system
        except OSError as error:
            log.error("settings could not be written: %s", error)
            with contextlib.suppress(OSError):
                whole.unlink(missing_ok=True)


def _is_unicode(text: str) -> bool:
    """False for halves of surrogate pairs, which JSON can spell and no file can hold."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True

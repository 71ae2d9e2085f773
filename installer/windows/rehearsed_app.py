"""The installed app in the rehearsal, used by its keys as a user would: the wizard, a question, its answer.

What it did is read from what it keeps: the conversations, the models, its log.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from desktop import Desktop, Window
from hands import until, until_or_not
from nsis import PROGRAMS

WINDOW_PROGRAM, _TERMINAL_PROGRAM = PROGRAMS
DEMO = "expert-lanes-demo.gguf"
START_SECONDS = 60
"""How long the window may take to be seen: a first start under Wine took 4 s (two cores, November 2026)."""
_BUILD_SECONDS = 120
_LOAD_SECONDS = 120
_ANSWER_SECONDS = 300
"""The demo answers within seconds; a machine that builds something else meanwhile may be far slower."""
_MOST_PAGES = 8
_TRIES = 3
_PAGE_SECONDS = 15
_MODEL_IS_LOADED = " — Expert Lanes"


@dataclass(frozen=True)
class Message:
    """A message of a conversation.

    Attributes:
        role: "user" or "assistant".
        content: Its text.
        state: "complete", "streaming" while it is written, or how it ended else.
    """

    role: str
    content: str
    state: str


def read_messages(data: Path) -> list[Message]:
    """All messages in the app's folder for data, the oldest first; none before the first conversation.

    The app may be writing: a copy is read, with what has not come from the journal into the file.
    """
    with tempfile.TemporaryDirectory() as scratch:
        for name in ("conversations.db", "conversations.db-wal"):
            if (data / name).is_file():
                shutil.copyfile(data / name, Path(scratch) / name)
        copy = Path(scratch) / "conversations.db"
        if not copy.is_file():
            return []
        connection = sqlite3.connect(copy)
        try:
            rows = connection.execute("SELECT role, content, state FROM messages ORDER BY id").fetchall()
        except sqlite3.DatabaseError:
            return []  # caught between two steps of a write: whoever waits looks again
        finally:
            connection.close()
    return [Message(*row) for row in rows]


class App:
    """The app of one version on a desktop.

    Args:
        desktop: Where it is installed.
        folder: The version's folder, as Windows writes it.
    """

    def __init__(self, desktop: Desktop, folder: str) -> None:
        self._desktop = desktop
        self.folder = folder
        self.data = desktop.user / "AppData" / "Local" / "expert-lanes"

    @property
    def messages(self) -> list[Message]:
        """All messages that it keeps."""
        return read_messages(self.data)

    @property
    def log(self) -> str:
        """What the window logged."""
        file = self.data / "Logs" / "window.log"
        return file.read_text("utf-8", errors="replace") if file.is_file() else ""

    def running(self) -> list[str]:
        """Its programs that run."""
        return self._desktop.running(self.folder)

    def windows(self) -> list[Window]:
        """Its windows, the one in front first."""
        program = f"{self.folder}\\{WINDOW_PROGRAM}".casefold()
        return [window for window in self._desktop.look().windows if window.program.casefold() == program]

    def wait_for_window(self) -> None:
        """Wait until its window is seen and nothing in it changes.

        Raises:
            SystemExit: it is not in time.
        """
        until(self.windows, f"a window of {self.folder}", START_SECONDS)
        until(self._desktop.hands.stillness(still=1.5), "the app's first page", START_SECONDS)

    def wait_for_end(self, seconds: float) -> None:
        """Wait until none of its programs runs, and tell how long that took."""
        began = time.monotonic()
        until(lambda: not self.running(), f"the end of the app in {self.folder}", seconds, pause=0.2)
        print(f"windows: app and engine ended by themselves within {time.monotonic() - began:.1f} s", flush=True)

    def set_temperature(self, temperature: float) -> None:
        """Set, before its first start, how much answers vary: with 0 they are the same each time, and as long."""
        self.data.mkdir(parents=True, exist_ok=True)
        (self.data / "settings.json").write_text(json.dumps({"temperature": temperature}), "utf-8")

    def build_demo(self) -> None:
        """Press the first page's button, and wait for the demo model and for the page that tells of it."""
        hands = self._desktop.hands
        before = hands.seen()
        model = self.data / "models" / DEMO
        for _ in range(_TRIES):  # a window may miss keys while it gets the keyboard
            hands.press("Return")
            if until_or_not(model.parent.is_dir, _PAGE_SECONDS):
                break
        until(model.is_file, f"the demo model {model.name}", _BUILD_SECONDS)
        until(hands.stillness(other_than=before), "the page that tells of the demo model", _PAGE_SECONDS)

    def load(self) -> None:
        """Go through the wizard with the model that is chosen, to the page that says that it is loaded.

        Raises:
            SystemExit: it was not loaded.
        """
        hands = self._desktop.hands
        for _ in range(_MOST_PAGES):
            stays = hands.stillness()
            until(lambda: self._is_loaded() or stays(), "a page of the app's wizard", _LOAD_SECONDS)  # noqa: B023
            if self._is_loaded():
                break
            before = hands.seen()
            hands.press("Return")
            # A page that is not ready yet takes no Enter: it is pressed again then.
            other = hands.stillness(other_than=before, still=0.0)
            until_or_not(lambda: self._is_loaded() or other(), _PAGE_SECONDS)  # noqa: B023
        else:
            raise SystemExit("windows: the app's wizard did not come to an end")
        until(hands.stillness(), "the page of the loaded model", _PAGE_SECONDS)

    def _is_loaded(self) -> bool:
        return any(_MODEL_IS_LOADED in window.frame.text for window in self.windows())

    def begin_chat(self) -> None:
        """Leave the page of the loaded model for the chat."""
        hands = self._desktop.hands
        before = hands.seen()
        hands.press("Return")
        # The cursor blinks from here on: no picture stays for long.
        until(hands.stillness(other_than=before, still=0.3), "the chat", _PAGE_SECONDS)

    def ask(self, question: str) -> None:
        """Type a question and send it."""
        self._desktop.hands.write(question)
        self._desktop.hands.press("Return")
        until(lambda: Message("user", question, "complete") in self.messages, f"the question '{question}'", 30)

    def wait_for_answer(self) -> str:
        """Wait until the last answer is complete; its text.

        Raises:
            SystemExit: it is not in time, or ended else.
        """

        def last() -> Message | None:
            messages = self.messages
            return messages[-1] if messages and messages[-1].state != "streaming" else None

        answer = until(last, "the end of the answer", _ANSWER_SECONDS, pause=0.5)
        if answer.role != "assistant" or answer.state != "complete" or not answer.content.strip():
            raise SystemExit(f"windows: the model did not answer: {answer}")
        return answer.content

    def wait_for_words(self) -> None:
        """Wait until the last answer has begun and is not complete."""

        def writes() -> bool:
            messages = self.messages
            return bool(messages) and messages[-1].state == "streaming" and bool(messages[-1].content.strip())

        until(writes, "an answer that is being written", _ANSWER_SECONDS, pause=0.2)

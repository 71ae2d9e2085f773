"""What `make run` starts: the window; without a display the terminal chat; without a terminal one question."""

import os
import subprocess
import sys
from pathlib import Path

QUESTION = "Why is the sky blue? Answer in two sentences."


def has_display() -> bool:
    """True where a window can be opened."""
    if sys.platform in ("win32", "darwin"):
        return True
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def main() -> int:
    """Start the app in the widest form this place allows and say which."""
    program = [sys.executable, "-m", "app"]
    os.chdir(Path(__file__).resolve().parents[2])
    if has_display():
        return become(program)
    if sys.stdin.isatty() and sys.stdout.isatty():
        print("No display here: this is the chat in the terminal, with the demo model.")
        return become([*program, "chat", "demo"])
    print("No display and no terminal here: one question to the demo model.")
    print(f"> {QUESTION}")
    return become([*program, "chat", "demo", "-p", QUESTION, "--temperature", "0", "--max-tokens", "120"])


def become(command: list[str]) -> int:
    """Go on as `command`: Ctrl-C then means what that program says it means."""
    sys.stdout.flush()
    if os.name == "posix":
        os.execv(command[0], command)
    return subprocess.run(command, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())

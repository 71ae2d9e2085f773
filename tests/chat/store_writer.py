"""A second process that uses a conversation store; the tests start it, and some kill it.

stream PATH       streams an endless answer, printing the length of the text each time it is stored
add PATH COUNT    waits for a line on its input, opens the store and adds COUNT messages
"""

import sys
from pathlib import Path

from app.chat.store import ConversationStore

PIECE = "word · "


def stream(path: Path) -> None:
    store = ConversationStore(path)
    conversation = store.new_conversation()
    question = store.add_message(conversation, None, "user", "Tell me a long story")
    answer = store.add_message(conversation, question, "assistant", "", state="streaming")
    text = ""
    while True:
        text += PIECE
        store.update_message(answer, content=text)
        print(len(text), flush=True)


def add(path: Path, count: int) -> None:
    print("ready", flush=True)
    sys.stdin.readline()
    with ConversationStore(path) as store:
        conversation = store.new_conversation("by the child")
        last = None
        for number in range(count):
            last = store.add_message(conversation, last, "user", f"message {number}")


if __name__ == "__main__":
    action, path, *rest = sys.argv[1:]
    if action == "stream":
        stream(Path(path))
    else:
        add(Path(path), int(rest[0]))

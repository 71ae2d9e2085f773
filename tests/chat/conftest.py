"""Fixtures of the chat tests: a store in a fresh folder, and children that use the same file."""

import subprocess
import sys
from pathlib import Path

import pytest

from app.chat.store import AnswerFigures, ConversationStore

ROOT = Path(__file__).resolve().parents[2]
WRITER = Path(__file__).with_name("store_writer.py")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "chats" / "conversations.db"


@pytest.fixture
def store(path):
    with ConversationStore(path) as made:
        yield made


@pytest.fixture
def figures():
    return AnswerFigures(
        prompt_tokens=31,
        completion_tokens=120,
        reused_tokens=8,
        ttft_seconds=0.41,
        prompt_tokens_per_second=210.5,
        tokens_per_second=38.25,
        stop_reason="end_of_text",
        model="demo",
        cache_used=True,
        cache_hits=90,
        cache_misses=30,
    )


@pytest.fixture
def start_writer():
    """`start_writer(*arguments) -> Popen` runs store_writer.py; what is left of it is ended after the test."""
    children = []

    def start(*arguments):
        child = subprocess.Popen(
            [sys.executable, str(WRITER), *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env={"PYTHONPATH": str(ROOT), "PYTHONUTF8": "1"},
        )
        children.append(child)
        return child

    yield start
    for child in children:
        if child.poll() is None:
            child.kill()
        child.communicate()

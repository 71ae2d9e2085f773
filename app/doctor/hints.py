"""What a rule says: a hint with its evidence and one action, or why it could not be judged."""

import msgspec

PROBLEM, SLOWER, NOTE = "problem", "slower", "note"
SEVERITIES = (PROBLEM, SLOWER, NOTE)
"""Worst first: something is not as it was ordered, or may end in an error; it costs speed; it is good to know."""


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """One choice of a plan with another value.

    Attributes:
        key: A field of `Plan`, or of its policy ("lock_bytes", "kind").
        value: What it should be; None for no GPU.
    """

    key: str
    value: int | str | tuple[int, ...] | None


class Hint(msgspec.Struct, frozen=True, kw_only=True):
    """Something to do about this machine or the way a model runs on it.

    Attributes:
        rule: Name of the rule, which never changes.
        title: What is the matter, in a few words.
        evidence: The figures that show it; what is predicted among them says so.
        action: The one thing to do, as one sentence.
        severity: One of SEVERITIES.
        fix: The plan's changes that do it; empty where no plan can.
        about: Which of several things it speaks of (an engine name of a GPU, a disk); empty where there is one only.
    """

    rule: str
    title: str
    evidence: str
    action: str
    severity: str = SLOWER
    fix: tuple[Change, ...] = ()
    about: str = ""


class NotJudged(msgspec.Struct, frozen=True, kw_only=True):
    """A rule whose facts are missing; `why` is a sentence."""

    rule: str
    why: str


class UnjudgedError(Exception):
    """Raised by a rule whose facts are missing; its text says why."""

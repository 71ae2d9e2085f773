"""The title of a conversation, taken from its first question."""

LONGEST_TITLE = 60
_ELLIPSIS = "…"


def title_from(text: str) -> str:
    """The first line of `text` that says anything, at most LONGEST_TITLE characters.

    A longer line is cut between two words where there are any and ends in an ellipsis. White space
    within is reduced to single spaces. Empty for an empty text.
    """
    line = next((" ".join(line.split()) for line in text.splitlines() if line.strip()), "")
    if len(line) <= LONGEST_TITLE:
        return line
    cut = line[: LONGEST_TITLE - len(_ELLIPSIS) + 1]
    words, _, _ = cut.rpartition(" ")
    return (words or cut[:-1]) + _ELLIPSIS

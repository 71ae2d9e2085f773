"""Command lines as a shell reads and writes them: POSIX, and Windows' cmd with PowerShell's single quotes."""

import re
import shlex

from app.errors import AppError, ErrorCode

SHELLS = ("posix", "windows")
_PLAIN = re.compile(r"[\w./\\:=,+@-]+", re.ASCII)
# What only a line for Windows has: a caret or a backtick that goes on in the next line, an .exe, a drive.
_WINDOWS = re.compile(r"[\^`][ \t]*\r?\n|\.exe\b|(?:^|[\s\"'=])[A-Za-z]:\\", re.IGNORECASE)
_POSIX_JOINED = re.compile(r"\\\r?\n")
_WINDOWS_JOINED = re.compile(r"[\^`][ \t]*\r?\n")
_SLASHES = r"(?P<escaped>(?:\\\\)*\\\")|(?P<paired>(?:\\\\)+(?=\"))|\\+"
# By the quotation mark one is inside of.
_WINDOWS_PIECES = {
    "": re.compile(rf"\s+|{_SLASHES}|(?P<caret>\^.)|.", re.DOTALL),
    '"': re.compile(rf"{_SLASHES}|.", re.DOTALL),
    "'": re.compile(r".", re.DOTALL),
}


def join(arguments: tuple[str, ...], shell: str) -> str:
    """One line that `shell` divides into these arguments."""
    if shell == "posix":
        return shlex.join(arguments)
    return " ".join(argument if _PLAIN.fullmatch(argument) else _windows_quoted(argument) for argument in arguments)


def split(text: str, shell: str | None = None) -> tuple[str, ...]:
    """The arguments of a line, which may go on over several.

    Args:
        text: As pasted; a prompt (`$` or `>`) before it is passed over.
        shell: One of SHELLS; None to tell by the text.

    Raises:
        AppError: bad_usage, a quotation mark is not closed.
    """
    text = re.sub(r"^\s*[$>]\s+", "", text)
    if (shell or shell_of(text)) == "windows":
        return _split_windows(_WINDOWS_JOINED.sub(" ", text))
    try:
        return tuple(shlex.split(_POSIX_JOINED.sub(" ", text)))
    except ValueError as error:
        raise _unclosed(str(error)) from error


def shell_of(text: str) -> str:
    """The shell that a pasted line was written for, by its signs."""
    return "windows" if _WINDOWS.search(text) else "posix"


def _windows_quoted(argument: str) -> str:
    # The C library's rule: backslashes are literal unless a quotation mark follows.
    inner = re.sub(r'(\\*)"', lambda match: f'{match[1] * 2}\\"', argument)
    inner = re.sub(r"\\+$", lambda match: match[0] * 2, inner)
    return f'"{inner}"'


def _split_windows(text: str) -> tuple[str, ...]:
    arguments: list[str] = []
    current: str | None = None
    quote = ""
    place = 0
    while match := _WINDOWS_PIECES[quote].match(text, place):
        piece, place = match[0], match.end()
        if not quote and piece.isspace():
            arguments += [] if current is None else [current]
            current = None
        elif piece == quote or (not quote and (piece == '"' or (piece == "'" and current is None))):
            quote = "" if quote else piece
            current = current or ""
        else:
            current = (current or "") + _unescaped(match)
    if quote:
        raise _unclosed(f"at the end of: {current}")
    return (*arguments, *([] if current is None else [current]))


def _unescaped(match: re.Match[str]) -> str:
    if match.lastgroup == "escaped":  # half of the backslashes but the last, which stands before the mark
        return "\\" * (len(match[0]) // 2 - 1) + '"'
    if match.lastgroup == "paired":
        return "\\" * (len(match[0]) // 2)
    return match[0][1:] if match.lastgroup == "caret" else match[0]


def _unclosed(detail: str) -> AppError:
    return AppError(ErrorCode.BAD_USAGE, "The command line has a quotation mark that is not closed.", detail)

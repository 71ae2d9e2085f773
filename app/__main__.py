"""The one entry: the window by default or for a model file, the command line with arguments, the engine with --engine.

`--self-test [PICTURE]` tests an installation; it is for installers and not told of in the help.
"""

import os
import sys

INTERRUPTED = 130  # as a shell reports a program that Ctrl-C ended


def main() -> int:
    """Run what the arguments name; Ctrl-C at any moment, also during the imports, ends without a traceback."""
    try:
        return dispatch()
    except KeyboardInterrupt:
        return INTERRUPTED


def dispatch() -> int:
    """Choose by the first argument; nothing heavy is imported before that is known."""
    arguments = sys.argv[1:]
    if arguments[:1] == ["--engine"]:
        from app.engine.process import main as engine_main  # noqa: PLC0415

        return engine_main(arguments[1:])
    if arguments[:1] == ["--self-test"]:
        from app.ui.self_test import run as self_test  # noqa: PLC0415

        return self_test(arguments[1:])
    if arguments and not names_a_file(arguments):
        from app.cli import main as cli_main  # noqa: PLC0415

        return cli_main(arguments)
    from app.ui.application import run  # noqa: PLC0415

    return run(sys.argv[:1], *arguments)


def names_a_file(arguments: list[str]) -> bool:
    """True for a file to open, as file managers give it and no command is called: a .gguf file, or a whole path."""
    if len(arguments) != 1 or arguments[0].startswith("-"):
        return False
    word = arguments[0]
    return word.lower().endswith(".gguf") or word.startswith("file:") or os.path.isabs(word)  # noqa: PTH117 - no path yet


if __name__ == "__main__":
    sys.exit(main())

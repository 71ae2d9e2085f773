"""The one entry: the window by default, the command line with arguments, the engine child with --engine.

`--self-test [PICTURE]` tests an installation; it is for installers and not told of in the help.
"""

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
    if arguments:
        from app.cli import main as cli_main  # noqa: PLC0415

        return cli_main(arguments)
    from app.ui.application import run  # noqa: PLC0415

    return run(sys.argv)


if __name__ == "__main__":
    sys.exit(main())

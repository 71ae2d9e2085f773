"""A second process that holds the lock of the file it is given, until its input ends or it is killed."""

import sys
from pathlib import Path

from app.library.file_lock import FileLock


def refuse():
    raise SystemExit("the lock was taken already")


with FileLock(Path(sys.argv[1]), on_wait=refuse):
    print("held", flush=True)
    sys.stdin.read()

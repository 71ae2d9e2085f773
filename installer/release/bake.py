"""Tells the tree that is frozen next where releases are published, and who signs them.

    python installer/release/bake.py --feed URL --key PUBLIC [--key PUBLIC]

writes app/updates/baked.py. A build without that file looks for no updates, and says so. `--remove` takes it away.
"""

from __future__ import annotations

import argparse
import binascii
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from app.errors import AppError  # noqa: E402 - found by the line above, as are the next ones
from app.updates.feed import https_address  # noqa: E402
from app.updates.signature import public_key  # noqa: E402

BAKED = ROOT / "app" / "updates" / "baked.py"


def module(feed_url: str, keys: Sequence[str]) -> str:
    """The module's text.

    Raises:
        SystemExit: the address is none of HTTPS, or a key is none.
    """
    try:
        https_address(feed_url)
        for key in keys:
            public_key(key)
    except (AppError, ValueError, binascii.Error) as error:
        raise SystemExit(f"release: {error}") from error
    return (
        '"""Where this build looks for releases, and who signs them; written by installer/release/bake.py."""\n\n'
        f"FEED_URL = {feed_url!r}\nKEYS = {tuple(keys)!r}\n"
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Write it, or take it away."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--feed", help="HTTPS address of releases.json")
    parser.add_argument("--key", action="append", default=[], help="a public key that may sign it")
    parser.add_argument("--remove", action="store_true")
    told = parser.parse_args(arguments)
    if told.remove:
        BAKED.unlink(missing_ok=True)
        return
    if not told.feed or not told.key:
        parser.error("a feed and at least one key are needed")
    BAKED.write_text(module(told.feed, told.key), "utf-8")
    print(f"release: {BAKED.relative_to(ROOT)} names {told.feed}")


if __name__ == "__main__":
    main()

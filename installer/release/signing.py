"""The key that signs the releases feed: makes one, reads it from its file, signs with it.

    python installer/release/signing.py new FILE      writes a new key to FILE and prints its public half
    python installer/release/signing.py public FILE   prints the public half of the key in FILE

The file holds the base64 of the key's 32 bytes, and is to be kept where nobody else reads it. Its public half is what a
release build knows (bake.py).
"""

from __future__ import annotations

import argparse
import base64
import binascii
import os
from pathlib import Path

from nacl.signing import SigningKey


def new_key(path: Path) -> SigningKey:
    """Make a key and write it to `path`, which only its owner may read.

    Raises:
        SystemExit: the file is there already: a lost key would leave every installed app without updates.
    """
    key = SigningKey.generate()
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise SystemExit(f"release: {path} is there already, and stays as it is") from None
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(base64.b64encode(bytes(key)).decode() + "\n")
    return key


def read_key(path: Path) -> SigningKey:
    """The key in `path`.

    Raises:
        SystemExit: there is none in it.
    """
    try:
        return SigningKey(base64.b64decode(path.read_text("ascii").strip(), validate=True))
    except (OSError, binascii.Error, ValueError, TypeError) as error:
        raise SystemExit(f"release: no key can be read from {path}") from error  # nothing of what is in it


def public_text(key: SigningKey) -> str:
    """The public half as builds know it."""
    return base64.b64encode(bytes(key.verify_key)).decode()


def signature(key: SigningKey, data: bytes) -> bytes:
    """The content of the signature's file for `data`."""
    return base64.b64encode(key.sign(data).signature) + b"\n"


def main() -> None:
    """Do what the arguments say."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("new", "public"))
    parser.add_argument("file", type=Path)
    told = parser.parse_args()
    key = new_key(told.file) if told.what == "new" else read_key(told.file)
    print(public_text(key))


if __name__ == "__main__":
    main()

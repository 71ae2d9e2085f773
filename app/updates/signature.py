"""Who made the releases feed: its Ed25519 signature, checked against the keys that the build knows.

The signature lies beside the feed, under its name with `.sig`: the base64 of 64 bytes, signed over the feed's bytes.
As `openssl pkeyutl -verify -rawin` checks it, so anyone can without this app.
"""

import base64
import binascii
from collections.abc import Sequence

from app.errors import AppError, ErrorCode

SUFFIX = ".sig"
SIGNATURE_BYTES = 1024
"""Most that is read of a signature's file; 89 are needed."""

_SIGNATURE_LENGTH, _KEY_LENGTH = 64, 32


def verify(data: bytes, signature: bytes, keys: Sequence[str]) -> None:
    """Check that `data` was signed with one of `keys`.

    Args:
        data: The feed as it came.
        signature: The content of its signature file.
        keys: Public keys, each the base64 of its 32 bytes.

    Raises:
        AppError: update_untrusted, it was not.
    """
    from nacl.exceptions import BadSignatureError  # noqa: PLC0415 - no start of the window needs it
    from nacl.signing import VerifyKey  # noqa: PLC0415

    try:
        signed = base64.b64decode(signature.strip(), validate=True)
    except (binascii.Error, ValueError):
        signed = b""
    if len(signed) != _SIGNATURE_LENGTH:
        raise AppError(ErrorCode.UPDATE_UNTRUSTED, "The releases feed has no readable signature.")
    for key in keys:
        try:
            VerifyKey(public_key(key)).verify(data, signed)
        except BadSignatureError:
            continue
        return
    raise AppError(
        ErrorCode.UPDATE_UNTRUSTED, "The releases feed is not signed by the makers of this app: it was changed."
    )


def public_key(text: str) -> bytes:
    """The 32 bytes of a public key that is written in base64.

    Raises:
        ValueError: it is none.
    """
    key = base64.b64decode(text, validate=True)
    if len(key) != _KEY_LENGTH:
        raise ValueError(f"a public key has {_KEY_LENGTH} bytes, not {len(key)}")
    return key

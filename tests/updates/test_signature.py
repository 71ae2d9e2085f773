"""Who signed the feed: only one of the keys that the build knows counts, over exactly these bytes."""

import base64
import subprocess

import pytest
from played_releases import KEY, OTHER_KEY, public, signed

from app.errors import AppError, ErrorCode
from app.updates.signature import public_key, verify

DATA = b"the feed"


def test_a_signature_of_a_known_key_is_right():
    verify(DATA, signed(DATA), (public(KEY),))


def test_any_of_several_keys_may_sign():
    verify(DATA, signed(DATA), (public(OTHER_KEY), public(KEY)))


@pytest.mark.parametrize(
    ("data", "signature"),
    [
        (DATA, signed(DATA, OTHER_KEY)),
        (DATA + b" ", signed(DATA)),
        (b"", signed(DATA)),
        (DATA, b""),
        (DATA, b"not base64!"),
        (DATA, base64.b64encode(b"too short")),
        (DATA, base64.b64encode(bytes(64))),
        (DATA, b"\xff\x00"),
    ],
)
def test_anything_else_is_untrusted(data, signature):
    with pytest.raises(AppError) as refused:
        verify(data, signature, (public(KEY),))
    assert refused.value.code is ErrorCode.UPDATE_UNTRUSTED


def test_one_changed_bit_anywhere_in_the_signature_is_seen():
    right = KEY.sign(DATA).signature
    for place in range(len(right) * 8):
        wrong = bytearray(right)
        wrong[place // 8] ^= 1 << place % 8
        with pytest.raises(AppError):
            verify(DATA, base64.b64encode(bytes(wrong)), (public(KEY),))


def test_without_a_key_nothing_is_trusted():
    with pytest.raises(AppError):
        verify(DATA, signed(DATA), ())


@pytest.mark.parametrize("text", ["", "AAAA", "no base64", base64.b64encode(bytes(33)).decode()])
def test_a_public_key_that_is_none_is_refused(text):
    with pytest.raises(ValueError, match=r"."):
        public_key(text)


def test_openssl_finds_the_same_signature_right(tmp_path):
    prefix = bytes.fromhex("302a300506032b6570032100")  # RFC 8410: what an Ed25519 public key begins with in DER
    (tmp_path / "key.der").write_bytes(prefix + bytes(KEY.verify_key))
    (tmp_path / "data").write_bytes(DATA)
    (tmp_path / "signature").write_bytes(base64.b64decode(signed(DATA)))
    command = ["openssl", "pkeyutl", "-verify", "-pubin", "-keyform", "DER", "-inkey", "key.der", "-rawin"]
    try:
        done = subprocess.run(
            [*command, "-in", "data", "-sigfile", "signature"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
    except FileNotFoundError:
        pytest.skip("there is no openssl here")
    assert done.returncode == 0, done.stderr

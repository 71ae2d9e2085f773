"""Signs Windows programs with osslsigncode, where a certificate is configured: `python3 sign.py FILE...`.

The environment tells where it lies, as paths: no command line and no log shows what is in these files.

    EXPERT_LANES_CERTIFICATE            the certificate with its private key, a PKCS #12 file
    EXPERT_LANES_CERTIFICATE_PASSWORD   the file that holds its password
    EXPERT_LANES_TIMESTAMP_URL          a timestamp server (RFC 3161); a signature without one ends with the certificate

Only the standard library is used, so that what knows the certificate runs nothing that was fetched.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

CERTIFICATE = "EXPERT_LANES_CERTIFICATE"
PASSWORD = "EXPERT_LANES_CERTIFICATE_PASSWORD"
TIMESTAMP_URL = "EXPERT_LANES_TIMESTAMP_URL"
_SHOWN_NAME = "Expert Lanes"
_SECONDS = 120
_TRIES = 3  # timestamp servers turn requests away that follow fast on one another
_PAUSE_SECONDS = 10


@dataclass(frozen=True)
class Certificate:
    """What files are signed with.

    Attributes:
        file: The PKCS #12 file.
        password: The file that holds its password.
        timestamp_url: Who says when it was signed; "" for nobody.
    """

    file: Path
    password: Path
    timestamp_url: str


def configured(environment: Mapping[str, str] = os.environ) -> Certificate | None:
    """The certificate that the environment tells of; None where it tells of none.

    Raises:
        SystemExit: only half of it is told, or a file is not there: what is to be signed must not go out unsigned.
    """
    told = [environment.get(name, "") for name in (CERTIFICATE, PASSWORD)]
    if not any(told):
        return None
    for name, value in zip((CERTIFICATE, PASSWORD), told, strict=True):
        if not value or not Path(value).is_file():
            raise SystemExit(f"sign: {name} is to name a file, and does not")
    return Certificate(Path(told[0]), Path(told[1]), environment.get(TIMESTAMP_URL, ""))


def sign(file: Path, certificate: Certificate) -> None:
    """Sign a program or library in its place, instead of whoever signed it before.

    Raises:
        SystemExit: osslsigncode is missing or failed; the file is as it was.
    """
    program = shutil.which("osslsigncode")
    if program is None:
        raise SystemExit("sign: osslsigncode is missing; on Debian it is the package of that name")
    with tempfile.TemporaryDirectory(dir=file.parent) as scratch:
        signed = Path(scratch) / "signed"
        command = [program, "sign", "-pkcs12", str(certificate.file), "-readpass", str(certificate.password)]
        command += ["-h", "sha256", "-n", _SHOWN_NAME]
        if certificate.timestamp_url:
            command += ["-ts", certificate.timestamp_url]
        _run([*command, "-in", str(file), "-out", str(signed)], signed, _TRIES if certificate.timestamp_url else 1)
        shutil.copymode(file, signed)
        signed.replace(file)


def _run(command: list[str], made: Path, tries: int) -> None:
    for left in reversed(range(tries)):
        made.unlink(missing_ok=True)  # it writes over nothing
        told = _run_once(command)
        if told is None and made.is_file():
            return
        if left:
            time.sleep(_PAUSE_SECONDS)
    raise SystemExit(f"sign: osslsigncode failed {told or '(it wrote nothing)'}")


def _run_once(command: list[str]) -> str | None:
    """What went wrong; None where nothing did. A server that keeps it waiting is what may be better next time."""
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"(not over after {_SECONDS} s)"
    return None if done.returncode == 0 else f"({done.returncode})\n{done.stdout.strip()[-2000:]}"


def main() -> None:
    """Sign the files that the command line names.

    Raises:
        SystemExit: no certificate is configured, or a file could not be signed.
    """
    certificate = configured()
    if certificate is None:
        raise SystemExit(f"sign: {CERTIFICATE} is not set")
    for name in sys.argv[1:]:
        sign(Path(name), certificate)


if __name__ == "__main__":
    main()

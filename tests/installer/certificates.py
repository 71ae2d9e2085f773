"""A certificate of our own making, to sign Windows programs with and to check signatures by."""

import shutil
import subprocess

import sign

PASSWORD = "a secret: äé $HOME"
_SIGNER = "Signer of the tests"


def lacking():
    """True where what is needed for it is not installed."""
    return any(shutil.which(program) is None for program in ("osslsigncode", "openssl"))


def make(folder):
    """Make it in `folder`, and return that."""
    key, certificate, password = folder / "key.pem", folder / "certificate.pem", folder / "password"
    password.write_text(PASSWORD, "utf-8")
    make = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={_SIGNER}"]
    make += ["-addext", "extendedKeyUsage=codeSigning", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run(make, check=True, capture_output=True)
    pack = ["openssl", "pkcs12", "-export", "-inkey", key, "-in", certificate, "-passout", f"file:{password}"]
    subprocess.run([*pack, "-out", folder / "certificate.p12"], check=True)
    return folder


def environment(folder):
    """What tells the installer's scripts of it."""
    return {sign.CERTIFICATE: str(folder / "certificate.p12"), sign.PASSWORD: str(folder / "password")}


def has_signed(folder, file):
    """True where osslsigncode finds this certificate's signature in a file, and the file unchanged since."""
    command = ["osslsigncode", "verify", "-CAfile", folder / "certificate.pem", "-in", file]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode == 0 and _SIGNER in done.stdout

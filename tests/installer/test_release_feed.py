"""What a release publishes, made by the release's scripts and taken by the app: end to end, over played servers."""

import datetime
import hashlib
import json
import shutil
import ssl
import stat
import subprocess
import sys

import bake
import feed
import pytest
import signing
from played_releases import FEED_URL, PlayedTransport
from tls_server import make_certificate, tls_server

from app.errors import AppError, ErrorCode
from app.updates.check import check, seen_record
from app.updates.download import download, folder_of
from app.updates.installation import Installation
from app.updates.source import Source
from app.updates.transport import HttpsTransport

NOW = datetime.datetime(2026, 12, 1, tzinfo=datetime.UTC)
PACKAGES = {
    "expert-lanes_0.2.0_amd64.deb": ("linux-x86_64", "deb"),
    "expert-lanes-0.2.0-linux-x86_64.tar.xz": ("linux-x86_64", "tar.xz"),
    "expert-lanes-0.2.0-linux-x86_64.AppImage": ("linux-x86_64", "appimage"),
    "expert-lanes-0.2.0-windows-x86_64-setup.exe": ("windows-x86_64", "setup"),
    "expert-lanes-cuda-0.2.0-windows-x86_64.zip": ("windows-x86_64", "cuda"),
}


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("EXPERT_LANES_HOME", str(tmp_path / "home"))


@pytest.fixture
def folder(tmp_path):
    """Artefacts as the workflow gathers them."""
    made = tmp_path / "packages"
    made.mkdir()
    for name in PACKAGES:
        (made / name).write_bytes(name.encode() * 1000)
    (made / "expert-lanes-0.2.0-linux-x86_64.files.txt").write_text("a list")
    return made


@pytest.fixture
def key_file(tmp_path):
    signing.new_key(tmp_path / "signing.key")
    return tmp_path / "signing.key"


def make(folder, key_file, *arguments):
    feed.main([str(folder), "--key", str(key_file), "--version", "0.2.0", *arguments])


def served(folder):
    """A server that has what lies in the folder beside the feed's address."""
    base = FEED_URL.rpartition("/")[0]
    return PlayedTransport({f"{base}/{path.name}": path.read_bytes() for path in folder.iterdir()})


def source_of(key_file):
    return Source(feed_url=FEED_URL, keys=(signing.public_text(signing.read_key(key_file)),))


def look(folder, key_file, platform="linux-x86_64", kind="deb", version="0.1.0"):
    return check(source_of(key_file), Installation(version, platform, kind), served(folder), seen_record(), NOW)


@pytest.mark.parametrize(("name", "is_for"), PACKAGES.items())
def test_an_app_finds_fetches_and_proves_its_package(folder, key_file, name, is_for):
    make(folder, key_file)
    found = look(folder, key_file, *is_for)
    assert found.release.version == "0.2.0"
    assert found.file.name == name
    path = download(found.file, found.url, folder_of(found.release), served(folder), lambda *_: None, lambda: False)
    assert path.read_bytes() == (folder / name).read_bytes()


@pytest.mark.skipif(shutil.which("openssl") is None, reason="there is no openssl here to make a certificate")
def test_over_a_real_https_server_the_package_arrives_although_the_connection_breaks(
    folder, key_file, tmp_path, monkeypatch
):
    for name in ("https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    make(folder, key_file)
    certificate = make_certificate(tmp_path)
    transport = HttpsTransport(ssl.create_default_context(cafile=certificate[0]))
    with tls_server(*certificate) as (url, server):
        server.folder = folder
        source = Source(f"{url}/folder/releases.json", source_of(key_file).keys)
        found = check(source, Installation("0.1.0", "linux-x86_64", "deb"), transport, seen_record(), NOW)
        server.cuts = True

        def fetch():
            return download(found.file, found.url, folder_of(found.release), transport, lambda *_: None, lambda: False)

        with pytest.raises(AppError, match="ended after") as broken:
            fetch()
        assert broken.value.code is ErrorCode.NO_NETWORK
        path = fetch()
    assert path.read_bytes() == (folder / path.name).read_bytes()
    assert server.asked[-1][1]["Range"] == f"bytes={path.stat().st_size // 2}-"


def test_an_app_of_another_key_does_not_believe_it(folder, key_file, tmp_path):
    make(folder, key_file)
    signing.new_key(tmp_path / "other.key")
    with pytest.raises(AppError) as refused:
        look(folder, tmp_path / "other.key")
    assert refused.value.code is ErrorCode.UPDATE_UNTRUSTED


def test_a_package_changed_after_the_release_is_refused(folder, key_file):
    make(folder, key_file)
    name = "expert-lanes_0.2.0_amd64.deb"
    (folder / name).write_bytes(b"x" * (folder / name).stat().st_size)
    found = look(folder, key_file)
    with pytest.raises(AppError) as refused:
        download(found.file, found.url, folder_of(found.release), served(folder), lambda *_: None, lambda: False)
    assert refused.value.code is ErrorCode.UPDATE_UNTRUSTED


def test_the_sums_are_those_of_every_file_and_sha256sum_agrees(folder, key_file):
    make(folder, key_file)
    lines = (folder / "SHA256SUMS").read_text("ascii").splitlines()
    assert {line.partition("  ")[2] for line in lines} == {p.name for p in folder.iterdir()} - {"SHA256SUMS"}
    digest, _, name = lines[0].partition("  ")
    assert hashlib.sha256((folder / name).read_bytes()).hexdigest() == digest
    done = subprocess.run(
        ["sha256sum", "--check", "--strict", "SHA256SUMS"], cwd=folder, capture_output=True, check=False
    )
    assert done.returncode == 0


@pytest.fixture
def clock(monkeypatch):
    """The time at which feeds are issued; each is a second after the one before unless the test sets it back."""
    times = [NOW]

    def now():
        times.append(times[-1] + datetime.timedelta(seconds=1))
        return times[-1]

    monkeypatch.setattr(feed, "now", now)
    return times


@pytest.fixture
def before(folder, key_file, clock, tmp_path):
    """The feed of 0.2.0, put aside; the packages in the folder are of 0.3.0 now."""
    make(folder, key_file)
    aside = tmp_path / "before"
    aside.mkdir()
    for name in ("releases.json", "releases.json.sig"):
        (folder / name).rename(aside / name)
    for path in list(folder.iterdir()):
        path.rename(path.with_name(path.name.replace("0.2.0", "0.3.0")))
    return aside / "releases.json"


def test_releases_before_stay_in_the_feed_and_the_newest_is_found(folder, key_file, before):
    feed.main([str(folder), "--key", str(key_file), "--version", "0.3.0", "--before", str(before)])
    told = json.loads((folder / "releases.json").read_bytes())
    assert [release["version"] for release in told["releases"]] == ["0.3.0", "0.2.0"]
    assert look(folder, key_file).release.version == "0.3.0"
    assert look(folder, key_file, version="0.3.0").release is None


@pytest.mark.parametrize("back", [1, 3600])
def test_a_feed_that_would_not_be_newer_than_the_one_before_is_not_made(folder, key_file, before, clock, back):
    clock.append(clock[-1] - datetime.timedelta(seconds=back))
    with pytest.raises(SystemExit, match="the earlier feed is of"):
        feed.main([str(folder), "--key", str(key_file), "--version", "0.3.0", "--before", str(before)])
    assert not (folder / "releases.json").exists()


def test_an_earlier_feed_of_another_key_is_gone_on_with_only_where_that_key_is_named(
    folder, key_file, before, tmp_path
):
    signing.new_key(tmp_path / "new.key")
    words = [str(folder), "--key", str(tmp_path / "new.key"), "--version", "0.3.0", "--before", str(before)]
    with pytest.raises(SystemExit, match="not signed"):
        feed.main(words)
    signing.new_key(tmp_path / "unused.key")
    named = [signing.public_text(signing.read_key(tmp_path / name)) for name in ("unused.key", "signing.key")]
    feed.main([*words, "--before-key", named[0], "--before-key", named[1]])
    assert look(folder, tmp_path / "new.key").release.version == "0.3.0"
    told = json.loads((folder / "releases.json").read_bytes())
    assert [release["version"] for release in told["releases"]] == ["0.3.0", "0.2.0"]


def test_a_word_that_is_no_public_key_is_refused_as_an_argument(folder, key_file, capsys):
    with pytest.raises(SystemExit):
        make(folder, key_file, "--before-key", "AAAA")
    assert "invalid public_key value: 'AAAA'" in capsys.readouterr().err


def test_an_earlier_feed_that_someone_changed_is_not_gone_on_with(folder, key_file, tmp_path):
    make(folder, key_file)
    (tmp_path / "releases.json").write_bytes((folder / "releases.json").read_bytes().replace(b"deb", b"dab"))
    (tmp_path / "releases.json.sig").write_bytes((folder / "releases.json.sig").read_bytes())
    with pytest.raises(SystemExit, match="not signed"):
        make(folder, key_file, "--before", str(tmp_path / "releases.json"))


def test_notes_date_and_addresses_are_those_given(folder, key_file, tmp_path):
    (tmp_path / "notes.txt").write_text("  Faster – 更快.\n", "utf-8")
    base = "https://elsewhere.test/v0.2.0/"
    make(folder, key_file, "--notes", str(tmp_path / "notes.txt"), "--date", "2026-11-30", "--base", base)
    found = look(folder, key_file)
    assert found.release.notes == "Faster – 更快."
    assert found.release.date == datetime.date(2026, 11, 30)
    assert found.url == "https://elsewhere.test/v0.2.0/expert-lanes_0.2.0_amd64.deb"


def test_packages_of_another_version_end_the_release(folder, key_file):
    (folder / "expert-lanes_0.1.9_amd64.deb").write_bytes(b"old")
    with pytest.raises(SystemExit, match="not of version"):
        make(folder, key_file)


def test_a_release_without_a_package_is_none(tmp_path, key_file):
    (tmp_path / "empty").mkdir()
    with pytest.raises(SystemExit, match="no package"):
        make(tmp_path / "empty", key_file)


def test_a_key_is_written_once_and_for_its_owner_alone(tmp_path, capsys, monkeypatch):
    path = tmp_path / "a.key"
    monkeypatch.setattr(sys, "argv", ["signing.py", "new", str(path)])
    signing.main()
    public = capsys.readouterr().out.strip()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with pytest.raises(SystemExit, match="there already"):
        signing.new_key(path)
    monkeypatch.setattr(sys, "argv", ["signing.py", "public", str(path)])
    signing.main()
    assert capsys.readouterr().out.strip() == public
    assert public not in path.read_text()


@pytest.mark.parametrize("content", ["", "not base64!", "AAAA"])
def test_a_file_that_holds_no_key_is_told_without_its_content(tmp_path, content):
    (tmp_path / "bad.key").write_text(content)
    with pytest.raises(SystemExit) as told:
        signing.read_key(tmp_path / "bad.key")
    assert str(told.value).endswith("bad.key")


def test_a_build_is_told_where_releases_are(key_file):
    public = signing.public_text(signing.read_key(key_file))
    told = {}
    exec(bake.module("https://releases.test/releases.json", [public]), told)
    assert told["FEED_URL"] == "https://releases.test/releases.json"
    assert told["KEYS"] == (public,)


@pytest.mark.parametrize(
    ("address", "key"), [("http://releases.test/a", None), ("https://releases.test/a", "AAAA"), ("words", None)]
)
def test_a_build_is_told_no_nonsense(key_file, address, key):
    with pytest.raises(SystemExit):
        bake.module(address, [key or signing.public_text(signing.read_key(key_file))])


def test_the_tree_has_nothing_baked_in():
    assert not bake.BAKED.exists()

"""The workflow that makes a release: it calls what is there, and keeps secrets where they are needed."""

import hashlib
import importlib.metadata
import json
import os
import re
import subprocess
import sys
import tarfile
from pathlib import Path

import appimage
import cuda
import freeze
import licences
import pinned
import pytest
import yaml
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[2]
WORKFLOW = ROOT / ".github" / "workflows" / "release.yml"
# Plays GitHub's command for what the workflow asks it.
GH = """
case "$HAS:$1 $2 $3" in
    "no network:"*) exit 1;;
    "no release:release list "*) ;;
    *":release list "*) echo v2; echo v1;;
    "a feed:release view v2"|"an older feed:release view v1") echo a.deb; echo releases.json; echo releases.json.sig;;
    *":release view "*) echo a.deb;;
    *":release download "*) [ -d before ] && echo "$3" > before/releases.json;;
    *) exit 2;;
esac"""


@pytest.fixture(scope="module")
def workflow():
    return yaml.safe_load(WORKFLOW.read_text("utf-8"))


def steps(workflow):
    return [step for job in workflow["jobs"].values() for step in job["steps"]]


def test_every_action_is_pinned_to_one_commit_whose_version_is_told(workflow):
    used = re.findall(r"^ *(?:- )?uses: (.+)$", WORKFLOW.read_text("utf-8"), re.MULTILINE)
    assert len(used) == sum("uses" in step for step in steps(workflow)) > 0
    for action in used:
        assert re.fullmatch(r"[\w.-]+/[\w.-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", action), action
    commits = {action.partition("@")[0]: set() for action in used}
    for action in used:
        commits[action.partition("@")[0]].add(action)
    assert all(len(pinned_there) == 1 for pinned_there in commits.values())


def test_sources_of_others_are_pinned_to_one_commit(workflow):
    foreign = [step["with"] for step in steps(workflow) if "repository" in step.get("with", {})]
    assert foreign
    assert all(re.fullmatch(r"[0-9a-f]{40}", with_["ref"]) for with_ in foreign)


def test_every_job_waits_for_jobs_that_are_there_and_ends_by_itself(workflow):
    jobs = workflow["jobs"]
    for job in jobs.values():
        needs = job.get("needs", [])
        assert set([needs] if isinstance(needs, str) else needs) <= set(jobs)
        assert job["timeout-minutes"] <= 240


def test_only_publishing_may_write_and_only_for_a_tag(workflow):
    assert workflow["permissions"] == {"contents": "read"}
    writers = [name for name, job in workflow["jobs"].items() if job.get("permissions", {}).get("contents") == "write"]
    assert writers == ["publish"]
    assert workflow["jobs"]["publish"]["if"] == "github.ref_type == 'tag'"


def test_only_publishing_keeps_the_token_that_it_was_fetched_with(workflow):
    for name, job in workflow["jobs"].items():
        for step in job["steps"]:
            if step.get("uses", "").startswith("actions/checkout@"):
                assert (step.get("with", {}).get("persist-credentials") is False) == (name != "publish"), name


def test_jobs_that_know_a_secret_are_of_the_environment_that_may_be_limited_to_tags(workflow):
    of_a_tag = "${{ github.ref_type == 'tag' && 'release' || 'trial' }}"
    told = {name: job.get("environment") for name, job in workflow["jobs"].items() if "secrets." in json.dumps(job)}
    assert told == {"windows-setup": of_a_tag, "publish": "release"}


def test_secrets_are_named_in_environments_and_written_into_no_command(workflow):
    text = WORKFLOW.read_text("utf-8")
    assert set(re.findall(r"secrets\.(\w+)", text)) == {
        "UPDATE_SIGNING_KEY", "WINDOWS_CERTIFICATE", "WINDOWS_CERTIFICATE_PASSWORD",
    }  # fmt: skip
    for step in steps(workflow):
        assert "${{" not in step.get("run", ""), "what a tag or a secret holds must not become part of a script"


def test_a_secret_is_known_to_one_step_alone_and_that_one_installs_and_builds_nothing(workflow):
    wider = [workflow.get("env", {}), *(job.get("env", {}) for job in workflow["jobs"].values())]
    assert not re.search(r"secrets\.|github\.token", json.dumps(wider))
    knowing = [step for step in steps(workflow) if "secrets." in json.dumps(step.get("env", {}))]
    assert [step["name"] for step in knowing] == [
        "Make the setup, signed",
        "Signed feed, with checksums of everything",
    ]
    for step in knowing:
        assert not re.search(r"\b(pip|apt-get|make|cmake)\b|\.venv", step["run"])


def test_where_the_certificate_is_known_nothing_from_the_package_index_has_run(workflow):
    (job,) = [job for job in workflow["jobs"].values() if "WINDOWS_CERTIFICATE" in json.dumps(job)]
    assert job["needs"] == "windows"
    for step in job["steps"]:
        assert not re.search(r"\b(pip|make|cmake|wine)\b|\.venv", step.get("run", ""))


def test_the_setup_gets_all_that_it_is_made_of_from_the_job_before(workflow):
    (packed,) = [line for s in steps(workflow) for line in s.get("run", "").splitlines() if line.startswith("tar -cf")]
    # Not imported above: where a folder build/ lies in the checkout, the linter would sort that name differently.
    pictures = importlib.import_module("build").PICTURES
    for path in (freeze.FROZEN, pictures):
        assert any(path.is_relative_to(ROOT / word) for word in packed.split()[3:]), path


def installing(workflow):
    """The commands that fetch from the package index."""
    commands = [line for step in steps(workflow) for line in step.get("run", "").splitlines()]
    return [line.strip() for line in commands if re.search(r"\bpip install\b", line)]


def test_whatever_the_workflow_itself_fetches_from_the_package_index_has_its_checksum_pinned(workflow):
    commands = installing(workflow)
    assert len(commands) == 2
    for command in commands:
        found = re.search(r"--require-hashes --only-binary=:all: -r (\S+)$", command)
        assert found, command
        assert pinned.read(ROOT / found[1])


def test_what_makes_the_feed_is_pinned_with_everything_it_stands_on(workflow):
    (command,) = [line for line in installing(workflow) if "build/venv/bin/pip" in line]
    assert "--require-hashes --only-binary=:all: -r installer/release/pins.txt" in command
    lines = (ROOT / "installer/release/pins.txt").read_text("ascii").splitlines()
    pins = [re.fullmatch(r"(\S+)==(\S+)( --hash=sha256:[0-9a-f]{64})+", line) for line in lines if line[:1] != "#"]
    assert all(pins)
    found = {pin[1]: pin[2] for pin in pins}
    wanted = ["msgspec", "pynacl"]
    while wanted:
        name = wanted.pop()
        assert name in found
        for needed in importlib.metadata.requires(name) or ():
            requirement = Requirement(needed)
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                wanted.append(requirement.name.lower())


def test_builds_for_every_system_trust_the_key_of_today_and_those_that_may_follow(workflow, tmp_path):
    found = [step for step in steps(workflow) if "bake.py" in step.get("run", "")]
    assert len(found) == 2
    assert all(step["if"] == "env.PUBLIC_KEY != ''" for step in found)
    (tmp_path / ".venv/bin").mkdir(parents=True)
    (tmp_path / ".venv/bin/python").write_text('#!/bin/sh\nfor word; do echo "$word"; done > told\n')
    (tmp_path / ".venv/bin/python").chmod(0o755)
    for later in ("", "two= three="):
        environment = {
            "PATH": os.environ["PATH"],
            "FEED_URL": "https://x.test",
            "PUBLIC_KEY": "one=",
            "LATER_KEYS": later,
        }
        for step in found:
            (tmp_path / "script").write_text(step["run"])
            subprocess.run(["sh", "-e", "script"], cwd=tmp_path, env=environment, check=True)
            told = (tmp_path / "told").read_text().split()
            assert told[1:3] == ["--feed", "https://x.test"]
            assert [told[place + 1] for place, word in enumerate(told) if word == "--key"] == ["one=", *later.split()]


@pytest.mark.parametrize("key", ["", "a key"])
@pytest.mark.parametrize("has", ["no release", "a feed", "a release without", "an older feed", "no network"])
def test_the_feed_before_is_fetched_or_the_release_ends(workflow, tmp_path, key, has):
    (step,) = [s for s in workflow["jobs"]["publish"]["steps"] if "SIGNING_KEY" in s.get("env", {})]
    programs = {
        "bin/gh": GH,
        "build/venv/bin/python": 'case "$1" in *signing.py) echo public;; *) echo "$@" > told;; esac',
    }
    for name, content in programs.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"#!/bin/sh\n{content}\n")
        (tmp_path / name).chmod(0o755)
    environment = {
        "PATH": f"{tmp_path}/bin:{os.environ['PATH']}", "RUNNER_TEMP": str(tmp_path), "SIGNING_KEY": key, "HAS": has,
        "PUBLIC_KEY": "public", "EARLIER_KEYS": "one= two=", "VERSION": "0.3.0", "GITHUB_SERVER_URL": "https://x.test",
        "GITHUB_REPOSITORY": "a/b", "GITHUB_REF_NAME": "v0.3.0",
    }  # fmt: skip
    (tmp_path / "script").write_text(step["run"])
    done = subprocess.run(["bash", "-e", "script"], cwd=tmp_path, env=environment, capture_output=True, check=False)
    told = (tmp_path / "told").read_text().split() if (tmp_path / "told").exists() else None
    assert (done.returncode == 0) == (not key or has != "no network")
    assert (told is not None) == (bool(key) and has != "no network")
    if told is not None:
        assert ("--before" in told) == (has in ("a feed", "an older feed"))
        assert [told[i + 1] for i, word in enumerate(told) if word == "--before-key"] == (
            ["one=", "two="] if "--before" in told else []
        )
    fetched = tmp_path / "before" / "releases.json"
    assert (fetched.read_text().strip() if fetched.exists() else None) == (
        {"a feed": "v2", "an older feed": "v1"}.get(has) if key else None
    )


def test_the_workflow_builds_with_the_scripts_of_this_tree(workflow):
    commands = "\n".join(step.get("run", "") for step in steps(workflow))
    scripts = re.findall(r"installer/\S+\.py", commands)
    assert set(scripts) >= {
        f"installer/release/{name}.py" for name in ("bake", "appimage", "cuda", "feed", "signing", "sources")
    }
    assert all((ROOT / script).is_file() for script in scripts)
    targets = set(re.findall(r"make ([\w-]+)", commands)) & {"setup", "package"}
    makefile = (ROOT / "Makefile").read_text()
    assert targets == {"setup", "package"}
    assert all(f"\n{target}:" in makefile for target in targets)


def test_the_page_of_a_release_says_what_is_new_and_where_the_source_of_qt_is(workflow, tmp_path):
    (step,) = [s for s in workflow["jobs"]["publish"]["steps"] if "gh release create" in s.get("run", "")]
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "gh").write_text('#!/bin/sh\necho "$@" > told\n')
    (tmp_path / "bin" / "gh").chmod(0o755)
    (tmp_path / "bin" / "python").symlink_to(sys.executable)
    (tmp_path / "installer").symlink_to(ROOT / "installer")
    (tmp_path / "packages").mkdir()
    (tmp_path / "packages" / "a.deb").touch()
    (tmp_path / "notes.txt").write_text("What is new.\n")
    environment = {"PATH": f"{tmp_path}/bin:{os.environ['PATH']}", "GITHUB_REF_NAME": "v0.3.0", "VERSION": "0.3.0"}
    (tmp_path / "script").write_text(step["run"])
    subprocess.run(["bash", "-e", "script"], cwd=tmp_path, env=environment, check=True)
    page = (tmp_path / "page.txt").read_text()
    version, _ = pinned.read(pinned.PACKAGES)["pyside6-essentials"]
    assert page.startswith("What is new.\n\n")
    assert licences.qt_sources(version) in page
    assert appimage.RUNTIME_SOURCE in page
    assert "--notes-file page.txt packages/a.deb" in (tmp_path / "told").read_text()


def test_every_artefact_that_is_fetched_is_made_before(workflow):
    made = {s["with"]["name"] for s in steps(workflow) if s.get("uses", "").startswith("actions/upload-artifact@")}
    fetched = [s["with"] for s in steps(workflow) if s.get("uses", "").startswith("actions/download-artifact@")]
    assert made == {
        "appimage-runtime", "packages-appimage-source", "packages-linux", "frozen-windows", "packages-windows",
        "packages-cuda",
    }  # fmt: skip
    for with_ in fetched:
        assert with_.get("name") in made or with_.get("pattern") == "packages-*"


def test_no_address_is_made_up():
    addresses = re.findall(r"https?://\S+", WORKFLOW.read_text("utf-8"))
    assert addresses == []


def test_what_comes_along_is_of_the_cuda_that_the_workflow_builds_with(workflow):
    (version,) = [step["with"]["cuda"] for step in steps(workflow) if "cuda" in step.get("with", {})]
    series = version.rpartition(".")[0]
    assert f"CUDA {version} " in cuda.PINS.read_text("ascii")
    assert all(release.startswith(f"{series}.") for release, _ in pinned.read(cuda.PINS).values())


def test_the_runtime_of_the_appimage_is_built_of_the_source_that_its_notice_names(workflow):
    (commit,) = [step["with"]["ref"] for step in steps(workflow) if "type2-runtime" in str(step.get("with"))]
    assert commit == appimage.RUNTIME_COMMIT


def test_what_tells_the_licences_of_the_runtimes_parts_is_installed_where_the_appimage_is_made(workflow):
    commands = [line for step in workflow["jobs"]["linux"]["steps"] for line in step.get("run", "").splitlines()]
    installed = {word for line in commands if line.startswith("apt-get install") for word in line.split()}
    assert set(appimage.RUNTIME_PARTS.values()) <= installed


# As the script of the runtime's project has it, apart from the addresses.
FETCHES = """\
wget "{address}/fuse-3.17.2.tar.gz"
echo "{digest}  fuse-3.17.2.tar.gz" | sha256sum -c -
tar xf fuse-3.*.tar.gz
wget "{address}/squashfuse-0.6.1.tar.gz"
echo "{other}  squashfuse-0.6.1.tar.gz" | sha256sum -c -
"""


@pytest.mark.parametrize("genuine", [True, False])
def test_the_source_of_what_the_runtime_links_goes_out_with_it_when_it_is_genuine(workflow, tmp_path, genuine):
    (step,) = [s for s in workflow["jobs"]["appimage-runtime"]["steps"] if "git archive" in s.get("run", "")]
    archive, checkout, script = tmp_path / "fuse-3.17.2.tar.gz", tmp_path / "checkout", tmp_path / "script"
    archive.write_bytes(b"libfuse")
    digest = hashlib.sha256(archive.read_bytes() if genuine else b"another").hexdigest()
    fetches = checkout / "scripts" / "common" / "install-dependencies.sh"
    fetches.parent.mkdir(parents=True)
    fetches.write_text(FETCHES.format(address=tmp_path.as_uri(), digest=digest, other="0" * 64))
    own = ["-c", "user.name=a", "-c", "user.email=a@b.test", "-c", "commit.gpgsign=false"]
    for command in (["init", "-q"], ["add", "."], [*own, "commit", "-qm", "all"]):
        subprocess.run(["git", *command], cwd=checkout, check=True)
    script.write_text(step["run"])
    done = subprocess.run(["bash", "-e", script], cwd=checkout, capture_output=True, check=False)
    made = checkout / appimage.RUNTIME_SOURCE
    assert (done.returncode == 0, made.exists()) == (genuine, genuine), done.stderr
    if genuine:
        with tarfile.open(made) as packed:
            assert {"./fuse-3.17.2.tar.gz", "./type2-runtime.tar"} <= set(packed.getnames())
    uploads = [s["with"]["path"] for s in workflow["jobs"]["appimage-runtime"]["steps"] if "path" in s.get("with", {})]
    assert appimage.RUNTIME_SOURCE in uploads

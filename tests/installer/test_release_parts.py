"""The release's other parts: the component for CUDA, the AppImage, and the workflow that makes them all."""

import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import zipfile
from pathlib import Path

import appimage
import component
import msgspec
import pe
import project
import pytest
import yaml
from packaging.requirements import Requirement

from app.engine.components import Manifest

ROOT = Path(__file__).resolve().parents[2]
WORKFLOW = ROOT / ".github" / "workflows" / "release.yml"
LLAMA_CPP = """
set(GGML_VERSION_MAJOR 0)
set(GGML_VERSION_MINOR 25)
set(GGML_VERSION_PATCH 3)
"""
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

# ---- component ---------------------------------------------------------------------------------------


@pytest.fixture
def parts(tmp_path):
    """A backend, a library that it needs, a licence and the source it comes from."""
    (tmp_path / "ggml").mkdir()
    (tmp_path / "ggml" / "CMakeLists.txt").write_text(LLAMA_CPP)
    for name in ("ggml-cuda.dll", "cudart64_12.dll", "EULA.txt"):
        (tmp_path / name).write_bytes(name.encode() * 100)
    return tmp_path


@pytest.fixture
def imports(monkeypatch):
    """What each library asks for; to be changed by the test."""
    told = {
        "ggml-cuda.dll": {
            "ggml-base.dll": ("ggml_nbytes",),
            "cudart64_12.dll": ("cudaMalloc",),
            "KERNEL32.dll".lower(): (),
        },
        "cudart64_12.dll": {"kernel32.dll": ("CreateFileW",)},
    }
    monkeypatch.setattr(pe, "imports", lambda path: told[path.name])
    return told


def pack(parts, out):
    component.main(
        [
            *("--name", "cuda", "--library", str(parts / "ggml-cuda.dll"), "--source", str(parts)),
            *("--with", str(parts / "cudart64_12.dll"), "--licence", str(parts / "EULA.txt"), "--out", str(out)),
        ]
    )
    (made,) = out.iterdir()
    return made


@pytest.mark.usefixtures("imports")
def test_a_component_holds_what_the_engine_reads(parts, tmp_path):
    made = pack(parts, tmp_path / "out")
    version = project.project()["version"]
    assert made.name == f"expert-lanes-cuda-{version}-windows-x86_64.zip"
    with zipfile.ZipFile(made) as packed:
        assert set(packed.namelist()) == {
            "cuda/component.json", "cuda/README.txt", "cuda/ggml-cuda.dll", "cuda/cudart64_12.dll",
            "cuda/licenses/EULA.txt",
        }  # fmt: skip
        told = msgspec.json.decode(packed.read("cuda/component.json"), type=Manifest)
        assert (told.name, told.ggml, told.library) == ("cuda", "0.25.3", "ggml-cuda.dll")
        assert told.files == {"ggml-cuda.dll": 1300, "cudart64_12.dll": 1500}
        assert "components" in packed.read("cuda/README.txt").decode()


@pytest.mark.usefixtures("imports")
def test_the_same_files_make_the_same_component(parts, tmp_path):
    assert pack(parts, tmp_path / "one").read_bytes() == pack(parts, tmp_path / "two").read_bytes()


def test_a_backend_that_asks_for_cpp_functions_is_refused(parts, imports):
    imports["ggml-cuda.dll"]["ggml-base.dll"] = ("ggml_nbytes", "?name@ggml@@YAHXZ")
    with pytest.raises(SystemExit, match="no function of C"):
        component.check_imports(parts / "ggml-cuda.dll", [parts / "cudart64_12.dll"])


def test_a_library_that_is_not_packed_is_missed(parts, imports):
    imports["ggml-cuda.dll"]["cublas64_12.dll"] = ()
    with pytest.raises(SystemExit, match=r"cublas64_12\.dll, which is not packed"):
        component.check_imports(parts / "ggml-cuda.dll", [parts / "cudart64_12.dll"])


def test_a_source_without_a_version_is_told(tmp_path):
    (tmp_path / "ggml").mkdir()
    (tmp_path / "ggml" / "CMakeLists.txt").write_text("project(ggml)")
    with pytest.raises(SystemExit, match="does not tell"):
        component.ggml_version(tmp_path)


# ---- AppImage ----------------------------------------------------------------------------------------


@pytest.fixture
def frozen(tmp_path):
    folder = tmp_path / "frozen"
    (folder / "_internal").mkdir(parents=True)
    for name in project.PROGRAMS:
        (folder / name).write_text("#!/bin/sh\necho started\n")
        (folder / name).chmod(0o755)
    (folder / "_internal" / "library.so").write_bytes(b"library")
    return folder


@pytest.fixture
def runtime(tmp_path):
    """What a runtime begins with, and no more."""
    path = tmp_path / "runtime"
    path.write_bytes(b"\x7fELF\x02\x01\x01\x00AI\x02" + bytes(5000))
    return path


def test_an_appimages_folder_starts_the_window_and_has_what_desktops_look_for(frozen, tmp_path):
    folder = tmp_path / "AppDir"
    appimage.lay_folder(frozen, folder, 1_800_000_000)
    assert (folder / "AppRun").resolve() == folder / "usr/lib/expert-lanes/expert-lanes-window"
    assert subprocess.run([folder / "AppRun"], capture_output=True, text=True, check=True).stdout == "started\n"
    assert (folder / "usr/bin/expert-lanes").resolve() == folder / "usr/lib/expert-lanes/expert-lanes"
    entry = (folder / "expert-lanes.desktop").read_text("utf-8")
    icon = re.search(r"^Icon=(.+)$", entry, re.MULTILINE)[1]
    assert (folder / f"{icon}.svg").is_file()
    assert (folder / ".DirIcon").resolve() == folder / f"{icon}.svg"
    assert list((folder / "usr/share/metainfo").iterdir())


@pytest.mark.skipif(shutil.which("mksquashfs") is None, reason="there is no mksquashfs here")
def test_an_appimage_is_the_runtime_and_the_folder_behind_it_and_always_the_same(frozen, runtime, tmp_path):
    folder = tmp_path / "AppDir"
    appimage.lay_folder(frozen, folder, 1_800_000_000)
    images = [tmp_path / "one.AppImage", tmp_path / "two.AppImage"]
    for image in images:
        appimage.make(runtime, folder, image, 1_800_000_000)
    content = images[0].read_bytes()
    assert content.startswith(runtime.read_bytes())
    assert content[runtime.stat().st_size :].startswith(b"hsqs")
    assert content == images[1].read_bytes()
    assert os.access(images[0], os.X_OK)
    offset = str(runtime.stat().st_size)
    listed = subprocess.run(["unsquashfs", "-o", offset, "-l", images[0]], capture_output=True, text=True, check=True)
    assert "squashfs-root/usr/lib/expert-lanes/_internal/library.so" in listed.stdout


def test_something_else_is_taken_for_no_runtime(frozen, tmp_path):
    (tmp_path / "script").write_text("#!/bin/sh")
    with pytest.raises(SystemExit, match="no runtime"):
        appimage.make(tmp_path / "script", frozen, tmp_path / "x.AppImage", 0)


# ---- workflow ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def workflow():
    return yaml.safe_load(WORKFLOW.read_text("utf-8"))


def steps(workflow):
    return [step for job in workflow["jobs"].values() for step in job["steps"]]


def test_every_action_is_pinned_to_one_version(workflow):
    used = [step["uses"] for step in steps(workflow) if "uses" in step]
    assert used
    for action in used:
        assert re.fullmatch(r"[\w.-]+/[\w.-]+@v\d+\.\d+\.\d+", action), action


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
    assert [step["name"] for step in knowing] == ["Sign the setup", "Signed feed, with checksums of everything"]
    for step in knowing:
        assert not re.search(r"\b(pip|apt-get|make|cmake)\b", step["run"])


def test_what_makes_the_feed_is_pinned_with_everything_it_stands_on(workflow):
    (command,) = [
        line for s in steps(workflow) for line in s.get("run", "").splitlines() if "build/venv/bin/pip" in line
    ]
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
    assert set(scripts) >= {f"installer/release/{name}.py" for name in ("bake", "appimage", "cuda", "feed", "signing")}
    assert all((ROOT / script).is_file() for script in scripts)
    targets = set(re.findall(r"make ([\w-]+)", commands)) & {"setup", "package", "package-windows"}
    makefile = (ROOT / "Makefile").read_text()
    assert targets == {"setup", "package", "package-windows"}
    assert all(f"\n{target}:" in makefile for target in targets)


def test_every_artefact_that_is_fetched_is_made_before(workflow):
    made = {s["with"]["name"] for s in steps(workflow) if s.get("uses", "").startswith("actions/upload-artifact@")}
    fetched = [s["with"] for s in steps(workflow) if s.get("uses", "").startswith("actions/download-artifact@")]
    assert made == {"appimage-runtime", "packages-linux", "packages-windows", "packages-cuda"}
    for with_ in fetched:
        assert with_.get("name") in made or with_.get("pattern") == "packages-*"


def test_no_address_is_made_up(workflow):
    addresses = re.findall(r"https?://\S+", WORKFLOW.read_text("utf-8"))
    assert addresses == []
    assert json.dumps(workflow, default=str)

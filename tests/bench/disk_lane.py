"""Models larger than main memory, stock's mmap against the disk lane: `python tests/bench/disk_lane.py [--json]`.

Linux, as root, with the version 1 memory controller mounted: each visit is a process of its own in a control group
whose memory is limited to a share of the model's file. Before it the file's pages are dropped, so that nothing of it
is in memory or charged to another group. Stock and ours take turns, in every other round in reverse order, at each
device read-ahead (which is put back afterwards). Loading and the warm-up's tokens are not measured. Ours gets the
budget that the engine would choose (`--budget` for another). The model and its routing are those of
`expert_cache.py`; tokens are given, so that all read the same; that the likeliest token after every step and all
logits are the same is checked. The disk's own speed is measured beside it, past the system's cache.

JSON (one object): version, date, model {file, file_bytes}, disk [{slice_bytes, parallel, bytes_per_second, spread}],
settings, results [{share_percent, read_ahead_kb, phase "decode"|"prompt", variant, round, tokens_per_second,
median_token_seconds, reads_per_token, read_bytes_per_token, major_faults_per_token, lane {fields of
`expert_device_totals`, of the measured tokens} or null, memory {fields of `expert_device_memory`} or null}],
same_text, ratios [{share_percent, read_ahead_kb, phase, variant, median, rounds, target, met}]

Exit status: 0; 1 when a text differs or a process failed; 2 for wrong options or no such control group.
"""

import argparse
import contextlib
import datetime
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import routing_trace
from bench_variant import Variant
from expert_cache import FULL_ROUTING, QUICK_ROUTING
from synthetic_model import ModelShape, cached_model

from app.engine import disk_reads
from app.errors import AppError

JSON_VERSION = 1
# Ratio to stock at so many percent of the file and so many KB of read-ahead.
TARGETS = {(60, 128): 3.0, (60, 8192): 25.0, (100, 128): 0.98, (100, 8192): 0.98}
_CONTROLLER = Path("/sys/fs/cgroup/memory")
_CHILD = Path(__file__).with_name("disk_child.py")
_REPOSITORY = Path(__file__).parents[2]
_ENTER = 'echo $$ > "$GROUP/cgroup.procs" || exit 3; exec "$PYTHON" "$CHILD"'
_LAST_LINES = 12
_VARIANTS = ("stock", "ours")


class VisitError(Exception):
    """A process could not do what it was asked, in words."""


class Group:
    """A control group of this run, with a limit on memory."""

    def __init__(self, limit_bytes: int) -> None:
        self.folder = _CONTROLLER / f"expert-lanes-bench-{os.getpid()}"
        self.folder.mkdir(exist_ok=True)
        (self.folder / "memory.limit_in_bytes").write_text(str(limit_bytes))

    def close(self) -> None:
        """Take it away; its processes have ended."""
        with contextlib.suppress(OSError):
            self.folder.rmdir()


class Visit:
    """A child in a group; a context manager that ends both."""

    def __init__(self, limit_bytes: int) -> None:
        self.group = Group(limit_bytes)
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the process
        told = {"GROUP": str(self.group.folder), "PYTHON": sys.executable, "CHILD": str(_CHILD)}
        self._process = subprocess.Popen(
            ["/bin/sh", "-c", _ENTER],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, text=True, encoding="utf-8",
            cwd=_REPOSITORY, env=os.environ | told,
        )  # fmt: skip

    def request(self, do: str, **arguments: Any) -> dict[str, Any]:
        """The answer to one request.

        Raises:
            VisitError: the child refused or died.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            print(json.dumps({"do": do, **arguments}), file=self._process.stdin, flush=True)
        line = self._process.stdout.readline()
        if not line:
            raise VisitError(f"{do}: the process died ({self._process.wait()}).\n{self._last_errors()}")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise VisitError(f"{do}: {answer['error']}\n{self._last_errors()}")
        return answer

    def __enter__(self) -> "Visit":
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()
        self._errors.close()
        self.group.close()

    def _last_errors(self) -> str:
        self._errors.seek(0)
        return "\n".join(self._errors.read().decode(errors="replace").splitlines()[-_LAST_LINES:])


def read_ahead_of(path: Path) -> Path:
    """The device's setting for the file."""
    device = path.stat().st_dev
    folder = Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}").resolve()
    return next(at / "queue/read_ahead_kb" for at in (folder, folder.parent) if (at / "queue").is_dir())


@contextlib.contextmanager
def read_ahead(setting: Path, kilobytes: int) -> Iterator[None]:
    """Another read-ahead for a while."""
    before = setting.read_text()
    setting.write_text(str(kilobytes))
    try:
        yield
    finally:
        setting.write_text(before)


def drop_pages(path: Path) -> None:
    """Take the file's pages out of the system's cache."""
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(file)


class Bench:
    """One run: holds the report as it grows."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        routing = QUICK_ROUTING if options.quick else FULL_ROUTING
        self._shape = ModelShape(options.quantisation, routing)
        self._path = cached_model(self._shape, options.folder)
        tokens = options.warm_up + options.tokens
        self._ids = routing_trace.session(routing, tokens, self._shape.vocabulary, seed=0).tolist()
        self._prompt = routing_trace.session(routing, 3 * options.batch, self._shape.vocabulary, seed=1).tolist()
        self._said: dict[str, Any] = {}
        rates = disk_reads.measure(self._path.parent, 6.0, lambda: None)
        self.report: dict[str, Any] = {
            "version": JSON_VERSION,
            "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            "model": {"file": self._path.name, "file_bytes": self._path.stat().st_size},
            "disk": [
                {name: getattr(rate, name) for name in ("slice_bytes", "parallel", "bytes_per_second", "spread")}
                for rate in rates
            ],
            "settings": {name: value for name, value in vars(options).items() if name not in ("folder", "json")},
            "results": [],
            "same_text": True,
            "ratios": [],
        }

    def run(self) -> None:
        """All shares at all read-aheads."""
        setting = read_ahead_of(self._path)
        for share in self._options.shares:
            for kilobytes in self._options.ahead:
                with read_ahead(setting, kilobytes):
                    for number in range(self._options.rounds):
                        for name in self._options.variants[:: 1 if number % 2 == 0 else -1]:
                            self._visit(share, kilobytes, number, name)
                self._add_ratios(share, kilobytes)

    def _visit(self, share: int, kilobytes: int, number: int, name: str) -> None:
        options, size = self._options, self._path.stat().st_size
        drop_pages(self._path)
        variant = Variant(
            name, str(self._path), self._shape.routing.layers, options.threads, ours=name != "stock", residency="mapped"
        )
        room = options.beside << 20 if share == 100 else 0  # at 100 % all of the file fits, and the process beside it
        with Visit(size * share // 100 + room) as visit:
            loaded = visit.request("load", variant=variant.to_json())
            budget = options.budget and options.budget << 20
            wish = {"bytes": budget, "lock_percent": options.lock}
            memory = visit.request("budget", **wish) if variant.ours else None
            _say(f"{share} %, {kilobytes} KB, round {number + 1}: {name} loaded in {loaded['seconds']:.0f} s {memory}")
            for phase, ids, batch, skipped in (
                ("decode", self._ids, 1, options.warm_up),
                ("prompt", self._prompt, options.batch, options.batch),
            ):
                if phase == "prompt" and not options.prompts:
                    continue
                answer = visit.request("run", ids=ids, batch=batch, warm_up=skipped)
                after = visit.request("memory") if variant.ours else None
                self._add(share, kilobytes, number, name, phase, len(ids) - skipped, answer, after)

    def _add(
        self, share: int, kilobytes: int, number: int, name: str, phase: str, tokens: int,
        answer: dict[str, Any], memory: dict[str, Any] | None,
    ) -> None:  # fmt: skip
        told = (answer["said"], answer["digest"])
        same = self._said.setdefault(phase, told) == told
        self.report["same_text"] = self.report["same_text"] and same
        row = {
            "share_percent": share,
            "read_ahead_kb": kilobytes,
            "phase": phase,
            "variant": name,
            "round": number,
            "tokens_per_second": tokens / answer["seconds"],
            "median_token_seconds": statistics.median(answer["times"]),
            "reads_per_token": answer["reads"] / tokens,
            "read_bytes_per_token": answer["read_bytes"] / tokens,
            "major_faults_per_token": answer["major_faults"] / tokens,
            "lane": {key: answer[key] for key in answer if key.startswith(("cold_", "stall_"))} or None,
            "memory": memory,
            "same_text": same,
        }
        self.report["results"].append(row)
        _say(line(row))

    def _add_ratios(self, share: int, kilobytes: int) -> None:
        for phase in ("decode", "prompt"):
            speeds = {
                (row["variant"], row["round"]): row["tokens_per_second"]
                for row in self.report["results"]
                if (row["share_percent"], row["read_ahead_kb"], row["phase"]) == (share, kilobytes, phase)
            }
            target = TARGETS.get((share, kilobytes)) if phase == "decode" else None
            for name in self._options.variants:
                if name == "stock" or ("stock", 0) not in speeds or (name, 0) not in speeds:
                    continue
                ratios = [speeds[name, number] / speeds["stock", number] for number in range(self._options.rounds)]
                middle = statistics.median(ratios)
                self.report["ratios"].append(
                    {"share_percent": share, "read_ahead_kb": kilobytes, "phase": phase, "variant": name,
                     "median": middle, "rounds": ratios, "target": target,
                     "met": None if target is None else middle >= target}
                )  # fmt: skip


def line(row: dict[str, Any]) -> str:
    """One result in words."""
    lane = row["lane"]
    stall = f", stall {lane['stall_ns'] / 1e9:.2f} s, {lane['cold_reads']} ranges asked" if lane else ""
    return (
        f"  {row['share_percent']:3} % {row['read_ahead_kb']:5} KB {row['phase']:6} {row['variant']:5} "
        f"{row['tokens_per_second']:7.2f} tok/s, {row['reads_per_token']:7.1f} reads, "
        f"{row['read_bytes_per_token'] / 1e6:7.1f} MB, {row['major_faults_per_token']:7.1f} faults a token{stall}"
        f"{'' if row['same_text'] else '  ANOTHER TEXT'}"
    )


def _say(what: str) -> None:
    print(what, file=sys.stderr, flush=True)


def _numbers(text: str) -> tuple[int, ...]:
    values = tuple(int(part) for part in text.split(","))
    if min(values) < 1:
        raise ValueError
    return values


def _names(text: str) -> tuple[str, ...]:
    names = tuple(text.split(","))
    if not set(names) <= set(_VARIANTS):
        raise ValueError
    return names


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Stock's mmap against the disk lane, memory limited.")
    parser.add_argument("--quick", action="store_true", help="a small model: shows that it works")
    parser.add_argument("--json", action="store_true", help="the report as JSON on standard output")
    parser.add_argument("--shares", type=_numbers, default=(80, 60, 40, 100), help="percent of the file")
    parser.add_argument("--ahead", type=_numbers, default=(128, 8192), help="device read-ahead in KB")
    parser.add_argument("--variants", type=_names, default=_VARIANTS, help="of stock, ours (default: both)")
    parser.add_argument("--lock", type=int, default=0, help="percent of the budget that is locked (default 0)")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--tokens", type=int, default=64, help="measured")
    parser.add_argument("--warm-up", type=int, default=64, help="tokens decoded before them")
    parser.add_argument("--prompts", action="store_true", help="measure prompts, too")
    parser.add_argument("--batch", type=int, default=512, help="tokens of a prompt (default 512)")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--budget", type=int, help="MiB of experts in memory, 0 for the system's choice")
    parser.add_argument("--beside", type=int, default=1024, help="MiB beside the file at 100 %% (default 1024)")
    parser.add_argument("--quantisation", default="Q8_0", help="default Q8_0: 6.6 GB")
    parser.add_argument("--folder", type=Path, help="where model files are kept (default: the application's cache)")
    options = parser.parse_args()
    if min(options.rounds, options.tokens, options.threads, options.batch) < 1 or options.warm_up < 1:
        parser.error("rounds, tokens, threads, batch and warm-up are from 1")
    if not (_CONTROLLER / "cgroup.procs").is_file() or os.geteuid() != 0:
        parser.error("this needs root and the version 1 controller memory")
    return options


def main() -> int:
    """Run and print."""
    options = _options()
    signal.signal(signal.SIGTERM, lambda _number, _frame: sys.exit(1))  # the read-ahead is put back
    try:
        bench = Bench(options)
        bench.run()
    except (AppError, VisitError, disk_reads.NotReadError) as error:
        _say(f"error: {error}")
        return 1
    if options.json:
        print(json.dumps(bench.report, indent=1))
    for ratio in bench.report["ratios"]:
        where = f"{ratio['share_percent']} % {ratio['read_ahead_kb']} KB {ratio['phase']} {ratio['variant']}"
        _say(f"{where}: {ratio['median']:.2f}x stock")
    return 0 if bench.report["same_text"] else 1


if __name__ == "__main__":
    sys.exit(main())

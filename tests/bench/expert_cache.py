"""Speed of stock llama.cpp against ours, in one run: `python tests/bench/expert_cache.py [--quick] [--json]`.

Stock means llama.cpp as its defaults make it (weights repacked for the CPU, large batches offloaded to a GPU that
takes part) and no expert device. Every variant is a process of its own; they take turns in every round, and a ratio
is formed of neighbours within a round. Loading, warm-up and filling a pool are not measured. The model is synthetic
(`synthetic_model.py`) and its routing known; that ours saw just that routing is checked and reported.

Parts (`--parts`):
  pool0  on the CPU, no pool, experts repacked and mapped, for each quantisation: must reach 0.98 of stock.
  gpu    attention on a GPU: stock with the experts on the CPU, stock with as many whole layers' experts on the GPU
         as a pool takes, and ours with pools. `--pool-device CPU` exercises the same with a pool in main memory
         and everything on the CPU; its figures say nothing of speed.
  batch  prompts by batch size, on the variants of those parts above that are asked for (pool0's when asked alone)
         and the first quantisation; gpu, too, runs on the first.

JSON (one object; `version` changes when a field changes its meaning):
  version, date (ISO 8601), machine {os, cpu, physical_cores, memory_bytes}, engine {llama_cpp_python, ggml, gpus},
  settings {quick, threads, rounds, decode_tokens, prompt_tokens, gpu, pool_device, staging_bytes,
    lock_bytes},
  models [{quantisation, file, file_bytes, layers, experts, used, expert_bytes, routing {tokens, effective_experts,
    top_30_percent_share, lru_hit_rate {percent of experts: rate}}}],
  results [{part, quantisation, variant, phase "decode"|"prompt", batch, pool_percent,
    tokens_per_second SPREAD, ratios {baseline variant: SPREAD + {target, met}},
    more_us_per_layer SPREAD: time of a batch over that of the first baseline, divided by the layers,
    device_us_per_layer {gather, cpu, gpu, wait, scatter, total}: the device's clocks, median over rounds,
    hit_rate, simulated_hit_rate (plain LRU of that size on the same tokens), streamed (pairs), gpu_bytes (taken on
    the GPU by all of the variant), pool (fields of `expert_device_pool`), routing_as_intended, note}],
  skipped [{part, reason}], failed [{part, quantisation, reason}]
SPREAD is {median, min, max, rounds [one value a round]}. What does not apply is null.

Exit status: 0; 1 when a part failed; 2 for wrong options.
"""

import argparse
import dataclasses
import datetime
import json
import platform
import signal
import sys
from pathlib import Path
from typing import Any

import bench_table
import routing_trace
from bench_results import Comparison, rows
from bench_rounds import ChildError, Rounds, seen_by_engine
from bench_variant import Amounts, Variant
from routing_trace import RoutingShape
from synthetic_model import ModelShape, cached_model
from weight_blocks import TYPES

from app.errors import AppError
from app.hardware.cpu import read_cpu
from app.hardware.facts import GpuKind
from app.hardware.memory import read_ram

JSON_VERSION = 1
POOL0_TARGET = 0.98
POOL_TARGET_PERCENT, POOL_TARGET = 30, 1.5
PARTS = ("pool0", "gpu", "batch")
FULL = Amounts(5, 128, 8, 256, (32, 64, 128, 256, 512), 1024)
QUICK = Amounts(3, 24, 4, 32, (32, 128, 512), 256)
FULL_ROUTING = RoutingShape(layers=10, experts=128, used=8, codes=1024)
QUICK_ROUTING = RoutingShape(layers=4, experts=32, used=8, codes=1024)
FULL_POOLS, QUICK_POOLS = (10, 20, 30, 50, 100), (25, 50, 100)
_TRACE_TOKENS = 1500
_MEMORY_SHARE = 0.8  # of what is available, for all variants at once


class Bench:
    """One run: holds the report as it grows."""

    def __init__(self, options: argparse.Namespace) -> None:
        cpu, _notes = read_cpu(Path("/"))
        seen = seen_by_engine()
        self._options = options
        self._threads = min(options.threads, cpu.physical_cores)
        amounts = QUICK if options.quick else FULL
        self._amounts = dataclasses.replace(amounts, rounds=options.rounds or amounts.rounds)
        self._all_batches = self._amounts.prompt_batches
        self._pools = options.pools or (QUICK_POOLS if options.quick else FULL_POOLS)
        real = [gpu["device"] for gpu in seen["gpus"] if gpu["kind"] != GpuKind.SOFTWARE]
        self._gpu = None if options.pool_device == "CPU" else options.gpu or next(iter(real), None)
        self._pool_device = "CPU" if options.pool_device == "CPU" else self._gpu
        self.report: dict[str, Any] = {
            "version": JSON_VERSION,
            "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            "machine": {
                "os": platform.platform(),
                "cpu": cpu.name,
                "physical_cores": cpu.physical_cores,
                "memory_bytes": read_ram(Path("/"))[0].total_bytes,
            },
            "engine": seen,
            "settings": {
                "quick": options.quick,
                "threads": self._threads,
                "rounds": self._amounts.rounds,
                "decode_tokens": self._amounts.decode_tokens,
                "prompt_tokens": self._amounts.prompt_tokens,
                "gpu": self._gpu,
                "pool_device": self._pool_device,
                "staging_bytes": options.staging << 20,
                "lock_bytes": options.lock << 20,
            },
            "models": [],
            "results": [],
            "skipped": [],
            "failed": [],
        }

    def run(self) -> None:
        """Run the parts asked for; a comparison that fails is noted and the next one begins."""
        parts, kinds = self._options.parts, self._options.quantisations
        pool0 = kinds if "pool0" in parts else kinds[:1] if parts == ("batch",) else ()
        with_pool = kinds[:1] if "gpu" in parts else ()
        if with_pool and self._pool_device is None:
            reason = "the engine sees no GPU (software drivers aside); --pool-device CPU exercises the path without"
            self.report["skipped"].append({"part": "gpu", "reason": reason})
            with_pool = ()
        for kind in dict.fromkeys((*pool0, *with_pool)):
            shape = self._model_shape(kind)
            _say(f"{kind}: the model")
            path = cached_model(shape, self._options.folder)
            self._add_model(shape, path)
            if kind in pool0:
                self._compare("pool0", shape, *self._pool0(shape, path), keep=self._fit_together(path))
            if kind in with_pool:
                self._compare("gpu", shape, *self._with_pools(shape, path), keep=False)

    def _model_shape(self, kind: str) -> ModelShape:
        routing = QUICK_ROUTING if self._options.quick else FULL_ROUTING
        routing = dataclasses.replace(
            routing,
            layers=self._options.layers or routing.layers,
            experts=self._options.experts or routing.experts,
        )
        return ModelShape(kind, routing)

    def _add_model(self, shape: ModelShape, path: Path) -> None:
        routing = shape.routing
        ids = routing_trace.session(routing, _TRACE_TOKENS, shape.vocabulary, seed=0)
        self.report["models"].append(
            {
                "quantisation": shape.quantisation,
                "file": path.name,
                "file_bytes": path.stat().st_size,
                "layers": routing.layers,
                "experts": routing.experts,
                "used": routing.used,
                "expert_bytes": shape.expert_bytes,
                "routing": routing_trace.describe(routing, ids, self._pools),
            }
        )

    def _variant(self, shape: ModelShape, path: Path, name: str, **more: Any) -> Variant:
        return Variant(name, str(path), shape.routing.layers, self._threads, **more)

    def _pool0(self, shape: ModelShape, path: Path) -> tuple[tuple[Variant, ...], Comparison]:
        ours = {f"ours {residency}": residency for residency in ("repacked", "mapped")}
        variants = (
            self._variant(shape, path, "stock"),
            *(self._variant(shape, path, name, ours=True, residency=residency) for name, residency in ours.items()),
        )
        comparison = Comparison(
            shape.quantisation,
            shape.routing.layers,
            baselines={"stock": ()} | dict.fromkeys(ours, ("stock",)),
            pool_percent={},
            targets={(name, phase, "stock"): POOL0_TARGET for name in ours for phase in ("decode", "prompt")},
        )
        return variants, comparison

    def _with_pools(self, shape: ModelShape, path: Path) -> tuple[tuple[Variant, ...], Comparison]:
        variants = [self._variant(shape, path, "stock", gpu=self._gpu)]
        baselines: dict[str, tuple[str, ...]] = {"stock": ()}
        targets = {}
        for percent in self._pools:
            name = f"ours pool {percent} %"
            baselines[name] = ("stock",)
            whole_layers = shape.routing.layers * percent // 100
            if self._gpu and whole_layers:
                layers_name = f"stock layers {percent} %"
                variants.append(self._variant(shape, path, layers_name, gpu=self._gpu, gpu_expert_layers=whole_layers))
                baselines[layers_name] = ("stock",)
                baselines[name] = ("stock", layers_name)
                if percent == POOL_TARGET_PERCENT:
                    targets[name, "decode", layers_name] = POOL_TARGET
            pool = {"pool_device": self._pool_device, "pool_percent": percent}
            sizes = {"staging_bytes": self._options.staging << 20, "lock_bytes": self._options.lock << 20}
            variants.append(self._variant(shape, path, name, ours=True, gpu=self._gpu, **sizes, **pool))
        comparison = Comparison(
            shape.quantisation,
            shape.routing.layers,
            baselines=baselines,
            pool_percent={variant.name: variant.pool_percent for variant in variants if variant.pool_device},
            targets=targets,
            note="the pool is in main memory: no claim of speed" if self._pool_device == "CPU" else "",
        )
        return tuple(variants), comparison

    def _fit_together(self, path: Path) -> bool:
        """Whether stock, repacked and mapped fit in memory at once: two copies, and the file for the third."""
        return 3 * path.stat().st_size < _MEMORY_SHARE * read_ram(Path("/"))[0].available_bytes

    def _compare(
        self, part: str, shape: ModelShape, variants: tuple[Variant, ...], comparison: Comparison, *, keep: bool
    ) -> None:
        largest = self._all_batches[-1]
        wanted = part in self._options.parts
        by_batch = "batch" in self._options.parts and shape.quantisation == self._options.quantisations[0]
        amounts = dataclasses.replace(self._amounts, prompt_batches=self._all_batches if by_batch else (largest,))
        rounds = Rounds(
            variants, shape.routing, shape.vocabulary, amounts, keep=keep,
            on_visit=lambda what: _say(f"{shape.quantisation}: {what}"),
        )  # fmt: skip
        try:
            rounds.run()
        except ChildError as error:
            self.report["failed"].append({"part": part, "quantisation": shape.quantisation, "reason": str(error)})
            return
        if wanted:
            self.report["results"] += rows(part, comparison, rounds.samples, rounds.facts, (1, largest))
        if by_batch:
            untargeted = dataclasses.replace(comparison, targets={})
            self.report["results"] += rows("batch", untargeted, rounds.samples, rounds.facts, self._all_batches)


def _say(what: str) -> None:
    print(what, file=sys.stderr, flush=True)


def _percents(text: str) -> tuple[int, ...]:
    values = tuple(int(part) for part in text.split(","))
    if not all(0 < value <= 100 for value in values):
        raise ValueError
    return values


def _choices(*known: str) -> Any:
    def chosen(text: str) -> tuple[str, ...]:
        values = tuple(text.split(","))
        if not set(values) <= set(known):
            raise ValueError
        return values

    chosen.__name__ = f"list of {', '.join(known)}"
    return chosen


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Stock llama.cpp against the expert device.")
    parser.add_argument("--quick", action="store_true", help="a small model and few tokens: shows that it works")
    parser.add_argument("--json", action="store_true", help="the report as JSON on standard output")
    parser.add_argument("--threads", type=int, default=2, help="CPU threads, at most the physical cores (default 2)")
    parser.add_argument("--rounds", type=int, help=f"default {FULL.rounds}, quick {QUICK.rounds}")
    parser.add_argument("--parts", type=_choices(*PARTS), default=PARTS, help=f"default {','.join(PARTS)}")
    parser.add_argument(
        "--quantisations", type=_choices(*TYPES), default=tuple(TYPES),
        help=f"default {','.join(TYPES)}; gpu and batch use the first",
    )  # fmt: skip
    parser.add_argument("--gpu", help="the engine's name of the GPU (default: the first that is no software driver)")
    parser.add_argument("--pool-device", choices=["CPU"], help="a pool in main memory, to exercise it without a GPU")
    parser.add_argument("--pools", type=_percents, help="percent of all experts, such as 10,30,100")
    parser.add_argument("--staging", type=int, default=256, help="MiB for streamed experts (default 256)")
    parser.add_argument("--lock", type=int, default=0, help="MiB of main memory to page-lock (default 0)")
    parser.add_argument("--layers", type=int, help=f"default {FULL_ROUTING.layers}, quick {QUICK_ROUTING.layers}")
    parser.add_argument("--experts", type=int, help=f"default {FULL_ROUTING.experts}, quick {QUICK_ROUTING.experts}")
    parser.add_argument("--folder", type=Path, help="where model files are kept (default: the application's cache)")
    options = parser.parse_args()
    if options.threads < 1 or (options.rounds or 1) < 1:
        parser.error("threads and rounds are from 1")
    return options


def main() -> int:
    """Run and print."""
    options = _options()
    # Ended by a signal, the run still ends its children: they may be suspended and could not end themselves.
    signal.signal(signal.SIGTERM, lambda _number, _frame: sys.exit(1))
    try:
        bench = Bench(options)
        bench.run()
    except (AppError, ChildError) as error:
        _say(f"error: {error}")
        return 1
    if options.json:
        print(json.dumps(bench.report, indent=1))
    else:
        print("\n".join(bench_table.lines(bench.report)))
    return 1 if bench.report["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())

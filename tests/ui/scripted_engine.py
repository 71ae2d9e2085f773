"""A child process that speaks the engine protocol with behaviour chosen by its arguments.

It stands where the real engine would: tests and screenshots start it through `Engine(command)`.
Run `python scripted_engine.py --help` for the behaviours.
"""

import argparse
import os
import queue
import signal
import sys
import threading
import time
from datetime import UTC, datetime
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(Path(__file__).resolve().parent))

from scripted_cache import ScriptedCache

from app.engine import protocol
from app.hardware.facts import EngineBuild, Gpu, GpuKind
from app.hardware.fingerprint import engine_name
from app.placement.plan import CPU_LANE, Plan
from app.placement.report import BufferReport, ObservedMemory
from app.placement.speed.calibration import Calibration, ComputeRate

GIB = 1024**3
LOGITS_BYTES = 196608
OBSERVED_BYTES = 7_654_321_000
BUILD = EngineBuild(
    llama_cpp_python="0.3.36",
    ggml="0.25.3",
    build="CPU + Vulkan",
    backends=("CPU", "Vulkan"),
    expert_device=True,
)
GPU = Gpu(
    name="Scripted Graphics 8 GB",
    backend="Vulkan",
    device="Vulkan0",
    kind=GpuKind.DISCRETE,
    total_bytes=8 * GIB,
    free_bytes=7 * GIB,
    driver="1.0",
)


CHANGES = (
    protocol.ReadCache,
    protocol.SetPool,
    protocol.SetPins,
    protocol.SetPolicy,
    protocol.SetMemory,
    protocol.WarmMemory,
    protocol.ReleaseMemory,
)
"""Requests that are answered at once with the cache's facts."""


def parse(argv: list[str]) -> argparse.Namespace:
    """The behaviours."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--no-gpu", action="store_true", help="report no GPU")
    parser.add_argument("--tokens", type=int, default=12, help="tokens of an answer")
    parser.add_argument("--text", default="", help="answer with this text, cut into words")
    parser.add_argument("--text-file", default="", help="answer with the text of this file")
    parser.add_argument("--token-ms", type=float, default=0.0, help="pause after each token")
    parser.add_argument("--prompt-ms", type=float, default=0.0, help="time the prompt takes")
    parser.add_argument("--load-ms", type=float, default=0.0, help="time a load takes")
    parser.add_argument("--hold-after", type=int, default=-1, help="wait for Cancel after N tokens")
    parser.add_argument("--hold-load", action="store_true", help="a load waits for Cancel")
    parser.add_argument("--crash-after", type=int, default=-1, help="SIGKILL itself after N tokens")
    parser.add_argument("--crash-once", default="", help="crash only if this file does not exist yet")
    parser.add_argument("--crash-on-load", action="store_true", help="SIGKILL itself in the load")
    parser.add_argument("--deaf", action="store_true", help="never take a Cancel")
    parser.add_argument("--no-devices", action="store_true", help="never list the devices, like a driver that hangs")
    parser.add_argument("--fail-load", default="", help="answer every load with this error code")
    parser.add_argument("--fail-answer", default="", help="answer every question with this error code")
    parser.add_argument("--garbage", action="store_true", help="write a line that is no message, in an answer")
    parser.add_argument("--protocol", type=int, default=protocol.PROTOCOL_VERSION)
    parser.add_argument("--difference", default="", help="a difference to report after a load")
    parser.add_argument("--no-expert-device", default="", help="why routings are not counted")
    parser.add_argument("--experts", type=int, default=8, help="experts per layer in the routings")
    parser.add_argument("--expert-mib", type=float, default=1.0, help="MiB of one expert in the pool")
    parser.add_argument("--no-pool", default="", help="why the GPU gives a pool no memory")
    parser.add_argument("--fail-pool", default="", help="answer every SetPool with this error code")
    parser.add_argument("--memory-mib", type=int, help="what the machine has for mapped experts; else enough")
    parser.add_argument("--fail-memory", default="", help="answer every SetMemory with this error code")
    parser.add_argument("--fail-pins", default="", help="answer every SetPins with this error code")
    parser.add_argument("--fail-orders", default="", help="answer WarmMemory and ReleaseMemory with this error code")
    parser.add_argument("--hold-orders", action="store_true", help="never answer those two")
    parser.add_argument("--fail-cache", default="", help="answer every ReadCache with this error code")
    parser.add_argument("--pool-ms", type=float, default=0.0, help="time a SetPool takes")
    parser.add_argument("--bare-changes", action="store_true", help="answer changes without the experts")
    parser.add_argument("--dry-run", type=int, help="answer dry runs, with so many MiB more of compute buffers")
    parser.add_argument("--hold-calibration", action="store_true", help="a calibration waits for Cancel at its half")
    parser.add_argument("--fail-calibration", default="", help="answer every calibration with this error code")
    parser.add_argument("--crash-on-calibration", action="store_true", help="SIGKILL itself in a calibration")
    parser.add_argument("--best-threads", type=int, default=0, help="measurements are fastest with so many threads")
    parser.add_argument("--crash-threads", type=int, default=0, help="SIGKILL itself when measuring with so many")
    parser.add_argument("--fail-threads", type=int, default=0, help="loads with so many run out of memory")
    parser.add_argument("--hold-measure", action="store_true", help="a measurement waits for Cancel at its half")
    parser.add_argument("--measure-ms", type=float, default=0.0, help="time a measurement takes")
    parser.add_argument("--record", default="", help="append every request line to this file")
    return parser.parse_args(argv)


class ScriptedEngine:
    """Reads requests, writes events."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self._queue: queue.Queue[protocol.AnyRequest | None] = queue.Queue()
        self._cancelled: set[int] = set()
        self._cancel = threading.Condition()
        self._write_lock = threading.Lock()
        self._plan: Plan | None = None
        self._experts = ScriptedCache(None, options.experts, int(options.expert_mib * 1024**2))

    def run(self) -> None:
        """Answer until standard input ends."""
        self._say(protocol.Ready(protocol=self._options.protocol, pid=os.getpid()))
        threading.Thread(target=self._read, daemon=True).start()
        while (request := self._queue.get()) is not None:
            if isinstance(request, protocol.ListDevices):
                if self._options.no_devices:
                    self._pause(request.id, None)
                gpus = () if self._options.no_gpu else (GPU,)
                self._say(protocol.Devices(id=request.id, gpus=gpus, build=BUILD))
            elif isinstance(request, protocol.Load):
                self._load(request)
            elif isinstance(request, protocol.DryRun):
                self._dry_run(request)
            elif isinstance(request, protocol.Calibrate):
                self._calibrate(request)
            elif isinstance(request, protocol.Measure):
                self._measure(request)
            elif isinstance(request, protocol.Generate):
                self._generate(request)
            elif isinstance(request, protocol.Unload):
                self._plan = None
                self._say(protocol.Unloaded(id=request.id))

    def _read(self) -> None:
        for line in sys.stdin.buffer:
            if self._options.record:
                with Path(self._options.record).open("ab") as record:
                    record.write(line)
            request = protocol.decode_request(line)
            if isinstance(request, protocol.Cancel) and self._options.deaf:
                continue
            if isinstance(request, protocol.Cancel):
                with self._cancel:
                    self._cancelled.add(request.target)
                    self._cancel.notify_all()
            elif isinstance(request, protocol.ReadRouting):
                self._say(self._experts.routing(request.id))
            elif isinstance(request, CHANGES):
                self._change(request)
            else:
                self._queue.put(request)
        os._exit(0)  # the parent is gone or has closed the input: end at once, like the real child

    def _say(self, event: protocol.Event) -> None:
        with self._write_lock:
            sys.stdout.buffer.write(protocol.encode(event))
            sys.stdout.buffer.flush()

    def _pause(self, request_id: int, milliseconds: float | None) -> bool:
        """Wait, or forever for None; True when the request was cancelled."""
        with self._cancel:
            seconds = None if milliseconds is None else milliseconds / 1000
            return self._cancel.wait_for(lambda: request_id in self._cancelled, seconds)

    def _fail(self, request_id: int, code: str, what: str) -> None:
        self._say(protocol.Failed(id=request_id, code=code, message=what, detail="from the script"))

    def _load(self, request: protocol.Load) -> None:
        options = self._options
        self._plan = None
        for step in range(1, 11):
            if self._pause(request.id, options.load_ms / 10):
                return self._fail(request.id, "cancelled", "The load was cancelled.")
            self._say(protocol.LoadProgress(id=request.id, fraction=step / 10))
            if step == 5 and options.crash_on_load:
                os.kill(os.getpid(), signal.SIGKILL)
            if step == 5 and options.hold_load:
                self._pause(request.id, None)
        if request.plan.threads == options.fail_threads:
            return self._fail(request.id, "out_of_memory", "The script has no memory for so many threads.")
        if options.fail_load:
            return self._fail(request.id, options.fail_load, "The script fails every load.")
        self._plan = plan = request.plan
        self._experts = ScriptedCache(
            plan,
            options.experts,
            int(options.expert_mib * 1024**2),
            off=options.no_expert_device,
            no_memory=options.no_pool or ("no GPU" if options.no_gpu else ""),
            room=None if options.memory_mib is None else options.memory_mib * 1024**2,
        )
        # Not the prediction itself: what is shown as reported must be told apart from it.
        buffers = tuple(
            BufferReport(device=part.device, part=part.part, bytes=int(part.bytes * 0.98))
            for part in plan.memory
            if part.part in ("weights", "experts", "kv", "compute")
        )
        # As llama.cpp does: the file is mapped as a whole, and the logits have a buffer of their own.
        whole = sum(part.bytes for part in plan.memory if part.part in ("weights", "experts"))
        buffers += (
            BufferReport(device=CPU_LANE, part="mapped", bytes=whole),
            BufferReport(device=CPU_LANE, part="output", bytes=LOGITS_BYTES),
        )
        return self._say(
            protocol.Loaded(
                id=request.id,
                seconds=1.4,
                n_ctx=plan.n_ctx,
                buffers=buffers,
                expert_layers=plan.expert_lanes,
                differences=(options.difference,) if options.difference else (),
                expert_device=not options.no_expert_device,
                reason=options.no_expert_device,
                observed=(
                    ObservedMemory(
                        device=CPU_LANE, bytes=OBSERVED_BYTES, own_bytes=OBSERVED_BYTES, idle_bytes=1, source="script"
                    ),
                ),
            )
        )

    def _dry_run(self, request: protocol.DryRun) -> None:
        """Tell the plan's own parts, its GPU's compute buffers larger; nothing without the option."""
        if self._options.dry_run is None:
            return
        plan = request.plan
        more = {(plan.gpu or CPU_LANE, "compute"): self._options.dry_run * 1024**2}
        buffers = tuple(
            BufferReport(device=part.device, part=part.part, bytes=part.bytes + more.get((part.device, part.part), 0))
            for part in plan.memory
            if part.part in ("weights", "kv", "compute")
        )
        self._say(protocol.DryRan(id=request.id, buffers=buffers, seconds=0.1))

    def _calibrate(self, request: protocol.Calibrate) -> None:
        options = self._options
        if options.fail_calibration:
            return self._fail(request.id, options.fail_calibration, "The script fails every calibration.")
        self._plan = None
        self._say(protocol.CalibrateProgress(id=request.id, fraction=0.5, what="the processor: q4_K weights"))
        if options.crash_on_calibration:
            os.kill(os.getpid(), signal.SIGKILL)
        if self._pause(request.id, None if options.hold_calibration else 0):
            return self._fail(request.id, "cancelled", "The measurement was cancelled.")
        rate = ComputeRate(
            device="CPU", type=request.types[0], threads=2, bytes_per_second=21e9, flops_per_second=7.5e10
        )
        calibration = Calibration(
            machine=request.machine,
            engine=engine_name(BUILD),
            measured_at=datetime.now(UTC).isoformat(timespec="seconds"),
            seconds=25.0,
            compute=(rate,),
            skipped=("The script measures nothing else.",),
        )
        return self._say(protocol.Calibrated(id=request.id, calibration=calibration))

    def _measure(self, request: protocol.Measure) -> None:
        """Tell speeds that follow from the plan: a fifth slower for every thread more or less than the best."""
        options, plan = self._options, self._plan
        if plan is None:
            return self._fail(request.id, "bad_usage", "No model is loaded.")
        if plan.threads == options.crash_threads:
            os.kill(os.getpid(), signal.SIGKILL)
        self._say(protocol.MeasureProgress(id=request.id, done=1, total=2))
        if self._pause(request.id, None if options.hold_measure else options.measure_ms):
            return self._fail(request.id, "cancelled", "The measurement was cancelled.")
        tokens = len(request.prompts[0].split())
        slower = 1 + 0.2 * abs(plan.threads - options.best_threads) if options.best_threads else 1.0
        return self._say(
            protocol.Measured(
                id=request.id,
                prompt_tokens=tokens,
                prompt_seconds=tokens * 0.004,
                step_seconds=(0.02 * slower,) * request.decode_tokens,
                sequences=1,
                context_tokens=tokens + request.decode_tokens,
                prompt_cache=None,
                decode_cache=None,
                peak_bytes=GIB,
                text="Word",
            )
        )

    def _pieces(self) -> list[str]:
        options = self._options
        text = Path(options.text_file).read_text("utf-8") if options.text_file else options.text
        if text:
            return [word for word in text.replace(" ", "\0 ").split("\0") if word]
        return ["Word"] + [f" {number}" for number in range(1, options.tokens)]

    def _generate(self, request: protocol.Generate) -> None:
        options = self._options
        if options.fail_answer:
            return self._fail(request.id, options.fail_answer, "The script fails every question.")
        if self._plan is None:
            return self._fail(request.id, "bad_usage", "No model is loaded.")
        started = time.monotonic()
        prompt = sum(len(message.content.split()) + 4 for message in request.messages)
        stopped = False
        for step in range(5):
            done = prompt * step // 4
            self._say(protocol.PromptProgress(id=request.id, done=done, total=prompt, reused=0))
            stopped = stopped or self._pause(request.id, options.prompt_ms / 5)
        self._experts.prompted += prompt
        before = self._experts.totals()
        first = time.monotonic()
        said: list[str] = []
        for piece in self._pieces()[: request.max_tokens]:
            if stopped:
                break
            said.append(piece)
            self._experts.decode()
            self._say(protocol.Token(id=request.id, text=piece, count=len(said)))
            if len(said) == options.crash_after and self._may_crash():
                os.kill(os.getpid(), signal.SIGKILL)
            if options.garbage and len(said) == 3:
                with self._write_lock:
                    sys.stdout.buffer.write(b"llama says hello\n")
                    sys.stdout.buffer.flush()
            stopped = self._pause(request.id, None if len(said) == options.hold_after else options.token_ms)
        seconds = max(time.monotonic() - first, 1e-6)
        reason = "stopped" if stopped else "end_of_text"
        if not stopped and len(said) == request.max_tokens:
            reason = "max_tokens"
        return self._say(
            protocol.Finished(
                id=request.id,
                text="".join(said),
                stop_reason=reason,
                prompt_tokens=prompt,
                reused_tokens=0,
                completion_tokens=len(said),
                ttft_seconds=first - started,
                prompt_tokens_per_second=prompt / max(first - started, 1e-6),
                tokens_per_second=(len(said) - 1) / seconds if len(said) > 1 else 0.0,
                cache=self._experts.report(before),
            )
        )

    def _may_crash(self) -> bool:
        if not self._options.crash_once:
            return True
        try:
            Path(self._options.crash_once).touch(exist_ok=False)
        except FileExistsError:
            return False
        return True

    def _change(self, request: protocol.AnyRequest) -> None:
        """Read or change the cache at once, also while an answer runs."""
        options, cache = self._options, self._experts
        failing = {
            "read_cache": options.fail_cache,
            "set_pool": options.fail_pool,
            "set_pins": options.fail_pins,
            "set_memory": options.fail_memory,
            "warm_memory": options.fail_orders,
            "release_memory": options.fail_orders,
        }
        code = failing.get(request.__struct_config__.tag, "")
        if code or self._plan is None:
            return self._fail(request.id, code or "bad_usage", "The script fails this request.")
        whole = not options.bare_changes
        if options.hold_orders and isinstance(request, (protocol.WarmMemory, protocol.ReleaseMemory)):
            return None
        if isinstance(request, protocol.SetPool):
            time.sleep(options.pool_ms / 1000)
            cache.resize(request.pool_bytes, request.staging_bytes)
        elif isinstance(request, protocol.SetPins):
            cache.pin(request.pins)
        elif isinstance(request, protocol.SetPolicy):
            cache.policy = request.policy
        elif isinstance(request, protocol.SetMemory):
            if why := cache.set_memory(request.budget_bytes):
                return self._fail(request.id, "out_of_memory", why)
        elif isinstance(request, protocol.WarmMemory):
            cache.warm_memory()
        elif isinstance(request, protocol.ReleaseMemory):
            cache.release_memory()
        elif isinstance(request, protocol.ReadCache):
            whole = request.experts
        return self._say(cache.facts(request.id, experts=whole))


if __name__ == "__main__":
    ScriptedEngine(parse(sys.argv[1:])).run()

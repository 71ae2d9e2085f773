"""`bench_child.py` for the disk lane: what was said is told, and what the process read and waited for.

Two more requests, as JSON lines:

* `budget` with `bytes`: experts that may stay in main memory; null leaves that to the engine, which is told how
  much; 0 leaves it to the system. `lock_percent` of the bytes are locked, the hottest. Ours only.
* `run` with `ids`, `batch`, `warm_up`: decode them one by one (batch 1) or as prompts; the first `warm_up` are not
  measured. Answers seconds, the likeliest token after each batch, a digest of all logits, the process's major faults
  and bytes read, the disk's reads (everybody's), and the expert device's totals.
"""

import hashlib
import json
import os
import resource
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from bench_child import Child
from llama_cpp import llama_cpp as llama

from app.engine.cache import Phase
from app.engine.cache_memory import resident_budget
from app.errors import AppError, ErrorCode
from app.hardware.memory import read_ram


class DiskChild(Child):
    """A bench child that also tells what came of the numbers."""

    def budget(self, bytes: int | None, lock_percent: int = 0) -> dict[str, Any]:
        """Set the budget and what of it is locked; returns it with what is in memory now."""
        assert self._device is not None
        device, context = self._device.device, self._device.context
        if bytes is None:
            experts = sum(its.experts * its.expert_bytes for its in device.layers(context))
            model = Path(self._variant.model).stat().st_size
            bytes = resident_budget(read_ram(Path("/"))[0], model - experts, experts)
        device.set_memory_lock(context, bytes * lock_percent // 100)
        device.set_resident(context, bytes)
        return self.memory()

    def memory(self) -> dict[str, Any]:
        """The fields of `expert_device_memory`."""
        if self._device is None:
            return {}
        found = self._device.device.memory(self._device.context)
        fields = {name: getattr(found, name) for name, _ in found._fields_}
        return fields | {"reason": fields["reason"].decode(errors="replace")}

    def run(self, ids: list[int], batch: int, warm_up: int) -> dict[str, Any]:
        """Compute `ids` as one sequence, or as prompts of their own."""
        phase = Phase.DECODE if batch == 1 else Phase.PROMPT
        memory, digest, said = llama.llama_get_memory(self._context), hashlib.sha256(), []
        vocabulary = llama.llama_vocab_n_tokens(llama.llama_model_get_vocab(llama.llama_get_model(self._context)))
        llama.llama_memory_clear(memory, True)
        if self._device:
            self._device.set_phase(phase)
        before: dict[str, int] = {}
        times: list[float] = []
        for at in range(0, len(ids), batch):
            if at >= warm_up and not before:
                before = self._counters(phase)
            piece = ids[at : at + batch]
            array = (llama.llama_token * len(piece))(*piece)
            if phase is Phase.PROMPT:
                llama.llama_memory_clear(memory, True)
            started = time.perf_counter()
            result = llama.llama_decode(self._context, llama.llama_batch_get_one(array, len(piece)))
            llama.llama_synchronize(self._context)
            if at >= warm_up:
                times.append(time.perf_counter() - started)
            if result != 0:
                raise AppError(ErrorCode.ENGINE_FAILED, f"llama_decode answered {result}.")
            logits = np.ctypeslib.as_array(llama.llama_get_logits_ith(self._context, -1), (vocabulary,))
            said.append(int(logits.argmax()))
            digest.update(logits.tobytes())
        after = self._counters(phase)
        counted = {name: after[name] - before[name] for name in after}
        return {"seconds": sum(times), "times": times, "said": said, "digest": digest.hexdigest()} | counted

    def _counters(self, phase: Phase) -> dict[str, int]:
        used = resource.getrusage(resource.RUSAGE_SELF)
        io = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
        own = {"major_faults": used.ru_majflt, "read_bytes": int(io["read_bytes"]), "reads": self._device_reads()}
        return own | (self._device.totals(phase) if self._device else {})

    def _device_reads(self) -> int:
        """Reads that the model's disk has done, for whomever."""
        device = Path(self._variant.model).stat().st_dev
        for line in Path("/proc/diskstats").read_text().splitlines():
            major, minor, _name, reads, *_rest = line.split()
            if (int(major), int(minor)) == (os.major(device), os.minor(device)):
                return int(reads)
        return 0


def main() -> None:
    """Answer requests until the input ends."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # a library that prints cannot spoil the answers
    child = DiskChild()
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = getattr(child, request.pop("do"))(**request)
        except AppError as error:
            answer = {"error": f"{error.message} {error.detail}".strip()}
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()

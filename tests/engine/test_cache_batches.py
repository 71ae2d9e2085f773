"""What is told of batches while others are computed: once, and never figures that change afterwards.

The test runs this file as a program: a process can register the expert device once.
"""

import json
import sys
import threading
from pathlib import Path
from typing import Any

from decode_logits import token_ids, warm_up
from decoding import run_child
from llama_process import LlamaProcess
from tiny_shapes import qwen3moe

from app.engine.cache import Phase
from app.engine.cache_types import TokenStruct
from app.placement.plan import CachePolicy

BATCHES = (64, 1, 1, 3, 512, *(1,) * 40) * 2
LAYERS, USED = 12, 4


def figures(batch: TokenStruct) -> list[int]:
    """Everything that is told of a batch."""
    return [int(getattr(batch, name)) for name, _ in TokenStruct._fields_]


def read_while_decoding(path: Path) -> dict[str, Any]:
    """Batches as they were read first, while all were computed, and as they are told in the end."""
    process = LlamaProcess(with_device=True)
    device = process.device
    assert device
    model = process.load(path)
    context = model.context(cells=2048)
    warm_up(device, context, "CPU")
    device.set_policy(context.id, CachePolicy(window=0, insert_cap=8, stream="off"))
    layers = device.layers(context.id)
    assert device.set_pool(context.id, "CPU", sum(its.experts * its.expert_bytes for its in layers) // 3, 0) == 0
    first: list[list[int]] = []
    over = threading.Event()

    def read() -> None:
        since, last = 0, False
        while not last:
            last = over.is_set()
            for batch in device.batches(context.id, since):
                first.append(figures(batch))
                since = batch.index + 1

    reader = threading.Thread(target=read)
    reader.start()
    context.clear()
    ids = token_ids(sum(BATCHES), model.vocabulary)
    for size in BATCHES:
        device.set_phase(context.id, Phase.DECODE if size <= 8 else Phase.PROMPT)
        batch, ids = ids[:size], ids[size:]
        context.decode(batch, every=True)
    over.set()
    reader.join()
    final = [figures(batch) for batch in device.batches(context.id, 0)]
    context.close()
    model.close()
    return {"first": first, "final": final}


def test_figures_of_a_batch_that_were_read_do_not_change_and_the_last_batch_is_told_of(tmp_path):
    qwen3moe(tmp_path / "model.gguf", layers=LAYERS, used=USED)
    told = json.loads(run_child(Path(__file__), str(tmp_path / "model.gguf")).splitlines()[-1])
    names = [name for name, _ in TokenStruct._fields_]
    read = [dict(zip(names, batch, strict=True)) for batch in told["first"]]
    assert told["first"] == told["final"]
    assert [batch["tokens"] for batch in read] == list(BATCHES)
    assert [batch["index"] for batch in read] == list(range(len(BATCHES)))
    assert [batch["hits"] + batch["misses"] for batch in read] == [LAYERS * USED * size for size in BATCHES]


if __name__ == "__main__":
    print(json.dumps(read_while_decoding(Path(sys.argv[1]))))

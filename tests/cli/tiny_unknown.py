"""A well-formed GGUF of an architecture nobody knows."""

from pathlib import Path

import gguf
import numpy as np


def write(path: Path) -> None:
    """Write a few tensors under the architecture `nova9`."""
    writer = gguf.GGUFWriter(path, "nova9")
    writer.add_block_count(1)
    writer.add_context_length(64)
    writer.add_embedding_length(32)
    writer.add_feed_forward_length(32)
    writer.add_head_count(2)
    writer.add_vocab_size(16)
    writer.add_tokenizer_model("no_vocab")
    rows = {"token_embd.weight": (16, 32), "output_norm.weight": (32,), "blk.0.attn_q.weight": (32, 32)}
    for name, shape in rows.items():
        writer.add_tensor(name, np.zeros(shape, dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()

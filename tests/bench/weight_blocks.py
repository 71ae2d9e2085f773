"""Random weights written as blocks of a quantised type, without quantising anything.

The `gguf` package cannot quantise to Q4_K, and quantising gigabytes in Python takes minutes for any type. A block
of random levels under a fixed scale has the same size, layout and cost to compute; its values are uniform around
zero (Q4_0 and Q8_0: half a step below) with the standard deviation asked for.
"""

import numpy as np
import numpy.typing as npt
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType

TYPES = {
    "Q4_0": GGMLQuantizationType.Q4_0,
    "Q4_K": GGMLQuantizationType.Q4_K,
    "Q8_0": GGMLQuantizationType.Q8_0,
}
_SIXTEEN_LEVELS_STD = float(np.sqrt((16**2 - 1) / 12))
_BYTE_LEVELS_STD = float(np.sqrt((256**2 - 1) / 12))
_Q4_K_SUB_BLOCKS = 8
_Q4_K_SCALES = np.arange(24, 64)  # six bits; the small ones would leave sub-blocks of next to nothing


def row_bytes(kind: GGMLQuantizationType, columns: int) -> int:
    """Bytes of a row of `columns` weights.

    Raises:
        ValueError: the row is not a whole number of blocks.
    """
    weights, size = GGML_QUANT_SIZES[kind]
    if columns % weights:
        raise ValueError(f"{kind.name} needs rows of a multiple of {weights} weights, not {columns}")
    return int(columns // weights * size)


def random_rows(
    random: np.random.Generator, kind: GGMLQuantizationType, rows: int, columns: int, deviation: float
) -> npt.NDArray[np.uint8]:
    """Random weights of standard deviation `deviation`: uint8 [rows, row_bytes]."""
    weights, size = GGML_QUANT_SIZES[kind]
    blocks = random.integers(0, 256, (rows * row_bytes(kind, columns) // size, size), dtype=np.uint8)
    if kind == GGMLQuantizationType.Q4_0:
        _set_half(blocks, 0, deviation / _SIXTEEN_LEVELS_STD)
    elif kind == GGMLQuantizationType.Q8_0:
        _set_half(blocks, 0, deviation / _BYTE_LEVELS_STD)
    elif kind == GGMLQuantizationType.Q4_K:
        scales = random.choice(_Q4_K_SCALES, (len(blocks), _Q4_K_SUB_BLOCKS)).astype(np.uint8)
        step = np.float16(deviation / _SIXTEEN_LEVELS_STD / np.sqrt((_Q4_K_SCALES.astype(float) ** 2).mean()))
        # A weight is step * scale * level - minimum * scale: this minimum centres the sixteen levels.
        _set_half(blocks, 0, float(step))
        _set_half(blocks, 2, 7.5 * float(step))
        blocks[:, 4:16] = _pack_scales(scales)
    else:
        raise ValueError(f"no random blocks for {kind.name}")
    return blocks.reshape(rows, columns // weights * size)


def _set_half(blocks: npt.NDArray[np.uint8], at: int, value: float) -> None:
    blocks[:, at : at + 2] = np.frombuffer(np.float16(value).tobytes(), dtype=np.uint8)


def _pack_scales(scales: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """Q4_K's twelve bytes for eight scales and equal minima: uint8 [blocks, 8] to [blocks, 12].

    Bytes 0-3 hold scales 0-3 and, in their upper two bits, those of scales 4-7; bytes 4-7 the same of the
    minima; bytes 8-11 the lower four bits of scales 4-7 with those of the minima above them.
    """
    low, high = scales[:, :4], scales[:, 4:]
    first = low | (high >> 4) << 6
    last = (high & 15) | (high & 15) << 4
    return np.concatenate([first, first, last], axis=1)

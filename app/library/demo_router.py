"""The demo's router: rows that spread tokens over the experts, drawn from recorded statistics.

Plain random rows would send nearly every token to the same few experts, because the router's input
has a large mean and little variance in most directions. So the rows are drawn where the input really
varies: in its whitened space, where every direction counts alike, and orthogonal to its mean.

The experts of a layer are equal, so any weights that add up to 1 give the dense model's output, but
only up to rounding; and rounding flips the quantisation of a later activation now and then, until the
text is another one. Therefore `used` experts at a time share one row: they are routed to together,
their weights are equal, and halves or quarters of a number add up to it exactly.
"""

import zipfile
from pathlib import Path

import numpy as np
import numpy.typing as npt

from app.errors import AppError, ErrorCode

STATISTICS_NAME = "router_statistics.npz"
_SEED = 135
_EXACT_COUNTS = (1, 2, 4)


def experts_sharing_a_row(experts: int, used: int) -> int:
    """How many experts have the same router row: `used` where that makes the sum of their outputs exact.

    It does for 1, 2 and 4 equal weights. For other counts, or where the experts cannot be divided into
    such groups, every expert gets a row of its own.
    """
    return used if used in _EXACT_COUNTS and experts % used == 0 else 1


class RouterStatistics:
    """What `resources/demo/record_router_statistics.py` recorded of the router's input.

    Args:
        path: The recorded file.

    Raises:
        AppError: file_missing, or model_damaged where the file is not what the script writes.
    """

    def __init__(self, path: Path) -> None:
        try:
            # Opened here, as NumPy leaves a file open that turns out to be damaged.
            with path.open("rb") as file, np.load(file, allow_pickle=False) as recorded:
                self._mean = recorded["mean"].astype(np.float64)
                self._directions = recorded["directions"].astype(np.float64)
        except FileNotFoundError as error:
            raise AppError(ErrorCode.FILE_MISSING, f"{path} is missing: reinstall the app.", str(error)) from error
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
            raise AppError(ErrorCode.MODEL_DAMAGED, f"{path} is damaged: reinstall the app.", str(error)) from error

    def rows(self, layer: int, experts: int, used: int) -> npt.NDArray[np.float32]:
        """Router weights of one layer, [experts, width]; the same on every machine.

        Each row's logit has mean 0 and variance 1 over the recorded tokens. Which experts share a row
        differs from layer to layer.
        """
        sharing = experts_sharing_a_row(experts, used)
        mean, directions = self._mean[layer], self._directions[layer]
        # RandomState's stream is frozen for good, a Generator's may change with NumPy.
        random = np.random.RandomState(_SEED + layer)
        rows = random.standard_normal((experts // sharing, len(directions)))
        toward_mean = directions @ mean
        toward_mean /= np.linalg.norm(toward_mean)
        rows -= np.outer(rows @ toward_mean, toward_mean)
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        # Half precision hides the last bits, in which linear algebra libraries differ.
        weights = (rows @ directions).astype(np.float16).astype(np.float32)
        return np.repeat(weights, sharing, axis=0)[random.permutation(experts)]

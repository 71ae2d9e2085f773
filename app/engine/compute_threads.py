"""Threads of ggml that wait between graphs, where it would else start new ones for each graph.

A ggml that was built with OpenMP leaves this to OpenMP. The one for Windows has threads of its own: without ones that
are kept it starts them when a graph begins and ends them with it, and with the expert device a token is two graphs a
layer. Measured under Wine in November 2026 (two threads, a model of 30 layers): 61 threads were started for each token,
which took 80 ms instead of 14.
"""

import ctypes
from collections.abc import Iterable

from llama_cpp import llama_cpp as llama

from app.engine.cache import ExpertDevice
from app.engine.ggml import Ggml

_WITH_OPENMP = "OPENMP"
# ggml's measure of how long its threads look for the next graph before they sleep, in 131072 looks: about as long as
# OpenMP's do on Linux (300000). The next graph is there within a millisecond; where a GPU computes longer, they sleep.
_POLL = 2
_MOST_PROCESSORS = 512  # GGML_MAX_N_THREADS


class _Parameters(ctypes.Structure):
    """`ggml_threadpool_params`."""

    _fields_ = (
        ("processors", ctypes.c_bool * _MOST_PROCESSORS),
        ("n_threads", ctypes.c_int),
        ("priority", ctypes.c_int),
        ("poll", ctypes.c_uint32),
        ("strict_processors", ctypes.c_bool),
        ("paused", ctypes.c_bool),
    )


class ComputeThreads:
    """Threads for each of some counts, which everything that computes with so many uses until they are closed.

    Made and used on the one thread that computes: the graphs of a process are computed in turn.

    Args:
        ggml: The process's ggml, its backends loaded.
        device: The expert device, which computes with them too; None where there is none.
        counts: How many threads there will be at once; of a count of 1 nothing is kept.
        also_with_openmp: Keep them although OpenMP keeps its own.

    Raises:
        AppError: the device could not take one; none is kept then.
    """

    def __init__(
        self, ggml: Ggml, device: ExpertDevice | None, counts: Iterable[int], *, also_with_openmp: bool = False
    ) -> None:
        self._device = device
        self._kept: dict[int, int] = {}
        make, free = (ggml.cpu_function(name) for name in ("ggml_threadpool_new", "ggml_threadpool_free"))
        if not make or not free or (_WITH_OPENMP in ggml.cpu_features() and not also_with_openmp):
            return
        self._free = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(free)
        new = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.POINTER(_Parameters))(make)
        try:
            for count in sorted(set(counts) - {1}):
                parameters = _Parameters(n_threads=count, poll=_POLL)
                if threads := new(ctypes.byref(parameters)):
                    self._kept[count] = threads
                    if device is not None:
                        device.keep_threads(count, threads)
        except BaseException:
            self.close()  # nobody else could end those that are there
            raise

    def attach(self, context: int, threads: int, threads_batch: int) -> None:
        """Let a llama.cpp context use those of its two counts."""
        if self._kept:
            attach = llama._lib.llama_attach_threadpool
            attach.restype, attach.argtypes = None, [ctypes.c_void_p] * 3
            attach(context, self._kept.get(threads), self._kept.get(threads_batch))

    def close(self) -> None:
        """End them; nothing that used them may compute any more."""
        while self._kept:
            count, threads = self._kept.popitem()
            if self._device is not None:
                self._device.keep_threads(count, None)
            self._free(threads)

"""Threads of ggml that are kept between graphs: for which counts, who is told of them, and when they end."""

import ctypes

import numpy as np
import pytest
from decode_logits import Job, Run
from decoding import decode
from tiny_shapes import mixtral

from app.engine import compute_threads
from app.engine.compute_threads import ComputeThreads
from app.errors import AppError, ErrorCode


class FakeGgml:
    """Hands out numbers for threads, and writes down what is made, ended and told."""

    def __init__(self, *, features=("AVX2",), kept_threads=True):
        self.told = []
        self.features = features
        self._new = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.POINTER(compute_threads._Parameters))(self._make)
        self._free = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda threads: self.told.append(("free", threads)))
        self._kept_threads = kept_threads

    def _make(self, parameters):
        self.told.append(("make", parameters.contents.n_threads))
        return 1000 + parameters.contents.n_threads

    def cpu_features(self):
        return self.features

    def cpu_function(self, name):
        functions = {"ggml_threadpool_new": self._new, "ggml_threadpool_free": self._free}
        return ctypes.cast(functions[name], ctypes.c_void_p).value if self._kept_threads else None

    def keep_threads(self, count, threads):
        self.told.append(("device", count, threads))


def test_threads_are_kept_once_for_every_count_but_one():
    ggml = FakeGgml()
    ComputeThreads(ggml, ggml, (4, 1, 2, 4))
    assert ggml.told == [("make", 2), ("device", 2, 1002), ("make", 4), ("device", 4, 1004)]


def test_the_device_forgets_threads_before_they_end_and_they_end_once():
    ggml = FakeGgml()
    threads = ComputeThreads(ggml, ggml, (2,))
    del ggml.told[:]
    threads.close()
    threads.close()
    assert ggml.told == [("device", 2, None), ("free", 1002)]


def test_what_the_device_does_not_take_ends_with_the_others():
    ggml = FakeGgml()

    def take_few(count, threads):
        ggml.told.append(("device", count, threads))
        if threads and count > 2:
            raise AppError(ErrorCode.OUT_OF_MEMORY, "There is no memory.")

    ggml.keep_threads = take_few
    with pytest.raises(AppError, match="no memory"):
        ComputeThreads(ggml, ggml, (2, 4, 8))
    assert [told for told in ggml.told if told[0] == "make"] == [("make", 2), ("make", 4)]
    assert ggml.told[-4:] == [("device", 4, None), ("free", 1004), ("device", 2, None), ("free", 1002)]


def test_without_the_device_only_llama_cpp_gets_them():
    ggml = FakeGgml()
    ComputeThreads(ggml, None, (3,)).close()
    assert ggml.told == [("make", 3), ("free", 1003)]


@pytest.mark.parametrize("ggml", [FakeGgml(features=("AVX2", "OPENMP")), FakeGgml(kept_threads=False)])
def test_nothing_is_kept_where_openmp_does_or_ggml_cannot(ggml):
    threads = ComputeThreads(ggml, ggml, (2, 4))
    threads.attach(0, 2, 4)
    threads.close()
    assert ggml.told == []


@pytest.mark.parametrize("device", [False, True])
def test_kept_threads_compute_the_very_same_numbers(device, tmp_path):
    path = tmp_path / "model.gguf"
    mixtral(path, layers=3, experts=8, used=2)
    logits = [
        decode(tmp_path / name, Job(device=device, threads=2, keep_threads=keep, runs=(Run(name="run"),)), path)
        for name, keep in (("ended", False), ("kept", True))
    ]
    ended, kept = (found["model"].logits["run"] for found in logits)
    np.testing.assert_array_equal(kept, ended)

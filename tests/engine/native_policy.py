"""policy.cpp alone, compiled by the tests and with the interface of the Python policy."""

import ctypes
import shutil
import subprocess
from pathlib import Path

import pytest

from app.placement.cache.policy import Insert, Move
from app.placement.plan import PINS, POLICIES, STREAMS

NATIVE = Path(__file__).resolve().parents[2] / "app" / "engine" / "native"
TESTS = Path(__file__).parent / "native"
LANES = ("cpu", "gpu", "copying")
FLAGS = ("-std=c++17", "-Wall", "-Wextra", "-Wpedantic", "-Werror", f"-I{NATIVE}")


def build_with_policy(*arguments):
    """Compiles policy.cpp with what `arguments` name; skips without a compiler."""
    compiler = shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        pytest.skip("no C++ compiler here")
    subprocess.run([compiler, *FLAGS, *arguments, str(NATIVE / "policy.cpp")], check=True)


def load_policy(folder):
    """The shim and policy.cpp as a library, built in `folder`."""
    path = folder / "policy.so"
    build_with_policy("-O2", "-shared", "-fPIC", str(TESTS / "policy_shim.cpp"), "-o", str(path))
    loaded = ctypes.CDLL(str(path))
    loaded.policy_new.restype = ctypes.c_void_p
    loaded.policy_heat.restype = ctypes.c_float
    return loaded


class Settings(ctypes.Structure):
    """`expert_device_policy` of expert_device.h."""

    _fields_ = [
        ("kind", ctypes.c_int32),
        ("insert_cap", ctypes.c_int32),
        ("window", ctypes.c_int32),
        ("decay", ctypes.c_float),
        ("margin", ctypes.c_float),
        ("threshold", ctypes.c_float),
        ("stream", ctypes.c_int32),
        ("wait_for_copies", ctypes.c_int32),
    ]


class Counts(ctypes.Structure):
    """The shim's `Counts`."""

    _fields_ = [
        ("slots", ctypes.c_int32),
        ("resident", ctypes.c_int32),
        ("pinned_to_gpu", ctypes.c_int32),
        ("unplaced_pins", ctypes.c_int32),
        ("evictions", ctypes.c_uint64),
    ]


class NativePolicy:
    """policy.cpp with the interface of the Python class."""

    def __init__(self, library, experts):
        self._library = library
        self._experts = experts
        self._policy = ctypes.c_void_p(library.policy_new(experts))

    def __del__(self):
        self._library.policy_free(self._policy)

    def step(self, policy, routed, weights=None):
        ids = (ctypes.c_int32 * len(routed))(*routed)
        given_weights = None if weights is None else (ctypes.c_float * len(weights))(*weights)
        return self._inserts(self._library.policy_step, native(policy), ids, given_weights, len(routed))

    def fill(self, policy, limit):
        return self._inserts(self._library.policy_fill, native(policy), limit)

    def resize(self, policy, slots):
        return [Move(*row) for row in self._rows(self._library.policy_resize, native(policy), slots)]

    def complete(self, slot, expert, ok=True):
        self._library.policy_complete(self._policy, slot, expert, int(ok))

    def set_pin(self, expert, pin):
        self._library.policy_set_pin(self._policy, expert, PINS.index(pin))

    def set_heat(self, heat):
        self._library.policy_set_heat(self._policy, (ctypes.c_float * self._experts)(*heat))

    def ready_slot(self, expert):
        return self.state()["slot"][expert]

    @property
    def evictions(self):
        return self.state()["evictions"]

    def state(self):
        counts = Counts()
        heat = (ctypes.c_double * self._experts)()
        lane, slot, pin = ((ctypes.c_int32 * self._experts)() for _ in range(3))
        self._library.policy_read(self._policy, ctypes.byref(counts), heat, lane, slot, pin)
        single = [self._library.policy_heat(self._policy, expert) for expert in range(self._experts)]
        return {
            "heat": list(heat),
            "single": single,
            "lane": [LANES[index] for index in lane],
            "slot": [None if index < 0 else index for index in slot],
            "pin": [PINS[index] for index in pin],
            **{name: getattr(counts, name) for name, _ in Counts._fields_},
        }

    def _inserts(self, function, *arguments):
        rows = self._rows(function, *arguments)
        return [Insert(expert, slot, None if evicted < 0 else evicted) for expert, slot, evicted in rows]

    def _rows(self, function, *arguments):
        out = (ctypes.c_int32 * (3 * self._experts))()
        count = function(self._policy, *arguments, out)
        return [tuple(out[3 * row : 3 * row + 3]) for row in range(count)]


def native(policy):
    return ctypes.byref(
        Settings(
            POLICIES.index(policy.kind),
            policy.insert_cap,
            policy.window,
            policy.decay,
            policy.margin,
            policy.threshold,
            STREAMS.index(policy.stream),
        )
    )

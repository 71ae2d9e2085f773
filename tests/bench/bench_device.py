"""The expert device as the benchmark's child uses it."""

import ctypes
from pathlib import Path
from typing import Any

from bench_variant import Variant

from app.engine.cache import ExpertDevice, Phase, Residency, Result
from app.errors import AppError, ErrorCode
from app.model import read_expert_tensors
from app.placement.plan import CachePolicy


class BenchDevice:
    """Registers the device for `variant`; make it before the model is loaded, `attach` after the context is made."""

    def __init__(self, variant: Variant) -> None:
        self._variant = variant
        self._device = ExpertDevice()
        self._device.set_residency(Residency[variant.residency.upper()])
        self._context = 0

    def attach(self) -> None:
        """Find the context's own state, and say where the experts' bytes lie in the file.

        Raises:
            AppError: engine_failed, the device takes no part in the context or refused a tensor.
        """
        self._context = self._device.last_context()
        if not self._context:
            raise AppError(ErrorCode.ENGINE_FAILED, "The expert device takes no part in the context.")
        for tensor in read_expert_tensors(Path(self._variant.model)):
            result = self._device.add_source(self._context, str(tensor.path), tensor.name, tensor.offset, tensor.bytes)
            if result is not Result.OK:
                raise AppError(ErrorCode.ENGINE_FAILED, f"The device refused {tensor.name}: {result.name}.")

    @property
    def device(self) -> ExpertDevice:
        """The library's face."""
        return self._device

    @property
    def context(self) -> int:
        """The library's id of the context."""
        return self._context

    def set_phase(self, phase: Phase) -> None:
        """What the next batches count as."""
        self._device.set_phase(self._context, phase)

    def routing(self, phase: Phase) -> list[list[int]]:
        """Routing counts: [layers][experts]."""
        return self._device.routing(self._context, phase).tolist()

    def totals(self, phase: Phase) -> dict[str, int]:
        """The fields of `expert_device_totals`."""
        return _fields(self._device.totals(self._context, phase))

    def make_pool(self) -> None:
        """A pool of the variant's share of all experts, on its device. What came of it is in `pool`."""
        name = self._variant.pool_device
        assert name is not None
        layers = self._device.layers(self._context)
        if len(layers) != self._variant.layers:
            raise AppError(
                ErrorCode.ENGINE_FAILED,
                f"The device has {len(layers)} of {self._variant.layers} layers: nothing to compare.",
            )
        self._device.set_policy(self._context, CachePolicy(lock_bytes=self._variant.lock_bytes))
        experts_bytes = sum(layer.experts * layer.expert_bytes for layer in layers)
        self._device.set_layer_device(self._context, name)
        self._device.set_pool(
            self._context, name, experts_bytes * self._variant.pool_percent // 100, self._variant.staging_bytes
        )

    def pool(self) -> dict[str, Any] | None:
        """The fields of `expert_device_pool`; None without a pool."""
        if not self._variant.pool_device:
            return None
        return _fields(self._device.pool(self._context, self._variant.pool_device))


def _fields(values: ctypes.Structure) -> dict[str, Any]:
    """A C struct as a dict, texts as such."""
    read = {name: getattr(values, name) for name, *_ in values._fields_}
    return {name: value.decode() if isinstance(value, bytes) else value for name, value in read.items()}

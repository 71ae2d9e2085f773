"""Graphics cards that slow themselves down: what fires the rule, what is no fault, and when it is not judged."""

import msgspec
from doctor_factories import GIB, hint, is_fine, loaded, planned, sample, why

from app.hardware.gpu_load import HOT, POWER_BRAKE, POWER_LIMIT
from app.hardware.samples import GpuLoad

CARD = "desktop_nvidia_x16_dual_channel"


def answering(*throttled, device="CUDA0", **fields):
    """A load whose samples, a second apart, found the card so."""
    loads = [GpuLoad(device=device, source="a test", throttled=words, **fields) for words in throttled]
    samples = [msgspec.structs.replace(sample(second), gpu_loads=(load,)) for second, load in enumerate(loads)]
    return loaded(planned(CARD, pool_bytes=GIB), decoding=tuple(samples))


def test_heat_in_half_of_the_samples_is_told_with_its_figures():
    seen = answering((HOT,), (), (HOT, POWER_LIMIT), (), (HOT,), (), celsius=88.0, core_mhz=1200.0, core_max_mhz=2100.0)
    found = hint(seen, "gpu-throttled")
    assert "CUDA0: in 3 of 6 samples" in found.evidence
    assert "(temperature)" in found.evidence
    assert "88 °C and 1200 of 2100 MHz" in found.evidence
    assert "cooler air" in found.action


def test_a_power_brake_is_a_matter_of_cables_and_not_of_air():
    found = hint(answering(*[(POWER_BRAKE,)] * 5), "gpu-throttled")
    assert "cables" in found.action
    assert "°C" not in found.evidence, "nobody measured it"


def test_the_power_limit_and_a_hot_moment_are_no_fault():
    assert is_fine(answering(*[(POWER_LIMIT,)] * 8), "gpu-throttled")
    assert is_fine(answering((HOT,), (HOT,), *[()] * 3), "gpu-throttled")


def test_too_few_samples_and_another_cards_are_not_judged():
    assert "no" in why(answering(*[(HOT,)] * 4), "gpu-throttled")
    assert why(answering(*[(HOT,)] * 8, device="CUDA7"), "gpu-throttled")


def test_a_driver_that_does_not_tell_is_named_as_the_reason():
    seen = answering(*[None] * 8, reasons={"throttled": "The driver does not tell."})
    assert why(seen, "gpu-throttled") == "The driver does not tell."


def test_figures_that_no_card_has_are_left_out_of_the_words():
    found = hint(answering(*[(HOT,)] * 6, celsius=4000.0, core_mhz=0.0, core_max_mhz=0.0), "gpu-throttled")
    assert "6 of 6 samples" in found.evidence
    assert "°C" not in found.evidence
    assert "MHz" not in found.evidence

"""Experts on the CPU, copied into its faster layout or left in the file: what is reported and what is said."""

import gguf
import pytest
from engine_driver import answer, plan_for
from requantised import requantise

from app.engine import protocol
from app.engine.client import EngineClient, engine_command
from app.model import read_expert_tensors, read_facts
from app.placement.plan import CachePolicy

MIB = 1024**2
ATTENTION = "blk.0.attn_q.weight"
LAYERS = (0, 1)


@pytest.fixture(scope="module")
def repackable(demo_model, tmp_path_factory):
    """The demo with the experts of two layers, but for one kind of tensor, and one of attention in Q4_0."""
    path = tmp_path_factory.mktemp("repackable") / "repackable.gguf"
    names = {f"blk.{layer}.ffn_{kind}_exps.weight" for layer in LAYERS for kind in ("gate", "up")}
    requantise(demo_model, path, lambda name: name in {*names, ATTENTION}, gguf.GGMLQuantizationType.Q4_0)
    return path, names


def parts(report):
    return {its.part: its.bytes for its in report.buffers if its.device == "CPU"}


@pytest.mark.parametrize("stock", [False, True], ids=["expert device", "stock"])
def test_repacked_experts_and_other_repacked_weights_are_reported_apart(repackable, stock):
    path, names = repackable
    command = [*engine_command(), "--stock"] if stock else engine_command()
    with EngineClient(command) as client:
        report = client.request(protocol.Load, protocol.Loaded, plan=plan_for(path, residency="repacked"))
    copied = sum(tensor.bytes for tensor in read_expert_tensors(path) if tensor.name in names)
    got = parts(report)
    if "repacked" not in got:
        pytest.skip("this processor has no faster layout for Q4_0")
    assert got["repacked"] == pytest.approx(576 * 576 * 18 / 32, abs=0.01 * MIB)
    # Without the device only the copies are known to be experts.
    assert got["experts"] == (copied if stock else read_facts(path).bytes.experts)
    assert "weights" not in got
    assert report.differences == ()


def test_mapped_experts_take_no_copy(repackable):
    path, _ = repackable
    with EngineClient() as client:
        report = client.request(protocol.Load, protocol.Loaded, plan=plan_for(path, residency="mapped"))
    assert report.expert_device
    assert "repacked" not in parts(report)
    assert parts(report)["experts"] == read_facts(path).bytes.experts
    assert parts(report)["mapped"] <= read_facts(path).file_bytes


def said(path, residency, *arguments, pool=0):
    """A short answer with a pool of that size on a second CPU device."""
    plan = plan_for(
        path, residency=residency, pool_device="CPU", pool_bytes=pool, policy=CachePolicy(window=0, insert_cap=8)
    )
    with EngineClient([*engine_command(), *arguments]) as client:
        report = client.request(protocol.Load, protocol.Loaded, plan=plan)
        finished = answer(client, max_tokens=8)
    assert report.differences == ()
    assert finished.cache.used == bool(pool), finished.cache.reason
    return finished


def test_repacked_experts_say_what_stock_says_and_their_pool_is_filled_from_the_file(repackable):
    """With a pool the text may differ: its experts are computed by other kernels than repacked ones."""
    path, _ = repackable
    assert said(path, "repacked").text == said(path, "repacked", "--stock").text
    assert said(path, "repacked", pool=128 * MIB).cache.hits > 0


def test_mapped_experts_say_the_same_with_and_without_a_pool(repackable):
    path, _ = repackable
    plain = said(path, "mapped").text
    assert said(path, "mapped", pool=128 * MIB).text == plain
    assert said(path, "mapped", "--stock").text == plain

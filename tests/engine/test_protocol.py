"""The message types: every message survives its line, and nothing else passes."""

import typing

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.engine import client, protocol
from app.errors import AppError, ErrorCode
from app.hardware.facts import EngineBuild, Gpu, GpuKind
from app.placement.plan import MemoryPart, Plan, Step
from app.placement.speed.calibration import Calibration, ComputeRate, CopyRate, DiskRate, LayerCost, Overlap

texts = st.text(max_size=40)
sizes = st.integers(0, 2**50)
floats = st.floats(0, 1e6, allow_nan=False)
plans = st.builds(
    Plan,
    model_files=st.tuples(texts),
    gpu=st.none() | texts,
    expert_lanes=st.dictionaries(st.integers(0, 200), st.sampled_from(["CPU", "disk", "Vulkan0"]), max_size=5),
    n_ctx=sizes,
    memory=st.lists(st.builds(MemoryPart, device=texts, part=texts, bytes=sizes), max_size=3).map(tuple),
    steps=st.lists(st.builds(Step, name=texts, reason=texts), max_size=2).map(tuple),
)
st.register_type_strategy(Plan, plans)
st.register_type_strategy(
    Gpu,
    st.builds(
        Gpu, name=texts, backend=texts, device=texts, kind=st.sampled_from(GpuKind), total_bytes=sizes, free_bytes=sizes
    ),
)
st.register_type_strategy(
    EngineBuild,
    st.builds(
        EngineBuild,
        llama_cpp_python=texts,
        ggml=texts,
        build=texts,
        backends=st.tuples(texts),
        expert_device=st.booleans(),
    ),
)


# The types of a calibration have bounds, for it is kept in a file that anybody may have changed.
rates, shares, counts = st.floats(1, 1e6), st.floats(0, 1), st.integers(1, 2**31 - 1)
st.register_type_strategy(
    Calibration,
    st.builds(
        Calibration,
        machine=texts,
        engine=texts,
        measured_at=texts,
        seconds=floats,
        busy_share=shares,
        compute=st.tuples(
            st.builds(
                ComputeRate,
                device=texts,
                type=texts,
                threads=counts,
                tokens=counts,
                bytes_per_second=rates,
                flops_per_second=rates,
            )
        ),
        copies=st.tuples(
            st.builds(CopyRate, device=texts, direction=texts, pinned=st.booleans(), bytes_per_second=rates)
        ),
        overlaps=st.tuples(
            st.builds(
                Overlap, device=texts, cpu_share=st.none() | shares, device_share=shares, copy_share=st.none() | shares
            )
        ),
        layer_costs=st.tuples(st.builds(LayerCost, device=texts, seconds=floats)),
        disk=st.tuples(st.builds(DiskRate, path=texts, slice_bytes=counts, parallel=counts, bytes_per_second=rates)),
    ),
)


def members(union):
    return [st.from_type(kind) for kind in typing.get_args(union)]


# Infinities and NaN are no measurements and have no JSON.
st.register_type_strategy(float, floats)


@given(st.one_of(members(protocol.AnyRequest)))
def test_every_request_survives_its_line(request):
    line = protocol.encode(request)
    assert line.count(b"\n") == 1
    assert line.endswith(b"\n")
    assert protocol.decode_request(line) == request


@given(st.lists(st.one_of(members(protocol.AnyEvent)), max_size=4), st.integers(1, 17))
def test_events_come_out_whole_however_the_bytes_are_cut(events, cut):
    events = [e for e in events if not isinstance(e, protocol.Ready)]
    data = b"".join(protocol.encode(event) for event in events)
    lines = client.EventLines()
    found = [event for at in range(0, len(data), cut) for event in lines.feed(data[at : at + cut])]
    assert found == events


@given(st.binary(max_size=60))
def test_no_bytes_but_messages_are_accepted(data):
    line = data.replace(b"\n", b"")
    try:
        protocol.decode_request(line)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return
    assert b'"type"' in line


def test_a_line_that_is_no_event_is_a_typed_error():
    with pytest.raises(AppError) as caught:
        list(client.EventLines().feed(b"ggml_vulkan: hello\n"))
    assert caught.value.code is ErrorCode.ENGINE_PROTOCOL
    assert "hello" in caught.value.detail


def test_a_child_of_another_protocol_version_is_refused():
    line = protocol.encode(protocol.Ready(protocol=protocol.PROTOCOL_VERSION + 1, pid=1))
    with pytest.raises(AppError) as caught:
        list(client.EventLines().feed(line))
    assert caught.value.code is ErrorCode.ENGINE_PROTOCOL


def test_a_failure_of_an_unknown_code_is_still_a_typed_error():
    error = client.error_of(protocol.Failed(id=1, code="from_the_future", message="m", detail="d"))
    assert (error.code, error.message, error.detail) == (ErrorCode.ENGINE_FAILED, "m", "d")


@pytest.mark.parametrize(("status", "words"), [(-9, "out"), (-11, "SIGSEGV"), (3, "status 3"), (-250, "signal 250")])
def test_an_unexpected_end_is_named(status, words):
    error = client.ProcessOutcome(status, expected=False).error()
    assert error.code is ErrorCode.ENGINE_CRASHED
    assert words in error.message

"""Charts of measurements: what is in their panels, that they are drawn, and that a bad place is an error."""

import pytest
from PySide6.QtGui import QImage

from app.placement.scenarios.figure import Figure
from app.placement.scenarios.results import CaseResult
from app.ui import charts


def result(case, variant, speed, *, scenario=None, threads=None, n_ubatch=None):
    figure = Figure(median=speed, least=speed * 0.9, most=speed * 1.2, samples=3)
    return CaseResult(
        scenario=scenario or case,
        case=case,
        variant=variant,
        threads=threads,
        n_ubatch=n_ubatch,
        prompt=figure,
        transient=figure,
        steady=figure,
        decode=figure,
        hit_rate=None,
        context_tokens=512,
        peak_ram_bytes=1,
        vram_bytes=0,
        steady_per_gib_ram=None,
        steady_per_gib_vram=None,
        buffers=(),
    )


RESULTS = (
    result("chat", "ours", 12.0),
    result("chat", "stock", 8.0),
    result("batch8", "ours", 40.0),
    *(
        result(f"{threads} {batch}", "ours", 10.0 * threads, scenario="sweep", threads=threads, n_ubatch=batch)
        for threads in (1, 2)
        for batch in (128, 512)
    ),
)


def test_the_panels_hold_every_measured_speed_once():
    decoding, prompts, sweep_prompts, sweep_decoding = charts.of_bench(RESULTS)
    assert decoding.places == prompts.places == ("chat", "batch8")
    assert [series.name for series in decoding.series] == [
        "ours, transient", "ours, steady", "stock, transient", "stock, steady"
    ]  # fmt: skip
    stock = decoding.series[3]
    assert [figure and figure.median for figure in stock.values] == [8.0, None]
    assert sweep_prompts.places == ("128", "512")
    assert [series.name for series in sweep_decoding.series] == ["ours, 1 thread", "ours, 2 threads"]
    assert [figure.median for figure in sweep_prompts.series[1].values] == [20.0, 20.0]


def test_ours_has_the_same_colour_whoever_was_first():
    turned = tuple(reversed(RESULTS))
    assert {s.name: s.color for s in charts.of_bench(turned)[0].series} == {
        s.name: s.color for s in charts.of_bench(RESULTS)[0].series
    }


def test_a_picture_holds_every_colour_of_its_bars(qapp, tmp_path):
    path = tmp_path / "speeds.png"
    charts.save(path, "A model", charts.of_bench(RESULTS[:3]))
    image = QImage(str(path))
    assert image.width() == charts.WIDTH * charts.SCALE
    found = {image.pixelColor(x, y).name() for x in range(0, image.width(), 4) for y in range(0, image.height(), 4)}
    assert {charts.LIGHT.graph[0].name(), charts.LIGHT.graph[1].name()} <= found


def test_a_picture_grows_with_the_font_of_the_application(qapp, tmp_path):
    usual = qapp.font()
    larger = qapp.font()
    larger.setPointSizeF(20)
    try:
        qapp.setFont(larger)
        charts.save(tmp_path / "large.png", "A model", charts.of_bench(RESULTS[:3]))
    finally:
        qapp.setFont(usual)
    assert QImage(str(tmp_path / "large.png")).width() == 2 * charts.WIDTH * charts.SCALE


def test_a_drawing_names_its_scenarios_in_text_and_holds_no_pixels(qapp, tmp_path):
    path = tmp_path / "speeds.svg"
    charts.save(path, "A model", charts.of_bench(RESULTS))
    text = path.read_text(encoding="utf-8")
    for words in ("A model", "chat", "batch8", "ours, steady", "512"):
        assert words in text
    assert "<image" not in text


@pytest.mark.parametrize("name", ["speeds.png", "speeds.svg"])
def test_a_place_that_cannot_be_written_is_an_error(qapp, tmp_path, name):
    with pytest.raises(OSError, match="could not be written"):
        charts.save(tmp_path / "missing" / name, "A model", charts.of_bench(RESULTS[:1]))

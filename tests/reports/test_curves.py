"""Charts: the curves drawn are those given, and the text says so."""

import base64
import re
from types import SimpleNamespace
from xml.etree import ElementTree

import numpy as np
import pytest
import xarray as xr
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from sstcast.figures import catalogue
from sstcast.figures.curves import STYLES, draw_curves
from sstcast.figures.results import Results
from sstcast.reports.images import svg_uri
from sstcast.runs import Run


def lines(figure):
    (ax,) = figure.axes
    return {line.get_label(): line for line in ax.lines}


def test_seasons_a_year_apart_are_segments_of_the_band_of_the_error() -> None:
    """Two seasons have the band that they have as two folds, but not that of the same dates without a gap."""
    days = np.arange(40).astype("timedelta64[D]")
    seasons = np.concatenate([np.datetime64("2001-01-01", "ns") + days, np.datetime64("2002-01-01", "ns") + days])
    noise = np.random.default_rng(2).normal(size=80).cumsum()[:, None] ** 2

    def band(dates: np.ndarray, folds: np.ndarray) -> np.ndarray:
        coordinates = {"system": ["model"], "init_time": dates, "lead": [1]}
        errors = xr.DataArray(noise[None], coordinates, tuple(coordinates))
        scores = SimpleNamespace(errors=errors.assign_coords(fold=("init_time", folds)))
        metrics = {"block_days": 30, "every": 1}
        return catalogue._rmse_interval(SimpleNamespace(scores=scores, system="model", metrics=metrics))

    one, two = np.full(80, 2001), np.repeat([2001, 2002], 40)
    without_gap = seasons[0] + np.arange(80).astype("timedelta64[D]")
    np.testing.assert_array_equal(band(seasons, one), band(without_gap, two))
    assert (band(seasons, one) != band(without_gap, one)).all()


def test_curves_by_lead_with_gaps_and_intervals():
    curve, low, high = [0.25, 0.5, None, 1.0], [0.2, 0.4, None, 0.9], [0.3, 0.6, None, 1.1]
    figure, alt = draw_curves(
        {"model": curve, "persistence": [1.0, 2.0, 3.0, 4.0], "climatology": [None] * 4, "mine": [1, 2, 3, 5]},
        "RMSE (°C)",
        bands={"model": list(zip(low, high, strict=True))},
    )
    drawn = lines(figure)
    assert set(drawn) == {"model", "persistence", "mine"}  # nothing is known of climatology
    np.testing.assert_array_equal(drawn["model"].get_ydata(), [0.25, 0.5, np.nan, 1.0])
    np.testing.assert_array_equal(drawn["model"].get_xdata(), [1, 2, 3, 4])
    (band,) = figure.axes[0].collections
    corners = np.concatenate([path.vertices for path in band.get_paths()])
    assert {0.2, 0.4, 0.3, 0.6} <= set(corners[:, 1])
    assert alt == (
        "RMSE (°C) over Lead (days): model 0.25 at 1, 1.00 at 4; persistence 1.00 at 1, 4.00 at 4; "
        "mine 1.00 at 1, 5.00 at 4."
    )
    assert len({line.get_color() for line in drawn.values()}) == 3


def test_days_and_values_below_zero():
    days = np.datetime64("2020-01-29", "ns") + np.arange(59) * np.timedelta64(1, "D")
    wave = np.sin(np.arange(59) / 5)
    figure, alt = draw_curves({"truth": wave, "model": -wave}, "Niño 3.4", across="day", x=days)
    assert lines(figure)["truth"].get_xdata()[0] == np.datetime64("2020-01-29")
    np.testing.assert_array_equal(lines(figure)["model"].get_ydata(), -wave)
    assert "truth 0.00 at 2020-01-29" in alt
    assert [line for line in figure.axes[0].lines if set(line.get_ydata()) == {0}]


def test_training_marks_the_best_epoch_of_each_member(evaluated: Run):
    pictures = list(catalogue.training(Results(evaluated.folder)))
    assert [picture.caption[:6] for picture in pictures] == ["seed-0", "seed-1"]
    for seed, picture in enumerate(pictures):
        (ring,) = [line for line in picture.figure.axes[0].lines if line.get_fillstyle() == "none"]
        assert (ring.get_xdata()[0], ring.get_ydata()[0]) == (2, 0.625 + seed)
        assert "training loss 1.10 at 0.5, 0.70 at 3" in picture.alt


def test_charts_of_an_ensemble(evaluated: Run):
    results = Results(evaluated.folder)
    found = results.metrics["ensemble"]["model"]
    (histogram,) = catalogue.rank_histogram(results)
    np.testing.assert_allclose(lines(histogram.figure)["share"].get_ydata(), found["rank_histogram"])
    assert lines(histogram.figure)["reliable"].get_ydata()[0] == pytest.approx(1 / 3)
    (spread,) = catalogue.spread(results)
    np.testing.assert_allclose(lines(spread.figure)["spread"].get_ydata(), found["by_lead"]["spread"])
    results.metrics["ensemble"] = {}
    assert not [*catalogue.rank_histogram(results), *catalogue.spread(results)]


def test_a_reliability_diagram_of_days_and_one_of_events(evaluated: Run):
    results = Results(evaluated.folder)
    kinds = results.metrics["heatwaves"].values()
    for diagram, found in zip(catalogue.reliability(results), kinds, strict=True):
        told = found["model"]["reliability"]
        known = [at for at, share in enumerate(told["observed"]) if share is not None]
        curve = lines(diagram.figure)["model"]
        np.testing.assert_allclose(curve.get_xdata(), [told["probability"][at] for at in known])
        np.testing.assert_allclose(curve.get_ydata(), [told["observed"][at] for at in known])
        assert told["interval"] == [None] * 10  # of a single year


def test_warnings_by_probability_and_their_value_by_cost(evaluated: Run):
    results = Results(evaluated.folder)
    found = results.metrics["heatwaves"]["event"]
    shares, index, value = catalogue.warnings(results)  # of days, because events were not asked for
    worth = found["model"]["warnings"]
    np.testing.assert_allclose(
        lines(shares.figure)["hit rate"].get_ydata(), np.array(worth["curve"]["hit_rate"], float)
    )
    for name in ("model", "persistence"):
        worth = found[name]["warnings"]
        curve = np.array(worth["curve"]["success_index"], float)
        np.testing.assert_allclose(lines(index.figure)[name].get_ydata(), curve)
        drawn = np.array(lines(value.figure)[name].get_ydata())
        assert (drawn >= -0.2).all()
        known = drawn > -0.2
        np.testing.assert_allclose(drawn[known], np.array(worth["value"]["value"], float)[known])
    assert "Days in a marine heatwave" in value.caption


def test_an_svg_is_whole_and_always_the_same():
    first, second = (svg_uri(draw_curves({"spread": [0.1, 0.2]}, "°C")[0]) for _ in range(2))
    assert first == second
    kind, content = first.split(",")
    assert kind == "data:image/svg+xml;base64"
    root = ElementTree.fromstring(base64.b64decode(content))
    assert re.fullmatch(r"[\d.]+pt", root.attrib["width"])


def test_short_coordinates_leave_the_digits_of_texts() -> None:
    figure = Figure(figsize=(2, 2))
    figure.text(1 / 3, 1 / 7, "0.12345 < 1.98765")
    svg = base64.b64decode(svg_uri(figure).partition("base64,")[2]).decode()
    assert "0.12345 &lt; 1.98765" in svg
    position = ElementTree.fromstring(svg).find(".//{*}text").attrib  # type: ignore[union-attr]
    x = position["x"]
    assert float(position["y"]) == pytest.approx(72 * 2 * 6 / 7, abs=0.01)
    assert float(x) == pytest.approx(72 * 2 / 3, abs=0.01)
    assert len(x) <= len("48.00")


def test_no_two_named_curves_look_alike() -> None:
    looks = [(to_hex(style["color"]), str(style.get("linestyle", "-"))) for style in STYLES.values()]
    assert len(set(looks)) == len(looks)

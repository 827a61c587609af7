"""Charts: the curves drawn are those given, and the text says so."""

import base64
import re
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
import xarray as xr

from sstcast.pages import charts
from sstcast.pages.images import svg_uri


def lines(chart):
    (ax,) = chart.figure.axes
    return {line.get_label(): line for line in ax.lines}


def test_curves_by_lead_with_gaps_and_intervals():
    curve, low, high = [0.25, 0.5, None, 1.0], [0.2, 0.4, None, 0.9], [0.3, 0.6, None, 1.1]
    chart = charts.by_lead(
        {"model": curve, "persistence": [1.0, 2.0, 3.0, 4.0], "climatology": [None] * 4},
        "RMSE (°C)",
        intervals={"model": list(zip(low, high, strict=True))},
    )
    drawn = lines(chart)
    assert set(drawn) == {"model", "persistence"}  # nothing is known of climatology
    np.testing.assert_array_equal(drawn["model"].get_ydata(), [0.25, 0.5, np.nan, 1.0])
    np.testing.assert_array_equal(drawn["model"].get_xdata(), [1, 2, 3, 4])
    (band,) = chart.figure.axes[0].collections
    corners = np.concatenate([path.vertices for path in band.get_paths()])
    assert {0.2, 0.4, 0.3, 0.6} <= set(corners[:, 1])
    expected = "RMSE (°C) by lead: model 0.25 on day 1, 1.00 on day 4; persistence 1.00 on day 1, 4.00 on day 4."
    assert chart.alt == expected


def test_training_marks_the_best_epoch_of_each_member():
    history = pd.DataFrame({"epoch": [0, 1, 2], "train_loss": [3.0, 2.0, 1.0], "validation_mse": [3.0, 1.5, 2.0]})
    chart = charts.training({"seed-0": history, "seed-1": history + 1})
    rings = [line for line in chart.figure.axes[0].lines if line.get_fillstyle() == "none"]
    assert [(ring.get_xdata()[0], ring.get_ydata()[0]) for ring in rings] == [(2, 1.5), (3, 2.5)]
    assert (
        "seed-0: training loss from 3.000 to 1.000 in 3 epochs, lowest validation MSE 1.500 in epoch 2"
        in chart.alt
    )


def test_a_series_is_drawn_on_the_days_forecast():
    days = np.datetime64("2020-01-01", "ns") + np.arange(59) * np.timedelta64(1, "D")
    wave = np.sin(np.arange(59) / 5)
    index = xr.DataArray(
        [wave, -wave, wave / 2],
        {"series": ["truth", "model", "persistence"], "init_time": days, "lead": 28},
        ("series", "init_time"),
    ).assign_coords(valid_time=("init_time", days + np.timedelta64(28, "D")))
    chart = charts.series(index, "Niño 3.4")
    observed = lines(chart)["observed"]
    assert observed.get_xdata()[0] == np.datetime64("2020-01-29")
    np.testing.assert_array_equal(lines(chart)["model, day 28"].get_ydata(), -wave)
    assert "model, day 28 correlates with it at -1.00; persistence, day 28 correlates with it at 1.00" in chart.alt


def test_ensemble_charts():
    chart = charts.rank_histogram([0.5, 0.2, 0.3])
    assert [bar.get_height() for bar in chart.figure.axes[0].patches] == [0.5, 0.2, 0.3]
    assert lines(chart)["reliable"].get_ydata()[0] == pytest.approx(1 / 3)
    chart = charts.reliability([0.0, None, 1.0], [0.1, None, 0.8], [0.7, 0.0, 0.3])
    np.testing.assert_array_equal(lines(chart)["model"].get_xydata(), [[0, 0.1], [1, 0.8]])
    assert "forecast 100%, observed 80% (30% of cases)" in chart.alt
    chart = charts.spread_and_error([0.1, 0.2], [0.3, 0.4])
    np.testing.assert_array_equal(lines(chart)["spread"].get_ydata(), [0.1, 0.2])
    assert "on day 2 spread 0.20 and RMSE 0.40 °C" in chart.alt


def test_an_svg_is_whole_and_always_the_same():
    first, second = (svg_uri(charts.spread_and_error([0.1, 0.2], [0.3, 0.4]).figure) for _ in range(2))
    assert first == second
    kind, content = first.split(",")
    assert kind == "data:image/svg+xml;base64"
    root = ElementTree.fromstring(base64.b64decode(content))
    assert re.fullmatch(r"[\d.]+pt", root.attrib["width"])

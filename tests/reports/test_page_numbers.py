"""Every cell of a page in a browser: list, curves, CSV, heading, map and address say what the file says of it."""

import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from chrome import Chrome
from scipy.special import ndtri

from sstcast.reports.page import write_forecast_page

LEADS, DAYS, ROWS, COLUMNS = 6, 10, 5, 6
INIT = np.datetime64("2010-04-20", "ns")
DAY = np.timedelta64(1, "D")
FREEZING = -1.8
LEVELS = (0.05, 0.10, 0.25, 0.50, 0.75, 0.90, 0.95)
# Rows and columns of the odd cells.
LAND, GAP, FREEZE_UP, NO_THRESHOLD, NO_SPREAD, RUNNING = (0, 0), (1, 2), (0, 3), (3, 3), (2, 4), (4, 1)
LABELS = {
    "sst": "Forecast",
    "anomaly": "Anomaly",
    "climatology": "Climatology",
    "heatwave_threshold": "Heatwave threshold",
    "exceedance_probability": "Probability above the threshold",
    "heatwave_probability": "A heatwave on this day",
    "heatwave_category": "Most likely category",
    "cold_spell_probability": "Probability of a cold spell",
}
LEVELS_ASKED = {"above": [1.5], "below": [-0.5, 40]}  # of which the last lies far beyond every curve
CATEGORIES = ("none", "moderate", "strong", "severe", "extreme", "no event defined")
# Show each cell and day as a reader does who types a place and moves the slider, and note what is seen.
LOOK = """(async () => {
  const texts = [], seen = [];
  const model = (name) => Bokeh.documents.map((doc) => doc.get_model_by_name(name)).find((one) => one);
  URL.createObjectURL = (blob) => { texts.push(blob.text()); return "blob:none"; };
  HTMLAnchorElement.prototype.click = () => {};
  const enter = (id, value, kind) => { byId(id).value = value; byId(id).dispatchEvent(new Event(kind)); };
  const column = (source, name) => Array.from(model(source).get(name), (v) => (Number.isFinite(v) ? v : null));
  for (const [y, x] of CELLS) {
    byId("lat").value = y;
    enter("lon", x, "change");
    const lists = [];
    for (const lead of LEADS) {
      enter("day", lead, "input");
      lists.push([...byId("values").children].map((one) => one.textContent));
    }
    byId("csv").click();
    seen.push({
      place: byId("place").textContent,
      hash: location.hash,
      lists,
      fan: ["sst", "low95", "high50"].map((name) => column("fan", name)),
      days: ["climatology", "threshold"].map((name) => column("days", name)),
      past: column("past", "sst"),
      point: ["y", "x"].map((name) => column("point", name)[0]),
      range: [model("series").y_range.start, model("series").y_range.end],
    });
  }
  return JSON.stringify({ seen, texts: await Promise.all(texts) });
})()"""


@pytest.fixture(scope="module")
def forecast() -> xr.Dataset:
    """A forecast with ice at its edge, land, gaps, and cells without a threshold and without spread.

    All temperatures and probabilities are whole hundredths, which a page keeps.
    """
    random = np.random.default_rng(0)
    axes = {
        "init_time": [INIT],
        "lead": np.arange(1, LEADS + 1),
        "lat": -12 + 0.25 * np.arange(ROWS),
        "lon": 170 + 0.25 * np.arange(COLUMNS),
        "past": np.arange(1 - DAYS, 1),
        "quantile": list(LEVELS),
        "running_day": [3, LEADS],
    }
    row = np.arange(ROWS)[:, None]

    def field(base: float, width: float, *dims: str) -> xr.DataArray:
        values = base + random.uniform(-width, width, [len(axes[dim]) for dim in dims] + [ROWS, COLUMNS])
        return xr.DataArray(values.round(2), dims=(*dims, "lat", "lon"))

    sst = (field(0, 0.9, "lead") + (row * 0.7 - 1.2)).round(2)
    freezing = xr.DataArray(np.where(row < 3, FREEZING, np.nan) * np.ones(COLUMNS), dims=("lat", "lon"))
    fields = {"sst": sst.where(~(sst < freezing), freezing), "sst_spread": field(0.5, 0.3, "lead")}
    fields |= {"sst_anomaly": field(0.2, 0.8, "lead"), "sst_past": (field(0, 0.5, "past") + row * 0.7).round(2)}
    fields["climatology_past"] = field(0.5, 0.4, "past")
    for suffix, dim in (("", "lead"), ("_past", "past")):
        fields[f"heatwave_climatology{suffix}"] = field(4, 0.1, dim)
        fields[f"heatwave_threshold{suffix}"] = field(5, 0.1, dim)
    for name in ("exceedance", "heatwave", "cold_spell"):
        fields[f"{name}_probability"] = field(0.5, 0.48, "lead")
    fields["heatwave_category"] = field(2, 2.4, "lead").round()
    for side, levels in LEVELS_ASKED.items():
        axes[side] = levels
        fields[f"{side}_probability"] = field(0.5, 0.48, "lead", side)
    fields["heatwave_event_probability"] = field(0.5, 0.48)
    fields["heatwave_running_probability"] = field(0.5, 0.48, "running_day")
    dataset = xr.Dataset(fields).copy(deep=True)
    for name in dataset.data_vars:  # gaps, then cells of which some is not known
        values = dataset[name].values
        if "lead" in dataset[name].dims:
            values[2, ..., GAP[0], GAP[1]] = np.nan
        if re.match("exceedance|heatwave|cold_spell", str(name)):
            values[..., NO_THRESHOLD[0], NO_THRESHOLD[1]] = 5 if name == "heatwave_category" else np.nan
            if name == "heatwave_category" or "lead" in dataset[name].dims:
                values[:3, FREEZE_UP[0], FREEZE_UP[1]] = 5 if name == "heatwave_category" else np.nan
        if name == "sst_spread":
            values[..., NO_SPREAD[0], NO_SPREAD[1]] = np.nan
    dataset["heatwave_running_probability"][1, FREEZE_UP[0], FREEZE_UP[1]] = np.nan
    dataset["heatwave_event_probability"][FREEZE_UP] = 0.91
    dataset["sst_past"][-6:, RUNNING[0], RUNNING[1]] = 5.5  # of five days or more
    first = np.where(dataset["heatwave_event_probability"] >= 0.5, INIT + 2 * DAY, np.datetime64("NaT", "ns"))
    dataset["heatwave_start"], dataset["heatwave_end"] = (("lat", "lon"), first), (("lat", "lon"), first + 2 * DAY)
    levels = xr.DataArray(ndtri(LEVELS), dims="quantile")
    quantile = dataset["sst"] + dataset["sst_spread"] * levels
    dataset["sst_quantile"] = quantile.where(~(quantile < freezing), freezing)
    dataset = dataset.expand_dims(init_time=1).assign(freezing_point=freezing).assign_coords(axes)
    land = (dataset["lat"] == dataset["lat"][LAND[0]]) & (dataset["lon"] == dataset["lon"][LAND[1]])
    return dataset.where(~land).assign_attrs(title="A forecast", heatwave_years="1982..2009")


@pytest.fixture(scope="module")
def page(forecast: xr.Dataset, tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("page") / "ice.nc"
    forecast.to_netcdf(file, engine="netcdf4")
    return write_forecast_page(file)[0]


def show(chrome: Chrome, page: Path, view: str = "") -> None:
    chrome.screen(1280, 900)
    chrome.open(page, view)
    chrome.wait_until("'ready' in document.documentElement.dataset")


def number(value: float) -> str:
    return f"{round(value, 2) + 0:.2f}".replace("-", "\N{MINUS SIGN}")


def per_cent(value: float) -> str:
    return f"{100 * value:.0f} %"


def date(day: Any) -> str:
    return f"{pd.Timestamp(day):%-d %b %Y}"


def told(cell: xr.Dataset, lead: int) -> list[tuple[str, str]]:
    """Return the lines of the list of a cell on a day, in their order, without the interval."""
    day = cell.sel(lead=lead)
    values = {name: float(day[name]) for name in LABELS if name in day}
    values["anomaly"] = float(day["sst_anomaly"])
    values["climatology"] = values["sst"] - values["anomaly"]
    lines = []
    for name, label in LABELS.items():
        value, label = values[name], label + ", 1982 to 2009" * (name == "heatwave_threshold")
        if name.endswith("probability"):
            lines.append((label, per_cent(value) if math.isfinite(value) else "no event defined"))
        elif math.isfinite(value):
            degrees = "+" * (name == "anomaly" and value > 0.001) + f"{number(value)} °C"
            lines.append((label, CATEGORIES[int(value)] if name == "heatwave_category" else degrees))
    chances = cell["heatwave_probability"].dropna("lead")
    if math.isfinite(event := float(cell["heatwave_event_probability"])):
        most = chances.isel(lead=int(np.argmax(chances.values)))
        likely = f"; most likely day {date(INIT + int(most['lead']) * DAY)} ({per_cent(float(most))})"
        text = f"less likely than not ({per_cent(event)})" if event < 0.5 else per_cent(event) + likely
        lines.append((f"A heatwave within {LEADS} days", text))
    if (cell["sst_past"][-6:] == 5.5).all():
        still = [
            f"{per_cent(float(p))} on {date(INIT + int(p['running_day']) * DAY)}"
            for p in cell["heatwave_running_probability"]
        ]
        lines.append(("Heatwave now", f"day 6, moderate so far; still running {', '.join(still)}"))
    if np.isfinite(start := cell["heatwave_start"].values):
        lines.append(("Median start and end", f"{date(start)} to {date(cell['heatwave_end'].values)}"))
    for side, levels in LEVELS_ASKED.items():
        for level in levels:
            chance = float(day[f"{side}_probability"].sel({side: level}))
            if math.isfinite(chance):
                degrees = f"{level:g}".replace("-", "\N{MINUS SIGN}")
                lines.append((f"Probability {side} {degrees} °C", per_cent(chance)))
    return lines


def test_every_cell_and_day_is_that_of_the_file(chrome: Chrome, page: Path, forecast: xr.Dataset) -> None:
    show(chrome, page)
    one = forecast.isel(init_time=0)
    sea = np.argwhere(one["sst"].notnull().any("lead").values)
    cells = [[float(one["lat"][row]), float(one["lon"][column])] for row, column in sea]
    assert len(cells) == ROWS * COLUMNS - 1
    found = json.loads(chrome.run(LOOK.replace("CELLS", str(cells)).replace("LEADS", str([*range(1, LEADS + 1)]))))
    lowest_shown = math.inf
    for (lat, lon), seen, text in zip(cells, found["seen"], found["texts"], strict=True):
        cell = one.sel(lat=lat, lon=lon)
        assert seen["place"] == f"{-lat:g}° S, {lon:g}° E"
        assert f"day={LEADS}&lat={lat:g}&lon={lon:g}&" in seen["hash"]
        assert seen["point"] == [lat, lon]
        quantile = cell["sst"] + cell["sst_spread"] * xr.DataArray(ndtri([0.025, 0.1, 0.75, 0.9]), dims="q")
        quantile = quantile.where(~(quantile < cell["freezing_point"]), cell["freezing_point"])
        for lead, words in enumerate(seen["lists"], 1):
            lines = [*zip(words[::2], (word.replace("\u00a0", " ") for word in words[1::2]), strict=True)]
            ends = [value.split(" to ") for label, value in lines if label == "80 % interval"]
            assert [line for line in lines if line[0] != "80 % interval"] == told(cell, lead), (lat, lon, lead)
            wanted = quantile.sel(lead=lead)[[1, 3]]
            assert len(ends) == int(wanted.notnull().all())
            for shown in ends:
                low, high = (float(part.removesuffix(" °C").replace("\N{MINUS SIGN}", "-")) for part in shown)
                np.testing.assert_allclose([low, high], wanted, atol=0.0051)
        sst, low, high = (np.array(column, float)[1:] for column in seen["fan"])
        np.testing.assert_allclose(sst, cell["sst"], atol=1e-5)
        np.testing.assert_allclose(low, quantile[:, 0], atol=1e-4)
        np.testing.assert_allclose(high, quantile[:, 2], atol=1e-4)
        np.testing.assert_allclose(np.array(seen["past"], float), cell["sst_past"], atol=1e-5)
        usual = np.concatenate([cell["climatology_past"], cell["sst"] - cell["sst_anomaly"]])
        limits = np.concatenate([cell["heatwave_threshold_past"], cell["heatwave_threshold"]])
        np.testing.assert_allclose(np.array(seen["days"], float), [usual, limits], atol=1e-5)
        assert seen["range"][0] < np.nanmin([*sst, *low]) < np.nanmax(sst) < seen["range"][1] < 8
        table = pd.read_csv(pd.io.common.StringIO(text), index_col="lead")
        assert (table[["lat", "lon"]] == [lat, lon]).all(axis=None)
        ahead, before = table.loc[1:], table.loc[:0]
        for name, values in {
            "sst_degC": cell["sst"],
            "spread_degC": cell["sst_spread"],
            "climatology_degC": cell["sst"] - cell["sst_anomaly"],
            "heatwave_threshold_degC": cell["heatwave_threshold"],
            "low80_degC": quantile[:, 1],
            "high80_degC": quantile[:, 3],
            "below_-0.5": cell["below_probability"].sel(below=-0.5),
            **{name: cell[name] for name in LABELS if name.endswith(("probability", "category"))},
        }.items():
            np.testing.assert_allclose(ahead[name].astype(float), values, atol=0.0006, err_msg=name)
        np.testing.assert_allclose(before["observed_degC"], cell["sst_past"], atol=0.0006)
        assert before[["sst_degC", "low80_degC", "heatwave_probability"]].isna().all(axis=None)
        lowest_shown = min(lowest_shown, table["low95_degC"].min())
    assert lowest_shown == FREEZING
    assert not chrome.complaints()


@pytest.mark.parametrize("odd", [FREEZE_UP, NO_THRESHOLD, NO_SPREAD, GAP])
def test_a_link_to_an_odd_cell_and_a_click_from_there(
    chrome: Chrome, page: Path, forecast: xr.Dataset, odd: tuple[int, int]
) -> None:
    cell = forecast.isel(init_time=0, lat=odd[0], lon=odd[1])
    show(chrome, page, f"#layer=spread&day=2&lat={float(cell['lat'])}&lon={float(cell['lon'])}&zoom=0")
    assert chrome.run("byId('values').children[1].textContent").replace("\u00a0", " ") == told(cell, 2)[0][1]
    assert (
        chrome.run("!byId('app').hidden && !document.body.textContent.includes('needs JavaScript, in a browser')")
        is False
    )
    assert chrome.run("document.querySelectorAll('body > p').length") == 0
    x, y = chrome.run(
        "(() => { const model = Bokeh.documents.map(doc => doc.get_model_by_name('map')).find(one => one);"
        "const view = Bokeh.index.find_one(model), box = view.el.getBoundingClientRect(), frame = view.frame;"
        "return [box.x + frame.x_scale.compute(171.25), box.y + frame.y_scale.compute(-11)] })()"
    )
    chrome.click(x, y)
    assert chrome.run("byId('place').textContent") == "11° S, 171.25° E"
    corner = forecast.isel(init_time=0).sel(lat=-11, lon=171.25)
    assert chrome.run("byId('values').children[1].textContent").replace("\u00a0", " ") == told(corner, 2)[0][1]
    assert not chrome.complaints()

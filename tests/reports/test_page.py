"""The page of a forecast: in a browser what its file holds, and what the command refuses."""

import io
import json
import re
import time
from pathlib import Path

import netCDF4
import numpy as np
import pandas as pd
import pytest
import xarray as xr
from chrome import DESK, PHONE, Chrome
from documentation import EXTENDING, blocks
from refusals import refused

import sstcast
from sstcast.errors import SSTCastError
from sstcast.forecasting import point_fields
from sstcast.forecasting.chances import chance
from sstcast.forecasting.forecast import forecast as make_forecast
from sstcast.forecasting.point_fields import POINT_FIELDS
from sstcast.reports.page import open_forecast, write_forecast_page
from sstcast.runs import Run
from sstcast.storage.cf import VARIABLES

MODEL = "Bokeh.documents.map(doc => doc.get_model_by_name('{}')).find(found => found)"


@pytest.fixture(scope="module")
def file(scored: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "forecast-2004-07-01.nc"
    make_forecast(scored.folder, "2004-07-01", out=path)
    with netCDF4.Dataset(path, "a") as opened:
        opened.source = "a test <script>alert(1)</script>"
    return path


@pytest.fixture(scope="module")
def forecast(file: Path) -> xr.Dataset:
    return xr.load_dataset(file, engine="netcdf4")


@pytest.fixture(scope="module")
def page(file: Path) -> Path:
    return write_forecast_page(file)[0]


def show(chrome: Chrome, page: Path, size: tuple[int, int] = DESK, view: str = "") -> None:
    chrome.screen(*size, mobile=size == PHONE)
    chrome.open(page, view)
    chrome.wait_until("'ready' in document.documentElement.dataset")


def held(chrome: Chrome, source: str, column: str) -> np.ndarray:
    """Return a column of a source of the plots."""
    found = chrome.run(f"Array.from({MODEL.format(source)}.get('{column}'), v => Number.isFinite(v) ? v : null)")
    return np.array(found, float)


@pytest.mark.parametrize("size", [DESK, PHONE])
def test_nothing_is_complained_of_nor_fetched(chrome: Chrome, page: Path, size: tuple[int, int]) -> None:
    show(chrome, page, size)
    assert not chrome.complaints()
    assert chrome.fetched() == [page.resolve().as_uri()]
    assert chrome.run("document.documentElement.scrollWidth <= innerWidth")
    assert "<script>alert(1)" in chrome.run("document.querySelector('footer').textContent")  # as text
    offered = chrome.run("[...document.querySelectorAll('#layer option')].map(option => option.value)")
    assert {"sst", "anomaly", "spread", "heatwave_probability", "heatwave_category"} < set(offered)


def test_a_click_shows_the_days_of_that_cell(chrome: Chrome, page: Path, forecast: xr.Dataset) -> None:
    show(chrome, page)
    cell = forecast.isel(init_time=0, lat=6, lon=5)
    chrome.run("scrollTo(0, 0)")
    x, y = chrome.run(
        f"(() => {{ const view = Bokeh.index.find_one({MODEL.format('map')}), frame = view.frame;"
        "const box = view.el.getBoundingClientRect();"
        f"return [box.x + frame.x_scale.compute({float(cell['lon'])}),"
        f" box.y + frame.y_scale.compute({float(cell['lat'])})] }})()"
    )
    chrome.click(x, y)
    assert chrome.run("document.getElementById('place').textContent") == "10.375° S, 171.375° E"
    np.testing.assert_allclose(held(chrome, "past", "sst"), cell["sst_past"][-42:], atol=0.003)
    np.testing.assert_allclose(held(chrome, "fan", "sst")[1:], cell["sst"], atol=0.003)
    for interval, quantile in (("50", 0.25), ("80", 0.1)):
        low = cell["sst_quantile"].sel(quantile=quantile, method="nearest")
        np.testing.assert_allclose(held(chrome, "fan", f"low{interval}")[1:], low, atol=0.008)
    usual = np.concatenate([cell["climatology_past"][-42:], cell["sst"] - cell["sst_anomaly"]])
    np.testing.assert_allclose(held(chrome, "days", "climatology"), usual, atol=0.003)
    limits = np.concatenate([cell["heatwave_threshold_past"][-42:], cell["heatwave_threshold"]])
    np.testing.assert_allclose(held(chrome, "days", "threshold"), limits, atol=0.003)


def test_the_map_shows_the_field_of_the_day(chrome: Chrome, page: Path, forecast: xr.Dataset) -> None:
    show(chrome, page, view="#layer=heatwave_category&day=3&lat=-11&lon=171")
    shown = np.array(chrome.run(f"[...{MODEL.format('field')}.get('image')[0]].map(v => isNaN(v) ? -1 : v)"))
    np.testing.assert_array_equal(shown, forecast["heatwave_category"].fillna(-1).values[0, 2].ravel())


def test_the_hash_restores_the_view_and_keys_change_it(chrome: Chrome, page: Path) -> None:
    show(chrome, page, view="#layer=heatwave_probability&day=4&lat=-11.1&lon=171.1&zoom=1")
    assert chrome.run("document.getElementById('layer').value") == "heatwave_probability"
    assert chrome.run("document.getElementById('date').textContent") == "4: 5 Jul 2004"
    assert chrome.run("document.getElementById('place').textContent") == "11.125° S, 171.125° E"
    span = chrome.run(f"{MODEL.format('map')}.x_range.end - {MODEL.format('map')}.x_range.start")
    assert span == pytest.approx(12 * 0.25 / 2)
    chrome.run("document.getElementById('map').focus()")
    chrome.press("ArrowRight")
    chrome.press("PageDown")
    assert chrome.run("document.getElementById('place').textContent") == "11.125° S, 171.375° E"
    assert chrome.run("location.hash") == "#layer=heatwave_probability&day=5&lat=-11.125&lon=171.375&zoom=1"
    reached = []  # nothing within the plots keeps the keyboard
    for _ in range(11):
        chrome.press("Tab")
        reached.append(chrome.run("document.activeElement.id"))
    assert reached[:3] == ["closer", "further", "whole"]
    assert {"lat", "lon", "copy", "csv", "layer", "play"} < set(reached)


def test_the_file_of_a_point(chrome: Chrome, page: Path, forecast: xr.Dataset, tmp_path: Path) -> None:
    show(chrome, page, view="#lat=-11.125&lon=171.125")
    chrome.call("Page.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path))
    chrome.run("document.getElementById('csv').click()")
    file = tmp_path / "forecast-2004-07-01_-11.125_171.125.csv"
    while not file.exists():
        time.sleep(0.05)
    table = pd.read_csv(io.StringIO(file.read_text()), index_col="lead")
    cell = forecast.isel(init_time=0).sel(lat=-11.125, lon=171.125)
    ahead, before = table.loc[1:], table.loc[:0]
    assert len(before) == 42
    assert ahead["date"].tolist() == [f"2004-07-0{1 + lead}" for lead in range(1, 9)]
    assert before["sst_degC"].isna().all()
    np.testing.assert_allclose(before["observed_degC"].astype(float), cell["sst_past"][-42:], atol=0.0031)
    np.testing.assert_allclose(ahead["sst_degC"], cell["sst"], atol=0.0031)
    np.testing.assert_allclose(ahead["spread_degC"], cell["sst_spread"], atol=0.0031)
    np.testing.assert_allclose(ahead["heatwave_probability"], cell["heatwave_probability"], atol=0.0051)
    low = cell["sst_quantile"].sel(quantile=0.1, method="nearest")
    np.testing.assert_allclose(ahead["low80_degC"], low, atol=0.01)


def test_the_heatwave_of_a_point_that_is_running(chrome: Chrome, page: Path, file: Path, tmp_path: Path) -> None:
    events = sstcast.heatwaves(file, out=tmp_path / "events.nc").value
    init = np.datetime64("2004-07-01")
    running = np.flatnonzero((events["event_start"] <= init) & (events["event_end"] >= init))
    cell = np.repeat(np.arange(events.sizes["cell"]), events["cell_events"])
    longest = running[events["event_duration"].values[running].argmax()]
    lat, lon = (float(events[f"cell_{axis}"][cell[longest]]) for axis in ("lat", "lon"))
    count = int((init - events["event_start"].values[longest]) / np.timedelta64(1, "D")) + 1
    show(chrome, page, view=f"#lat={lat}&lon={lon}")
    text = chrome.run("document.getElementById('values').textContent")
    chance = 100 * float(events["event_running_probability"][longest, 0])
    told = re.search(
        r"Heatwave now\s*day (\d+), (\w+) so far; still running (?:> )?(\d+)\s%.* on 8 Jul 2004", text
    )
    assert told is not None, text
    assert int(told[1]) == count
    assert told[2] in ("moderate", "strong", "severe", "extreme")
    assert int(told[3]) == pytest.approx(chance, abs=1.01)
    calm = np.flatnonzero(~np.isin(np.arange(events.sizes["cell"]), cell[running]))[0]
    lat, lon = (float(events[f"cell_{axis}"][calm]) for axis in ("lat", "lon"))
    show(chrome, page, view=f"#lat={lat}&lon={lon}")
    assert "Heatwave now" not in chrome.run("document.getElementById('values').textContent")


def test_eleven_tiles_fit_into_six_megabytes(forecast: xr.Dataset, tmp_path: Path) -> None:
    sizes = {"lat": 60, "lon": 180, "lead": 28, "past": 42}
    pacific = forecast.isel({axis: np.arange(n) * forecast.sizes[axis] // n for axis, n in sizes.items()})
    pacific = pacific.drop_vars(["valid_time", "lat_bnds", "lon_bnds"]).assign_coords(
        lat=-14.75 + 0.5 * np.arange(60),
        lon=180.25 + 0.5 * np.arange(180),
        lead=np.arange(1, 29),
        past=np.arange(-41, 1),
    )
    noise = np.random.default_rng(0).normal(0, 0.1, (70, 60, 180))  # far rougher than what models forecast
    for name, part in (("sst", noise[:28]), ("sst_anomaly", noise[:28]), ("sst_past", noise[28:])):
        pacific[name] += part.astype("float32")
    pacific.to_netcdf(tmp_path / "pacific.nc", engine="netcdf4")
    page, _ = write_forecast_page(tmp_path / "pacific.nc")
    assert page.stat().st_size < 5.5e6
    with pytest.raises(SSTCastError, match=r"60 x 180 cells and 28 days has more than 1 MB; .*--max-size"):
        write_forecast_page(tmp_path / "pacific.nc", tmp_path / "other.html", largest=1)
    assert not (tmp_path / "other.html").exists()


def test_an_old_file_offers_what_it_holds(forecast: xr.Dataset, tmp_path: Path) -> None:
    old = tmp_path / "old.zarr"
    forecast[["sst", "sst_anomaly", "sst_spread"]].isel(init_time=[0]).to_zarr(old, zarr_format=2)
    page, new = write_forecast_page(old)
    assert (page, new) == (tmp_path / "old.html", True)
    text = page.read_text()
    assert re.findall(r'<option value="(\w+)"', text) == ["sst", "anomaly"]
    assert "interval</li>" not in text
    assert write_forecast_page(old) == (page, False)


@pytest.mark.parametrize("west", [178.5, -1.5])
def test_cells_in_any_order_are_those_of_the_file(forecast: xr.Dataset, tmp_path: Path, west: float) -> None:
    """Northern rows first, and longitudes that begin in the middle of the region, as across 180 and 0 degrees."""
    lon = west + 0.125 + 0.25 * np.arange(forecast.sizes["lon"])
    wanted = forecast.drop_vars(["lat_bnds", "lon_bnds"]).assign_coords(lon=lon)
    other = wanted.assign_coords(lon=(lon + 180) % 360 - 180 if west > 0 else lon % 360)
    other = other.isel(lat=slice(None, None, -1)).sortby("lon")
    assert abs(np.diff(other["lon"])).max() > 180
    other.to_netcdf(tmp_path / "other.nc", engine="netcdf4")
    found = open_forecast(tmp_path / "other.nc").load()
    xr.testing.assert_allclose(found.drop_attrs(), wanted.drop_attrs())
    assert "1.125" in write_forecast_page(tmp_path / "other.nc")[0].read_text()


def test_joined_files_show_the_last_date_and_nothing_of_the_first(forecast: xr.Dataset, tmp_path: Path) -> None:
    day = np.timedelta64(60, "D")
    later = forecast.assign_coords({name: forecast[name] + day for name in ("init_time", "valid_time")})
    later = later.assign(sst=later["sst"] + 1)
    joined = xr.concat([later, forecast], "init_time", data_vars="all", combine_attrs="no_conflicts")
    attributes = forecast.attrs | {"predictors": "soi, of June", "references": "a paper"}
    joined.assign_attrs(attributes).to_netcdf(tmp_path / "both.nc", engine="netcdf4")
    text = write_forecast_page(tmp_path / "both.nc")[0].read_text()
    assert "<h1>Forecast of sea surface temperature, 31 August to 7 September 2004</h1>" in text
    assert "a paper" in text
    for of_one_date in ("2004-07-01", "history 20", "preliminary", "soi, of June", "trained on"):
        assert of_one_date not in text
    forecast.assign_attrs(attributes).to_netcdf(tmp_path / "one.nc", engine="netcdf4")
    assert "history 20" in write_forecast_page(tmp_path / "one.nc")[0].read_text()


def test_the_units_of_a_field_are_those_of_its_variable() -> None:
    units = {"°C": "degree_Celsius", "%": "1", "category": "1", "day": None}
    names = {"spread": "sst_spread", "anomaly": "sst_anomaly"}
    own = ("running_days", "running_category")  # which no file has
    for field in [field for field in POINT_FIELDS if field.name not in own]:
        attributes = VARIABLES[names.get(field.name, field.name)]
        assert attributes.get("units") == units[field.unit], field.name
        assert ("flag_values" in attributes) == (field.unit == "category")
        if field.past:
            assert VARIABLES[f"{field.name}_past"]["units"] == "degree_Celsius"
        if field.place:
            assert VARIABLES[f"place_{field.place}"]["units"] == units[field.unit]
    labels = [field.label for field in POINT_FIELDS if field.label]
    assert len({*labels}) == len(labels)


def test_a_field_that_is_added_to_the_table_is_on_the_page(
    forecast: xr.Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The field of the documentation."""
    exec(blocks(EXTENDING, "A field of a forecast")[0], names := {})
    monkeypatch.setattr(point_fields, "POINT_FIELDS", (*POINT_FIELDS, names["field"]))
    forecast.assign(degree_days=forecast["sst_spread"]).to_netcdf(tmp_path / "days.nc", engine="netcdf4")
    text = write_forecast_page(tmp_path / "days.nc")[0].read_text()
    assert '<option value="degree_days">Degree days</option>' in text
    facts = json.loads(re.search(r'id="facts">(.*?)</script>', text, re.DOTALL)[1])
    (field,) = [of for of in facts["fields"] if of["name"] == "degree_days"]
    assert (field["label"], field["column"], field["unit"]) == ("Degree days", "degree_days", "°C")
    assert facts["arrays"]["degree_days"] == facts["arrays"]["spread"]


def test_a_part_of_a_file_tells_the_share_of_its_own_sea(forecast: xr.Dataset, tmp_path: Path) -> None:
    share = xr.where(forecast["lat"] > -11, 0.9, 0.2).astype("float32")
    probability = (
        share.broadcast_like(forecast["sst"]).where(forecast["sst"].notnull()).transpose(*forecast["sst"].dims)
    )
    forecast.assign(heatwave_probability=probability).to_netcdf(tmp_path / "two.nc", engine="netcdf4")
    told = "Expected share of the sea in a marine heatwave, against 2001-2002: "
    page, _ = write_forecast_page(tmp_path / "two.nc", tmp_path / "north.html", region="170,173,-11,-10")
    assert f"{told}90 % on day 7" in page.read_text().replace("\u00a0", " ")
    whole = chance(float(forecast["heatwave_area_now"].values[0]))
    page, _ = write_forecast_page(tmp_path / "two.nc")
    assert f"{told}{whole} now (80 % interval ".replace("<", "&lt;") in page.read_text().replace("\u00a0", " ")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"region": "10,20,-10,10"}, ["--region 10,20,-10,10", "170,173,-12,-10"]),
        ({"out": "page.pdf"}, ["page.pdf", ".html"]),
        ({"out": "other.html"}, ["other.html", "exists and is not a forecast page"]),
        ({"source": "no-lat.nc"}, ["no-lat.nc", "is not a forecast, has no sst(init_time, lead, lat, lon)"]),
        ({"source": "kelvin.nc"}, ["kelvin.nc", "which is not a temperature in degC"]),
        ({"source": "absent.nc"}, ["absent.nc", "no such file"]),
    ],
)
def test_refused(
    file: Path, forecast: xr.Dataset, tmp_path: Path, options: dict[str, str], words: list[str]
) -> None:
    (tmp_path / "other.html").write_text("<p>mine</p>")
    forecast.isel(lat=3).to_netcdf(tmp_path / "no-lat.nc", engine="netcdf4")
    forecast.assign(sst=forecast["sst"] + 273).to_netcdf(tmp_path / "kelvin.nc", engine="netcdf4")
    given = {key: value if key == "region" else tmp_path / value for key, value in options.items()}
    with refused(*words):
        write_forecast_page(**{"source": file, "out": tmp_path / "new.html"} | given)
    assert not (tmp_path / "new.html").exists()

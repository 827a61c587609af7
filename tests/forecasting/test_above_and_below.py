"""Days above and below temperatures: of cells and places by plain NumPy, frozen ones, and what a run keeps."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from logged import logged
from refusals import refused
from scipy.stats import norm

import sstcast
from sstcast.extremes.above import Temperatures
from sstcast.forecasting.above import with_temperatures
from sstcast.forecasting.point_fields import fields_of, levels_of
from sstcast.forecasting.samples import SAMPLES
from sstcast.geo import area_weights
from sstcast.reports.page import write_forecast_page
from sstcast.reports.update import NOTHING_NEW, update
from sstcast.runs import Run

DATE = "2004-03-10"


@pytest.fixture
def run(copied: Run) -> Run:
    return copied


def test_probabilities_and_days_of_places_are_plain_numpy(run: Run, sites: Path, tmp_path: Path) -> None:
    plain = xr.open_dataset(run.config.data.source)["sst"].sel(time=DATE).mean().item()
    above, below = [round(plain - 0.5, 1), round(plain + 1, 1)], [round(plain, 1)]
    options = {"samples": SAMPLES, "places": sites, "above": above, "below": below}
    made = sstcast.forecast(run, DATE, tmp_path / "f.nc", **options)
    one = made.value.load().isel(init_time=0)
    for side, sign, levels in (("above", 1, above), ("below", -1, below)):
        assert one[side].values.tolist() == levels
        of_cells = one[f"{side}_probability"].transpose(side, "lead", "lat", "lon")
        margins = [sign * (one["sst"] - level) / one["sst_spread"] for level in levels]
        np.testing.assert_allclose(of_cells, norm.cdf(np.stack(margins)), atol=2e-6)
        found = one[f"place_{side}_probability"].transpose(side, "lead", "place")
        np.testing.assert_array_equal(found.sel(place="farm"), of_cells.isel(lat=6, lon=5))
        park = one.isel(lat=slice(2, 6), lon=slice(4, 8))
        means = (
            park["sst_sample"].weighted(area_weights(park["lat"]) * xr.ones_like(park["lon"])).mean(("lat", "lon"))
        )
        beyond = [(sign * (means - level) > 0).mean("sample") for level in levels]
        np.testing.assert_allclose(found.sel(place="park"), np.stack(beyond), atol=0.011)
        assert 0 < found.sel(place="park").mean() < 1
        assert found.sel(place="elsewhere").isnull().all()
        week, horizon = one[f"place_week_days_{side}"], one[f"place_horizon_days_{side}"]
        np.testing.assert_allclose(
            week.isel(week=0), found.isel(lead=slice(7)).sum("lead", skipna=False), atol=1e-5
        )
        np.testing.assert_allclose(horizon, found.sum("lead", skipna=False), atol=1e-5)
    table = pd.read_csv(tmp_path / "f-places.csv")
    of_park = table[table["place"] == "park"]
    days, periods = of_park[of_park["period"] == "day"], of_park[of_park["period"] != "day"]
    for side, level in [*(("above", level) for level in above), ("below", below[0])]:
        at = one.sel({side: level, "place": "park"})
        column = f"{side}_{level:g}"
        np.testing.assert_allclose(days[column], at[f"place_{side}_probability"], atol=1e-4)
        sums = [float(at[f"place_week_days_{side}"][0]), float(at[f"place_horizon_days_{side}"])]
        np.testing.assert_allclose(periods[f"days_{column}"], sums, atol=1e-4)
        assert days[f"days_{column}"].isna().all()
        assert periods[column].isna().all()
    without = sstcast.forecast(run, DATE, tmp_path / "f.nc", samples=0).value.sel(place=["farm", "park"])
    known = without["place_horizon_days_above"].notnull().all(("init_time", "above")).values.tolist()
    assert known in ([True, True], [True, False])  # areas are sampled anyway, if there are enough training days


def test_nothing_is_below_the_freezing_point_and_a_certain_day_equals_its_temperature() -> None:
    axes = {"init_time": [0], "lead": [1], "lat": [0.0], "lon": np.arange(4.0)}
    mean, spread = np.array([-1.8, -1.8, 2.0, np.nan]), np.array([0.5, 0.5, 0.0, 0.5])
    dims = tuple(axes)
    cells = {
        name: (dims, of[None, None, None].astype("f4")) for name, of in (("sst", mean), ("sst_spread", spread))
    }
    fields = xr.Dataset(cells, axes)
    lowest = xr.DataArray(np.array([[-1.8, np.nan, np.nan, np.nan]], "f4"), dims=("lat", "lon"))
    found = with_temperatures(fields, Temperatures((-1.8, 2), (-1.9, -1.8, -1.7, 2)), lowest).squeeze()
    np.testing.assert_allclose(found["above_probability"][:, :3], [[0.5, 0.5, 1], [0, 0, 0]], atol=1e-6)
    below = found["below_probability"].values
    half, beside = 0.5, norm.cdf(0.2)
    wanted = [[0, 1 - beside, 0], [0, half, 0], [beside, beside, 0], [1, 1, 0]]
    np.testing.assert_allclose(below[:, :3], wanted, atol=1e-6)
    assert np.isnan(below[:, 3]).all()
    assert np.isnan(found["above_probability"][:, 3]).all()


def kept(run: Run) -> dict[str, list[float]]:
    content = json.loads(run.temperatures.read_text()) if run.temperatures.exists() else {}
    return {side: content.get(side, []) for side in ("above", "below")}


def levels(forecast: xr.Dataset) -> dict[str, list[float]]:
    return {side: forecast[side].values.tolist() if side in forecast else [] for side in ("above", "below")}


def assert_a_loaded_run_stands_for_its_folder(run: Run, folder: Path, elsewhere: xr.Dataset) -> None:
    loaded = sstcast.load(run, region="170,171.5,-12,-10")
    of_part = sstcast.forecast(loaded, DATE, folder / "part-too.nc", below=5)
    assert json.loads(of_part.value.attrs["recipe"]) == json.loads(elsewhere.attrs["recipe"])
    assert not sstcast.forecast(sstcast.load(run), DATE).new
    with refused("--region: the run was loaded for an ocean of its own"):
        sstcast.forecast(loaded, DATE, folder / "none.nc", region="170,171.5,-12,-10")
    for take in (sstcast.evaluate, sstcast.update, sstcast.page, sstcast.heatwaves, sstcast.report):
        with refused(f"{run.folder}: was loaded with region 170,171.5,-12,-10, which only `forecast` takes"):
            take(loaded)
    events = sstcast.heatwaves(sstcast.load(run), out=folder / "events.nc").value
    assert events.attrs["baseline"] == "fixed, 2001-01-01..2002-12-31"


def test_the_next_forecast_has_the_temperatures_of_the_last_one(run: Run, sites: Path, tmp_path: Path) -> None:
    both = {"above": [12, 18], "below": [4]}
    made = sstcast.forecast(run, DATE, above="18,12", below=4, places=sites)
    assert levels(made.value) == kept(run) == both
    with logged() as lines:
        assert not sstcast.forecast(run, DATE).new
    date = json.loads(run.temperatures.read_text())["date"]
    assert f"temperatures of {run.folder}: above 12, 18, below 4 degC, {date}" in lines
    assert levels(sstcast.forecast(run, DATE, places="none").value) == both
    elsewhere = sstcast.forecast(run, DATE, tmp_path / "part.nc", region="170,171.5,-12,-10", below=5)
    assert levels(elsewhere.value) == both | {"below": [5]}
    assert kept(run) == both
    assert_a_loaded_run_stands_for_its_folder(run, tmp_path, elsewhere.value)
    assert kept(run) == both
    assert levels(sstcast.load(run).forecast(xr.open_dataset(run.config.data.source)["sst"])) == {
        "above": [],
        "below": [],
    }
    fewer = sstcast.forecast(run, DATE, above="none")
    assert fewer.new
    assert levels(fewer.value) == kept(run) == {"above": [], "below": [4]}
    recipe = json.loads(sstcast.forecast(run, DATE, below="none").value.attrs["recipe"])
    assert ("below" in recipe, run.temperatures.exists()) == (False, False)
    assert recipe["above"] == []


def test_an_update_keeps_them_for_the_next_forecast(run: Run) -> None:
    update(run.folder, "2004-12-20", above=(12,))
    assert kept(run) == {"above": [12], "below": []}
    issued = run.folder / "forecasts/forecast-2004-12-20.nc"
    before = issued.read_bytes()
    done = update(run.folder, "2004-12-20", below=(15,))
    assert done.code == NOTHING_NEW
    assert (
        done.line.endswith("; its temperatures begin with the next forecast")
        or "begin with the next forecast;" in done.line
    )
    assert issued.read_bytes() == before
    later = xr.open_dataset(update(run.folder, "2004-12-21").forecast)
    assert levels(later) == {"above": [12], "below": [15]}
    run.temperatures.write_text(run.temperatures.read_text().replace("15", "16"))
    with pytest.raises(sstcast.SSTCastError, match=r"temperatures.json: is not the copy .* --above and --below"):
        update(run.folder, "2004-12-22")


def test_a_page_shows_those_of_its_date(run: Run, tmp_path: Path) -> None:
    one, other = (
        sstcast.forecast(run, date, tmp_path / f"{date}.nc", above=above, below=22).value.load()
        for date, above in ((DATE, "20,23"), ("2004-03-11", "24"))
    )
    joined = xr.concat([one, other], "init_time", data_vars="all", join="outer", combine_attrs="override")
    last = joined.isel(init_time=-1)
    assert joined["above"].values.tolist() == [20, 23, 24]
    assert levels_of(last) == [("above", 24), ("below", 22)]
    assert {"above_24", "below_22"} <= set(fields_of(last))
    joined.to_netcdf(tmp_path / "joined.nc")
    text = write_forecast_page(tmp_path / "joined.nc")[0].read_text()
    assert '<option value="above_24">Probability of a day above 24 °C</option>' in text
    for absent in ("above_20", "above_23", '<option value="below'):
        assert absent not in text
    assert "</i>22, 24\u00a0°C</li>" in text or "</i>22, 24 °C</li>" in text

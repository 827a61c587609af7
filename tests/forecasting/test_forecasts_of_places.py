"""The forecast of places: by plain NumPy on the samples in the file, as a table, and what is refused."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scored_runs
import xarray as xr
from logged import logged
from scipy.sparse import csr_array
from scored_runs import configure

import sstcast
from sstcast.extremes.heat_stress import STRESS_LEVELS, stress_level
from sstcast.extremes.heatwave_events import find_events
from sstcast.extremes.heatwaves import MARGIN_DAYS, events, limits
from sstcast.forecasting.areas import INTERVAL
from sstcast.forecasting.chances import between, chance
from sstcast.forecasting.forecast import forecast
from sstcast.forecasting.heatwaves import TRAJECTORIES, Trajectories
from sstcast.forecasting.place_periods import chances_of_cells
from sstcast.forecasting.places import with_place_events, with_places
from sstcast.forecasting.places_told import lines_of_places, told_places
from sstcast.forecasting.samples import SAMPLES, ErrorPaths
from sstcast.forecasting.spread import calibrated
from sstcast.geo import EARTH_RADIUS, area_weights
from sstcast.places.places import Places
from sstcast.reading.days_of_year import on_days
from sstcast.runs import Run
from sstcast.storage.stores import open_netcdf

DATE = "2004-03-10"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, sst_file: Path) -> Run:
    run = scored_runs.make_run(configure(tmp_path_factory.mktemp("runs"), sst_file))
    calibrated(run)
    return run


@pytest.fixture(scope="module")
def forecasted(made: Run, sites: Path, tmp_path_factory: pytest.TempPathFactory) -> xr.Dataset:
    """A forecast with places and all samples."""
    out = tmp_path_factory.mktemp("out") / "f.nc"
    with logged() as lines:
        path, new = forecast(made.folder, DATE, out, samples=SAMPLES, places=Places.read(sites), shares=(20, 60))
    assert new
    assert [line for line in lines if "base period" not in line] == [
        "elsewhere: lies outside the region, 170,173,-12,-10, so it is left out",
        "park: 100% of its area are in 16 ocean cells, from 171 to 172 degrees east",
        f"{path.with_name('f-places.csv')}: 3 places",
    ]
    return xr.load_dataset(path).assign_attrs(table=str(path.with_name("f-places.csv")))


def test_an_area_is_plain_numpy_on_the_samples(forecasted: xr.Dataset) -> None:
    park = forecasted.isel(init_time=0, lat=slice(2, 6), lon=slice(4, 8)).sel(place="park")
    area = area_weights(park["lat"]) * xr.ones_like(park["lon"])
    means = park["sst_sample"].weighted(area).mean(("lat", "lon"))
    np.testing.assert_allclose(park["place_sst"], means.mean("sample"), atol=1e-3)
    levels = forecasted["quantile"].values
    wanted = means.quantile(levels, "sample", method="hazen").transpose("lead", "quantile")
    np.testing.assert_allclose(park["place_sst_quantile"].transpose("lead", "quantile"), wanted, atol=1e-3)
    threshold = park["heatwave_threshold"].weighted(area).mean(("lat", "lon"))
    np.testing.assert_allclose(park["place_threshold"], threshold, atol=1e-4)
    beyond = (means > threshold).mean("sample")
    np.testing.assert_allclose(park["place_exceedance_probability"], beyond, atol=0.011)
    assert 0 < beyond.mean() < 1
    share = park["place_heatwave_share"]
    # The mean of events in cells has other trajectories, but the same probabilities of a day.
    expected = park["heatwave_probability"].weighted(area).mean(("lat", "lon"))
    np.testing.assert_allclose(share, expected, atol=0.08)
    quantiles = park["place_heatwave_share_quantile"]
    assert (quantiles.diff("quantile") >= 0).all()
    assert park["place_share_probability"]["share"].values.tolist() == [20, 60]
    chance = park["place_share_probability"].sel(share=60)
    below = quantiles.sel(quantile=0.95) < 0.6
    assert (chance.where(below, 0) <= 0.06).all()
    assert (park["place_share_probability"].diff("share") <= 0).all()
    assert park["place_heatwave_probability"].isnull().all()


def test_areas_with_undefined_thresholds_and_shares_of_whole_cells(forecasted: xr.Dataset, tmp_path: Path) -> None:
    ring = [[171, -11.5], [172, -11.5], [172, -10.5], [171, -10.5], [171, -11.5]]
    polygon = {"type": "Polygon", "coordinates": [ring]}
    names = ("defined", "partly", "nowhere")
    features = [{"type": "Feature", "properties": {"name": name}, "geometry": polygon} for name in names]
    file = tmp_path / "areas.geojson"
    file.write_text(json.dumps({"type": "FeatureCollection", "features": features}))
    fields = forecasted.drop_dims(["place", "share"]).copy(deep=True)
    threshold = fields["heatwave_threshold"]
    fields["sst"] = threshold.transpose(*fields["sst"].dims).where(fields["sst"].notnull())
    threshold[..., 4, 4], threshold[..., 7, :] = np.nan, np.nan
    weights = np.zeros((3, 8, 12), np.float32)
    weights[0, 5, 2:6], weights[1, 4, 2:6], weights[2, 7, 2:6] = 1, 1, 1
    of_cells = csr_array(weights.reshape(3, -1))
    cells = int(fields["sst"][0, 0].notnull().sum())
    errors = np.random.default_rng(0).normal(0, 1, (1, cells, 64))
    errors = np.repeat(errors, 8 + MARGIN_DAYS, axis=0).astype(np.float32)  # an event goes on to the end
    shares = (20, 25, 45, 50, 100)
    fields["sst_spread"] = xr.ones_like(fields["sst_spread"])
    lowest, trajectories = np.full(cells, np.nan, np.float32), Trajectories(np.eye(8))
    found = with_places(fields, Places.read(file), of_cells, shares, errors, lowest, trajectories)
    found = found.isel(init_time=0, lead=-1).drop_vars("init_time")
    chances = found["place_share_probability"].sel(place="defined")
    ocean = fields["sst"][0, 0].notnull().values
    count = (errors[0, weights[0][ocean] > 0] > 0).sum(0)  # cells in a heatwave
    expected = [(count >= least).mean() for least in (1, 1, 2, 2, 4)]
    np.testing.assert_allclose(chances, expected, atol=1e-6)
    assert 0 < expected[-1] < expected[0] < 1
    for name in ("threshold", "exceedance_probability"):
        assert found[f"place_{name}"].isnull().values.tolist() == [False, True, True]
    own = fields["heatwave_threshold"].isel(lead=-1, lat=5, lon=slice(2, 6)).mean()
    assert float(found["place_threshold"].sel(place="defined")) == pytest.approx(float(own), abs=1e-4)
    for name in ("heatwave_share", "share_probability"):
        assert found[f"place_{name}"].isnull().values.tolist() in (
            [False, False, True],
            [[False, False, True]] * 5,
        )


@pytest.mark.parametrize(("period", "days"), [("week", 7), ("horizon", 8)])
def test_chances_and_means_of_periods_are_plain_numpy(
    forecasted: xr.Dataset, made: Run, period: str, days: int
) -> None:
    of = forecasted.isel(init_time=0, week=0) if period == "week" else forecasted.isel(init_time=0)
    one = forecasted.isel(init_time=0)
    park = one.isel(lat=slice(2, 6), lon=slice(4, 8))
    area = area_weights(park["lat"]) * xr.ones_like(park["lon"])
    farm, samples = one.isel(lat=6, lon=5), park["sst_sample"].transpose("lead", "lat", "lon", "sample")
    means = {
        "farm": farm["sst_sample"].isel(lead=slice(days)).mean("lead"),
        "park": park["sst_sample"].weighted(area).mean(("lat", "lon")).isel(lead=slice(days)).mean("lead"),
    }
    for name, mean in means.items():
        found = of.sel(place=name)
        assert float(found[f"place_{period}_sst"]) == pytest.approx(float(mean.mean()), abs=1e-3)
        wanted = mean.quantile(one["quantile"].values, method="hazen")
        np.testing.assert_allclose(found[f"place_{period}_sst_quantile"], wanted, atol=1e-3)

    # A point: each trajectory by itself.
    first = Trajectories(calibrated(made).correlation).first
    number = np.rint(farm["exceedance_probability"].values * TRAJECTORIES).astype(int)
    number = np.append(number, [number[-1]] * MARGIN_DAYS)
    words = np.stack([first[:, day, count] for day, count in enumerate(number)])
    hot = np.unpackbits(words.view(np.uint8).reshape(len(number), -1), axis=1).astype(bool)
    past = (farm["sst_past"] > farm["heatwave_threshold_past"]).values[:, None]
    inside = events(np.concatenate([np.repeat(past, TRAJECTORIES, axis=1), hot]))[len(past) : len(past) + days]
    chance = float(of[f"place_{period}_heatwave_probability"].sel(place="farm"))
    assert chance == inside.any(0).mean()
    np.testing.assert_array_equal(inside.mean(1), farm["heatwave_probability"][:days])

    # An area: each joint sample by itself. Beyond the last lead the margin stays, and errors change: nearly.
    limit = park["heatwave_threshold"].transpose("lead", "lat", "lon").values[..., None]
    past = (park["sst_past"] > park["heatwave_threshold_past"]).transpose("past", "lat", "lon").values[..., None]
    hot = samples.values > limit
    whole = [np.repeat(past, hot.shape[-1], axis=-1), hot, np.repeat(hot[-1:], MARGIN_DAYS, axis=0)]
    inside = events(np.concatenate(whole))[len(past) : len(past) + days]
    share = (inside * area.values[..., None]).sum((1, 2)) / area.values.sum()
    chance = float(of[f"place_{period}_heatwave_probability"].sel(place="park"))
    assert chance == pytest.approx((share >= 0.2 - 1e-6).any(0).mean(), abs=0.06)
    of_days = {"farm": one["place_heatwave_probability"], "park": one["place_share_probability"].sel(share=20)}
    for name, by_day in of_days.items():
        by_day = by_day.sel(place=name).values[:days].astype(float)
        chance = float(of[f"place_{period}_heatwave_probability"].sel(place=name))
        assert 0 < by_day.max() <= chance <= min(1, by_day.sum()) + 1e-6


def test_chances_of_days_without_a_threshold_are_left_out(forecasted: xr.Dataset, made: Run) -> None:
    fields = forecasted.copy(deep=True)
    gone = fields["exceedance_probability"][0, :, 6, 5]
    gone[2] = np.nan
    ocean = np.flatnonzero(fields["sst"].notnull().values[0, 0])
    cells = np.flatnonzero(ocean == 6 * 12 + 5)
    trajectories = Trajectories(calibrated(made).correlation)
    (week, whole) = chances_of_cells(fields, cells, trajectories)[:, 0]
    assert 0 < week <= whole
    gone[:] = np.nan
    assert np.isnan(chances_of_cells(fields, cells, trajectories)).all()


def test_a_line_tells_of_each_place(
    forecasted: xr.Dataset, command, made: Run, sites: Path, tmp_path: Path
) -> None:
    one = forecasted.isel(init_time=-1)
    farm, elsewhere, park = lines_of_places(one, tmp_path / "f-places.csv")
    lat, lon = (np.radians(axis) for axis in xr.broadcast(one["lat"], one["lon"]))
    site = np.radians([-10.3, 20])  # by the law of cosines
    angle = np.sin(lat) * np.sin(site[0]) + np.cos(lat) * np.cos(site[0]) * np.cos(lon - site[1])
    away = EARTH_RADIUS * float(np.arccos(angle).where(one["sst"].notnull().all("lead")).min())
    assert elsewhere == f"elsewhere lies {away:.0f} km from the sea of the region: no forecast"
    for line, name in ((farm, "farm"), (park, "park")):
        place = one.sel(place=name)
        low, high = place["place_horizon_sst_quantile"].sel(quantile=[0.1, 0.9]).values
        told = f"{float(place['place_horizon_sst']):.1f} °C in the next 8 days"
        told += f" (80 % interval {low:.1f} to {high:.1f}); a heatwave day"
        seventh = place["place_heatwave_probability"].sel(lead=7).item()
        ends = ""
        if name == "park":
            told, seventh = f"{told} of at least 20 % of it", place["place_share_probability"][6, 0].item()
            low, high = place["place_heatwave_share_quantile"].sel(lead=7, quantile=[0.1, 0.9]).values
            share = chance(place["place_heatwave_share"].sel(lead=7).item())
            ends = f"; its share on day 7: {share} ({between([low, high])}), against 2001-2002"
        week, horizon = (
            chance(place[f"place_{period}_heatwave_probability"].item()) for period in ("week", "horizon")
        )
        told += (
            f" in week 1: {week}, on day 7: {chance(seventh)}, within 8 days: {horizon}, against 2001-2002{ends}"
        )
        assert line == f"{name}: {told}"
    many = one.isel(place=[0] * 12).assign_coords(place=[f"farm {number}" for number in range(12)])
    lines = lines_of_places(many, tmp_path / "f-places.csv")
    assert len(lines) == 11
    assert lines[-1] == f"and 2 more in {tmp_path / 'f-places.csv'}"
    (cold,) = told_places(one.sel(place=["farm"]))
    cold = cold._replace(values={name: -1e-3 * abs(values) for name, values in cold.values.items()})
    assert cold.on(7).startswith("0.0 °C (0.0 to 0.0); ")
    assert cold.statements[0] == "0.0 °C in the next 8 days (80 % interval 0.0 to 0.0)"
    (of_five_days,) = told_places(one.sel(place=["farm"]).isel(lead=slice(5)))
    on_day_5 = chance(one["place_heatwave_probability"].sel(lead=5, place="farm").item())
    assert of_five_days.statements == [f"a heatwave day on day 5: {on_day_5}, against 2001-2002"]
    of_events = [name for name in one.data_vars if "heatwave" in name or "share" in name or "threshold" in name]
    (without_events,) = told_places(one.sel(place=["farm"]).drop_vars(of_events))
    assert without_events.statements == [farm.partition("; ")[0].removeprefix("farm: ")]
    assert without_events.on(7).endswith(")")
    undefined = one.sel(place=["farm", "park"]).copy()
    for name in ("", "share_", "week_heatwave_", "horizon_heatwave_"):
        undefined[f"place_{name or 'heatwave_'}probability"] *= np.nan
    undefined["place_heatwave_share"] *= np.nan
    for line in lines_of_places(undefined, tmp_path / "f-places.csv"):
        assert line.endswith("); no event defined, against 2001-2002")
    for state in ("written", "nothing to do"):
        options = ("--date", DATE, "--places", sites, "--share", "20,60", "--out", tmp_path / "g.nc")
        _, out, _ = command("forecast", made.folder, *options)
        assert out.splitlines()[-4] == f"{tmp_path / 'g.nc'}: {state}"
        assert out.splitlines()[-2:] == [elsewhere, park]


def test_a_point_repeats_its_cell(forecasted: xr.Dataset) -> None:
    farm, cell = forecasted.sel(place="farm"), forecasted.isel(lat=6, lon=5)
    for name in ("sst", "sst_quantile", "exceedance_probability", "heatwave_probability"):
        np.testing.assert_array_equal(farm[f"place_{name}"].squeeze(), cell[name].squeeze())
    np.testing.assert_array_equal(farm["place_threshold"], cell["heatwave_threshold"])
    assert farm["place_heatwave_share"].isnull().all()


def test_the_table_is_what_the_file_holds(forecasted: xr.Dataset) -> None:
    table = pd.read_csv(forecasted.attrs["table"])
    assert table["place"].value_counts(sort=False).to_dict() == {"farm": 10, "elsewhere": 1, "park": 10}
    assert table["period"].dropna().tolist() == [*["day"] * 8, "week", "horizon"] * 2
    assert table["kind"].unique().tolist() == ["point", "area"]
    empty = table[table["place"] == "elsewhere"].iloc[0]
    assert empty[["lat", "lon"]].tolist() == [-10.3, 20]
    assert empty.drop(["place", "kind", "lat", "lon", "init_time"]).isna().all()
    park = table[(table["place"] == "park") & (table["period"] == "day")].set_index("lead")
    assert (park["first_day"] == park["valid_time"]).all()
    periods = table[(table["place"] == "park") & (table["period"] != "day")].set_index("period")
    assert periods[["lead", "first_day", "valid_time"]].values.tolist() == [
        [7, "2004-03-11", "2004-03-17"],
        [8, "2004-03-11", "2004-03-18"],
    ]
    for period, of in (("week", forecasted.sel(week=1)), ("horizon", forecasted)):
        of, row = of.isel(init_time=0).sel(place="park"), periods.loc[period]
        for name in ("sst", "heatwave_probability"):
            assert row[name] == pytest.approx(float(of[f"place_{period}_{name}"]), abs=1e-4)
        low = of[f"place_{period}_sst_quantile"].sel(quantile=0.1)
        assert row["sst_q10"] == pytest.approx(float(low), abs=1e-4)
        assert row[["threshold", "heatwave_share", "probability_of_share_20"]].isna().all()
    fields = forecasted.isel(init_time=0).sel(place="park")
    for column, field in {
        "sst": fields["place_sst"],
        "sst_q10": fields["place_sst_quantile"].sel(quantile=0.1),
        "threshold": fields["place_threshold"],
        "exceedance_probability": fields["place_exceedance_probability"],
        "heatwave_share": fields["place_heatwave_share"],
        "heatwave_share_q95": fields["place_heatwave_share_quantile"].sel(quantile=0.95),
        "probability_of_share_20": fields["place_share_probability"].sel(share=20),
    }.items():
        np.testing.assert_allclose(park[column], field, atol=1e-4, err_msg=column)
    assert park["init_time"].unique().tolist() == [DATE]
    assert park["valid_time"].iloc[[0, -1]].tolist() == ["2004-03-11", "2004-03-18"]
    assert park["heatwave_probability"].isna().all()


def test_the_forecast_of_cells_stays(made: Run, forecasted: xr.Dataset) -> None:
    path, _ = forecast(made.folder, DATE, places=Places((), ()))
    assert path.with_name(f".{path.name}.lock").exists()  # also held by a process that names it as its --out
    plain = xr.load_dataset(path)
    assert not [name for name in plain.variables if "place" in str(name)]
    for name, field in plain.items():
        np.testing.assert_array_equal(field, forecasted[name], err_msg=str(name))


def test_areas_of_a_large_region_need_the_samples_of_their_cells_alone(
    made: Run, sites: Path, forecasted: xr.Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sstcast.forecasting.samples.MAX_CELLS_UNASKED", 3)
    drawn, draw = [], ErrorPaths.standard_errors

    def drawing(paths: ErrorPaths, *arguments: Any) -> Any:
        drawn.append(draw(paths, *arguments))
        return drawn[-1]

    monkeypatch.setattr(ErrorPaths, "standard_errors", drawing)
    places = Places.read(sites)
    path, _ = forecast(made.folder, DATE, tmp_path / "large.nc", places=places, shares=(20, 60))
    assert [errors.shape[1] for errors in drawn] == [17]
    large = xr.load_dataset(path)
    assert INTERVAL not in large
    of_places = [name for name in forecasted if str(name).startswith("place_")]
    assert len(of_places) > 10
    for name in of_places:
        np.testing.assert_array_equal(large[name], forecasted[name], err_msg=str(name))


def test_python_and_both_formats(made: Run, sites: Path, tmp_path: Path, forecasted: xr.Dataset) -> None:
    for name in ("a.nc", "a.zarr"):
        for new in (True, False):
            table = tmp_path / ("a.zarr-places.csv" if name == "a.zarr" else "a-places.csv")
            table.unlink(missing_ok=True)
            result = sstcast.forecast(made, DATE, tmp_path / name, places=sites, share="20,60")
            assert result.new is new
            assert table.read_text() == Path(forecasted.attrs["table"]).read_text()
        np.testing.assert_array_equal(result.value["place_sst"], forecasted["place_sst"])
        assert result.value["place"].values.tolist() == ["farm", "elsewhere", "park"]
    assert "sst_sample" not in open_netcdf(tmp_path / "a.nc", "")


def test_events_of_an_area_are_those_of_its_mean(forecasted: xr.Dataset, made: Run, sst_file: Path) -> None:
    park = forecasted.isel(init_time=0, lat=slice(2, 6), lon=slice(4, 8)).sel(place="park")
    area = area_weights(park["lat"]) * xr.ones_like(park["lon"])
    with xr.open_dataset(sst_file) as opened:
        mean = (
            opened["sst"]
            .astype("float32")
            .sel(lat=park["lat"], lon=park["lon"])
            .weighted(area)
            .mean(("lat", "lon"))
        )
    of_base = limits(mean.sel(time=slice(*map(str, made.config.data.splits.base))).expand_dims(series=1, axis=1))
    for name, of in (("place_climatology", "climatology"), ("place_event_threshold", "heatwave_threshold")):
        expected = on_days(of_base[of], park["valid_time"].drop_vars("place"))[:, 0]
        np.testing.assert_allclose(park[name], expected, atol=1e-3)
    np.testing.assert_allclose(park["place_sst_past"], mean.sel(time=slice("2003-12-18", DATE)), atol=1e-3)
    samples = park["sst_sample"].weighted(area).mean(("lat", "lon")).transpose("lead", "sample").values
    limit = park["place_event_threshold"].values[:, None]
    past = (park["place_sst_past"] > park["place_event_threshold_past"]).values[:, None]
    hot = samples > limit
    last = np.repeat(hot[-1:], MARGIN_DAYS, axis=0)  # nearly: beyond the last lead the margin stays
    inside = events(np.concatenate([np.repeat(past, hot.shape[1], axis=1), hot, last]))[len(past) :]
    assert float(park["place_event_probability"]) == pytest.approx(inside[:8].any(0).mean(), abs=0.1)
    assert float(park["place_running_probability"].sel(running_day=7)) <= float(park["place_event_probability"])
    farm, cell = forecasted.isel(init_time=0).sel(place="farm"), forecasted.isel(init_time=0, lat=6, lon=5)
    for name in ("event_probability", "running_probability"):
        np.testing.assert_array_equal(farm[f"place_{name}"], cell[f"heatwave_{name}"])
    np.testing.assert_allclose(farm["place_event_threshold"], cell["heatwave_threshold"], atol=1e-5)
    np.testing.assert_allclose(farm["place_climatology_past"], cell["heatwave_climatology_past"], atol=1e-5)


def test_an_event_of_an_area_that_ends_on_day_7_is_running_on_it(forecasted: xr.Dataset, sites: Path) -> None:
    fields = forecasted.copy(deep=True)
    time = pd.date_range("2001-01-01", "2002-12-31")
    random = np.random.default_rng(0).normal(20, 1, (len(time), 3)).astype(np.float32)
    base = xr.DataArray(random, {"time": time, "place": fields["place"].values}, ("time", "place"))
    lead = fields["lead"]
    for last, running in ((7, 1), (6, 0)):
        fields["sst"] = xr.where(lead <= last, 30, 10).astype("float32") + 0 * forecasted["sst"]
        fields["sst"] = fields["sst"].transpose(*forecasted["sst"].dims)
        fields["sst_past"] = 10 + 0 * forecasted["sst_past"]
        fields["sst_spread"] = 1e-3 + 0 * forecasted["sst_spread"]
        weights = np.zeros((3, 8, 12), np.float32)
        weights[2, 2:6, 4:8] = 1
        of_cells = csr_array(weights.reshape(3, -1))
        cells = int(fields["sst"].isel(init_time=0, lead=0).notnull().sum())
        errors = np.zeros((8 + MARGIN_DAYS, cells, 64), np.float32)
        lowest = np.full(cells, np.nan, np.float32)
        found = with_place_events(fields, base, Places.read(sites), of_cells, errors, lowest).isel(init_time=0)
        assert float(found["place_event_probability"].sel(place="park")) == 1
        assert float(found["place_running_probability"].sel(place="park", running_day=7)) == running
        assert found["place_event_probability"].isnull().sel(place=["farm", "elsewhere"]).all()


def test_events_in_a_forecast_join_the_days_before_it(
    forecasted: xr.Dataset, sites: Path, tmp_path: Path, fails
) -> None:
    path = tmp_path / "f.nc"
    forecasted.drop_attrs(deep=False).assign_attrs(places=forecasted.attrs["places"]).to_netcdf(
        path, engine="netcdf4"
    )
    found = sstcast.heatwaves(path).value
    one = forecasted.isel(init_time=0)
    fields = [
        np.concatenate([one[before], one[name]]).reshape(92, -1)
        for before, name in (
            ("sst_past", "sst"),
            ("heatwave_climatology_past", "heatwave_climatology"),
            ("heatwave_threshold_past", "heatwave_threshold"),
        )
    ]
    _, expected = find_events(*fields)
    first = np.datetime64(DATE) - 83
    np.testing.assert_array_equal(found["event_start"], first + expected["start"])
    np.testing.assert_allclose(found["event_intensity_cumulative"], expected["intensity_cumulative"], atol=1e-4)
    cell = np.repeat(np.arange(found.sizes["cell"]), found["cell_events"])
    ahead = found["event_end"].values > np.datetime64(DATE)
    assert 0 < ahead.mean() < 1
    assert found["event_probability"].isnull().values[~ahead].all()
    event = np.flatnonzero(ahead)[0]
    at = {"lat": found["cell_lat"].values[cell[event]], "lon": found["cell_lon"].values[cell[event]]}
    assert float(found["event_probability"][event]) == float(one["heatwave_event_probability"].sel(at))
    running = one["heatwave_running_probability"].sel(at)
    np.testing.assert_array_equal(found["event_running_probability"][event], running)
    table = sstcast.heatwaves(path, sites).value
    assert set(table["place"]) <= {"farm", "park"}
    joined = [
        np.concatenate([one[f"place_{name}_past"], one[f"place_{name}"]])
        for name in ("sst", "climatology", "event_threshold")
    ]
    _, of_places = find_events(*joined)
    np.testing.assert_array_equal(table["peak"], first + of_places["peak"])
    coming = table[table["end"] > DATE].drop_duplicates("place").set_index("place")
    for name, row in coming.iterrows():
        assert row["probability"] == pytest.approx(float(one["place_event_probability"].sel(place=name)))
        expected_running = one["place_running_probability"].sel(place=name, running_day=7)
        assert row["running_7"] == pytest.approx(float(expected_running))
    assert sstcast.heatwaves(path, cold=True).path.name == "f-cold-spells.nc"
    in_memory = sstcast.heatwaves(xr.load_dataset(path))
    assert in_memory.path is None
    np.testing.assert_array_equal(in_memory.value["event_peak"], found["event_peak"])
    forecasted[["sst"]].to_netcdf(tmp_path / "old.nc", engine="netcdf4")
    fails(["old.nc: holds no sst_past"], "heatwaves", tmp_path / "old.nc")
    (tmp_path / "broken.nc").write_bytes(b"CDF and no more")
    fails(["broken.nc", "download it again"], "heatwaves", tmp_path / "broken.nc")
    fails(["--years", "has its own"], "heatwaves", path, "--years", "2001:2002")
    fails(["--region", "has its own"], "heatwaves", path, "--region", "170,171,-12,-11")
    fails(["holds only heatwaves of places"], "heatwaves", path, "--places", sites, "--cold")
    other = tmp_path / "other.csv"
    other.write_text("name,lat,lon\nfarm,-10.3,172\n")
    fails(["does not hold the place farm; forecast again with --places"], "heatwaves", path, "--places", other)


def test_heat_stress_in_a_forecast_is_that_of_its_samples(forecasted: xr.Dataset, tmp_path: Path, fails) -> None:
    path = tmp_path / "f.nc"
    warm = forecasted.assign(maximum_monthly_mean=forecasted["maximum_monthly_mean"] - 2)
    warm.to_netcdf(path, engine="netcdf4")
    found = sstcast.heatwaves(path, dhw=True).value
    one, cell = warm.isel(init_time=0, lat=5, lon=7), found.isel(lat=5, lon=7)
    days = np.concatenate(
        [np.repeat(one["sst_past"].values[:, None], SAMPLES, axis=1), one["sst_sample"].values.T]
    )
    hotspot = days - float(one["maximum_monthly_mean"])
    for lead in (1, 8):
        last = hotspot[lead : lead + 84]
        dhw = np.where(last >= 1, last, 0).sum(0) / 7
        at = cell.sel(lead=lead)
        assert float(at["dhw"]) == pytest.approx(dhw.mean(), abs=0.01)
        np.testing.assert_allclose(at["dhw_quantile"], np.quantile(dhw, (0.1, 0.9), method="hazen"), atol=0.01)
        level = stress_level(last[-1], dhw)
        expected = [(level == number).mean() for number in range(len(STRESS_LEVELS))]
        np.testing.assert_allclose(at["stress_probability"], expected, atol=0.011)
    assert float(cell["dhw_now"]) == pytest.approx(
        np.where(hotspot[:84, 0] >= 1, hotspot[:84, 0], 0).sum() / 7, abs=0.01
    )
    assert found["stress_probability"].isnull().isel(lat=0, lon=0).all()
    warm.drop_vars("sst_sample").to_netcdf(tmp_path / "g.nc", engine="netcdf4")
    fails(["g.nc: holds no joint samples; forecast again with --samples"], "heatwaves", tmp_path / "g.nc", "--dhw")


def test_events_and_heat_stress_of_a_run_have_its_base_period(made: Run, sst_file: Path, tmp_path: Path) -> None:
    own = sstcast.heatwaves(made, out=tmp_path / "own.nc").value
    of_file = sstcast.heatwaves(sst_file, years="2001:2002", out=tmp_path / "file.nc").value
    assert own.attrs["baseline"] == of_file.attrs["baseline"] == "fixed, 2001-01-01..2002-12-31"
    np.testing.assert_array_equal(own["event_start"], of_file["event_start"])
    np.testing.assert_allclose(own["event_intensity_max"], of_file["event_intensity_max"], atol=1e-4)
    dhw = sstcast.heatwaves(made, dhw=True, out=tmp_path / "dhw.nc").value
    assert dhw.attrs["baseline"].startswith("monthly means of 2001..2002, ")


def test_what_is_refused(made: Run, sites: Path, tmp_path: Path, fails) -> None:
    coast = json.loads(sites.read_text())["features"][2]
    coast["geometry"]["coordinates"] = [[[170, -12], [170.8, -12], [170.8, -11.4], [170, -11.4], [170, -12]]]
    path, out = tmp_path / "coast.json", tmp_path / "b.nc"
    path.write_text(json.dumps(coast))
    options = ("forecast", made.folder, "--date", DATE, "--out", out, "--places")
    fails([f"{path}: park: only ", "ocean cells of the region"], *options, path)
    fails(["--share none: give per cent"], *options, sites, "--share", "none")
    fails(["absent.csv: cannot be read"], *options, tmp_path / "absent.csv")
    (own := out.with_name("b-places.csv")).write_text("station,depth\nA,5\n")
    fails([f"{own}: exists and is not a file of sstcast; rename it"], *options, sites)
    assert own.read_text() == "station,depth\nA,5\n"
    for text in ("station,depth\nA,5\n", "place,lat,lon\nA,5,6\n"):
        own.write_text(text)
        words = [f"{own}: exists and is not a file of sstcast"]
        fails(words, "heatwaves", made.folder, "--places", sites, "--out", own)
    assert not out.exists()

"""Every verb with a daily field as a predictor."""

import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import xarray as xr
from logged import logged
from refusals import refused
from scored_runs import configure, copy_that_reads
from small_hindcast import plan
from small_ocean import make_sst

import sstcast
from sstcast.config import FieldSource, RunConfig, parse_box
from sstcast.forecasting.spread import SpreadCalibrator
from sstcast.forecasting.system import system_of
from sstcast.forecasting.transfer import transferred_run
from sstcast.hindcasts.hindcast import hindcast
from sstcast.ocean.prepare import prepare, update_predictors
from sstcast.ocean.prepared import Prepared
from sstcast.predictors import predictor
from sstcast.reading.raw import Day, pack
from sstcast.runs import Run
from sstcast.scores.analysis import ALL, Analysis
from sstcast.scores.systems import forecast_block, systems_of
from sstcast.sources.raw_store import RawStore

SPLITS = {"train": [2001, 2003], "validation": ["2004-01-01", "2004-08-31"], "test": ["2004-09-01", "2004-12-15"]}
RIDGE = {"name": "multiscale-ridge"}
MEMORY = {"name": "local-ridge", "memory": True, "stencil": True}
DELAY = 2
FORECAST = {"kind": "forecast", "delay": 0}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an ocean of six years, and a wind that has warmed it each day since it is known.

    Nobody knows the wind of three test days.
    """
    folder = tmp_path_factory.mktemp("grids")
    ocean = make_sst(years=6)
    days, random = ocean["time"].values, np.random.default_rng(0)
    wind = random.standard_normal((len(days), 1, ocean.sizes["lon"])) * np.ones((1, ocean.sizes["lat"], 1))
    change = np.zeros_like(wind)
    for day in range(DELAY + 1, len(days)):
        change[day] = 0.8 * change[day - 1] + 0.6 * wind[day - DELAY - 1]
    ocean["sst"] = ocean["sst"] + change
    ocean["sst"].attrs["units"] = "Celsius"
    ocean.to_netcdf(folder / "small.nc", engine="netcdf4")
    wind[np.isin(days.astype("M8[D]"), np.arange("2004-11-04", "2004-11-07", dtype="M8[D]"))] = np.nan
    fields = {"u10": (("time", "lat", "lon"), wind.astype(np.float32), {"units": "m s-1"})}
    xr.Dataset(fields, {axis: ocean[axis] for axis in ("time", "lat", "lon")}).to_netcdf(folder / "wind.nc")
    return folder


def read(place: Path) -> xr.Dataset:
    with xr.open_dataset(place / "wind.nc") as dataset:
        return dataset.load()


def config(
    place: Path, name: str, model: dict[str, Any] | None = None, source: Any = "wind.nc", **keys: Any
) -> RunConfig:
    grid = {"kind": "grid", "source": str(place / source) if source else "", "delay": DELAY, **keys}
    data = {"splits": SPLITS} | ({"predictors": {"wind": grid}} if source else {})
    training = {"epochs": 1, "windows_per_epoch": 60}
    return configure(place, place / "small.nc", name, model or RIDGE, training, **data)


@pytest.fixture(scope="module")
def run(place: Path) -> Run:
    made = sstcast.train(config(place, "wind"))
    shutil.copytree(made.folder, place / "as-trained")
    return made


def history(place: Path, day: str) -> xr.DataArray:
    with xr.open_dataset(place / "small.nc") as dataset:
        return dataset["sst"].sel(time=slice(None, day)).load()


def test_evaluate_tells_what_a_field_is_worth(run: Run, command: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    opened, open_intact = [], predictor.open_intact
    monkeypatch.setattr(predictor, "open_intact", lambda path, *o: (opened.append(path), open_intact(path, *o))[1])
    with logged() as lines:
        code, out, _ = command("evaluate", run.folder)
    metrics = json.loads(run.metrics.read_text())
    own, without = (metrics["scores"][name]["degC"]["mse"] for name in ("model", "without wind"))
    assert code == 0
    assert max(Counter(opened).values()) == 1  # each store by the one that has it
    assert metrics["predictors_lacking"] == {"wind": 12}  # one of the ten days that are read
    assert "wind: less is known than on nine in ten training days on 12 of 88 dates" in lines
    assert f"Predictor wind: MSE {own:.4f} °C² with it, {without:.4f} without, ratio" in out
    assert own < 0.9 * without
    assert metrics["predictors"] == {"model": "wind: grid from wind.nc, known 2 days after its span"}
    scored = sstcast.score(run.forecasts, against=[run]).value
    assert scored["scores"]["wind"]["degC"]["mse"] == pytest.approx(own, rel=1e-4)
    there = transferred_run(run, FieldSource(region="170.5,173,-12,-10"))
    assert there.config.data.predictors == run.config.data.predictors
    own, elsewhere = (Prepared.of(each.config.data).open_anomalies() for each in (run, there))
    winds = [days["predictor_wind"] for days in (own, elsewhere)]
    assert float(xr.corr(*winds)) == pytest.approx(1, abs=1e-3)  # the same wind, in statistics of its own
    forecast = system_of(there).predict(elsewhere.isel(time=slice(0, 20)))
    blind = system_of(there).predict(elsewhere.isel(time=slice(0, 20)).assign(predictor_wind=0 * winds[1]))
    assert not np.array_equal(forecast, blind, equal_nan=True)


def test_ice_in_a_fetched_store_is_a_field(place: Path, run: Run) -> None:
    """As ice is a linear function of the wind, with a resolution of .01, it tells the same."""
    wind = read(place)["u10"]
    days = wind.indexes["time"].date
    ice = pack((0.5 + 0.1 * wind).clip(0, 1).values)
    store = RawStore(place / "oisst.zarr", parse_box("170,173,-12,-10"), variables=("ice",))
    with store.writing():
        sst = pack(np.full(ice.shape[1:], 20.0))
        fields = {day: Day(sst, "aws", False, {"ice": ice[number]}) for number, day in enumerate(days)}
        assert store.put(fields, days[-1]) == {}
    prepared = prepare(config(place, "ice", source="oisst.zarr", variable="ice").data)
    ice_known = prepared.open_anomalies()["predictor_wind"]
    of_wind = Prepared.of(run.config.data).open_anomalies()["predictor_wind"]
    assert float(xr.corr(ice_known, of_wind)) > 0.99
    assert float(ice_known.std()) == pytest.approx(1, abs=0.02)


@pytest.mark.parametrize(
    "model",
    [RIDGE, MEMORY, {"name": "mpnn", "width": 8, "layers": 1, "base": "linear"}],
    ids=lambda model: model["name"],
)
def test_unknown_days_change_no_bit_and_the_newest_known_day_does(
    place: Path, run: Run, model: dict[str, Any]
) -> None:
    of_model = run if model is RIDGE else sstcast.train(config(place, f"bits-{model['name']}", model))
    loaded, day, wind = sstcast.load(of_model), "2004-10-24", read(place)
    unknown, newest = (wind["time"] > np.datetime64("2004-10-22")), wind["time"] == np.datetime64("2004-10-22")
    past = history(place, day)
    own, same, other = (
        loaded.forecast(past, predictors=None if field is None else {"wind": field["u10"]})
        for field in (None, wind.where(~unknown, 9), wind.where(~newest, 9))
    )
    for name in ("sst", "sst_spread", "sst_quantile"):
        assert same[name].values.tobytes() == own[name].values.tobytes()
    assert not np.array_equal(own["sst"], other["sst"], equal_nan=True)
    if model is MEMORY:  # the days before the history are read too
        earlier = wind["time"] == np.datetime64("2004-07-22")
        older = loaded.forecast(past, predictors={"wind": wind["u10"].where(~earlier, 9)})
        assert not np.array_equal(own["sst"], older["sst"], equal_nan=True)


@pytest.mark.slow
def test_a_network_reads_the_distance_to_the_coast_of_each_region(place: Path) -> None:
    coast, training = {"kind": "static", "source": "distance-to-coast"}, {"epochs": 1, "windows_per_epoch": 60}
    model, data = {"name": "mpnn", "width": 8, "layers": 1}, {"splits": SPLITS, "predictors": {"coast": coast}}
    run = sstcast.train(configure(place, place / "small.nc", "coast", model, training, **data))
    there = sstcast.evaluate(run, region="170,171.5,-12,-10").value
    assert there["predictors"] == {"model": "coast: static from distance-to-coast"}
    stores = {
        path.parent: xr.open_zarr(path).load() for path in (place / "prepared").rglob("predictor-coast-*.zarr")
    }
    coasts = [store["value"] for store in stores.values() if store.attrs["units"] == "km"]
    assert sorted(coast.shape for coast in coasts) == [(1, 8, 6), (1, 8, 12)]


def test_training_and_scores_know_only_what_is_known(place: Path, tmp_path: Path) -> None:
    """A run whose splits end on a day is the same, whatever the field holds on days that are not known then."""
    splits = SPLITS | {"test": ["2004-09-01", "2004-10-24"]}
    wind, states = read(place), []
    for number, fill in enumerate((None, 9.0)):
        folder = tmp_path / str(number)
        folder.mkdir()
        late = wind["time"] > np.datetime64("2004-10-22")
        (wind if fill is None else wind.where(~late, fill)).to_netcdf(folder / "wind.nc")
        made = config(place, "until", source=folder / "wind.nc").model_copy(update={"runs": folder / "runs"})
        data = made.data.model_copy(update={"splits": made.data.splits.model_validate(splits)})
        trained = sstcast.train(made.model_copy(update={"data": data}))
        test = Analysis.open(Prepared.of(data))
        systems = {"model": systems_of(trained, SpreadCalibrator(test.prepared))["model"]}
        ((_, scored),) = forecast_block(systems, test, ALL)
        states.append((torch.load(trained.best, weights_only=True)["model"], scored))
    assert all(torch.equal(weight, states[1][0][name]) for name, weight in states[0][0].items())
    assert states[0][1].identical(states[1][1])


@pytest.mark.slow
def test_a_hindcast_and_combinations_read_a_field(place: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place)
    systems = config(place, "with"), config(place, "sst", source=None)
    metrics, _ = hindcast(plan(*systems, first=2003, last=2004, fold=1))
    mse = {name: of["degC"]["mse"] for name, of in metrics["scores"].items()}
    assert mse["with"] < 0.9 * mse["sst"]
    local = sstcast.train(config(place, "local", {"name": "local-ridge"}))
    both = sstcast.combine([run, local], "both")
    assert "wind" in sstcast.forecast(both, "2004-12-01").value.attrs["predictors"]


def test_a_hindcast_tells_the_first_fold_that_a_late_record_serves(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(place)
    read(place).sel(time=slice("2002-06-01", None)).to_netcdf(place / "late.nc")
    late = config(place, "late", source="late.nc")
    with refused("data.predictors.wind", "begins on 2002-06-01", "2003-06-02 or later", "serves begins in 2004"):
        hindcast(plan(late, first=2003, last=2004, fold=1, validation=1, out="late"))


def test_a_forecast_needs_the_newest_day(place: Path, run: Run) -> None:
    wind = read(place)
    wind.sel(time=slice(None, "2005-03-10")).to_netcdf(place / "short.nc")
    run = copy_that_reads(place / "short.nc", place / "as-trained")
    sstcast.forecast(run, "2005-03-12")
    with refused("data.predictors.wind", "short.nc", "2005-03-11..2005-03-12", "missing: climatology"):
        sstcast.forecast(run, "2005-03-14")
    loaded, past = sstcast.load(run), history(place, "2005-03-14")
    given = loaded.forecast(past, predictors={"wind": wind})
    assert "missing" not in given.attrs["predictors"]
    wind["u10"].attrs["units"] = "knots"
    with refused("wind is in 'knots'", "m s-1"):
        loaded.forecast(past, predictors={"wind": wind})
    with refused("predictors: wind is a float"):
        loaded.forecast(past, predictors={"wind": 1.0})
    run.config_file.write_text(
        run.config_file.read_text().replace("delay: 2", "delay: 2\n      missing: climatology")
    )
    late = sstcast.forecast(run, "2005-03-14").value
    assert "wind has no values for 2005-03-11..2005-03-12, its climatology is read" in late.attrs["predictors"]


def test_a_forecast_from_a_wind_that_nobody_has_felt_is_refused(place: Path, run: Run) -> None:
    """It lies within a hundred times the usual range, so the wind itself is not refused."""
    day, wind = "2004-10-24", read(place)["u10"]
    storm = wind.where(wind["time"] != np.datetime64("2004-10-22"), 200)
    loaded = sstcast.load(run)
    with refused("runs/wind: forecasts", "degC on 2004-10-25", "the predictor wind is 2"):
        loaded.forecast(history(place, day), predictors={"wind": storm})
    kept = loaded.forecast(history(place, day), predictors={"wind": wind.sel(time=slice("2004-10-21", day))})
    assert kept["sst"].values.tobytes() == loaded.forecast(history(place, day))["sst"].values.tobytes()
    assert kept.attrs["predictors_known"].startswith("wind: 100.0% of the sea on the newest day; wind: 100.0% of")


def test_an_object_is_a_source(place: Path, run: Run) -> None:
    with refused("data.predictors has no wnd", "wind"):
        sstcast.prepare(config(place, "object"), predictors={"wnd": read(place)})
    trained = sstcast.train(config(place, "object"), predictors={"wind": read(place)})
    assert trained.config.data.predictors["wind"].source.startswith("object:")
    first, second = (torch.load(each.best, weights_only=True)["model"] for each in (run, trained))
    assert all(torch.equal(weight, second[name]) for name, weight in first.items())
    assert sstcast.forecast(trained, "2004-12-01").value["sst"].notnull().any()


def test_a_field_may_grow_but_not_change(place: Path, run: Run) -> None:
    wind, path = read(place), place / "growing.nc"
    wind.sel(time=slice(None, "2006-01-31")).to_netcdf(path)
    run = copy_that_reads(place / "growing.nc", place / "as-trained")
    prepare(run.config.data)
    loaded = sstcast.load(run)
    loaded.forecast(history(place, "2006-02-02"))
    wind.to_netcdf(path)
    updated = sstcast.update(run, "2006-06-20")
    assert updated.code == 0
    newest = loaded.forecast(history(place, "2006-06-20"))  # from stores that were replaced
    np.testing.assert_allclose(newest["sst"], xr.load_dataset(updated.forecast)["sst"], atol=1e-4)
    held = Prepared.of(run.config.data)
    held.open_anomalies()
    changed = wind.copy(deep=True)
    changed["u10"][700] = 3
    changed.to_netcdf(path)
    for verb in (lambda: sstcast.forecast(run, "2006-06-21"), lambda: sstcast.evaluate(run)):
        with refused("growing.nc", "wind"):
            verb()
    assert not Prepared.of(run.config.data).is_current  # its climatology is of the values before
    prepare(run.config.data)
    update_predictors(held)  # of a process that opened the stores before
    assert Prepared.of(run.config.data).is_current


def issued(wind: xr.Dataset, every: int = 3) -> xr.DataArray:
    """Return the wind as perfect forecasts that are issued every few days, nine days ahead."""
    issues, leads = wind["time"].values[:-9:every], np.arange(1, 10)
    valid = xr.DataArray(
        np.add.outer(issues, leads * np.timedelta64(1, "D")),
        {"init_time": issues, "lead": leads},
        ("init_time", "lead"),
    )
    ahead = wind["u10"].sel(time=valid).drop_vars("time")
    ahead["lead"].attrs["units"] = "days"
    return ahead


def test_the_newest_forecast_of_the_wind_is_read(place: Path, tmp_path: Path) -> None:
    """It was issued on or before the initial date. Later ones change no bit. A ridge reads them like a network."""
    ahead, day = issued(read(place).sel(time=slice("2005")), every=6), "2004-10-24"
    ahead.to_dataset().to_netcdf(tmp_path / "gefs.nc")
    newest = max(issue for issue in ahead["init_time"].values if issue <= np.datetime64(day))
    past, given = history(place, day), ahead.sel(init_time=slice("2004-09", "2004-11"))
    network = {"name": "mpnn", "width": 8, "layers": 1}
    loaded = sstcast.load(sstcast.train(config(place, "ahead-network", network, tmp_path / "gefs.nc", **FORECAST)))
    own, same, other = (
        loaded.forecast(past, predictors=None if field is None else {"wind": field})["sst"].values
        for field in (
            None,
            given.where(given["init_time"] <= np.datetime64(day), 9),
            given.where(given["init_time"] != newest, 1),
        )
    )
    assert own.tobytes() == same.tobytes()
    assert not np.array_equal(own, other, equal_nan=True)
    ridge = sstcast.train(config(place, "ahead-ridge", RIDGE, tmp_path / "gefs.nc", **FORECAST))
    days = Prepared.of(ridge.config.data).open_anomalies().isel(time=slice(0, 20)).load()
    reading, blind = (
        system_of(ridge).predict(of) for of in (days, days.assign(predictor_wind=0 * days["predictor_wind"]))
    )
    assert not np.array_equal(reading, blind, equal_nan=True)


@pytest.mark.slow
def test_what_forecasts_of_the_wind_are_worth(place: Path, tmp_path: Path, command: Any) -> None:
    """Cheaper tests ask which forecasts are read, what a correction makes of them, and that later days lack."""
    issued(read(place)).to_dataset().to_netcdf(tmp_path / "gefs.nc")
    run = sstcast.train(config(place, "worth", source=tmp_path / "gefs.nc", **FORECAST))
    code, out, _ = command("evaluate", run.folder)
    scores = json.loads(run.metrics.read_text())["scores"]
    assert code == 0
    assert "Predictor wind: MSE" in out
    assert scores["model"]["degC"]["mse"] < 0.6 * scores["without wind"]["degC"]["mse"]
    sstcast.update(run, "2004-12-01")
    with refused("data.predictors.wind", "no issue with days after 2006-12-31"):
        sstcast.forecast(run, "2006-12-31")


@pytest.mark.slow
def test_perfect_forecasts_are_called_so_with_every_score(place: Path, command: Any) -> None:
    with refused("wind.nc", "perfect: true"):
        sstcast.train(config(place, "refused", kind="forecast", delay=0))
    with refused("perfect", "kind: forecast alone"):
        config(place, "refused", perfect=True)
    run = sstcast.train(config(place, "perfect", kind="forecast", delay=0, perfect=True))
    _, out, _ = command("evaluate", run.folder)
    assert "The system model reads wind: forecast from wind.nc, perfect: analyses of days that nobody knows" in out
    assert "perfect: true" in run.config_file.read_text()

"""A combination in a hindcast: weights fold by fold, from validation days that no part was fitted to."""

import contextlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from scipy.optimize import minimize
from small_hindcast import EVERY, metrics, only_trained, plan, system, write_ocean
from small_ocean import make_sst
from whole_fields import forecast_of, truth_of

from sstcast.config import DataConfig, RunConfig
from sstcast.errors import SSTCastError
from sstcast.forecasting.fields import in_degrees
from sstcast.forecasting.system import ForecastSystem, Models, load_combination, system_of
from sstcast.geo import area_weights
from sstcast.hindcasts.fold import combine_runs, select_run
from sstcast.hindcasts.hindcast import hindcast
from sstcast.hindcasts.plan import Plan
from sstcast.models import build_forecaster
from sstcast.models.linear import MultiscaleRidge
from sstcast.ocean.prepared import Prepared
from sstcast.ocean.windows import whole_windows
from sstcast.runs import Run
from sstcast.scores.analysis import Analysis
from sstcast.training.devices import choose_device
from sstcast.training.forecast_task import fit


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a hindcast of a linear system, a network of two seeds and their combinations."""
    folder = tmp_path_factory.mktemp("combined")
    write_ocean(folder, years=5)
    with contextlib.chdir(folder):
        hindcast(planned())
    return folder


def planned(*others: RunConfig) -> Plan:
    """Plan one fold of a year: each fold has its own combinations, which are joined like other systems."""
    systems = system("wide", "multiscale-ridge", options={}), system("small"), *others
    return plan(*systems, seeds=(0, 1), fitted="both", equal="mean", last=2005)


@pytest.fixture
def combined(made: Path, monkeypatch: pytest.MonkeyPatch) -> Plan:
    monkeypatch.chdir(made)
    return planned()


def unseen(data: DataConfig) -> ForecastSystem:
    """A multiscale ridge that has seen the training days alone, with the penalties that validation chooses."""
    anomalies = Prepared.of(data).open()[1]
    train, validation = (whole_windows(anomalies, data, split) for split in ("train", "validation"))
    model = build_forecaster("multiscale-ridge", history=data.history, horizon=data.horizon, shape=train.shape)
    assert isinstance(model, MultiscaleRidge)
    fit(model, train, validation, refit=False)
    return Models(data.box, data.history, data.horizon, [model], choose_device("cpu"))


def test_the_forecast_is_the_weighted_mean_of_each_fold(combined: Plan) -> None:
    scores = metrics()
    parts = [xr.open_zarr(combined.hindcast.forecasts(name))["sst"] for name in ("wide", "small")]
    both = xr.open_zarr(combined.hindcast.forecasts("both"))["sst"]
    for fold in combined.protocol.folds:
        weights = load_combination(Run(combined.hindcast.folder / "both" / fold.name))
        assert weights.sum(1) == pytest.approx(1)
        years = {"init_time": slice(str(fold.first), str(fold.last))}
        by_lead = xr.DataArray(weights[np.arange(8) // 7], dims=("lead", "part"))
        mean = sum(part.sel(years) * by_lead[:, i] for i, part in enumerate(parts))
        np.testing.assert_allclose(both.sel(years), mean, atol=0.011)  # stored in hundredths of a degree
    mean = xr.open_zarr(combined.hindcast.forecasts("mean"))["sst"]
    np.testing.assert_allclose(mean, sum(parts) / 2, atol=0.011)
    assert scores["systems"]["both"]["model"] == "combination"
    assert not scores["systems"]["both"]["linear"]
    assert not hindcast(combined)[1]


def test_an_ensemble_is_scored_as_its_mean(combined: Plan) -> None:
    found = metrics()
    assert {name: found["systems"][name]["members"] for name in ("small", "wide")} == {"small": 2, "wide": 1}
    forecasts = xr.open_zarr(combined.hindcast.forecasts("small"))
    run = combined.run(combined.systems[1], combined.protocol.folds[0])
    data, members = Analysis.open(Prepared.of(run.data), every=EVERY), Run(run.folder).members
    mean = sum(system_of(member).predict(*data.histories())[0] for member in members) / 2
    sst = in_degrees(mean.expand_dims("member"), data.statistics)["sst"]
    np.testing.assert_allclose(forecasts["sst"], sst, atol=0.011)
    with xr.open_dataset("small.nc") as ocean:
        error = forecasts["sst"] - ocean["sst"].sel(time=forecasts["valid_time"]).drop_vars("time")
    mse = (error.astype(float) ** 2).weighted(area_weights(error["lat"])).mean()
    assert found["scores"]["small"]["degC"]["mse"] == pytest.approx(float(mse), rel=1e-4)
    with pytest.raises(SSTCastError, match="holds seed-0, seed-1; give the original --seeds"):
        hindcast(replace(combined, seeds=[]))
    assert combined.hindcast.known(combined.recipe) is not None
    assert combined.hindcast.known(replace(combined, seeds=[0, 1, 2]).recipe) is None  # a member is missing


def test_weights_are_those_of_forecasts_that_have_not_seen_validation(combined: Plan) -> None:
    fold = combined.protocol.folds[0]
    run = Run(combined.hindcast.folder / "both" / fold.name)
    data = Analysis.of(run, "validation")
    climatology, scale = (data.ahead(data.statistics[name]) for name in ("climatology", "scale"))
    truth = data.ahead(data.sst) - climatology
    network = system_of(Run(combined.hindcast.folder / "small" / fold.name))
    area = np.nan_to_num(data.area)
    errors = []
    for predictor in (unseen(run.config.data), network):
        forecast = data.on_tiles(predictor.predict(*data.histories())).mean(0) * scale
        errors.append(np.nan_to_num(forecast - truth))
    found = load_combination(run)
    for week, leads in enumerate((slice(0, 7), slice(7, 8))):

        def mse(share: np.ndarray, leads: slice = leads) -> float:
            mixed = share[0] * errors[0][:, leads] + (1 - share[0]) * errors[1][:, leads]
            return float((mixed**2 * area).mean())

        best = minimize(mse, [0.5], bounds=[(0, 1)], tol=1e-12)
        assert found[week, 0] == pytest.approx(best.x[0], abs=5e-3)


@pytest.mark.slow
def test_another_system_is_combined_too(combined: Plan) -> None:
    """The combinations are made anew; a name that a system has had is refused before anything is trained."""
    third = system("third", "ridge", options={})
    with pytest.raises(SSTCastError, match=r"small: .*fold-2005 holds a system of this name"):
        hindcast(plan(combined.systems[0], third, equal="small", last=2005))
    assert not Path("hindcast/third").exists()
    scores, new = hindcast(planned(third))
    assert new
    assert {"third", "both", "mean"} <= set(scores["systems"])
    mean = xr.open_zarr(combined.hindcast.forecasts("mean"))["sst"]
    parts = [xr.open_zarr(combined.hindcast.forecasts(name))["sst"] for name in ("wide", "small", "third")]
    np.testing.assert_allclose(mean, sum(parts) / 3, atol=0.011)


def test_the_system_of_a_fold_is_chosen_on_the_years_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Persistence is better in all years but the one that is forecast, which is noise about the climatology."""
    ocean = make_sst(years=5)
    noise = ocean["sst"].sel(time="2005")
    day = noise["time"].dt.dayofyear
    season = 20 + 4 * np.cos(2 * np.pi * day / 365.25) + 0.5 * xr.DataArray(np.arange(8), dims="lat")
    noise = 0 * noise + np.random.default_rng(1).normal(0, 0.5, noise.shape)
    ocean["sst"].loc[{"time": "2005"}] = (season + noise).transpose(*noise.dims).values
    ocean.to_netcdf(tmp_path / "small.nc", engine="netcdf4")
    monkeypatch.chdir(tmp_path)
    systems = [system(f"the-{name}", name, options={}) for name in ("climatology", "persistence")]
    chosen = plan(*systems, select=("the-climatology", "the-persistence"), first=2005, last=2005, fold=1)
    with only_trained():
        hindcast(chosen)
    (fold,) = chosen.protocol.folds
    run, *trained = (Run(chosen.hindcast.folder / name / fold.name) for name in ("selected", *chosen.select))
    data = Analysis.of(run)
    came = truth_of(data)["sst"]
    forecasts = [forecast_of(system_of(one), data)["sst"] for one in (run, *trained)]
    mse = [float(((forecast - came) ** 2).mean()) for forecast in forecasts]
    assert mse[1] < mse[2]
    (part,) = run.parts
    assert part.run.parent.name == "the-persistence"
    assert (load_combination(run) == 1).all()
    np.testing.assert_array_equal(forecasts[0], forecasts[2])
    combine_runs([chosen.run(systems[0], fold).folder], run.config, equal=True)  # the other
    before = chosen.protocol.before(fold).folds
    earlier = {
        chosen.run(system, fold).folder: [chosen.run(system, year).folder for year in before] for system in systems
    }
    assert select_run(earlier, run.config, EVERY).endswith("chosen: the-persistence")
    assert run.parts == [part]
    with pytest.raises(SSTCastError, match="--select: no system is called 'mean'; the systems are"):
        hindcast(plan(*systems, equal="mean", select=("the-climatology", "mean")))

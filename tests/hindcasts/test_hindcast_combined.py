"""A combination in a hindcast: weights fold by fold, from validation days that no part was fitted to."""

import json
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from scipy.optimize import minimize
from small_hindcast import plan, system, write_ocean

from sstcast.config import DataConfig
from sstcast.errors import SSTCastError
from sstcast.forecasting.predictor import Models, Predictor, TrainedRun, load_combination
from sstcast.hindcasts.fold import combine_runs
from sstcast.hindcasts.hindcast import hindcast
from sstcast.hindcasts.plan import Plan
from sstcast.models import build_forecaster
from sstcast.models.linear import MultiscaleRidge
from sstcast.ocean.prepared import Prepared
from sstcast.ocean.windows import whole_windows
from sstcast.runs import Run
from sstcast.scores.truth import Truth
from sstcast.training.devices import choose_device
from sstcast.training.forecast_task import fit


def quiet(line: str) -> None:
    """Say nothing."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("combined")
    write_ocean(folder)
    return folder


@pytest.fixture
def combined(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Plan:
    """A hindcast of a linear system, a network and their combination."""
    monkeypatch.chdir(folder)
    ridge = system("wide", "multiscale-ridge", options={})
    planned = plan(ridge, system("small"), fitted="both", equal="mean")
    hindcast(planned, say=quiet)
    return planned


def unseen(data: DataConfig) -> Predictor:
    """A multiscale ridge that has seen the training days alone, with the penalties that validation chooses."""
    anomalies = Prepared.of(data).open()[1]
    train, validation = (whole_windows(anomalies, data, split) for split in ("train", "validation"))
    model = build_forecaster("multiscale-ridge", history=data.history, horizon=data.horizon, shape=train.shape)
    assert isinstance(model, MultiscaleRidge)
    fit(model, train, validation, refit=False)
    return Models(data.box, data.history, data.horizon, [model], choose_device("cpu"))


def test_the_forecast_is_the_weighted_mean_of_each_fold(combined: Plan) -> None:
    scores = json.loads(combined.hindcast.metrics.read_text())
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
    assert not hindcast(combined, say=quiet)[1]


def test_weights_are_those_of_forecasts_that_have_not_seen_validation(combined: Plan) -> None:
    fold = combined.protocol.folds[0]
    run = Run(combined.hindcast.folder / "both" / fold.name)
    data = Truth.of(run, "validation")
    climatology, scale = (data.ahead(data.statistics[name]) for name in ("climatology", "scale"))
    truth = data.ahead(data.sst) - climatology
    network = TrainedRun(Run(combined.hindcast.folder / "small" / fold.name))
    area = np.nan_to_num(data.area)
    errors = []
    for predictor in (unseen(run.config.data), network):
        forecast = data.on_tiles(predictor.predict(*data.histories()))[0] * scale
        errors.append(np.nan_to_num(forecast - truth))
    found = load_combination(run)
    for week, leads in enumerate((slice(0, 7), slice(7, 8))):

        def mse(share: np.ndarray, leads: slice = leads) -> float:
            mixed = share[0] * errors[0][:, leads] + (1 - share[0]) * errors[1][:, leads]
            return float((mixed**2 * area).mean())

        best = minimize(mse, [0.5], bounds=[(0, 1)], tol=1e-12)
        assert found[week, 0] == pytest.approx(best.x[0], abs=5e-3)


def test_another_system_is_combined_too(combined: Plan) -> None:
    """The combinations are made anew; a name that a system has had is refused before anything is trained."""
    third = system("third", training={"epochs": 1})
    with pytest.raises(SSTCastError, match=r"small: .*fold-2005 holds a system of this name"):
        hindcast(plan(combined.systems[0], third, equal="small"), say=quiet)
    assert not Path("hindcast/third").exists()
    more = plan(*combined.systems, third, fitted="both", equal="mean")
    scores, new = hindcast(more, say=quiet)
    assert new
    assert {"third", "both", "mean"} <= set(scores["systems"])
    mean = xr.open_zarr(combined.hindcast.forecasts("mean"))["sst"]
    parts = [xr.open_zarr(combined.hindcast.forecasts(name))["sst"] for name in ("wide", "small", "third")]
    np.testing.assert_allclose(mean, sum(parts) / 3, atol=0.011)
    assert not hindcast(more, say=quiet)[1]


def test_the_system_of_a_fold_is_chosen_on_the_years_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The choice forecasts as the system chosen; a jump in the last year changes none."""
    choices = []
    for jump in (0, 2):
        folder = tmp_path / str(jump)
        write_ocean(folder, jump)
        monkeypatch.chdir(folder)
        systems = [
            system(name, model, options={}) for name, model in (("still", "climatology"), ("last", "ridge"))
        ]
        planned = plan(
            *systems, system("other", "persistence", options={}), select=("still", "last"), first=2007, fold=1
        )
        hindcast(planned, say=quiet)
        chosen = {}
        for fold in planned.protocol.folds:
            run = Run(planned.hindcast.folder / "selected" / fold.name)
            (part,) = run.parts
            assert (load_combination(run) == 1).all()
            chosen[fold.first] = part.run.parent.name
            years = {"init_time": str(fold.first)}
            ours, theirs = (
                xr.open_zarr(planned.hindcast.forecasts(name))["sst"].sel(years)
                for name in ("selected", chosen[fold.first])
            )
            np.testing.assert_array_equal(ours, theirs)
        choices.append(chosen)
    assert choices == [{2007: "last", 2008: "last"}] * 2

    fold = planned.protocol.folds[-1]
    parts = [planned.run(one, fold).folder for one in planned.systems]
    selected = planned.run(planned.combinations[-1], fold)
    combine_runs(parts[:1], selected, equal=True)  # the worse one
    hindcast(planned, say=quiet)
    assert [part.run.parent.name for part in Run(selected.folder).parts] == ["last"]
    with pytest.raises(SSTCastError, match="--select: no system is called mean; the systems are still, last"):
        hindcast(plan(*systems, equal="mean", select=("still", "mean")), say=quiet)

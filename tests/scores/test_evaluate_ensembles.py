"""An ensemble on the small ocean: scored by its mean and as one, and compared with another run."""

from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from scored_runs import configure, make_run, metrics_of
from scores.probability import crps_for_ensemble, rank_histogram
from whole_fields import forecast_of, truth_of

from sstcast.errors import SSTCastError
from sstcast.forecasting.predictor import TrainedRun
from sstcast.geo import area_weights
from sstcast.runs import Run
from sstcast.scores.evaluate import compare, evaluate, reference
from sstcast.scores.verification import Verification

SEEDS = (0, 1, 2)


@pytest.fixture(scope="module")
def ensemble(tmp_path_factory: pytest.TempPathFactory, sst_file: Path) -> Run:
    run = make_run(configure(tmp_path_factory.mktemp("ensemble"), sst_file), SEEDS)
    evaluate(run)
    return run


def test_an_ensemble_is_scored_by_its_mean_and_as_one(ensemble: Run) -> None:
    data = Verification.of(ensemble)
    members = [forecast_of(TrainedRun(member), data)["sst"] for member in ensemble.members]
    stacked = xr.concat(members, "member").astype(float)
    forecasts = xr.open_zarr(ensemble.forecasts)
    np.testing.assert_allclose(forecasts["sst"], stacked.mean("member"), atol=1e-4)

    truth = truth_of(data)["sst"].astype(float)
    weights = area_weights(truth["lat"])
    metrics = metrics_of(ensemble)
    assert metrics["systems"]["model"]["members"] == 3
    scores = metrics["ensemble"]["model"]
    for name, method in (("crps", "ecdf"), ("crps_fair", "fair")):
        whole = crps_for_ensemble(stacked, truth, "member", method=method, preserve_dims="all")
        whole = whole.where(truth.notnull()).weighted(weights)
        assert scores[name] == pytest.approx(float(whole.mean()), rel=1e-3)
        by_lead = whole.mean(["init_time", "lat", "lon"]).values
        assert scores["by_lead"][name] == pytest.approx(by_lead.tolist(), rel=1e-3)
    variance = float(stacked.var("member", ddof=1).weighted(weights).mean())
    assert scores["spread"] == pytest.approx(variance**0.5, rel=1e-3)
    assert scores["rmse"] == metrics["scores"]["model"]["degC"]["rmse"]
    assert scores["spread_skill"] == pytest.approx((4 / 3 * variance) ** 0.5 / scores["rmse"], rel=1e-3)
    ocean = truth.notnull().values
    ranks = rank_histogram(
        xr.DataArray(stacked.values[:, ocean], dims=("member", "case")),
        xr.DataArray(truth.values[ocean], dims="case"),
        "member",
    )
    assert scores["rank_histogram"] == pytest.approx(ranks.values.tolist(), abs=0.002)  # by area, theirs by cell


def test_each_seed_has_a_ratio_of_its_own(ensemble: Run) -> None:
    data = Verification.of(ensemble)
    truth = truth_of(data)["sst"].astype(float)
    seeds = metrics_of(ensemble)["ratios"]["mse"]["model"]["ridge"]["over_seeds"]
    ridge = metrics_of(ensemble)["scores"]["ridge"]["degC"]["mse"]
    for member, ratio in zip(ensemble.members, seeds, strict=True):
        error = (forecast_of(TrainedRun(member), data)["sst"] - truth) ** 2
        assert ratio == pytest.approx(float(error.weighted(area_weights(truth["lat"])).mean()) / ridge, rel=1e-3)


def test_comparing_two_runs(ensemble: Run) -> None:
    member = ensemble.members[1]
    compared = compare(ensemble, member)
    ratio = (
        metrics_of(ensemble)["scores"]["model"]["degC"]["mse"]
        / metrics_of(member)["scores"]["model"]["degC"]["mse"]
    )
    assert compared["ratio"] == pytest.approx(ratio, rel=1e-4)
    assert compared["ratio"] < 1  # the mean of three errs less
    assert len(compared["better"]) == 2
    same = compare(member, member)
    assert same["ratio"] == 1
    assert same["interval"] == [1, 1]
    assert same["p_value"] is None


def test_runs_of_other_days_are_refused(ensemble: Run, tmp_path: Path, sst_file: Path) -> None:
    splits = {
        "train": [2001, 2002],
        "validation": ["2003-01-01", "2003-06-30"],
        "test": ["2003-07-01", "2004-06-30"],
    }
    other = Run.create(configure(tmp_path, sst_file, "other", splits=splits))
    with pytest.raises(
        SSTCastError, match=r"other: its data.splits.test is 2003-07-01..2004-06-30, but .* same days"
    ):
        compare(ensemble, other)
    assert reference("damped") == "damped persistence"
    assert reference(str(ensemble.folder)) == Run(ensemble.folder)
    with pytest.raises(SSTCastError, match=r"--against persistance: neither .* did you mean 'persistence'"):
        reference("persistance")

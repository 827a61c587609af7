"""Scores of the thirds of weekly means, against plain NumPy."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from scenes import block, observation, scene
from scipy.stats import norm
from scored_runs import configure, metrics_of

from sstcast.extremes.terciles import BOUNDS, terciles_of, weekly_means
from sstcast.names import EQUAL_THIRDS, SCORED_YEARS, THIRDS
from sstcast.ocean.prepare import prepare
from sstcast.reading.days_of_year import on_days
from sstcast.runs import Run
from sstcast.scores.analysis import Analysis
from sstcast.scores.cases import STEPS, diagram, roc_area
from sstcast.scores.kinds.terciles import Terciles
from sstcast.scores.probabilities import cases_by
from sstcast.scores.saved_scores import SavedScores
from sstcast.scores.scene import Scene
from sstcast.scores.score_files import ScoreFiles
from sstcast.scores.systems import ScoredSystem

CORRELATION = 0.8 ** np.abs(np.subtract.outer(np.arange(8), np.arange(8)))


def test_scores_equal_plain_numpy(scored: Run) -> None:
    truth = Analysis.of(scored)
    tables = Terciles(scene(truth, gaussian=CORRELATION, members=None))
    random = np.random.default_rng(0)
    analyses, forecasts, blocks = [], [], []
    for dates in (slice(0, 64), slice(64, 128)):
        climatology = truth.ahead(truth.statistics["climatology"], dates)
        anomaly = truth.ahead(truth.sst, dates) - climatology
        members = (anomaly + random.normal(0, 0.6, (3, *anomaly.shape))).astype(np.float32)
        spread = np.where(truth.ocean, 0.5, 0).astype(np.float32) * np.ones_like(anomaly)
        seen = observation(dates, anomaly)
        tables.begin(seen)
        tables.add(block("gaussian", seen, members, spread))
        for part in (slice(0, 20), slice(20, 64)):
            tables.add(block("members", seen.at(part), members[:, part]))
        analyses.append(anomaly)
        forecasts.append(members)
        blocks.append(dates)
    stop = blocks[-1].stop
    middle = truth.windows.init_times[:stop] + np.timedelta64(4, "D")
    day = xr.DataArray(middle, dims="d").dt.dayofyear.values  # 2004 is a leap year
    limits = [
        truth.on_tiles(tables.bounds[name].sel(day_of_leap_year=day)) for name in ("lower_bound", "upper_bound")
    ]
    ocean = truth.ocean
    low, high = (limit[:, ocean].astype(float) for limit in limits)
    week = np.concatenate(analyses)[:, :7].astype(float).mean(1)[:, ocean]
    members = np.concatenate(forecasts, 1)[:, :, :7].astype(float).mean(2)[:, :, ocean]
    width = 0.5 * np.sqrt(CORRELATION[:7, :7].sum()) / 7
    weights = np.broadcast_to(truth.area[ocean].astype(float), week.shape)
    third = (week > low).astype(int) + (week > high)
    chances = {
        "gaussian": (norm.cdf((low - members.mean(0)) / width), norm.cdf((high - members.mean(0)) / width)),
        "members": ((members <= low).mean(0), (members <= high).mean(0)),
    }
    dataset = tables.dataset()
    defined = dataset["tercile_defined_by_date"].sel(tercile="lower")
    ends = dataset.sel(tercile=["lower", "upper"]).sum(
        "tercile", skipna=False
    )  # those of both bounds add to the RPS
    for name, (below_low, below_high) in chances.items():
        score = (below_low - (third == 0)) ** 2 + (below_high - (third <= 1)) ** 2
        expected = (score * weights).sum(1) / weights.sum(1)
        rows = ends["tercile_brier_by_date"].sel(forecaster=name)[:stop, 0] / defined[:stop, 0]
        np.testing.assert_allclose(rows, expected, atol=2e-6)
        if (
            name == "members"
        ):  # three, whose variance about their probability is estimated with two in place of three
            sampled = sum(below * (1 - below) for below in (below_low, below_high)) / 2
            fair = ends["tercile_brier_fair_by_date"].sel(forecaster=name)[:stop, 0] / defined[:stop, 0]
            expected = ((score - sampled) * weights).sum(1) / weights.sum(1)
            np.testing.assert_allclose(fair, expected, atol=2e-6)
        by_third = below_low, below_high - below_low, 1 - below_high
        for number, chance in enumerate(by_third):
            of_name = dataset.sel(tercile=THIRDS[number], forecaster=[name])
            (by_year, _), (by_week, _) = (cases_by(of_name, "tercile", part) for part in ("year", "lead"))
            np.testing.assert_allclose(by_year.sum(1), by_week.sum(1))
            got = diagram(by_year.at(0))
            step, came = np.floor(chance * 100 + 1e-4).astype(int), third == number
            if name == "gaussian":
                for place in range(10):
                    inside = step // 10 == place
                    total = weights[inside].sum()
                    if total == 0:
                        assert got["probability"][place] is None
                        continue
                    assert float(got["probability"][place]) == pytest.approx(
                        (chance * weights)[inside].sum() / total, abs=2e-4
                    )
                    assert float(got["observed"][place]) == pytest.approx(
                        weights[inside & came].sum() / total, abs=2e-4
                    )
                    assert float(got["share"][place]) == pytest.approx(total / weights.sum(), abs=2e-4)
            hits, misses = (np.bincount(step[of], weights[of], STEPS + 1) for of in (came, ~came))
            area = (hits * (misses.cumsum() - misses / 2)).sum() / hits.sum() / misses.sum()
            assert roc_area(by_year.sum(1))[0] == pytest.approx(area, abs=1e-4)
    rates = [(weights * (third == number)).sum() / weights.sum() for number in range(3)]
    came = dataset["tercile_came_by_date"].sum(("init_time", "whole_week")) / np.nansum(defined)
    np.testing.assert_allclose(came, rates, atol=1e-6)


def test_evaluated_runs_and_references(scored: Run) -> None:
    metrics = metrics_of(scored)
    found = metrics["terciles"]
    with ScoreFiles(scored.folder).open() as opened:
        tables = opened.load()
    rates = [found["observed"][third] for third in THIRDS]
    assert sum(rates) == pytest.approx(1, abs=1e-5)
    of = {name: row["rps"] for name, row in found["scores"].items()}
    below = np.cumsum(rates)[:2]
    assert of[SCORED_YEARS] == pytest.approx((below * (1 - below)).sum(), abs=1e-5)
    expected = sum(rate * score for rate, score in zip(rates, (5 / 9, 2 / 9, 5 / 9), strict=True))
    assert of[EQUAL_THIRDS] == pytest.approx(expected, abs=1e-5)
    of_model = tables["tercile_brier_by_date"].sel(forecaster="model", tercile=["lower", "upper"])
    score = of_model.sum() / tables["tercile_defined_by_date"].sel(tercile="lower").sum()
    assert of["model"] == pytest.approx(float(score), abs=2e-6)
    for name in (SCORED_YEARS, "multiscale ridge"):
        compared = metrics["ratios"]["rps"]["model"][name]
        assert compared["ratio"] == pytest.approx(of["model"] / of[name], rel=1e-4)
        assert compared["interval"][0] < compared["ratio"] < compared["interval"][1]
    scores = Terciles.losses(tables)["rps"].values.dropna("lead", how="all")
    assert scores["lead"].values.tolist() == [4]  # the middle of days 1 to 7
    assert {*of} == {*scores.dropna("system", how="all")["system"].values}


def test_scores_without_weeks_open(scored: Run, tmp_path: Path) -> None:
    """A horizon of less than seven days has none."""
    metrics = metrics_of(scored)
    with ScoreFiles(scored.folder).open() as opened:
        short = opened.load().drop_dims("whole_week")
    files = ScoreFiles(tmp_path)
    recipe = metrics.pop("recipe")
    files.write(short, {key: of for key, of in metrics.items() if key != "terciles"}, recipe)
    again = SavedScores(files, files.read()).again("persistence").metrics
    assert "terciles" not in again
    assert "rps" not in again["ratios"]


def test_no_cell_without_thirds_takes_part(scored: Run) -> None:
    truth = Analysis.of(scored)
    dates = truth.blocks()[0]
    tables = Terciles(scene(truth, x=None))
    tables.bounds = tables.bounds.where(tables.bounds["lat"] > -11)
    anomaly = truth.ahead(truth.sst, dates) - truth.ahead(truth.statistics["climatology"], dates)
    seen = observation(dates, anomaly)
    tables.begin(seen)
    tables.add(block("x", seen, anomaly[None]))
    found = replace(truth).on_map(truth.area[None, None] * np.ones((1, 1, 1, 1), np.float32))[0, 0]
    north = np.nansum(found[truth.anomalies["lat"].values > -11])
    found = tables.dataset().isel(init_time=dates)
    np.testing.assert_allclose(found["tercile_defined_by_date"], north, rtol=1e-5)
    assert (found["tercile_brier_by_date"].sel(forecaster="x") == 0).all()  # a perfect forecast


def test_thirds_of_another_base_period_are_of_anomalies_from_its_climatology(
    scored: Run, sst_file: Path, tmp_path: Path
) -> None:
    splits = {"train": [2001, 2002], "validation": [2003, 2003], "test": [2004, 2004], "base_period": [2002, 2003]}
    base = configure(tmp_path, sst_file, splits=splits).data
    prepared = prepare(base)
    truth = replace(Analysis.of(scored), base=prepared)
    tables, dates = Terciles(scene(truth)), slice(0, 40)
    anomaly = truth.ahead(truth.sst, dates) - truth.ahead(truth.statistics["climatology"], dates)
    tables.begin(observation(dates, anomaly))
    climatology = prepared.open_anomalies()["climatology"].load()
    weekly = weekly_means(truth.ahead(truth.sst, dates) - truth.ahead(climatology, dates), 1)
    middle = xr.DataArray(
        truth.windows.init_times[dates, None] + np.timedelta64(4, "D"), dims=("init_time", "lead")
    )
    lower, upper = (tables.probabilities.observed[third,][0] for third in ("lower", "upper"))
    for above, name in zip((~lower, upper), BOUNDS, strict=True):
        bound = truth.on_tiles(on_days(terciles_of(prepared)[name], middle))
        sure = truth.ocean & (abs(weekly - bound) > 1e-4)
        np.testing.assert_array_equal(above[sure], (weekly > bound)[sure])


def test_fair_scores_of_a_reliable_ensemble_do_not_depend_on_its_size(scored: Run) -> None:
    """Truth and members are drawn from one Gaussian, whose own probabilities have the score of the fair ones."""
    truth, random, dates = Analysis.of(scored), np.random.default_rng(0), slice(0, 120)
    daily = truth.ahead(truth.sst, dates) - truth.ahead(truth.statistics["climatology"], dates)
    centre = (0 * daily + random.normal(0, 0.7, (len(daily), 1, *daily.shape[2:]))).astype(np.float32)
    members = centre + random.normal(0, 0.5, (17, len(daily), 1, *daily.shape[2:])).astype(np.float32)  # all week
    sizes = {"1": None, "2": None, "16": None}
    tables = Terciles(scene(truth, gaussian=np.ones((8, 8)), **sizes))
    seen = observation(dates, members[0])
    tables.begin(seen)
    tables.add(block("gaussian", seen, centre[None], np.full_like(centre, 0.5)))
    for count in (1, 2, 16):
        tables.add(block(str(count), seen, members[1 : 1 + count]))
    dataset = tables.dataset().sel(whole_week=1).isel(init_time=dates).sel(tercile=["lower", "upper"])
    dataset = dataset.sum(("init_time", "tercile"), skipna=False)
    plain, fair = (dataset[f"tercile_{name}_by_date"].astype(float) for name in ("brier", "brier_fair"))
    best = float(plain.sel(forecaster="gaussian"))
    assert fair.sel(forecaster=["gaussian", "1"]).isnull().all()
    for count in (2, 16):
        assert float(fair.sel(forecaster=str(count))) == pytest.approx(best, rel=0.03)
    assert float(plain.sel(forecaster="2")) > 1.4 * best


def test_a_single_member_of_several_gives_no_probability(scored: Run) -> None:
    truth, dates = Analysis.of(scored), slice(0, 12)
    anomaly = truth.ahead(truth.sst, dates) - truth.ahead(truth.statistics["climatology"], dates)
    tables = Terciles(Scene(truth, {"three": ScoredSystem(None, members=3), "one": ScoredSystem(None)}))
    tables.begin(seen := observation(dates, anomaly))
    for part, members in ((slice(0, 5), 3), (slice(5, 6), 1), (slice(6, 12), 2)):
        tables.add(block("three", seen.at(part), np.repeat(anomaly[None, part], members, 0)))
    tables.add(block("one", seen, anomaly[None]))
    brier = tables.dataset()["tercile_brier_by_date"].sel(tercile="lower").isel(init_time=dates, whole_week=0)
    assert brier.sel(forecaster="three").isnull().values.tolist() == [date == 5 for date in range(12)]
    assert brier.sel(forecaster="one").notnull().all()

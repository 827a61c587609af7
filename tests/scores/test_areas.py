"""Scores of areas against plain NumPy, and places of an evaluation."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import scored_runs
import xarray as xr
from logged import logged
from scenes import block, scene
from scipy import stats
from scored_runs import configure

import sstcast
from sstcast.errors import SSTCastError
from sstcast.extremes.heatwaves import MARGIN_DAYS, events, limits_of
from sstcast.figures.sheets.areas import _skill
from sstcast.figures.sheets.areas import areas as areas_sheet
from sstcast.forecasting.forecast import forecast
from sstcast.forecasting.samples import ErrorPaths
from sstcast.forecasting.spread import calibrated
from sstcast.geo import area_weights
from sstcast.names import DAY, DEFAULT_REFERENCE, DEGREES, EVENT, SCORED_YEARS
from sstcast.ocean.prepare import prepare
from sstcast.ocean.prepared import Prepared
from sstcast.reading.days_of_year import on_days
from sstcast.runs import Run
from sstcast.scores.analysis import Analysis
from sstcast.scores.evaluate import evaluate, kept
from sstcast.scores.kinds.areas import EVERY, SAMPLES, Areas, _compared
from sstcast.scores.score_files import ScoreFiles
from sstcast.training.train import train, training_windows


def geojson(path: Path) -> Path:
    ring = [[171, -11.5], [172, -11.5], [172, -10.5], [171, -10.5], [171, -11.5]]
    feature = {
        "type": "Feature",
        "properties": {"name": "park"},
        "geometry": {"type": "Polygon", "coordinates": [ring]},
    }
    path.write_text(json.dumps(feature))
    return path


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, sst_file: Path) -> Run:
    """A run that is evaluated with a place."""
    folder = tmp_path_factory.mktemp("areas")
    config = configure(folder, sst_file, model={"name": "ridge"}, horizon=5)
    prepare(config.data)
    run, _ = train(config, training_windows(config))
    with logged() as lines:
        result = sstcast.evaluate(run, places=geojson(folder / "park.geojson"))
    assert result.new
    assert lines == ["park: 100% of its area are in 16 ocean cells, from 171 to 172 degrees east"]
    return run


def test_scores_by_date_are_plain_numpy(made: Run) -> None:
    tables = ScoreFiles(made.folder).open().load()
    data, limits = made.config.data, limits_of(Prepared.of(made.config.data))
    cube = Prepared.of(data).open_cube()["sst"].load()
    issued = xr.open_zarr(made.forecasts, zarr_format=2).load()
    ocean = issued["sst"][0, 0].notnull().values
    area = (area_weights(issued["lat"]) * xr.ones_like(issued["lon"])).values
    inside = np.zeros(area.shape, bool)
    inside[2:6, 4:8] = True
    scored = tables["area_crps_by_date"].sel(system="model", area="region").notnull().all("lead")
    dates = tables["init_time"].values[scored.values]
    assert (np.diff(dates) == np.timedelta64(EVERY, "D")).all()
    assert len(dates) > 8
    hot = cube > on_days(limits["heatwave_threshold"], cube["time"])
    event = xr.DataArray(events(hot.values), hot.coords, hot.dims)
    for date in dates[[0, 7]]:
        field = issued.sel(init_time=date)
        errors = ErrorPaths.of(Prepared.of(data), ocean).standard_errors(date, SAMPLES)
        mean, spread = (field[name].values[:, ocean] for name in ("sst", "sst_spread"))
        samples = mean[..., None] + spread[..., None] * errors[: len(mean)]
        days = field["valid_time"].values
        came, threshold = (
            of.values[:, ocean]
            for of in (cube.sel(time=days), on_days(limits["heatwave_threshold"], xr.DataArray(days, dims="time")))
        )
        past = hot.sel(time=slice(date - np.timedelta64(6, "D"), date)).values[:, ocean]
        late = np.minimum(np.arange(len(errors)), len(mean) - 1)
        ahead = mean[late][..., None] + spread[late][..., None] * errors > threshold[late][..., None]
        whole = np.concatenate([np.repeat(past[..., None], SAMPLES, -1), ahead])
        in_event = events(whole)[len(past) : len(past) + len(mean)]
        for name, weights in (("region", area[ocean]), ("park", (area * inside)[ocean])):
            found = tables.sel(system="model", forecaster="model", area=name, init_time=date)
            members = np.einsum("lcn,c->ln", samples, weights) / weights.sum()
            truth = came @ weights / weights.sum()
            spans = abs(members[:, :, None] - members[:, None]).mean((1, 2)) / 2
            crps = abs(members - truth[:, None]).mean(1) - spans
            np.testing.assert_allclose(found["area_crps_by_date"], crps, atol=2e-4)
            np.testing.assert_allclose(found["area_variance_by_date"], members.var(1), rtol=1e-2)
            ends = np.quantile(members, [0.1, 0.9], axis=1, method="hazen")
            sure = np.minimum(abs(truth - ends[0]), abs(truth - ends[1])) > 1e-3
            covered = (ends[0] <= truth) & (truth <= ends[1])
            np.testing.assert_array_equal(found["area_covered_80_by_date"].values[sure], covered[sure])
            shares = np.einsum("lcn,c->ln", in_event, weights) / weights.sum()
            occurred = event.sel(time=days).values[:, ocean] @ weights / weights.sum()
            brier = ((shares >= 0.25 - 1e-6).mean(1) - (occurred >= 0.25 - 1e-6)) ** 2
            np.testing.assert_allclose(found["area_brier_by_date"].sel(share=25), brier, atol=0.05)


def test_a_reference_named_as_a_score_takes_nothing_from_it(made: Run) -> None:
    """A system of a hindcast may be called `dates`, as the number of dates."""
    tables = ScoreFiles(made.folder).open().load()
    names = {dim: np.where(tables[dim] == "ridge", "dates", tables[dim]) for dim in ("system", "forecaster")}
    plain, odd = (
        Areas.section(of, reference)["areas"]["region"]["model"]["share"]["10"]
        for of, reference in ((tables, "ridge"), (tables.assign_coords(names), "dates"))
    )
    assert odd.pop("dates (system)") == plain.pop("ridge")
    assert odd == plain
    assert odd["dates"] > 8


def test_cells_without_a_threshold_have_no_share_and_a_sure_forecast_no_error(made: Run) -> None:
    data = Analysis.of(made)
    horizon = data.windows.horizon
    tables = Areas(scene(data, sure=np.eye(horizon)))
    heatwaves = tables.scene.heatwaves
    seen = next(iter(data.observe()))
    limit, anomaly = seen.limit.copy(), seen.anomaly[DEGREES]
    limit[:, :, 1] = np.nan  # of one of two tiles
    limit[:, -1] = np.nan  # and everywhere on the last day
    seen = seen._replace(limit=limit, lowest=None)
    tables.begin(seen)
    tables.add(block("sure", seen, anomaly[None], np.full_like(anomaly, 1e-6)))
    weights = np.where(data.ocean, data.area, 0)[0].astype(float)
    found = (
        tables.dataset()
        .sel(system="sure", forecaster="sure", area="region")
        .isel(init_time=tables.chosen(seen.dates))
    )
    shares = []
    for date in tables.chosen(seen.dates):
        day = heatwaves.last[date] + 1
        inside = heatwaves.truth[EVENT][day : day + horizon - 1, 0]
        shares.append((inside * weights).sum(1) / weights.sum())
        np.testing.assert_allclose(tables.observed[date][1][:-1, 0], shares[-1], atol=1e-5)
        assert np.isnan(tables.observed[date][1][-1]).all()
        days = heatwaves.hot[day - 1 - MARGIN_DAYS : day + horizon - 1, 0]
        said = events(np.concatenate([days, np.zeros_like(days)]))[MARGIN_DAYS + 1 : MARGIN_DAYS + horizon]
        said_share = (said * weights).sum(1) / weights.sum()
        for number, least in enumerate((0.1, 0.25, 0.5)):
            wrong = (said_share >= least) != (shares[-1] >= least)
            np.testing.assert_allclose(tables.brier[number, 0, 0, date, :-1], wrong, atol=1e-6)
    assert 0 < np.mean(shares) < 1
    assert found["area_brier_by_date"].isel(lead=-1).isnull().all()
    assert found["area_brier_by_date"].isel(lead=0).notnull().all()
    np.testing.assert_allclose(found["area_mse_by_date"], 0, atol=1e-6)


@pytest.mark.parametrize(
    ("came", "failed", "expected"),
    [
        (4, 20, "- (came on 4 of 20 dates)"),
        (20, 0, "- (failed on 0 of 20 dates)"),
        (5, 5, "-1054.0% (-1200.0% to -900.0%)"),
    ],
)
def test_rare_events_have_no_skill_in_tables(came: int, failed: int, expected: str) -> None:
    compared = {"ratio": 11.54, "interval": [10, 13]}
    assert _skill({"came": came, "failed": failed, "dates": 20, SCORED_YEARS: compared}) == expected


def test_shares_of_an_area_are_compared_over_folds_too() -> None:
    random = np.random.default_rng(0)
    dates = np.datetime64("2001-01-01", "ns") + 30 * DAY * np.arange(36)
    folds = np.repeat([1, 2, 3], 12)
    season = xr.DataArray(np.full((36, 5), "DJF"), dims=("init_time", "lead"))
    brier = xr.DataArray(
        random.uniform(size=(2, 1, 1, 36, 5)),
        {"forecaster": ["ours", "base"], "init_time": dates, "season": season, "fold": ("init_time", folds)},
        ("forecaster", "area", "share", "init_time", "lead"),
    )
    ours, base = brier.values[:, 0, 0]
    ratios = [ours[folds == fold].mean() / base[folds == fold].mean() for fold in (1, 2, 3)]
    found = _compared(brier, ["base"])["base"]
    np.testing.assert_allclose(found["ratio"][0, 0, 0], ours.mean() / base.mean())
    interval = stats.ttest_1samp(ratios, 1).confidence_interval()
    np.testing.assert_allclose(found["over_folds"]["interval"][0, 0, 0], [*interval], atol=1e-5)
    assert "over_folds" not in _compared(brier.isel(init_time=folds == 1), ["base"])["base"]


def test_dates_that_are_scored_are_30_days_apart(made: Run) -> None:
    data = Analysis.open(Prepared.of(made.config.data), every=5)
    tables = Areas(scene(data, some=np.eye(data.windows.horizon)))
    chosen = data.windows.init_times[tables.chosen(slice(0, data.windows.starts))]
    assert (np.diff(chosen) == np.timedelta64(EVERY, "D")).all()
    assert len(chosen) > 8


def share_scores(tables: xr.Dataset, scores: dict, area: str, system: str, least: int) -> float:
    """Compare the scores of a share with its tables, and return how often it came."""
    chosen = tables.sel(area=area, share=least)
    came, brier = (chosen[f"area_{name}_by_date"].astype(float) for name in ("came", "brier"))
    chance = came + np.where(came, -1, 1) * brier**0.5
    share, rate = scores[system]["share"][str(least)], float(came.mean())
    days = came.transpose("init_time", "lead").values
    days = days[~np.isnan(days).all(1)]
    counted = {"dates": len(days), "came": (days == 1).any(1).sum(), "failed": (days == 0).any(1).sum()}
    assert {name: share[name] for name in counted} == counted
    base = scores[SCORED_YEARS]["share"][str(least)]["brier"]
    assert base == pytest.approx(rate * (1 - rate), abs=1e-5)
    of_reference = float(brier.sel(forecaster=DEFAULT_REFERENCE).mean())
    for name, number in ((SCORED_YEARS, rate * (1 - rate)), (DEFAULT_REFERENCE, of_reference)):
        if number == 0:
            assert share[name]["ratio"] is None
            continue
        assert share[name]["ratio"] == pytest.approx(float(brier.sel(forecaster=system).mean()) / number, rel=1e-3)
        low, high = share[name]["interval"]
        assert low is None or low <= share[name]["ratio"] <= high
    if area == "region":
        high_chance = (chance.sel(forecaster=system) >= 0.9 - 1e-6).values & came.notnull().values
        told = share["reliability"]
        assert told["share"][9] == pytest.approx(high_chance.sum() / came.notnull().values.sum(), abs=1e-5)
        if high_chance.any():
            assert told["observed"][9] == pytest.approx(came.values[high_chance].mean(), abs=1e-5)
    return rate


def test_scores_are_means_over_dates(made: Run) -> None:
    metrics = json.loads(made.metrics.read_text())
    tables = ScoreFiles(made.folder).open().load()
    assert list(metrics["areas"]) == ["region", "park"]
    assert set(metrics["areas"]["park"]) == {*metrics["probabilities"], SCORED_YEARS}
    rates: dict[tuple[str, int], float] = {}
    for area, of in metrics["areas"].items():
        for system in ("model", "climatology"):
            fields = tables.sel(area=area, system=system, forecaster=system)
            crps = fields["area_crps_by_date"]
            assert of[system]["crps"] == pytest.approx(float(crps.mean()), abs=1e-5)
            assert of[system]["by_lead"]["crps"] == pytest.approx(crps.mean("init_time").values, abs=1e-5)
            ratio = (fields["area_variance_by_date"].mean() / fields["area_mse_by_date"].mean()) ** 0.5
            assert of[system]["spread_skill"] == pytest.approx(float(ratio), rel=1e-4)
            assert 0 <= of[system]["covered_80"] <= 1
            brier = fields["area_brier_by_date"].sel(share=50)
            assert of[system]["share"]["50"]["brier"] == pytest.approx(float(brier.mean()), abs=1e-5)
            rates |= {(area, least): share_scores(tables, of, area, system, least) for least in (10, 25, 50)}
    assert any(0 < rate < 1 for rate in rates.values())
    means, skills, of_10, *_ = areas_sheet(metrics, "ridge")
    climate = min(
        ("climatology", "trend climatology", "recent climatology"),
        key=lambda name: metrics["scores"][name]["degC"]["mse"],
    )
    assert means.header[1:4] == ["RMSE", climate, "persistence"]
    for area, cells in means.rows:
        of = metrics["areas"][area]
        assert cells[1:4] == [f"{of[name]['rmse']:.3f}" for name in ("model", climate, "persistence")]
    assert [name for name, _ in skills.rows] == ["region", "park"]
    assert {name for name, _ in of_10.rows} == {*metrics["probabilities"], SCORED_YEARS, "ridge (run)"} - {"model"}


def test_places_stay_with_a_run(made: Run, tmp_path: Path) -> None:
    copy = Run(Path(shutil.copytree(made.folder, tmp_path / "copy")))
    metrics, new = evaluate(copy, kept(copy))
    assert not new
    assert "park" in metrics["areas"]
    other = geojson(tmp_path / "other.geojson")
    other.write_text(other.read_text().replace("park", "reef"))
    (site := tmp_path / "site.csv").write_text("name,lat,lon\nfarm,-10.3,171.3\n")
    metrics = sstcast.evaluate(copy, places=[other, site]).value
    assert list(metrics["areas"]) == ["region", "reef", "farm"]
    means, skills, *_ = areas_sheet(metrics, "ridge")
    for sheet, first in ((means, -3), (skills, 0)):
        once = {name: [bool(cell) for cell in cells[first:]] for name, cells in sheet.rows}
        assert once == {"region": [True] * 3, "reef": [True] * 3, "farm": [True, False, False]}
    other.write_text(other.read_text().replace("172", "195"))
    with pytest.raises(SSTCastError, match="reef: only"):
        sstcast.evaluate(copy, places=other)


def test_without_enough_training_days_areas_are_not_scored_and_a_line_says_so(
    tmp_path: Path, sst_file: Path
) -> None:
    splits = scored_runs.SHORT_TEST | {"train": [2001, 2001], "validation": [2002, 2003]}
    run = scored_runs.make_run(configure(tmp_path, sst_file, splits=splits, horizon=28))
    calibrated(run)
    with logged() as lines:
        metrics, _ = evaluate(run)
    assert "areas" not in metrics
    told = "not scored as areas: 2001-01-01..2001-12-31 has too few days for"
    assert sum(told in line for line in lines) == 1
    path, _ = forecast(run.folder, "2004-03-10")
    assert "heatwave_area" in xr.load_dataset(path)


def test_areas_are_clipped_at_the_freezing_point_of_each_day(made: Run) -> None:
    """A forecast far below it is the freezing point, which lies elsewhere beside each day's climatology."""
    data = Analysis.of(made)
    tables = Areas(scene(data, cold=np.eye(data.windows.horizon)))
    seen = next(iter(data.observe()))
    anomaly = seen.anomaly[DEGREES]
    seen = seen._replace(lowest=anomaly)  # so that the clipped forecast is what came
    tables.begin(seen)
    tables.add(block("cold", seen, anomaly[None] - 5, np.full_like(anomaly, 1e-6)))
    dates = tables.chosen(seen.dates)
    assert np.abs(np.diff(anomaly[dates], axis=1)).max() > 0.1
    np.testing.assert_allclose(tables.means["mse"][0][:, dates], 0, atol=1e-6)

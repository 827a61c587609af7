"""Forecasts that are means of several days are scored by the means of the days that their bounds tell."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from refusals import refused
from scipy.stats import norm
from small_ocean import make_sst

from sstcast.config import DataConfig, FieldSource
from sstcast.errors import SSTCastError
from sstcast.extremes.terciles import BOUNDS, terciles_of
from sstcast.figures import catalogue
from sstcast.figures.answers import answers
from sstcast.figures.results import Results
from sstcast.figures.sheets.sheet import parts_of
from sstcast.ocean.prepared import Prepared
from sstcast.reading.forecast_files import read_forecasts
from sstcast.reports.report import _key_figures
from sstcast.runs import Run
from sstcast.scores.analysis import Analysis
from sstcast.scores.score import score
from sstcast.scores.score_files import ScoreFiles

DAYS, DAY = 5, np.timedelta64(1, "D")
STARTS = np.array([0, 5, 12])  # days after the first day forecast: the second gap is not a whole mean


@pytest.fixture(scope="module")
def truth() -> xr.DataArray:
    return make_sst()["sst"].sel(lat=slice(-12, -10), lon=slice(170, 173))


def means_of(truth: xr.DataArray, error: np.ndarray | float = 0, first: int = 1) -> xr.Dataset:
    """Return perfect forecasts plus an error by date and lead, whose first mean begins `first` days ahead."""
    dates = truth["time"].values[-330:-30:10]
    days = dates[:, None, None] + (first + STARTS[:, None] + np.arange(DAYS)) * DAY
    of_days = truth.sel(time=xr.DataArray(days, dims=("init_time", "lead", "day")))
    values = of_days.mean("day").drop_vars("time", errors="ignore") + xr.DataArray(
        np.broadcast_to(error, days.shape[:2]), dims=("init_time", "lead")
    )
    bounds = first + STARTS[:, None] + np.array([0, DAYS])
    forecasts = values.to_dataset(name="sst").assign(lead_bnds=(("lead", "bnds"), bounds.astype(float)))
    forecasts["sst"].attrs = {"units": "degC", "cell_methods": "time: mean (interval: 5 days)"}
    lead = ("lead", first + STARTS + DAYS / 2, {"units": "days", "bounds": "lead_bnds"})
    return forecasts.assign_coords(init_time=dates, lead=lead)


@pytest.fixture(scope="module")
def perfect(truth: xr.DataArray, sst_file: Path, folder: Path) -> tuple[dict[str, Any], ScoreFiles]:
    """The scores of perfect forecasts."""
    means_of(truth).to_netcdf(folder / "perfect.nc")
    metrics, files, _ = score(folder / "perfect.nc", FieldSource(source=str(sst_file)))
    return metrics, files


def test_the_bounds_tell_the_days(truth: xr.DataArray, tmp_path: Path) -> None:
    for first, last, before in ((1, [5, 10, 17], 0), (0, [5, 10, 17], 1), (2, [6, 11, 18], 0)):
        path = tmp_path / f"{first}.nc"
        means_of(truth, first=first).to_netcdf(path)
        found = read_forecasts(path, means=True)
        assert found.mean_of == DAYS
        assert found.sst["lead"].values.tolist() == last
        dates = truth["time"].values[-330:-30:10] - before * DAY
        np.testing.assert_array_equal(found.sst["init_time"].values, dates)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda f: f.assign(lead_bnds=f["lead_bnds"] + 0.4), "begin within a day"),
        (lambda f: f.assign(lead_bnds=f["lead_bnds"] * [1, 1.1]), "more than a day"),
        (lambda f: f.drop_vars("lead_bnds"), "more than a day"),
        (
            lambda f: f.assign(sst=f["sst"].assign_attrs(cell_methods="time: maximum")),
            "more than",
        ),
        (
            lambda f: f.assign_coords(
                valid_time=(("init_time", "lead"), f["init_time"].values[:, None] + 9 * DAY * STARTS)
            ),
            "outside the bounds",
        ),
    ],
)
def test_days_that_are_not_told_are_refused(truth: xr.DataArray, tmp_path: Path, change, words: str) -> None:
    change(means_of(truth)).to_netcdf(path := tmp_path / "file.nc")
    with pytest.raises(SSTCastError, match=words):
        read_forecasts(path, means=True)


@pytest.mark.parametrize("first", [0, 1])
def test_bounds_that_leave_one_day_between_means_are_refused(tmp_path: Path, first: int) -> None:
    """Weeks of days 1 to 7 and 8 to 14 are no means of six days; with gaps of more days, or alone, they may be."""
    weeks = np.array([[1.0, 7], [8, 14], [15, 21]])[first:]
    shape = {"init_time": 3, "lead": len(weeks), "lat": 2, "lon": 2}
    dates = np.datetime64("2004-01-01", "ns") + np.arange(3) * DAY
    coords = {"init_time": dates, "lat": [-11.5, -10.5], "lon": [171.5, 172.5]}

    def read(bounds: np.ndarray) -> list[int]:
        sst = ([*shape], np.full((3, len(bounds), 2, 2), 20.0), {"units": "degC", "cell_methods": "lead: mean"})
        leads = ("lead", bounds[:, 0], {"units": "days", "bounds": "lead_bnds"})
        of_leads = {"sst": sst, "lead_bnds": (("lead", "bnds"), bounds)}
        xr.Dataset(of_leads, coords | {"lead": leads}).to_netcdf(
            path := tmp_path / f"{bounds.mean()}-{bounds[0, 0]}.nc"
        )
        return [int(lead) for lead in read_forecasts(path, means=True).sst["lead"]]

    for order in (slice(None), slice(None, None, -1)):
        with refused("the bounds leave out a day between means", "add one day to each end"):
            read(weeks[order])
    assert read(weeks + np.array([0, 1])) == [7, 14, 21][first:]
    assert read(weeks[:1]) == [[6], [13]][first]
    apart = weeks + 2 * np.arange(len(weeks))[:, None]
    assert read(apart) == [int(last) - 1 for last in apart[:, 1]]


def test_they_are_not_read_as_predictors(truth: xr.DataArray, tmp_path: Path) -> None:
    means_of(truth).to_netcdf(path := tmp_path / "file.nc")
    with pytest.raises(SSTCastError, match="more than a day"):
        read_forecasts(path)


def test_errors_are_those_of_the_means(
    truth: xr.DataArray, perfect: tuple[dict[str, Any], ScoreFiles], sst_file: Path, tmp_path: Path
) -> None:
    error = np.random.default_rng(0).normal(size=(30, len(STARTS)))
    means_of(truth, error, 8).to_netcdf(path := tmp_path / "late.nc")
    late = score(path, FieldSource(source=str(sst_file)))
    for (metrics, files, *_), added, first in ((perfect, 0.0, 1), (late, error, 8)):
        dates = truth["time"].values[-330:-30:10]
        days = [str((dates[0] + lead * DAY).astype("M8[D]")) for lead in (first, first + DAYS - 1)]
        assert f"the first mean is of 5 days, {' to '.join(days)}" in metrics["notes"]
        assert metrics["test"] == [days[0], str((dates[-1] + (first + 16) * DAY).astype("M8[D]"))]
        assert metrics["ocean_cells"] == 90
        assert any("thirds are not scored" in note for note in metrics["notes"])
        assert metrics["heatwaves"] == metrics["probabilities"] == {}
        assert "terciles" not in metrics
        forecast, observed = Results(files.folder).fields(4)
        np.testing.assert_allclose(
            (forecast["sst"] - observed["sst"]).mean(("lat", "lon")),
            np.broadcast_to(added, error.shape)[4],
            atol=1e-4,
        )
    assert perfect[0]["scores"]["model"]["degC"]["rmse"] < 1e-5
    found = files.open()["mse_by_date"].sel(units="degC", system="model")
    np.testing.assert_allclose(found.sel(lead=[12, 17, 24]), error**2, rtol=1e-3, atol=1e-5)
    assert found.notnull().sum("lead").values.tolist() == [3] * 30
    # What no lead reaches is not shown: of days 8 to 24, neither day 1 nor the first week.
    results = Results(files.folder)
    assert parts_of(metrics, "by_lead") == {"day 12": 11, "day 24": 23}
    assert parts_of(metrics, "by_week") == {"week 2": 1, "week 3": 2, "week 4": 3}
    assert [head for head, *_ in _key_figures(results)][1:3] == ["RMSE, day 12", "RMSE, day 24"]
    drawn = [*catalogue.weekly_maps(results, "rmse"), *catalogue.skill_maps(results)]
    drawn += [*catalogue.ratio_by_lead(results), *catalogue.indices(results)]
    assert not [of.alt for of in drawn if "nan" in of.alt or "week 1:" in of.alt or "day 1," in of.alt]
    assert drawn[0].alt.startswith("Maps of RMSE (°C): week 2: median")
    assert answers(metrics)[0].count("on day") == 2


def test_references_are_averaged_over_the_same_days(perfect: tuple[dict[str, Any], ScoreFiles]) -> None:
    """Persistence and climatology by plain NumPy."""
    metrics, files = perfect
    tables = files.open()
    cube, anomalies = Prepared.of(DataConfig.model_validate(metrics["recipe"]["data"])).open()
    climatology, scale = (anomalies[name].load() for name in ("climatology", "scale"))
    weights = np.cos(np.deg2rad(cube["lat"])) * cube["ocean_mask"]
    sst = cube["sst"].load()
    for row in (0, 7, 29):
        date = tables["init_time"].values[row]
        anomaly = ((sst - climatology.sel(dayofyear=sst["time"].dt.dayofyear)) / scale.isel(dayofyear=0)).sel(
            time=date
        )
        for lead in (5, 10, 17):
            days = date + np.arange(lead - DAYS + 1, lead + 1) * DAY
            observed = sst.sel(time=days)
            normal = climatology.sel(dayofyear=observed["time"].dt.dayofyear).values
            spread = scale.sel(dayofyear=observed["time"].dt.dayofyear).values
            of = {
                "climatology": normal.mean(0),
                "persistence": (normal + spread * anomaly.values).mean(0),
            }
            for name, forecast in of.items():
                squares = (forecast - observed.mean("time")) ** 2
                expected = float(squares.weighted(weights.fillna(0)).mean())
                found = float(tables["mse_by_date"].sel(units="degC", system=name, lead=lead)[row])
                assert found == pytest.approx(expected, rel=1e-3)


def test_thirds_of_whole_weeks_are_those_of_daily_forecasts(
    truth: xr.DataArray, sst_file: Path, tmp_path: Path
) -> None:
    """The same ensemble day by day, all systems; and the ensemble and a file with a spread by plain NumPy."""
    random, dates = np.random.default_rng(0), truth["time"].values[-330:-30:30]
    days = xr.DataArray(dates[:, None] + np.arange(1, 15) * DAY, dims=("init_time", "lead"))
    noise = np.cumsum(random.normal(0, 0.2, (3, *days.shape, *truth.shape[1:])), 2)
    daily = (truth.sel(time=days).drop_vars("time").expand_dims(member=3) + noise).astype(np.float32)
    daily = daily.assign_coords(init_time=dates, lead=("lead", np.arange(1.0, 15), {"units": "days"}))
    daily = daily.drop_encoding().assign_attrs(units="degC").to_dataset(name="sst")
    weeks = daily.coarsen(lead=7).mean().assign(lead_bnds=(("lead", "bnds"), [[24.0, 192], [192, 360]]))
    weeks = weeks.assign_coords(lead=("lead", [108.0, 276], {"units": "hours", "bounds": "lead_bnds"}))
    spread = weeks.mean("member", keep_attrs=True)
    spread["sst_spread"] = xr.full_like(spread["sst"], 0.4)
    found, tables = {}, {}
    for name, file in (("daily", daily), ("weeks", weeks), ("spread", spread)):
        file.to_netcdf(tmp_path / f"{name}.nc")
        found[name], files, _ = score(tmp_path / f"{name}.nc", FieldSource(source=str(sst_file)))
        with files.open() as opened:
            tables[name] = opened[[of for of in opened if "tercile" in of and "by_date" in of]].load()
    xr.testing.assert_allclose(tables["weeks"], tables["daily"], rtol=1e-5, atol=1e-6)
    for name, row in found["daily"]["terciles"]["scores"].items():
        assert found["weeks"]["terciles"]["scores"][name]["rps"] == pytest.approx(row["rps"], abs=2e-6), name
    assert found["spread"]["probabilities"] == {}
    prepared = Prepared.of(DataConfig.model_validate(found["weeks"]["recipe"]["data"]))
    cube, anomalies = prepared.open()
    weights = (np.cos(np.deg2rad(cube["lat"])) * cube["ocean_mask"]).values
    normal, bounds = anomalies["climatology"].load(), terciles_of(prepared)
    for row, week in ((0, 0), (3, 1), (9, 0)):
        of_week = days[row, 7 * week : 7 * week + 7]
        of_day = normal.sel(dayofyear=of_week.dt.dayofyear).values.mean(0)
        limits = [bounds[of].sel(day_of_leap_year=of_week[3].dt.dayofyear).values for of in BOUNDS]  # of 2004
        came = cube["sst"].sel(time=of_week).values.mean(0) - of_day
        forecast = weeks["sst"].values[:, row, week] - of_day
        chances = {
            "weeks": [(forecast > limit).mean(0) for limit in limits],
            "spread": [norm.sf((limit - forecast.mean(0)) / 0.4) for limit in limits],
        }
        for name, above in chances.items():
            squares = sum((chance - (came > limit)) ** 2 for chance, limit in zip(above, limits, strict=True))
            known = np.isfinite(squares) & np.isfinite(limits[0]) & (weights > 0)
            expected = (weights * squares)[known].sum() / weights[weights > 0].sum()
            briers = tables[name]["tercile_brier_by_date"].sel(forecaster="model", tercile=["lower", "upper"])
            score_of_row = briers.isel(init_time=row, whole_week=week).sum()
            assert float(score_of_row) == pytest.approx(expected, abs=1e-5), (name, row)


@pytest.mark.parametrize(
    ("leads", "count", "weekly"),
    [([7, 14], 7, True), ([7], 7, False), ([7, 21], 7, False), ([8, 15], 7, False), ([14], 14, False)],
)
def test_weeks_are_whole_and_none_is_left_out(leads: list[int], count: int, weekly: bool, scored: Run) -> None:
    truth = Analysis.of(scored)
    windows = replace(truth.windows, horizon=max(leads[-1], 15))
    assert replace(truth, windows=windows, leads=np.array(leads), mean_of=count).weekly is weekly


def test_means_of_the_forecasts_of_a_run_have_its_scores(scored: Run, tmp_path: Path) -> None:
    """The run is averaged to the means of the file, which are those of its own forecasts by hand."""
    daily = xr.open_zarr(scored.forecasts)["sst"].load().drop_vars("valid_time").drop_attrs()
    halves = daily.coarsen(lead=4).mean().assign_coords(lead=[4.0, 8.0])
    forecasts = halves.to_dataset().assign(lead_bnds=(("lead", "bnds"), [[1.0, 5.0], [5.0, 9.0]]))
    forecasts["sst"].attrs["units"] = "degC"
    forecasts["lead"].attrs = {"units": "days", "bounds": "lead_bnds"}
    forecasts.drop_encoding().to_netcdf(path := tmp_path / "halves.nc")
    metrics, *_ = score(path, against=[scored])
    file, run = (metrics["scores"][name]["degC"] for name in ("model", scored.folder.name))
    for name in ("rmse", "mae", "bias", "acc"):
        assert file[name] == pytest.approx(run[name], abs=2e-4), name
    assert file["rmse"] > 0.1
    assert [lead for lead, rmse in enumerate(file["by_lead"]["rmse"], 1) if rmse is not None] == [4, 8]

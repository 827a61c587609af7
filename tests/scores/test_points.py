"""Scores at points against plain NumPy, and against the scores of the grid that the points were drawn from."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from refusals import refused
from scenes import block, observation, scene
from scipy.stats import norm, t
from scored_runs import metrics_of

import sstcast
from sstcast.figures.sheets.points import points
from sstcast.places import point_files
from sstcast.places.point_observations import PointObservations, parse_hours
from sstcast.runs import Run
from sstcast.scores.analysis import Analysis
from sstcast.scores.asked import Asked
from sstcast.scores.evaluate import evaluate
from sstcast.scores.kinds import points as scored_points
from sstcast.scores.kinds.points import SUMS, Points, check_observations, two_way_sums
from sstcast.scores.score_files import ScoreFiles

NOISE, COUNT = 0.3, 10_000
Command = Callable[..., tuple[int, str, str]]


def drawn(truth: Analysis, count: int, seed: int = 0, shift: int = 0) -> pd.DataFrame:
    """Points of the truth in random cells on random days of the test year, with noise, of 60 platforms."""
    random = np.random.default_rng(seed)
    sst = truth.cube["sst"].sel(time="2004").load()
    row, column = np.nonzero(truth.anomalies["ocean_mask"].values)
    cell, day = random.integers(0, len(row), count), random.integers(0, sst.sizes["time"], count)
    lat = sst["lat"].values[row[cell]] + random.uniform(-0.12, 0.12, count)
    lon = sst["lon"].values[column[cell]] + random.uniform(-0.12, 0.12, count)
    values = sst.values[day, row[cell], column[cell]] + random.normal(0, NOISE, count)
    hours = random.integers(0, 24, count)
    times = sst["time"].values[day] + (hours + 24 * shift) * np.timedelta64(1, "h")
    platform = [f"b{number}" for number in random.integers(0, 60, count)]
    return pd.DataFrame({"time": times, "lat": lat, "lon": lon - 360, "sst": values, "platform": platform})


@pytest.fixture(scope="module")
def truth(scored: Run) -> Analysis:
    return Analysis.of(scored)


@pytest.fixture(scope="module")
def read(truth: Analysis, tmp_path_factory: pytest.TempPathFactory) -> PointObservations:
    file = tmp_path_factory.mktemp("points") / "drifters.csv"
    drawn(truth, COUNT).to_csv(file, index=False)
    return PointObservations.read(file)


def verified(truth: Analysis, read: PointObservations, forecast: xr.DataArray, spread: float) -> xr.Dataset:
    """Verify `forecast(init_time, lead, lat, lon)` in degC at points."""
    tables = Points(scene(truth, Asked(observations=read), x=None))
    for start in range(0, truth.windows.starts, 64):
        dates = slice(start, min(start + 64, truth.windows.starts))
        climatology = truth.ahead(truth.statistics["climatology"], dates)
        mean = truth.on_tiles(forecast[dates]) - climatology
        tables.begin(observation(dates, mean))
        for first, stop in ((0, 20), (20, len(mean))):
            part = slice(first, stop)
            own = slice(start + first, start + stop)
            seen, width = observation(own, mean[part]), np.full_like(mean[part], spread)
            tables.add(block("x", seen, mean[None, part], width))
    return tables.dataset()


def test_sums_equal_plain_numpy(truth: Analysis, read: PointObservations, scored: Run) -> None:
    forecast = xr.open_zarr(scored.forecasts)["sst"].load()
    found = verified(truth, read, forecast, 0.4).sel(system="x")
    table = read.table.assign(day=read.table["time"].dt.floor("D"))
    table["row"] = ((table["lat"] - forecast["lat"].values[0]) / 0.25).round().astype(int)
    table["column"] = ((table["lon"] + 360 - forecast["lon"].values[0]) / 0.25).round().astype(int)
    merged = table.groupby(["day", "row", "column", "platform"], as_index=False)["sst"].mean()
    by_day = dict(iter(merged.groupby("day")))
    for date in (0, 100, 300):
        for lead in (1, 8):
            rows = by_day[pd.Timestamp(forecast["valid_time"].values[date, lead - 1])]
            values = forecast.values[date, lead - 1, rows["row"], rows["column"]].astype(float)
            error, width = values - rows["sst"].to_numpy(), np.hypot(0.4, NOISE)
            z = error / width
            crps = width * (z * (2 * norm.cdf(z) - 1) + 2 * norm.pdf(z) - 1 / np.sqrt(np.pi))
            expected = {
                "error": error.sum(),
                "squared_error": (error**2).sum(),
                "absolute_error": abs(error).sum(),
                "crps": crps.sum(),
                "covered_80": (abs(z) <= norm.ppf(0.9)).sum(),
                "count": len(rows),
            }
            for name, value in expected.items():
                got = float(found[f"point_{name}_by_date"][date, lead - 1])
                assert got == pytest.approx(value, rel=2e-5, abs=2e-4), name
    total = found["point_squared_error_by_platform"].sum()
    assert float(total) == pytest.approx(float(found["point_squared_error_by_date"].sum()), rel=1e-5)
    of_block = Points(scene(truth, Asked(observations=read))).block
    for name in ("squared_error", "count"):
        by_date = found[f"point_{name}_by_date"].sum("lead").values
        by_block = found[f"point_{name}_by_platform"].sum("platform")
        np.testing.assert_allclose(by_block, np.bincount(of_block, by_date), rtol=1e-5)
    assert (
        float(found["point_count_of_analysis"]) == merged["day"].isin(forecast["valid_time"].values.ravel()).sum()
    )
    assert float(found["point_count_of_analysis"]) < len(merged)


def test_days_of_the_history_are_other_days_and_without_a_match_nothing_is_forecast(
    truth: Analysis, read: PointObservations
) -> None:
    history = pd.Timestamp(truth.windows.init_times[0]) - pd.Timedelta(days=1)
    older = replace(read, table=read.table.assign(time=history))
    tables = Points(scene(truth, Asked(observations=older), x=None))
    assert set(tables.left_out.values()) == {0}
    assert older.entry(tables.left_out)["left_out"][-1] == f"{COUNT:,} observations left out: on other days"
    tables.begin(observation(slice(0, 9), np.zeros((9, *truth.ocean.shape), np.float32)[:, None].repeat(8, 1)))
    empty = tables.dataset()
    assert float(empty["point_count_by_date"].sum()) == float(empty["point_count_of_analysis"]) == 0
    with refused("drifters.csv: no observation matches a forecast", f"{COUNT:,} on other days", "give others"):
        check_observations([truth], Asked(observations=older))
    far = replace(read, table=read.table.assign(lat=50.0))
    with refused("no observation matches", "outside the region"):
        check_observations([truth, truth], Asked(observations=far))
    check_observations([truth], Asked(observations=read))


def test_a_region_across_greenwich_has_the_same_cells(truth: Analysis, read: PointObservations) -> None:
    shift = 171.5
    moved = replace(truth, anomalies=truth.anomalies.assign_coords(lon=truth.anomalies["lon"] - shift))
    few = replace(read, table=read.table[::30])
    table = few.table.assign(lon=(few.table["lon"] - shift) % 360)
    assert (table["lon"] > 180).any()
    found = Points(scene(moved, Asked(observations=replace(few, table=table))))
    expected = Points(scene(truth, Asked(observations=few)))
    np.testing.assert_array_equal(found.node, expected.node)


def test_points_of_the_grid_have_its_error_and_their_own(
    scored: Run, truth: Analysis, read: PointObservations
) -> None:
    """The squared error at points is that of the grid plus the variance of the noise."""
    forecast = xr.open_zarr(scored.forecasts)["sst"].load()
    cube = truth.cube["sst"].sel(time=forecast["valid_time"]).drop_vars("time").load()
    on_grid = (forecast - cube).astype(float)
    spread = float(on_grid.std())
    found = verified(truth, read, forecast, spread).sel(system="x").sum()
    count = float(found["point_count_by_date"])
    mse = float(found["point_squared_error_by_date"]) / count
    expected = float((on_grid**2).mean()) + NOISE**2  # each cell is drawn as often
    standard_error = expected * np.sqrt(2 / COUNT)  # leads and dates share their observations
    assert mse == pytest.approx(expected, abs=3 * standard_error)
    covered = float(found["point_covered_80_by_date"]) / count
    on_cells = float((abs(on_grid) <= norm.ppf(0.9) * spread).where(on_grid.notnull()).mean())
    assert covered == pytest.approx(on_cells, abs=0.01 + 3 * np.sqrt(0.16 / COUNT))
    analysis = float(found["point_squared_error_of_analysis"]) / float(found["point_count_of_analysis"])
    assert analysis == pytest.approx(NOISE**2, rel=0.05)


def test_a_day_too_late_is_noticed_at_day_1(scored: Run, truth: Analysis, tmp_path: Path) -> None:
    valid = xr.open_zarr(scored.forecasts)["valid_time"].load()
    forecast = truth.cube["sst"].sel(time=valid).drop_vars("time").load()
    mse = []
    for shift in (0, 1):
        file = tmp_path / f"{shift}.csv"
        drawn(truth, COUNT, shift=shift).to_csv(file, index=False)
        found = verified(truth, PointObservations.read(file), forecast, 0.4).sel(system="x").isel(lead=0).sum()
        mse.append(float(found["point_squared_error_by_date"] / found["point_count_by_date"]))
    assert mse[0] == pytest.approx(NOISE**2, rel=0.05)
    assert mse[1] > 1.5 * mse[0]


def test_evaluate_with_observations(scored: Run, truth: Analysis, tmp_path: Path, command: Command) -> None:
    folder = tmp_path / "small"
    shutil.copytree(scored.folder, folder)
    file = tmp_path / "drifters.csv"
    extra = [("2004-05-01", -11.8, 170.1, 20), ("2010-05-01", -11, 171, 20), ("2004-05-01", -11, 171, 40)]
    extra += [("2004-05-01", 11, 171, 20), ("2004-06-01", -11, 171, 0)]
    others = pd.DataFrame(extra, columns=["time", "lat", "lon", "sst"]).assign(platform="other")
    others["time"] = pd.to_datetime(others["time"])
    measured = drawn(truth, 3000)
    pd.concat([measured, others]).to_csv(file, index=False)
    forecast_days = truth.windows.init_times[:, None] + truth.leads * np.timedelta64(1, "D")
    is_other = ~measured["time"].dt.floor("D").isin(forecast_days.ravel())  # as those of the first history
    on_others = f"{1 + is_other.sum()} observations left out: on other days"
    before = metrics_of(Run(folder))
    code, said, err = command("evaluate", folder, "--observations", file)
    assert code == 0, err
    for words in (
        "observations of 61 platforms",
        "analysis, day 0 (has seen most of them)",
        on_others,
        "1 observations left out: on land",
        "1 observations left out: outside the region",
        "2 observations left out: more than 8 °C from the climatology",
    ):
        assert words in said
    metrics = metrics_of(Run(folder))
    assert metrics["scores"] == before["scores"]
    found = metrics["points"]
    assert found["scores"].keys() == metrics["systems"].keys()
    assert found["platforms"] == 60
    assert found["left_out"] == [
        on_others,
        "1 observations left out: outside the region",
        "1 observations left out: on land or in cells that are not scored",
        "2 observations left out: more than 8 °C from the climatology",
    ]
    model = found["scores"]["model"]
    assert model["mse"] == pytest.approx(model["rmse"] ** 2, abs=2e-6)
    assert model["interval"][0] < model["mse"] < model["interval"][1]
    assert found["scores"]["multiscale ridge"]["ratio"] == 1
    assert len(model["by_lead"]["rmse"]) == 8
    assert json.loads((folder / "metrics.json").read_text())["recipe"]["observations"]["file"] == str(file)
    assert "nothing to do" in command("evaluate", folder)[1]  # keeps them
    again = sstcast.evaluate(folder, index="region").value
    assert again["points"] == found
    _changed_observations_are_read_again(folder, file)
    [sheet] = points(metrics, "small")
    assert next(name for name, _ in sheet.rows) == "small"


def _changed_observations_are_read_again(folder: Path, file: Path) -> None:
    """Those of the last evaluation, if their content has changed, and if they can still be read."""

    def asked() -> Asked:
        return Asked.kept(folder / "metrics.json").current(ScoreFiles(folder))

    table, kept = pd.read_csv(file), asked()
    assert kept.observations is None
    file.write_bytes(file.read_bytes())
    assert asked() == kept
    table.assign(sst=table["sst"] + 2).to_csv(file, index=False)
    assert asked().recipe != kept.recipe
    assert asked().observations.table["sst"].max() == table["sst"].max() + 2
    file.write_text("no table")
    assert asked() == kept
    file.unlink()
    assert asked() == kept
    assert not evaluate(Run(folder), kept)[1]


def test_what_is_left_out_is_told(tmp_path: Path) -> None:
    rows = [
        ["2004-03-01T01:00:00Z", -11, 171, 290.0, "a", 2, 5, 0.2],
        ["2004-03-01T01:00:00Z", -11, 171, 290.0, "a", 2, 5, 0.2],  # repeated
        ["2004-03-01T12:00:00Z", -11, 171, 290.0, "a", 2, 3, 0.2],  # flagged
        ["2004-03-01T13:00:00Z", -11, 171, 290.0, "b", 5, 5, 50.0],  # deep
        ["2004-03-01T14:00:00Z", -11, 171, 400.0, "c", 1, 5, 0.2],  # implausible
        ["", -11, 171, 290.0, "c", 1, 5, 0.2],
        ["2004-03-02T15:00:00Z", -11, 171, 291.0, "d", 1, 5, 1.0],
    ]
    names = ["Time", "latitude", "longitude", "sst", "platform_id", "platform_type", "quality_level", "depth"]
    file = tmp_path / "iquam.csv"
    pd.DataFrame(rows, columns=names).to_csv(file, index=False)
    found = PointObservations.read(file)
    assert found.table["platform"].tolist() == ["a", "d"]
    np.testing.assert_allclose(found.table["sst"], [16.85, 17.85])
    notes = "; ".join(found.notes)
    for words in (
        "1 observations left out: repeated",
        "without a time",
        "flag other than 5",
        "deeper than 10 m",
        "outside -5",
    ):
        assert words in notes
    assert PointObservations.read(file, ["drifter"]).table["platform"].tolist() == ["a"]
    night = PointObservations.read(file, hours=(20, 6))  # 1 UTC is noon at 171 E, 15 UTC is at night
    assert night.table["platform"].tolist() == ["d"]
    again = PointObservations.again(night.recipe)
    pd.testing.assert_frame_equal(again.table, night.table)
    with refused("iquam.csv", "no observation is left", "choose others"):
        PointObservations.read(file, ["glider"])
    for wrong in ("6", "6..6", "24..0", "0..25"):
        with refused(f"--hours {wrong}", "write the first and the last hour"):
            parse_hours(wrong)


def test_netcdf_and_files_that_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    time_of = pd.date_range("2004-01-01", periods=3, freq="D")
    parts = {name: ("obs", getattr(time_of, name).to_numpy()) for name in ("year", "month", "day", "hour")}
    fields = {
        "lat": ("obs", [-11.0] * 3),
        "lon": ("obs", [171.0] * 3),
        "platform_id": ("obs", np.array([b"a", b"a", b"b"])),
    }
    sst = xr.Dataset(parts | fields | {"sst": ("obs", [290.0, 291, 292], {"units": "kelvin"})})
    sst.to_netcdf(file := tmp_path / "iquam.nc", engine="netcdf4")
    found = PointObservations.read(file).table
    np.testing.assert_allclose(found["sst"], [16.85, 17.85, 18.85])
    assert found["time"].tolist() == list(time_of)
    assert found["platform"].tolist() == ["a", "a", "b"]
    sst["sst"].attrs["standard_name"] = "sea_surface_skin_temperature"
    sst.to_netcdf(file := tmp_path / "skin.nc", engine="netcdf4")
    with refused("skin.nc", "skin temperature", "measured in the water"):
        PointObservations.read(file)
    monkeypatch.setattr(point_files, "find_spec", lambda _: None)
    with refused("points.parquet: reading it needs pyarrow; run: pip install 'sstcast[parquet]'"):
        PointObservations.read(tmp_path / "points.parquet")
    (tmp_path / "none.csv").write_text("time,lat,lon\n2004-01-01,1,2\n")
    with refused("none.csv", "no column for sst"):
        PointObservations.read(tmp_path / "none.csv")


def test_a_two_way_bootstrap_has_the_variance_of_platforms_and_blocks() -> None:
    """Of sums of independent effects of platforms and of blocks, the variance is known."""
    random = np.random.default_rng(0)
    platforms, blocks = 200, 100
    sums = 10 + random.normal(0, 1, (platforms, 1)) + random.normal(0, 2, (1, blocks))
    counts = np.ones_like(sums)
    total, count = two_way_sums(np.stack([sums, counts]), 2000)
    expected = np.sqrt(sums.mean(1).var() / platforms + sums.mean(0).var() / blocks)
    assert (total / count).std() == pytest.approx(expected, rel=0.1)


def test_replicates_have_the_sum_as_their_mean(monkeypatch: pytest.MonkeyPatch) -> None:
    sums = np.random.default_rng(1).uniform(1, 3, (2, 40, 30))
    monkeypatch.setattr(scored_points, "PLATFORMS_AT_ONCE", 15)
    np.testing.assert_allclose(two_way_sums(sums, 4000).mean(-1), sums.sum((1, 2)), rtol=0.02)


def point_tables(squares: np.ndarray, counts: np.ndarray) -> xr.Dataset:
    """Tables of sums `squares [system, platform, block]` and `counts [platform, block]`; the rest is made up."""
    dims, random = ("system", "init_time", "lead"), np.random.default_rng(1)
    return xr.Dataset(
        {f"point_{name}_by_date": (dims, random.uniform(1, 9, (2, 3, 2))) for name in SUMS}
        | {f"point_{name}_of_analysis": ((), 1.0) for name in ("count", *SUMS[:3])}
        | {
            "point_count_by_date": (("init_time", "lead"), np.full((3, 2), 4.0)),
            "point_count_by_platform": (("platform", "date_block"), counts),
            "point_left_out": ("reason", np.zeros(1)),
            "point_squared_error_by_platform": (("system", "platform", "date_block"), squares),
        },
        {"system": ["model", "base"], "reason": ["on land"]},
    )


def test_intervals_are_students_of_the_logarithm_with_the_smaller_of_both_numbers() -> None:
    random = np.random.default_rng(0)
    squares, counts = random.uniform(1, 9, (2, 20, 5)), random.integers(1, 9, (20, 5)).astype(float)
    squares[1] *= 3
    squares[:, 2], counts[2] = 0, 0  # a platform without an observation in these days
    found = Points.section(point_tables(squares, counts), "base")["points"]
    assert found["platforms"] == 19
    assert "without_interval" not in found
    replicates = two_way_sums(np.concatenate([squares, counts[None]])[:, counts.any(1)])
    model, base, count = np.log(replicates)
    number = 1 / np.square(counts.sum(0) / counts.sum()).sum()  # a little below 5 blocks
    for name, key, logarithms in (
        ("model", "interval", model - count),
        ("base", "interval", base - count),
        ("model", "ratio_interval", model - base),
    ):
        ends = t.interval(0.95, number - 1, logarithms.mean(), logarithms.std())
        assert found["scores"][name][key] == pytest.approx(np.exp(ends).tolist(), abs=2e-6)
    assert found["scores"]["model"]["ratio"] == pytest.approx(squares[0].sum() / squares[1].sum(), abs=1e-6)
    assert found["scores"]["base"]["ratio_interval"] == [None, None]


@pytest.mark.parametrize(("held", "share"), [(3, 1.0), (12, 1.0), (12, 30.0)])
def test_intervals_cover_the_error_if_few_blocks_hold_observations(held: int, share: float) -> None:
    """Of 12 blocks, in which the errors of all platforms are alike. One may hold most observations."""
    random, covered, cases = np.random.default_rng(held), 0, 100
    for _ in range(cases):
        counts, variance = np.zeros((30, 12)), np.exp(random.normal(-0.08, 0.4, 12))  # 1 on average
        counts[:, :held] = random.poisson(5, (30, held))
        counts[:, 0] *= share
        squares = variance * random.gamma(np.maximum(counts, 1e-9) / 2, 2)
        found = Points.section(point_tables(np.stack([squares] * 2), counts), "base")["points"]
        low, high = found["scores"]["model"]["interval"]
        covered += low < 1 < high
    assert covered / cases > 0.9


def test_two_blocks_or_one_platform_give_no_interval() -> None:
    random = np.random.default_rng(0)
    squares, counts = random.uniform(1, 9, (2, 20, 12)), np.zeros((20, 12))
    counts[:, 3:5] = 7
    squares[..., counts[0] == 0] = 0
    found = Points.section(point_tables(squares, counts), "base")["points"]
    assert found["scores"]["model"]["interval"] == found["scores"]["model"]["ratio_interval"] == [None, None]
    assert found["without_interval"] == ["too few dates for an interval"]
    assert found["scores"]["model"]["ratio"] == pytest.approx(squares[0].sum() / squares[1].sum(), abs=1e-6)
    counts[:, 7] = 1
    assert (
        None
        not in Points.section(point_tables(squares + counts, counts), "base")["points"]["scores"]["model"][
            "interval"
        ]
    )
    one = Points.section(point_tables(squares[:, :1] + counts[:1], counts[:1]), "base")["points"]
    assert one["without_interval"] == ["one platform"]
    assert one["scores"]["model"]["interval"] == [None, None]


def test_the_analysis_is_that_of_the_cell_and_day(truth: Analysis, read: PointObservations) -> None:
    error = Points(scene(truth, Asked(observations=read))).analysis_error
    assert abs(error.mean()) < 0.01
    assert error.std() == pytest.approx(NOISE, rel=0.03)

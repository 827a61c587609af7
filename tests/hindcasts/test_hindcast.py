"""A hindcast against plain NumPy, its pages, and what it must not lose or do twice, however its processes end."""

import contextlib
import csv
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import distributed
import numpy as np
import pandas as pd
import pytest
import xarray as xr
from logged import logged
from quick_drawing import draw_quickly
from scipy.stats import norm, ttest_1samp
from small_hindcast import EVERY, metrics, plan, system, systems, write_ocean
from stopped_task import train_until_stopped

from sstcast.errors import Interrupted, SSTCastError
from sstcast.extremes.heatwaves import events, limits
from sstcast.figures.results import Results
from sstcast.hindcasts import hindcast as verb
from sstcast.hindcasts.executors import run_tasks
from sstcast.hindcasts.fold import recipe_of_tables, recipes
from sstcast.hindcasts.hindcast import hindcast
from sstcast.hindcasts.plan import Hindcast, Plan
from sstcast.names import BASELINES
from sstcast.ocean.prepare import prepare
from sstcast.ocean.prepared import Prepared
from sstcast.places.point_observations import PointObservations
from sstcast.reading.days_of_year import on_days
from sstcast.reports.report import write_report
from sstcast.runs import Run
from sstcast.scores.asked import NOTHING, Asked
from sstcast.scores.saved_scores import SavedScores
from sstcast.scores.significance import DateBlocks, diebold_mariano, ratio
from sstcast.storage.artefacts import remove, write_json
from sstcast.storage.stores import open_written

CELLS = ("lat", "lon")
POINT_DAYS = pd.date_range("2005-01-03", "2006-12-31", freq="7D")
DATES = -(-(365 - 10 - 8) // EVERY)  # of each fold


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished hindcast of two systems, at points as well, made from its own folder."""
    folder = tmp_path_factory.mktemp("made")
    write_ocean(folder, years=6)
    with contextlib.chdir(folder):
        write_points(Path("points.csv"))
        assert hindcast(planned())[1]
    return folder


def planned() -> Plan:
    """Plan two systems on the two folds, which are scored at points as well."""
    return replace(systems(), asked=Asked(observations=PointObservations.read(Path("points.csv"))))


def cell_of(number: int) -> tuple[int, int]:
    """Return the cell of an observation."""
    return number % 4 + 3, number % 12


def write_points(path: Path) -> None:
    """Write observations in the sea, 1 degC warmer than the ocean, and two elsewhere and one of the first year."""
    sst = truth().sel(time=POINT_DAYS)
    cells = [cell_of(number) for number in range(len(sst))]
    values = [float(day[cell]) + 1 for day, cell in zip(sst, cells, strict=True)]
    lat, lon = ([sst[axis].values[cell[place]] for cell in cells] for place, axis in enumerate(CELLS))
    platform = [f"p{number % 5}" for number in range(len(sst))]
    table = pd.DataFrame({"time": POINT_DAYS, "lat": lat, "lon": lon, "sst": values, "platform": platform})
    extra = table[:3].assign(time=["2001-05-01", "2005-05-02", "2006-05-03"], lat=[-11, 40, 40])
    pd.concat([table.astype({"time": str}), extra]).to_csv(path, index=False)


@pytest.fixture
def inside(made: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(made)
    return made


def truth() -> xr.DataArray:
    with xr.open_dataset("small.nc") as ocean:
        return ocean["sst"].load()


def squares(forecast: xr.DataArray) -> np.ndarray:
    """Mean squared error `[dates, lead]` of `forecast(init_time, lead, lat, lon)`."""
    error = forecast - truth().sel(time=forecast["valid_time"]).drop_vars("time")
    return (error.astype(float) ** 2).weighted(np.cos(np.deg2rad(error["lat"]))).mean(CELLS).values


def test_dates_and_scores_against_numpy_from_the_forecasts(inside: Path) -> None:
    found = metrics()
    forecasts = {name: xr.open_zarr(f"hindcast/{name}/hindcast.zarr").load() for name in ("one", "two")}
    sst = truth()
    years = sst["time"].dt.year
    dates = []
    for year in (2005, 2006):  # as windows of the year alone
        days = sst["time"].values[years == year]
        dates.append(days[np.arange(0, len(days) - 10 - 8, EVERY) + 9])
    one = forecasts["one"]
    np.testing.assert_array_equal(one["init_time"], np.concatenate(dates))
    assert (one["valid_time"] == one["init_time"] + one["lead"] * np.timedelta64(1, "D")).all()
    assert found["forecasts"] == one.sizes["init_time"]
    assert open_written(Path("hindcast/one/hindcast.zarr"), "make it again").sizes
    with xr.open_dataset("hindcast/scores.nc") as tables:
        mse = tables["mse_by_date"].sel(units="degC").load()
    for name, made in forecasts.items():
        errors = squares(made["sst"])
        of = found["scores"][name]["degC"]
        assert of["mse"] == pytest.approx(errors.mean(), rel=1e-4)
        np.testing.assert_allclose(of["by_lead"]["mse"], errors.mean(0), rtol=1e-4)
        np.testing.assert_allclose(of["by_week"]["mse"], [errors[:, :7].mean(), errors[:, 7:].mean()], rtol=1e-4)
        for fold, some in (("2005", errors[: len(dates[0])]), ("2006", errors[len(dates[0]) :])):
            assert of["by_fold"]["mse"][fold] == pytest.approx(some.mean(), rel=1e-4)
        summer = np.isin(made["valid_time"].dt.month.values, (12, 1, 2))
        assert of["by_season"]["mse"]["DJF"] == pytest.approx(errors[summer].mean(), rel=1e-4)
        np.testing.assert_allclose(mse.sel(system=name), errors, rtol=2e-3, atol=1e-5)
    crps = {name: of["crps"] for name, of in found["probabilities"].items()}
    for other in (found["reference"], found["climate"]):
        assert found["ratios"]["crps"]["one"][other]["ratio"] == pytest.approx(crps["one"] / crps[other], rel=1e-4)


def test_points_of_all_folds(inside: Path) -> None:
    """Against plain NumPy from the forecasts. A second call makes nothing: see test_a_finished_hindcast."""
    found, sst = metrics()["points"], truth()
    assert found["platforms"] == 5
    forecasts = xr.open_zarr("hindcast/one/hindcast.zarr")["sst"].load()
    times = pd.to_datetime(pd.read_csv("points.csv")["time"]).to_numpy()
    others = int((~np.isin(times, forecasts["valid_time"].values)).sum())
    assert others > 3  # before the first date of each fold as well
    assert found["left_out"][0] == f"{others} observations left out: on other days"
    assert found["analysis"]["rmse"] == pytest.approx(1, abs=1e-3)
    assert found["analysis"]["bias"] == pytest.approx(-1, abs=1e-3)
    errors = []
    for number, day in enumerate(POINT_DAYS.to_numpy()):
        row, column = cell = cell_of(number)
        rows, leads = np.nonzero(forecasts["valid_time"].values == day)
        errors.append(forecasts.values[rows, leads, row, column] - float(sst.sel(time=day)[cell]) - 1)
    errors = np.concatenate(errors)
    assert found["pairs"] == len(errors)
    assert found["scores"]["one"]["mse"] == pytest.approx(np.square(errors).mean(), rel=5e-3)  # in hundredths
    low, high = found["scores"]["one"]["interval"]
    assert low < found["scores"]["one"]["mse"] < high
    assert metrics()["terciles"]["scores"]["one"]["by_fold"]["rps"].keys() == {"2005", "2006"}


def test_baselines_know_all_days_before_their_fold_and_none_of_it(inside: Path) -> None:
    sst = truth()
    angle = 2 * np.pi * np.outer(sst["time"].dt.dayofyear, [1, 2, 3]) / 365.2425
    terms = np.hstack([np.ones((len(angle), 1)), np.cos(angle), np.sin(angle)])
    values, years = np.nan_to_num(sst.values.reshape(len(sst), -1)), sst["time"].dt.year.values
    forecasts = xr.open_zarr("hindcast/one/hindcast.zarr").load()
    errors: dict[str, list[np.ndarray]] = {"climatology": [], "persistence": []}
    for first in (2005, 2006):
        known = years < first
        climatology = (terms @ np.linalg.lstsq(terms[known], values[known], rcond=None)[0]).reshape(sst.shape)
        some = forecasts.sel(init_time=str(first))
        normal = sst.copy(data=climatology).sel(time=some["valid_time"]).drop_vars("time")
        last = (sst - climatology).sel(time=some["init_time"]).drop_vars("time")
        errors["climatology"].append(squares(normal))
        errors["persistence"].append(squares(normal + last))
    for name, parts in errors.items():
        assert metrics()["scores"][name]["degC"]["mse"] == pytest.approx(np.concatenate(parts).mean(), rel=1e-4)


def test_ratios_to_any_system_of_the_table(inside: Path) -> None:
    found = metrics()
    reference = systems().reference("recent")
    assert (reference, systems().reference("one")) == ("recent climatology", "one")
    compared = SavedScores.read(Path("hindcast")).again(reference).metrics
    assert compared["reference"] == reference
    for name, of in found["scores"].items():
        expected = of["degC"]["mse"] / found["scores"][reference]["degC"]["mse"]
        assert compared["ratios"]["mse"][name][reference]["ratio"] == pytest.approx(expected, abs=1e-5)
    assert compared["scores"] == found["scores"]
    assert metrics() == found


def test_ratios_are_to_the_best_linear_system_with_its_interval(inside: Path) -> None:
    found = metrics()
    mse = {name: found["scores"][name]["degC"]["mse"] for name in found["systems"]}
    linear = {name: mse[name] for name, of in found["systems"].items() if of["linear"]}
    assert set(linear) == set(BASELINES)
    assert found["reference"] == min(linear, key=linear.__getitem__)
    assert [*mse.values()] == sorted(mse.values())
    with Hindcast(Path("hindcast")).open() as opened:
        tables = opened.load()
    block, lags, _ = DateBlocks.of(8, EVERY)
    assert (block, lags) == (-(-42 // EVERY), -(-14 // EVERY))
    parts = tuple(np.unique(tables["fold"], return_counts=True)[1].tolist())
    losses = tables["mse_by_date"].sel(units="degC").astype(float)
    ours, theirs = (losses.sel(system=name).values for name in ("one", found["reference"]))
    of = found["ratios"]["mse"]["one"][found["reference"]]
    assert of["ratio"] == pytest.approx(ours.mean() / theirs.mean(), abs=2e-6)
    assert of["interval"] == pytest.approx(ratio(ours.mean(1), theirs.mean(1), block, parts)[1], abs=2e-6)
    assert of["interval"][0] < of["ratio"] < of["interval"][1]
    np.testing.assert_allclose(of["by_lead"]["interval"], ratio(ours, theirs, block, parts)[1], atol=2e-6)
    assert of["p_value"] == pytest.approx(diebold_mariano((ours - theirs).mean(1), lags, parts), abs=2e-6)
    folds = [ours[dates].mean() / theirs[dates].mean() for dates in (slice(parts[0]), slice(parts[0], None))]
    test = ttest_1samp(folds, 1)
    assert of["over_folds"]["p_value"] == pytest.approx(test.pvalue, abs=1e-4)
    assert of["over_folds"]["interval"] == pytest.approx(list(test.confidence_interval()), abs=1e-4)
    ratios = np.stack(
        [ours[dates].mean(0) / theirs[dates].mean(0) for dates in (slice(parts[0]), slice(parts[0], None))]
    )
    by_lead = [of_lead["interval"] for of_lead in of["by_lead"]["over_folds"]]
    np.testing.assert_allclose(by_lead, np.transpose([*ttest_1samp(ratios, 1).confidence_interval()]), atol=1e-4)
    season = losses["season"].values == "JJA"
    ratios = [
        ours[dates][season[dates]].sum() / theirs[dates][season[dates]].sum()
        for dates in (slice(parts[0]), slice(parts[0], None))
    ]
    of_season = of["by_season"]["over_folds"]["JJA"]["interval"]
    np.testing.assert_allclose(of_season, [*ttest_1samp(ratios, 1).confidence_interval()], atol=1e-4)
    itself = found["ratios"]["mse"][found["reference"]][found["reference"]]
    assert (itself["ratio"], itself["interval"], itself["p_value"]) == (1, [1, 1], None)


def test_the_table_the_report_the_leaderboard_and_the_maps(
    inside: Path, command: Callable[..., tuple[int, str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    draw_quickly(monkeypatch)
    found = metrics()
    with Path("hindcast/hindcast.csv").open(newline="") as file:
        table = list(csv.DictReader(file))
    parts = {row["part"] for row in table}
    assert {"all", "lead 1", "lead 8", "week 2", "season JJA", "fold 2006"} <= parts
    assert len(table) == len(parts) * len(found["systems"])
    one = next(row for row in table if row["system"] == "one" and row["part"] == "all")
    ours = found["ratios"]["mse"]["one"][found["reference"]]["ratio"]
    assert float(one["ratio"]) == ours
    last = next(row for row in table if row["system"] == "two" and row["part"] == "fold 2006")
    by_fold = found["ratios"]["event"]["two"]["base rate"]["by_fold"]["ratio"]
    assert float(last["event_skill"]) == pytest.approx(1 - by_fold["2006"])
    page, new = write_report(Results(Path("hindcast")))
    assert new
    assert not write_report(Results(Path("hindcast")))[1]
    html = page.read_text(encoding="utf-8")
    assert f"{ours:.3f}" in html
    assert html.count("<img") > 15  # errors, ratios, maps, probabilities, heatwaves, box means
    assert "http" not in html.replace("http://www.w3.org", "")
    mse = f"{found['scores']['one']['degC']['mse']:.4f}"
    assert mse in command("leaderboard", ".")[1]
    assert mse in Path("leaderboard.html").read_text(encoding="utf-8")
    for said in ("hindcast/maps/skill-", "hindcast/maps: nothing to do"):
        assert said in command("map", "hindcast")[1]
    skills = {f"skill-{name}.png" for name in ("one", "two") if name != found["reference"]}
    drawn = {file.name for file in Path("hindcast/maps").iterdir()}
    assert drawn == {"ratio-by-lead.png", "rmse.png", "bias.png"} | skills


def test_the_splits_of_a_fold(inside: Path) -> None:
    longer = plan(system("one"), last=2008, fold=2)
    config = longer.run(longer.systems[0], longer.protocol.folds[1])
    for of, first, last in ((config, 2007, 2008), (Run(Path("hindcast/one/fold-2006")).config, 2006, 2006)):
        spans = {name: tuple(map(str, span)) for name, span in of.data.splits.given.items()}
        assert spans == {
            "train": ("2001-01-01", f"{first - 2}-12-31"),
            "validation": (f"{first - 1}-01-01", f"{first - 1}-12-31"),
            "test": (f"{first}-01-01", f"{last}-12-31"),
            "base_period": ("2001-01-01", f"{first - 1}-12-31"),
        }


# Heatwaves, from the forecasts and the source.


def in_event(hot: xr.DataArray) -> xr.DataArray:
    return hot.copy(data=events(hot.values > 0).astype(float))


@pytest.fixture
def folds(inside: Path) -> dict[str, xr.Dataset]:
    """By fold: what came true, what was known on the initial date, base rates, and the chances of system `one`."""
    sst, forecasts, found = truth(), xr.open_zarr("hindcast/one/hindcast.zarr"), {}
    for first in (2005, 2006):
        before = slice(None, str(first - 1))
        limit = on_days(limits(sst.sel(time=before))["heatwave_threshold"], sst["time"])
        hot = (sst > limit).astype(float)
        event, row = in_event(hot), (hot.rolling(time=5).sum() == 5).astype(float)
        some = forecasts.sel(init_time=str(first)).load()
        margin = some["sst"] - limit.sel(time=some["valid_time"]).drop_vars("time")
        found[str(first)] = xr.Dataset(
            {
                "chance": margin.copy(data=norm.cdf(margin / some["sst_spread"])),
                "exceedance": hot.sel(time=some["valid_time"]).drop_vars("time"),
                "event": event.sel(time=some["valid_time"]).drop_vars("time"),
                "exceedance state": hot.sel(time=some["init_time"]).drop_vars("time"),
                "event state": row.sel(time=some["init_time"]).drop_vars("time"),
                "exceedance rate": hot.sel(time=before).mean("time"),
                "event rate": in_event(hot.sel(time=before)).mean("time"),
                "area": np.cos(np.deg2rad(sst["lat"])) * sst[0].notnull(),
            }
        )
    return found


@pytest.mark.parametrize(
    ("kind", "name", "probability"),
    [
        ("exceedance", "one", "chance"),
        ("exceedance", "base rate", "exceedance rate"),
        ("exceedance", "persistence of state", "exceedance state"),
        ("event", "base rate", "event rate"),
        ("event", "persistence of state", "event state"),
    ],
)
def test_brier_scores_of_all_folds_by_thresholds_of_the_days_before(
    folds: dict[str, xr.Dataset], kind: str, name: str, probability: str
) -> None:
    scores, ratios = metrics()["heatwaves"][kind], metrics()["ratios"][kind][name]
    of, area = scores[name], folds["2005"]["area"]
    errors = [((days[probability] - days[kind]) ** 2).transpose("init_time", ...) for days in folds.values()]
    both = xr.concat(errors, "init_time").where(area > 0).weighted(area)
    close = 5e-4  # forecasts are stored in hundredths of a degree

    by_date = both.mean(CELLS)
    assert of["brier"] == pytest.approx(float(by_date.mean()), abs=close)
    np.testing.assert_allclose(of["by_lead"]["brier"], by_date.mean("init_time"), atol=close)
    years = by_date["init_time"].dt.year
    for fold, brier in of["by_fold"]["brier"].items():
        assert brier == pytest.approx(float(by_date[years == int(fold)].mean()), abs=close)
    summer = by_date["valid_time"].dt.season == "DJF"
    assert of["by_season"]["brier"]["DJF"] == pytest.approx(float(by_date.where(summer).mean()), abs=close)
    came = xr.concat([days[kind] for days in folds.values()], "init_time").weighted(area).mean()
    assert of["observed"] == pytest.approx(float(came), abs=1e-4)  # two days are equal to the threshold
    for other in ("base rate", metrics()["reference"]):
        compared = ratios[other]
        assert compared["ratio"] == pytest.approx(of["brier"] / scores[other]["brier"], rel=1e-3)
        assert compared["interval"][0] <= compared["ratio"] <= compared["interval"][1]


def test_all_systems_are_measured_by_the_longest_record() -> None:
    late = {"train": ["2001-06-01", "2002-12-31"], "validation": [2003, 2003], "test": [2004, 2004]}
    planned = plan(system("late", splits=late), system("early"))
    bases = [[str(day) for day in planned.thresholds(fold).splits.base] for fold in planned.protocol.folds]
    assert bases == [["2001-01-01", "2004-12-31"], ["2001-01-01", "2005-12-31"]]


# What is done once, and what survives.


def contents(folder: Path, name: str) -> dict[str, Any]:
    """Forecasts and scores of a system; not checkpoints, as PyTorch may write the same in other bytes."""
    files = (folder / name / "hindcast.zarr/sst").glob("[0-9]*")
    metrics = json.loads((folder / "metrics.json").read_text())
    found: dict[str, Any] = {file.name: file.read_bytes() for file in files}
    scores = {"mse": metrics["scores"][name], "event": metrics["heatwaves"]["event"][name]}
    return found | scores | {loss: of[name] for loss, of in metrics["ratios"].items()}


def test_a_finished_hindcast_has_nothing_to_do(inside: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("run_tasks", "prepare", "join_forecasts"):
        monkeypatch.setattr(verb, name, pytest.fail)
    again = planned()
    with logged() as lines:
        found, new = hindcast(again)
    assert not new
    assert not lines
    assert found == metrics()
    assert not list(Path("hindcast").glob("*/fold-*/hindcast.zarr"))


def test_a_source_replaced_since_is_named(
    inside: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The scores stay those of the days as they were; one line says so, and how to score the new days."""
    found, kept = metrics(), shutil.copy2("small.nc", tmp_path / "small.nc")
    write_ocean(inside, jump=1, years=6)
    try:
        assert hindcast(planned()) == (found, False)
        told = capsys.readouterr().err
        assert told.count("\n") == 1
        for words in ("small.nc: has changed since", "on 365 days, the first 2006-01-01", "--out"):
            assert words in told
        Path("hindcast/metrics.json").unlink()
        with pytest.raises(SSTCastError, match=r"fold-2006: was trained on other data than"):
            hindcast(planned())
    finally:
        shutil.copy2(kept, "small.nc")
        write_json(Path("hindcast/metrics.json"), found)
        for run in planned().trained:
            prepare(run.data)
    capsys.readouterr()
    assert hindcast(planned()) == (found, False)
    assert capsys.readouterr().err == ""


def test_what_is_lost_is_made_again_and_no_more(inside: Path) -> None:
    before = [contents(inside / "hindcast", name) for name in ("one", "two")]
    for path in ("one/hindcast.zarr", "two/fold-2006/hindcast.nc", "hindcast.csv", "metrics.json"):
        remove(Path("hindcast") / path)
    with logged() as lines:
        assert hindcast(planned())[1]
    assert sum(line.endswith("already trained") for line in lines) == 4
    assert sum(line.endswith(f"{DATES} forecasts") for line in lines) == 3
    assert [contents(inside / "hindcast", name) for name in ("one", "two")] == before


def test_recipes_tell_what_scores_and_folds_depend_on(inside: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    planned, events = systems(), Asked(events=True)
    protocol, (one, _) = replace(planned.protocol, every=7), planned.systems
    for key, value in (("systems", [one]), ("protocol", protocol), ("asked", events)):
        assert replace(planned, **{key: value}).recipe != planned.recipe, key
    best = Run(planned.run(one, planned.protocol.folds[0]).folder).best
    content, before = best.read_bytes(), [planned.recipe, recipes(planned)["one"]]
    best.write_bytes(content[::-1])
    try:
        assert all(
            now != then for now, then in zip([planned.recipe, recipes(planned)["one"]], before, strict=True)
        )
    finally:
        best.write_bytes(content)
    first, later = (Prepared.of(fold.split(one.data)) for fold in planned.protocol.folds)
    recipe, record = recipe_of_tables(first, EVERY, first.data, NOTHING), first.record()
    for other in ((7, first.data, NOTHING), (EVERY, later.data, NOTHING), (EVERY, first.data, events)):
        assert recipe_of_tables(first, *other) != recipe
    monkeypatch.setattr(Prepared, "record", lambda _: record.model_copy(update={"cube": "other days"}))
    assert recipe_of_tables(first, EVERY, first.data, NOTHING) != recipe


def test_a_signal_to_the_parent_lets_the_tasks_at_hand_save(tmp_path: Path) -> None:
    saved = [tmp_path / name for name in ("one", "two", "three")]

    def stop() -> None:
        while not all(file.with_suffix(".begun").exists() for file in saved[:2]):
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=stop).start()
    with pytest.raises(Interrupted) as end:
        run_tasks([partial(train_until_stopped, file) for file in saved], 2, None)
    assert end.value.signal == signal.SIGTERM
    assert [file.exists() for file in saved] == [True, True, False]  # the third has not begun


@pytest.mark.slow
def test_after_a_kill_of_all_processes_a_cluster_ends_in_the_same_bytes(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_ocean(tmp_path, years=6)
    script = Path(__file__).parents[1] / "helpers/small_hindcast.py"
    with subprocess.Popen([sys.executable, script, tmp_path, "2"], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        while "trained" not in process.stdout.readline():
            assert process.poll() is None
        process.kill()
    monkeypatch.chdir(tmp_path)
    assert not Path("hindcast/metrics.json").exists()
    options = {"processes": False, "dashboard_address": None, "n_workers": 1, "threads_per_worker": 2}
    # It waits for no lock, because the children have gone.
    with distributed.LocalCluster(**options) as cluster, logged() as lines:
        hindcast(plan(system("one")), scheduler=cluster.scheduler_address)
    assert any(line.endswith("already trained") for line in lines)
    assert contents(tmp_path / "hindcast", "one") == contents(made / "hindcast", "one")

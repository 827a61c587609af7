"""Combinations: their weights against plain NumPy over the validation days, and every verb on one."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import untrained
import xarray as xr
from quick_drawing import draw_quickly
from scipy.optimize import nnls
from scored_runs import configure, make_run, retrain
from whole_fields import forecast_of, truth_of

import sstcast
from sstcast.errors import SSTCastError
from sstcast.figures import catalogue
from sstcast.figures.weights import weights
from sstcast.forecasting.forecast import forecast
from sstcast.forecasting.system import load_combination, system_of
from sstcast.geo import area_weights
from sstcast.runs import Run
from sstcast.scores import analysis
from sstcast.scores.analysis import Analysis
from sstcast.scores.combine import combine, least_squares
from sstcast.scores.evaluate import evaluate
from sstcast.scores.leaderboard import leaderboard
from sstcast.training.run_list import describe
from sstcast.training.train import plan, train

SPLITS = {
    "train": [2001, 2002],
    "validation": ["2003-01-01", "2003-03-31"],
    "test": ["2004-05-15", "2004-07-31"],
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory, sst_file: Path) -> list[Run]:
    """An ensemble of two and two single runs on the small ocean, none of them trained."""
    folder = tmp_path_factory.mktemp("combined")
    seeds = {"a": (0, 1), "b": (2,), "c": (3,)}
    return [make_run(configure(folder, sst_file, name, splits=SPLITS), some) for name, some in seeds.items()]


@pytest.fixture(scope="module")
def both(runs: list[Run]) -> Run:
    return combine(runs, runs[0].folder.parent / "both")[0]


def test_weights_are_least_squares_over_the_validation_days(runs: list[Run], both: Run) -> None:
    data = Analysis.of(runs[0], "validation")
    assert [str(data.windows.days[n])[:10] for n in (0, -1)] == ["2003-01-01", "2003-03-31"]
    truth = truth_of(data)["sst"].astype(float)
    share = np.sqrt(area_weights(truth["lat"]))
    errors = [(forecast_of(system_of(run), data)["sst"] - truth) * share for run in runs]
    found = load_combination(both)
    assert found.shape == (2, 3)
    for week, leads in enumerate((slice(1, 7), slice(8, 8))):
        rows = np.stack([error.sel(lead=leads).values.ravel() for error in errors])
        rows = rows[:, np.isfinite(rows[0])]
        held, _ = nnls(np.vstack([rows.T, np.full(3, 1e5)]), np.append(np.zeros(rows.shape[1]), 1e5))
        np.testing.assert_allclose(found[week], held, atol=1e-3)
        assert found[week].min() >= 0
    sheet = weights(both)
    assert (sheet.header, [name for name, _ in sheet.rows]) == (["week 1", "week 2"], ["a", "b", "c"])


def test_weights_of_two_known_systems() -> None:
    """Independent errors: weights go as 1 / variance. A system worse than another in all it does has none."""
    np.testing.assert_allclose(least_squares(np.diag([1.0, 4.0])), [0.8, 0.2])
    np.testing.assert_allclose(least_squares(np.array([[1.0, 1.0], [1.0, 2.0]])), [1, 0], atol=1e-12)
    np.testing.assert_allclose(least_squares(np.ones((2, 2))).sum(), 1)  # twice the same
    np.testing.assert_allclose(least_squares(np.diag([0.0, 1.0])), [1, 0], atol=1e-12)  # a perfect one


def test_blocks_change_no_weights(runs: list[Run], both: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(analysis, "BLOCK_ELEMENTS", 3 * 8 * 96 * 10)
    again, _ = combine(runs, runs[0].folder.parent / "blocks")
    np.testing.assert_allclose(load_combination(again), load_combination(both), atol=1e-5)
    shutil.rmtree(again.folder)


def test_it_forecasts_the_weighted_mean_and_every_verb_takes_it(
    runs: list[Run], both: Run, monkeypatch: pytest.MonkeyPatch, command: Callable[..., tuple[int, str, str]]
) -> None:
    metrics, new = evaluate(both)
    assert new
    assert (metrics["systems"]["model"]["model"], metrics["ensemble"]) == ("combination", {})
    data = Analysis.of(both)
    expected = sum(
        forecast_of(system_of(run), data)["sst"] * weight[np.arange(8) // 7][:, None, None]
        for run, weight in zip(runs, load_combination(both).T, strict=True)
    )
    np.testing.assert_allclose(xr.open_zarr(both.forecasts)["sst"], expected, atol=1e-4)
    assert not evaluate(both)[1]
    one = xr.load_dataset(forecast(both.folder, "2004-07-01")[0])
    np.testing.assert_allclose(one["sst"], expected.sel(init_time=one["init_time"]), atol=1e-4)
    assert json.loads(one.attrs["model"])["parts"][1]["run"] == "../b"
    assert sstcast.load(both.folder, "170,171.5,-12,-10").data.region != both.config.data.region
    assert "both" in [entry.name for entry in leaderboard(both.folder.parent)[0].entries]
    assert describe(both)["state"] == "of 3 runs"
    monkeypatch.setattr(catalogue, "MAPS", {})
    draw_quickly(monkeypatch)
    assert "of 3 runs" in command("runs", both.folder.parent)[1]
    assert command("report", both.folder)[0] == 0
    page = (both.folder / "report.html").read_text()
    assert "Weights of both by lead week" in page
    assert "epochs" not in page.partition("Configuration</h2>")[2].partition("</pre>")[0]  # nothing was trained


def test_a_combination_of_combinations(runs: list[Run], both: Run) -> None:
    top, _ = combine([both, runs[1]], both.folder.parent / "top")
    of_both, of_b = load_combination(top)[0]
    data = Analysis.of(top)
    dates = slice(0, 5)
    parts = [system_of(run).predict(*data.histories(dates)).mean("member") for run in runs]
    flat = of_both * load_combination(both)[0] + of_b * np.array([0, 1, 0])
    expected = sum(weight * part for weight, part in zip(flat, parts, strict=True))
    found = system_of(top).predict(*data.histories(dates))[0]
    np.testing.assert_allclose(found.sel(lead=slice(1, 7)), expected.sel(lead=slice(1, 7)), atol=1e-5)
    shutil.rmtree(top.folder)


def test_nothing_to_do_until_a_part_is_trained_again(runs: list[Run], both: Run, tmp_path: Path) -> None:
    shutil.copytree(both.folder.parent, tmp_path / "moved")  # relative paths move along
    moved = [Run(tmp_path / "moved" / run.folder.name) for run in runs]
    made, new = combine(moved, tmp_path / "moved/both")
    assert not new
    assert combine(moved[::-1], made.folder) == (made, False)
    np.testing.assert_array_equal(load_combination(made), load_combination(both))

    retrain(moved[1])
    pattern = rf"{made.folder}: its part {moved[1].folder} has been retrained since; run the same `sstcast comb"
    for verb in (lambda: Run.open(made.folder), lambda: evaluate(made), lambda: forecast(made.folder)):
        with pytest.raises(SSTCastError, match=pattern):
            verb()
    assert combine(moved, made.folder)[1]
    assert not made.metrics.exists()
    assert not np.array_equal(load_combination(made), load_combination(both))
    made.best.write_bytes(b"cut")
    with pytest.raises(SSTCastError, match=r"best.pt: cannot be read"):
        evaluate(made)
    combine(moved, made.folder)
    Run.open(made.folder)
    shutil.rmtree(moved[2].folder)
    with pytest.raises(SSTCastError, match=rf"{made.folder}: its part {moved[2].folder} is missing; put it back"):
        Run.open(made.folder)
    assert not list(tmp_path.rglob("*.partial"))


def test_what_it_refuses(runs: list[Run], both: Run, tmp_path: Path, sst_file: Path) -> None:
    _, b, c = runs
    out = tmp_path / "n"

    def refused(words: str, *some: Run, folder: Path = out) -> None:
        with pytest.raises(SSTCastError, match=words) as error:
            combine(list(some), folder)
        assert "\n" not in str(error.value)
        assert not out.exists()

    def other(name: str, **data: Any) -> Run:
        return untrained.make_run(configure(tmp_path, sst_file, name, splits=SPLITS, **data))

    with pytest.raises(SSTCastError, match=rf"{b.folder}: one run is no combination"):
        sstcast.combine([b], "n")
    with pytest.raises(SSTCastError, match=r"--name \.\./x: give a name, not a path"):
        sstcast.combine([b, c], "../x")
    refused(rf"{b.folder}: named twice", b, c, b)
    refused(r"nowhere: not a run", b, Run(tmp_path / "nowhere"))
    new = Run.create(configure(tmp_path, sst_file, "new", splits=SPLITS))
    refused(r"new/checkpoints/best.pt: no checkpoint yet", b, new)
    shorter = other("shorter", horizon=7)
    refused(rf"{shorter.folder}: its data.horizon is 7, but {b.folder} has 8; combine runs that", b, shorter)
    refused(r"its data.protocol is paper, but .* physical", b, other("paper", protocol="paper"))
    warmer = tmp_path / "warmer.nc"
    (xr.load_dataset(sst_file) + 0.5).assign_attrs(title="warmer").to_netcdf(warmer, engine="netcdf4")
    warm = make_run(configure(tmp_path, warmer, "warm", splits=SPLITS))
    refused(r"warm: its days have different values \(digest [0-9a-f]{12}\) from those of .*same ocean", b, warm)
    warm.data.unlink()
    refused(r"warm: its data.source is .*warmer.nc, but .*small.nc", b, warm)
    refused(r"b: holds something else; choose another name", b, c, folder=b.folder)
    refused(r"both: holds something else", b, c, folder=both.folder)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/precious").touch()
    refused(r"mine: holds something else", b, c, folder=tmp_path / "mine")
    assert (tmp_path / "mine/precious").exists()
    with pytest.raises(SSTCastError, match=r"model.name: a combination is not trained"):
        train(plan(None, both.folder, None, [])[0], {})


def test_the_same_ocean_under_another_name(runs: list[Run], tmp_path: Path, sst_file: Path) -> None:
    shutil.copy(sst_file, tmp_path / "copy.nc")
    other = make_run(configure(tmp_path, tmp_path / "copy.nc", "other", splits=SPLITS), (7,))
    assert Run.open(combine([runs[1], other], tmp_path / "n")[0].folder).parts


def test_forecasts_that_are_not_finite(runs: list[Run], tmp_path: Path) -> None:
    broken = Run(Path(shutil.copytree(runs[1].folder, tmp_path / "broken")))
    retrain(broken, 1e30)
    with pytest.raises(SSTCastError, match=r"broken: its forecasts of the validation days are not finite; leave"):
        combine([runs[1], broken], tmp_path / "n")


def test_equal_weights(runs: list[Run]) -> None:
    folder = runs[0].folder.parent / "mean"
    made, new = combine(runs, folder, equal=True)
    assert new
    np.testing.assert_allclose(load_combination(made), np.full((2, 3), 1 / 3))
    assert combine(runs[::-1], folder, equal=True) == (made, False)
    with pytest.raises(SSTCastError, match=r"mean: holds something else; choose another name"):
        combine(runs, folder)
    shutil.rmtree(folder)

"""What a terminal shows while something is computed, and what a file or a pipe does not hold."""

import multiprocessing
import re
import sys
from functools import partial
from pathlib import Path

import dask.array as da
import dask.threaded
import numpy as np
import pytest
import scored_runs
import xarray as xr
from rich.console import Console

from sstcast import progress
from sstcast.forecasting.forecast import forecast
from sstcast.forecasting.spread import SpreadCalibrator
from sstcast.ocean.prepare import prepare
from sstcast.ocean.prepared import Prepared
from sstcast.progress import TrainingProgress, dask_progress, stop_bars, tracked, waiting
from sstcast.scores.significance import compare_cells
from sstcast.scores.systems import baselines
from sstcast.training.train import train, training_windows


@pytest.fixture(params=[True, False])
def terminal(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    return see(monkeypatch, request.param)


def see(monkeypatch: pytest.MonkeyPatch, terminal: bool) -> bool:
    """Show all bars, also of short computations, on a terminal if there is one."""
    monkeypatch.setenv("TTY_COMPATIBLE", "1" if terminal else "0")
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    monkeypatch.setattr(progress, "SHORT", 0)
    return terminal


def without_colours(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)


def shown(text: str) -> dict[str, set[str]]:
    """Return what a terminal showed beside each label: shares of what was done."""
    found: dict[str, set[str]] = {}
    for line in without_colours(text).replace("\r", "\n").splitlines():
        if bar := re.match(r"(.*?) [━╸╺]+ *(\d+%)?", line):
            found.setdefault(bar[1].strip(), set()).add(bar[2] or "")
    return found


def test_loops_within_others_are_told_in_a_terminal_alone(
    terminal: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    total = 0
    with waiting("fitting"), dask_progress("preparing"):
        for number in tracked(range(2), "years"):
            for other in tracked(iter("abc"), "[days]", 3):
                total += len(other)
            total += int(da.ones(4, chunks=1).sum().compute(scheduler=dask.threaded.get))
            print(f"line {number}")
    assert total == 14
    out, err = capsys.readouterr()
    assert out == "line 0\nline 1\n"  # a file gets the lines of a command, while its bars are in the terminal
    found = shown(err)
    assert set(found) == ({"fitting", "years", "[days]", "preparing"} if terminal else set())
    assert all("100%" in found[label] for label in found if label != "fitting")
    assert ("left" in err) is terminal
    assert err.count("\x1b[?25h") == terminal  # one display, which gives the cursor back
    assert terminal or not err


def test_a_slow_first_step_tells_the_time_left(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    see(monkeypatch, True)
    clock = [0.0]
    monkeypatch.setattr(progress, "Console", partial(Console, get_time=lambda: clock[0]))
    for number in tracked(range(4), "years"):
        if number:
            assert progress._Display.current is not None
            progress._Display.current.refresh()
        clock[0] += 60
    left = dict(re.findall(r"(\d+%) \S+ left (\S+)", without_colours(capsys.readouterr().err)))
    assert left.items() >= {"25%": "0:03:00", "50%": "0:02:00", "75%": "0:01:00", "100%": "0:00:00"}.items()


def test_a_resumed_training_tells_its_steps_and_the_time_left_by_its_own(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """900 of 1,000 steps were done before, and each of the others takes a second."""
    see(monkeypatch, True)
    clock = [0.0]
    monkeypatch.setattr(progress, "Console", partial(Console, get_time=lambda: clock[0]))
    with TrainingProgress(1000, done=900) as training:
        for step in range(901, 951):
            clock[0] += 1
            training.step(step, 0.25)
        training.epoch({"epoch": 0, "train_loss": 0.25, "validation_mse": 0.5, "seconds": 50, "best": True})
        training.step(951, 0.25)
    out, err = capsys.readouterr()
    told = without_colours(err)
    assert "epoch 1: train 0.2500  validation mse 0.5000  (50 s)" in out + told
    assert re.search(r"training .* 95% 0:00:50 left 0:00:\d\d 951/1000  loss 0.2500  val 0.5000", told)
    left = re.findall(r"left 0:00:(\d\d) 951", told)
    assert 48 <= int(left[-1]) <= 50


def test_what_is_short_shows_no_bar(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    see(monkeypatch, True)
    monkeypatch.setattr(progress, "SHORT", 60)
    assert list(tracked([1, 2], "days")) == [1, 2]
    assert not shown(capsys.readouterr().err)


def test_after_an_error_the_terminal_is_as_before(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    see(monkeypatch, True)
    before = sys.stdout, sys.stderr
    days = iter(tracked(range(3), "days"))  # kept, as a traceback keeps a loop
    years = iter(tracked(range(3), "years"))
    assert (next(days), next(years)) == (0, 0)
    assert sys.stderr is not before[1]
    stop_bars()
    assert (sys.stdout, sys.stderr) == before
    capsys.readouterr()
    assert list(tracked([1], "again")) == [1]  # in a display of its own
    assert set(shown(capsys.readouterr().err)) == {"again"}
    del days, years
    assert (sys.stdout, sys.stderr) == before


def test_workers_show_no_bars(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    see(monkeypatch, True)
    monkeypatch.setattr(multiprocessing, "parent_process", multiprocessing.current_process)
    with waiting("fitting"):
        assert list(tracked([1, 2], "days")) == [1, 2]
    assert not capsys.readouterr().err


def test_a_failed_computation_of_dask_leaves_no_bar(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    see(monkeypatch, True)
    fails = da.ones(4, chunks=1).map_blocks(lambda block: 1 / 0, dtype=float)
    with pytest.raises(ZeroDivisionError), dask_progress("preparing"):
        fails.compute(scheduler=dask.threaded.get)
    assert progress._Display.current is None


STEPS = {
    "prepare": {f"preparing {name}": True for name in ("cube.zarr", "BASE.statistics.zarr", "BASE.zarr")},
    "train": {
        "fitting local-ridge": False,  # how many passes it takes depends on what it chooses
        "days of 2001 to 2002": True,
        "days of 2003": True,
        "choosing penalties": True,
        "solving for each cell": True,
    },
    "forecast": {
        "RUN: estimating its spread": False,
        "forecasts of the validation days": True,
        "thresholds of heatwaves": True,
        "bounds of thirds": True,
        "joint samples": True,
        "writing forecast-2004-12-31.nc": False,
    },
    "evaluate": {
        "fitting the baselines": True,
        "spread of the climatology": True,
        "spread of the baselines": True,
        "differences by cell": True,
    },
}


def test_long_steps_are_told_and_reach_their_end(
    sst_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    see(monkeypatch, True)
    model = {"name": "local-ridge", "stencil": True}
    config = scored_runs.configure(Path(), sst_file, "told", model, directory="prepared")
    errors = [
        xr.DataArray(np.eye(90).reshape(90, 2, 5, 9) + n, dims=("init_time", "week", "lat", "lon")) for n in (0, 1)
    ]
    calls = {
        "prepare": lambda: prepare(config.data),
        "train": lambda: train(config, training_windows(config)),
        "forecast": lambda: forecast(config.folder, samples=20),
        "evaluate": lambda: [
            baselines(SpreadCalibrator(Prepared.of(config.data))),
            compare_cells(errors, [(0, 1)], 2, (90,)),
        ],
    }
    for name, call in calls.items():
        call()
        found = shown(capsys.readouterr().err)
        for words, counted in STEPS[name].items():
            label = words.replace("BASE", "physical-2001-01-01-2002-12-31").replace("RUN", str(config.folder))
            assert ("100%" if counted else "") in found[label], label
    assert progress._Display.current is None

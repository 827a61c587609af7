"""A record that grows during a heatwave is scored anew, once, and no new day makes a run another."""

from functools import cache
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
import xarray as xr
from scored_runs import configure, make_run, metrics_of
from small_hindcast import plan
from small_ocean import make_sst

from sstcast.config import FieldSource
from sstcast.extremes.heatwaves import MARGIN_DAYS
from sstcast.forecasting.spread import SpreadCalibrator
from sstcast.hindcasts.hindcast import hindcast
from sstcast.ocean.prepare import prepare
from sstcast.ocean.prepared import Prepared
from sstcast.runs import Run
from sstcast.scores.analysis import Analysis
from sstcast.scores.asked import NOTHING
from sstcast.scores.baseline_tables import tables_of_run
from sstcast.scores.evaluate import evaluate
from sstcast.scores.score import score
from sstcast.scores.scored_days import scored_days
from sstcast.storage.artefacts import remove

LAST = np.datetime64("2004-03-31")  # of the test days
SPLITS = {"train": [2001, 2002], "validation": [2003, 2003], "test": ["2004-01-01", "2004-03-31"]}


@cache
def ocean(last: np.datetime64) -> xr.Dataset:
    """Return the small ocean with a heatwave that begins before the end of the test."""
    sst = make_sst(5)
    sst["sst"].loc[{"time": slice(last - 3, last + 10)}] += 2.5
    return sst


def write(path: Path, beyond: int, last: np.datetime64 = LAST) -> None:
    """Write that ocean up to some days after the test."""
    ocean(last).sel(time=slice(None, last + beyond)).to_netcdf(path, engine="netcdf4")


def baselines_of(run: Run) -> xr.Dataset:
    """Return what is kept of the baselines for the test days of a run, which is made if it is not there."""
    truth = Analysis.of(run)
    with tables_of_run(truth, SpreadCalibrator(truth.prepared), NOTHING) as opened:
        return opened.load()


def event_scores() -> xr.DataArray:
    """Return the scores of heatwaves in the fold of the working folder's hindcast."""
    with xr.open_dataset("hindcast/one/fold-2004/hindcast.nc", engine="netcdf4") as tables:
        return tables["heatwave_brier_by_date"].sel(forecaster="one").load()


def test_the_days_around_the_test_that_events_need() -> None:
    first, last = scored_days(configure(Path(), "a.nc", splits=SPLITS).data)
    assert first == np.datetime64("2004-01-10") - MARGIN_DAYS  # ten days of history
    assert last == LAST + MARGIN_DAYS


def test_runs_and_files_are_scored_once_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, out = tmp_path / "small.nc", tmp_path / "scored"
    write(source, 0)
    first = make_run(configure(tmp_path, source, splits=SPLITS))
    evaluate(first)
    truth = FieldSource(source=source)
    record = first.data.read_bytes()
    write(source, 25)
    prepare(first.config.data)
    stale = metrics_of(first)
    metrics, new = evaluate(first)
    assert new
    assert first.data.read_bytes() == record
    assert metrics["heatwaves"] != stale["heatwaves"]
    of_file, _, new = score(first.forecasts, truth, out=out)
    assert new
    write(source, 60)  # the new days are beyond the margin
    prepare(first.config.data)
    assert not evaluate(first)[1]
    again, _, new = score(first.forecasts, truth, out=out)
    assert (again, new) == (of_file, False)
    kept = baselines_of(first)
    remove(Prepared.of(first.config.data).baselines)
    assert baselines_of(first).equals(kept)
    with xr.open_dataset(source) as opened:
        assert opened["time"].values[-1] == LAST + 60
    write(source, 0)
    monkeypatch.setattr("sstcast.scores.score._score", Mock(side_effect=InterruptedError))
    with pytest.raises(InterruptedError):  # a file is scored once more, too, which takes the same steps
        score(first.forecasts, truth, out=out)


def test_a_system_is_not_added_to_other_days(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two systems and a baseline are the same: if they have the same scores, these are of the same days."""
    monkeypatch.chdir(tmp_path)
    ridges = [configure(Path(), "small.nc", name, {"name": "ridge"}) for name in ("one", "two")]
    # The last initial date is 2004-12-20, so that its last day ahead is in the heatwave.
    protocol, last = {"first": 2004, "last": 2004, "fold": 1, "every": 15}, np.datetime64("2004-12-31")
    write(tmp_path / "small.nc", 0, last)
    with monkeypatch.context() as patch:  # the fold is verified, and no scores of all folds are made
        patch.setattr("sstcast.hindcasts.hindcast._score", Mock(return_value={}))
        hindcast(plan(ridges[0], **protocol))
    before = event_scores()
    write(tmp_path / "small.nc", 20, last)
    found, new = hindcast(plan(*ridges, **protocol))
    assert new
    assert hindcast(plan(*ridges, **protocol)) == (found, False)
    for kind in ("event", "exceedance"):
        scores = found["heatwaves"][kind]
        assert scores["one"] == scores["two"] == scores["ridge"]
    assert not event_scores().equals(before)
    assert found["scores"]["one"] == found["scores"]["two"] == found["scores"]["ridge"]
    assert found["probabilities"]["one"] == found["probabilities"]["two"] == found["probabilities"]["ridge"]

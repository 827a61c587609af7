"""Test days without a whole year, or too few to be scored."""

from pathlib import Path

import pytest
from scored_runs import configure, make_run

from sstcast.errors import SSTCastError
from sstcast.pages.text import print_metrics
from sstcast.scores.evaluate import evaluate


def test_an_empty_season_is_a_dash(tmp_path: Path, sst_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    splits = {"train": [2001, 2002], "validation": [2003, 2003], "test": ["2004-01-01", "2004-05-31"]}
    run = make_run(configure(tmp_path, sst_file, splits=splits))
    metrics, _ = evaluate(run)
    seasons = metrics["scores"]["model"]["degC"]["by_season"]["rmse"]
    assert [season for season, value in seasons.items() if value is None] == ["JJA", "SON"]
    assert metrics["skill"]["degC"]["ridge"]["by_season"]["JJA"] is None
    print_metrics(metrics, "small")
    table = capsys.readouterr().out.split("RMSE °C by season")[1]
    assert table.split("small")[1].split()[2:4] == ["-", "-"]


def test_too_few_dates(tmp_path: Path, sst_file: Path) -> None:
    splits = {"train": [2001, 2002], "validation": [2003, 2003], "test": ["2004-01-01", "2004-03-31"]}
    run = make_run(configure(tmp_path, sst_file, splits=splits))
    with pytest.raises(SSTCastError, match=r"data.splits.test: 73 initial dates.*lengthen it"):
        evaluate(run)
    assert not run.forecasts.exists()

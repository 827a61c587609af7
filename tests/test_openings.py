"""A command opens each prepared store once, and hands down what it opened."""

import shutil
from pathlib import Path

import pytest

from sstcast.forecasting.forecast import forecast
from sstcast.ocean import prepared
from sstcast.runs import Run
from sstcast.scores.evaluate import evaluate

MOST = 4  # cube, anomalies, statistics, and those of one other base period


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The prepared stores in the order in which they are opened."""
    stores: list[Path] = []
    open_intact = prepared.open_intact
    monkeypatch.setattr(
        prepared, "open_intact", lambda store, *given: (stores.append(store), open_intact(store, *given))[1]
    )
    return stores


def test_an_evaluation_opens_each_store_once(scored: Run, tmp_path: Path, opened: list[Path]) -> None:
    run = Run(shutil.copytree(scored.folder, tmp_path / scored.folder.name))
    run.metrics.unlink()
    evaluate(run)
    assert len(opened) == len({*opened}) <= MOST
    evaluate(run)  # already scored: only the data are checked
    assert len(opened) <= 2 * MOST


def test_a_forecast_opens_each_store_once(scored: Run, tmp_path: Path, opened: list[Path]) -> None:
    forecast(scored.folder, out=tmp_path / "first.nc")  # which makes limits, thirds and what it fits
    opened.clear()
    forecast(scored.folder, out=tmp_path / "second.nc")
    assert len(opened) == len({*opened}) <= MOST

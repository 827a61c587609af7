"""What is added with one registration appears wherever its kind does."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from documentation import EXTENDING, blocks
from quick_drawing import draw_quickly

from sstcast.figures import catalogue
from sstcast.figures.curves import Chart, draw_curves
from sstcast.figures.printing import print_scores
from sstcast.figures.results import Results
from sstcast.graphs.graph import Graph
from sstcast.models import LINEAR, Entry, linear
from sstcast.models.base import LinearSystem
from sstcast.names import BASELINES
from sstcast.reports.leaderboard import print_leaderboard, write_leaderboard
from sstcast.reports.report import write_report
from sstcast.runs import Run
from sstcast.scores.evaluate import evaluate, reference
from sstcast.scores.leaderboard import leaderboard
from sstcast.scores.metrics import METRICS
from sstcast.scores.score_files import ScoreFiles


def missed_days(results: Results) -> list[Chart]:
    """Draw a curve that nothing else draws."""
    return [Chart(*draw_curves({"model": [1, 2, 3]}, "days missed"), "Which days were missed.")]


class Yesterday(LinearSystem):
    """The anomaly of the day before the last one, repeated."""

    def forward(self, history: torch.Tensor, graph: Graph) -> torch.Tensor:
        """Repeat it."""
        return history[..., -2:-1].expand(*history.shape[:-1], self.horizon)


@pytest.fixture(scope="module")
def registered() -> Iterator[None]:
    """The metric of the documentation and a baseline, each with its one registration."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(METRICS, "misses", None)  # removed again after the tests
        exec(blocks(EXTENDING, "A metric")[0], {})
        patch.setattr(linear, "Yesterday", Yesterday, raising=False)
        patch.setitem(LINEAR, "yesterday", Entry("linear.Yesterday", {}, "the day before the last"))
        patch.setitem(BASELINES, "day before", "yesterday")
        yield


@pytest.fixture(scope="module")
def run(registered: None, scored: Run, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run that was evaluated before, and lacks what has been registered since."""
    run = Run(Path(shutil.copytree(scored.folder, tmp_path_factory.mktemp("extending") / "small")))
    assert evaluate(run)[1]
    return run


def test_a_metric_is_one_class(
    run: Run, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    metrics = json.loads(run.metrics.read_text())
    share = metrics["scores"]["ridge"]["degC"]["misses"]
    assert 0 < share < 1
    assert len(metrics["scores"]["ridge"]["degC"]["by_lead"]["misses"]) == 8
    assert set(metrics["scores"]["ridge"]["degC"]["by_season"]["misses"]) == {"DJF", "MAM", "JJA", "SON"}
    with ScoreFiles(run.folder).open() as tables:
        assert {"missed_by_date", "misses_by_cell"} <= set(tables)
        by_date = tables["missed_by_date"].sel(units="degC", system="ridge")
        assert float(by_date.mean()) == pytest.approx(share, abs=1e-5)
    print_scores(metrics, "small")
    shown = capsys.readouterr().out
    assert "misses" in shown
    assert f"{share:.3f}" in shown
    contests = leaderboard(run.folder.parent)
    assert [e.scores["degC", "misses"].mean for e in contests[0].entries if e.name == "ridge"] == [share]
    print_leaderboard(contests)
    assert "misses" in capsys.readouterr().out
    table, page = write_leaderboard(contests, run.folder.parent)
    assert "degC_misses" in table.read_text()
    assert f"{share:.3f}" in page.read_text()
    monkeypatch.setattr(catalogue, "MAPS", {})
    draw_quickly(monkeypatch)
    html = write_report(Results(run.folder))[0].read_text()
    assert f"{share:.3f}" in html
    assert "Share of errors larger than 1\u00a0°C." in html


def test_a_baseline_is_one_model_and_one_line(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    metrics = json.loads(run.metrics.read_text())
    assert metrics["scores"]["day before"]["degC"]["rmse"] > metrics["scores"]["persistence"]["degC"]["rmse"]
    compared = metrics["ratios"]["mse"]["model"]["day before"]
    low, high = compared["interval"]
    assert low < compared["ratio"] < high
    assert reference("day") == reference("day before") == "day before"
    print_scores(metrics, "small", {"day before": "day before"})
    assert "day before" in capsys.readouterr().out
    assert "day before" in [entry.name for entry in leaderboard(run.folder.parent)[0].entries]


def test_a_figure_is_one_function(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    run.report.unlink(missing_ok=True)
    monkeypatch.setattr(catalogue, "FIGURES", {"cases": [missed_days]})
    monkeypatch.setattr(catalogue, "MAPS", {})
    html = write_report(Results(run.folder))[0].read_text()
    assert "Which days were missed." in html
    assert "days missed over Lead (days): model 1.00 at 1, 3.00 at 3." in html

"""Scores that are there: read and computed again in a process that never imports PyTorch."""

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scored_runs import metrics_of

from sstcast.runs import Run
from sstcast.scores.saved_scores import SavedScores

CODE = """
import sys
import sstcast

found = sstcast.evaluate("runs/net", index="index.csv")
assert not found.new
sstcast.leaderboard("runs")
errors = found.value["scores"]["model"]["degC"]
print([errors["by_index"]["mse"][third] for third in ("lower", "middle", "upper")], "torch" in sys.modules)
"""


def test_scores_are_computed_again_and_ranked_without_pytorch(scored: Run, tmp_path: Path) -> None:
    shutil.copytree(scored.folder, tmp_path / "runs/net")
    days = pd.date_range("2004-01-01", "2004-12-31", name="time")
    pd.DataFrame({"index": np.arange(len(days))}, days).to_csv(tmp_path / "index.csv")
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, cwd=tmp_path, check=True)
    # The index rises with time, so the dates of its thirds are the first, the next and the last ones.
    errors = SavedScores.read(scored.folder).errors.sel(system="model").mean("lead").values
    expected = [of.mean() for of in np.array_split(errors, 3)]
    numbers, _, has_torch = done.stdout.rpartition(" ")
    assert [float(of) for of in numbers.strip("[]").split(", ")] == pytest.approx(expected, rel=0.02)
    assert has_torch == "False\n"


def test_saved_scores_tell_errors_and_cells(scored: Run) -> None:
    scores, metrics = SavedScores.read(scored.folder), metrics_of(scored)
    assert scores.metrics == metrics
    assert scores.again(metrics["reference"]) is scores
    for name, of in metrics["scores"].items():
        assert scores.errors.sel(system=name).mean() == pytest.approx(of["degC"]["mse"], abs=1e-6)
    cells = scores.cells("model", "ridge")
    area = np.cos(np.deg2rad(cells["lat"]))
    for key, name in (("mse", "model"), ("mse_of_reference", "ridge")):
        mean = cells[key].sel(week=1).weighted(area).mean()
        assert mean == pytest.approx(metrics["scores"][name]["degC"]["by_week"]["mse"][0], rel=1e-3)
    better = ((cells["p_value"] <= 0.1) & (cells["mse"] < cells["mse_of_reference"])).sel(week=1).sum()
    shares = metrics["ratios"]["mse"]["model"]["ridge"]["better"]
    assert better / cells["mse"].sel(week=1).notnull().sum() == pytest.approx(shares[0], abs=1e-6)

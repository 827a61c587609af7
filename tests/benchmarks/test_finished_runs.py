"""Runs that are extended, scored again or run for all folds, and what they keep."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from small_raw import write

import sstcast
from sstcast.benchmarks.config import load_benchmark
from sstcast.benchmarks.load import load
from sstcast.benchmarks.registry import find_dataset
from sstcast.benchmarks.run import run_benchmark
from sstcast.benchmarks.splits import choose_split
from sstcast.errors import SSTCastError

SMALL = ["model.width=8", "model.layers=1", "training.epochs=1", "training.batch_size=4", "training.device=cpu"]


def test_folds_are_all_run_unless_seeds_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import sys

    from sstcast import cli

    write(find_dataset("MUTAG"), tmp_path)
    keys = [*SMALL, f"runs={tmp_path}/runs", f"cache={tmp_path}/cache", "split=folds:3"]
    sets = [part for key in keys for part in ("--set", key)]
    sys.argv = ["sstcast", "benchmark", "TU:MUTAG", "--model", "gin", "--root", str(tmp_path), *sets]
    with pytest.raises(SystemExit) as end:
        cli.main()
    assert not end.value.code
    out = capsys.readouterr().out
    assert "over 3 folds" in out
    tested = [line for line in out.splitlines() if line.startswith("seed ")]
    assert len(tested) == 3


def test_edge_dim_follows_from_the_data(tmp_path: Path) -> None:
    write(find_dataset("MUTAG"), tmp_path)
    with pytest.raises(SSTCastError, match=r"model\.edge_dim: .*leave it out"):
        sstcast.benchmark(
            "MUTAG", "gine", root=tmp_path, overrides=[*SMALL, "model.edge_dim=3", f"cache={tmp_path}"]
        )


def test_predictions_are_kept_and_give_the_score(tmp_path: Path) -> None:
    write(find_dataset("MUTAG"), tmp_path)
    keys = [*SMALL, f"runs={tmp_path}/runs", f"cache={tmp_path}/cache"]
    (result,) = sstcast.benchmark("MUTAG", "gin", root=tmp_path, overrides=keys)
    dataset = find_dataset("MUTAG", tmp_path)
    loaded = load(dataset, tmp_path, tmp_path / "cache")
    with np.load(tmp_path / "runs/MUTAG/gin/seed-0/predictions.npz") as found:
        index, prediction, target = (found[f"test_{name}"] for name in ("index", "prediction", "target"))
    assert sorted(index.tolist()) == sorted(choose_split(dataset, loaded, 0).test.tolist())
    assert target.tolist() == loaded.graphs.y[torch.from_numpy(index)].tolist()
    assert (prediction.argmax(1) == target).mean() == pytest.approx(result["test"])


def test_more_epochs_extend_a_finished_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(find_dataset("MUTAG"), tmp_path)
    keys = [*SMALL, f"cache={tmp_path}/cache"]

    def train(runs: str, epochs: int, *extra: str) -> Any:
        more = [f"runs={tmp_path}/{runs}", f"training.epochs={epochs}", *extra]
        return sstcast.benchmark("MUTAG", "gcn", root=tmp_path, overrides=[*keys, *more])[0]

    first = train("a", 1)
    extended, whole = train("a", 3), train("b", 3)
    assert first["epochs"] == 1
    assert {**extended, "seconds": 0} == {**whole, "seconds": 0}
    histories = [tmp_path / runs / "MUTAG/gcn/seed-0/history.csv" for runs in "ab"]
    losses = [np.genfromtxt(path, delimiter=",", names=True)["train_loss"].tolist() for path in histories]
    assert losses[0] == losses[1]
    capsys.readouterr()
    assert train("a", 3) == extended
    assert "nothing to do" in capsys.readouterr().out
    with pytest.raises(SSTCastError, match="another configuration"):
        train("a", 2)
    train("c", 1, "training.schedule=cosine")
    with pytest.raises(SSTCastError, match="another configuration"):
        train("c", 3, "training.schedule=cosine")


def test_evaluation_scores_without_training(tmp_path: Path) -> None:
    write(find_dataset("MUTAG"), tmp_path)
    keys = [*SMALL, f"cache={tmp_path}/cache", f"runs={tmp_path}/runs"]
    config = load_benchmark("MUTAG", "gcn", tmp_path, keys)
    with pytest.raises(SSTCastError, match="seed-0: not trained"):
        run_benchmark(config, evaluate=True)
    (trained,) = run_benchmark(config)
    (config.folder / "seed-0/predictions.npz").unlink()
    before = {path: path.read_bytes() for path in (config.folder / "seed-0").glob("*.*")}
    longer = load_benchmark("MUTAG", "gcn", tmp_path, [*keys, "training.epochs=9"])
    assert run_benchmark(longer, evaluate=True) == [trained]
    assert (config.folder / "seed-0/predictions.npz").exists()
    assert {path: path.read_bytes() for path in before} == before

"""Files of graph benchmarks, raw ones of every format and those of a run, damaged in every way."""

import itertools
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import small_raw
from bad import CHANGES, changed

from sstcast.benchmarks import run as run_module
from sstcast.benchmarks.registry import find_dataset
from sstcast.benchmarks.results import SplitScore

pytestmark = pytest.mark.filterwarnings("ignore")
Attempt = Callable[..., int]
FORMATS = (
    *("CiteSeer", "minesweeper", "amazon-photo", "PROTEINS"),
    *("ZINC", "PascalVOC-SP", "ogbg-molhiv", "PCQM4Mv2"),
)


@pytest.fixture
def untrained(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out the training, which no file has a part in once it has been read."""

    def score(config: Any, run: Any, task: Any, model: Any, data: Any, train: bool) -> SplitScore:
        known = {"dataset": config.dataset, "model": config.label, "seed": config.training.seed, "data": data}
        sizes = {"epoch": 1, "epochs": 1, "parameters": 1, "seconds": 0.0, "device": "cpu"}
        sizes |= {"split": task.dataset.split, "constant": 0.5, "test_samples": len(task.split.test)}
        return SplitScore(**known, **sizes, metric=task.dataset.metric, test=0.5, validation=0.5)

    monkeypatch.setattr(run_module, "_fit_and_score", score)


def command(folder: Path, what: object, number: int, *extra: object) -> list[object]:
    """Run a small model, in a folder of its own for each number."""
    keys = (f"runs={folder}/runs/{number}", f"cache={folder}/cache", "training.device=cpu", "training.epochs=1")
    small = ("model.width=4", "model.layers=1", "training.batch_size=4")
    sets = [part for key in (*keys, *small) for part in ("--set", key)]
    return ["benchmark", what, "--model", "mpnn", "--root", folder / "raw", *sets, *extra]


def damaged(path: Path, chance: random.Random) -> bytes:
    return CHANGES[chance.choice(list(CHANGES))](path.read_bytes(), chance)


def forget(root: Path) -> None:
    """Delete what PyG and OGB processed, so that raw files are read."""
    for path in list(root.rglob("processed")):
        shutil.rmtree(path)


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.usefixtures("untrained")
def test_raw_files(tmp_path: Path, attempt: Attempt, name: str) -> None:
    dataset, chance, number = find_dataset(name), random.Random(5), itertools.count()
    small_raw.write(dataset, tmp_path / "raw")
    assert attempt((), *command(tmp_path, name, next(number), "--trust")) == 0
    paths = small_raw.raw_files(dataset, tmp_path / "raw")
    paths += [file for path in paths if path.is_dir() for file in sorted(path.rglob("*.*"))[:2]]
    for path in (path for path in paths if path.is_file()):
        forget(tmp_path)
        with changed(path, damaged(path, chance)):
            attempt((path.name, name, name.lower()), *command(tmp_path, name, next(number)))


def test_files_of_a_benchmark_run(tmp_path: Path, attempt: Attempt) -> None:
    """Of a finished run and of one without its scores; a damaged cache is made anew."""
    chance = random.Random(7)
    small_raw.write(find_dataset("minesweeper"), tmp_path / "raw")
    finished = command(tmp_path, "minesweeper", 0, "--set", "predictor.positional=rwse")
    assert attempt((), *finished) == 0
    folder = tmp_path / "runs/0/minesweeper/mpnn/seed-0"
    scored = (folder / "metrics.json").read_text()
    files = [path for path in sorted(folder.rglob("[!.]*")) if path.is_file() and "tensorboard" not in path.parts]
    assert {"config.yaml", "metrics.json", "history.csv", "best.pt"} <= {path.name for path in files}
    for path in files:
        with changed(path, damaged(path, chance), folder):
            attempt((path.name, "seed-0"), *finished)
            (folder / "metrics.json").unlink()
            attempt((path.name, "seed-0"), *finished)
    for old, new in (("0.", "NaN"), ('"test"', '"text"'), ("{", "[")):
        with changed(folder / "metrics.json", scored.replace(old, new, 1).encode()):
            attempt(("metrics.json",), *finished)
    for path in sorted((tmp_path / "cache").glob("[!.]*.pt")):
        with changed(path, damaged(path, chance)):
            (folder / "metrics.json").unlink(missing_ok=True)
            attempt(("",), *finished)
            assert (folder / "metrics.json").read_text() == scored

"""Files of graph benchmarks, raw ones of every format and those of a run, damaged in every way."""

import itertools
import pickle
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import small_own
import small_raw
import torch
import yaml
from bad import CHANGES, Family, changed, run

from sstcast.benchmarks import run as run_module
from sstcast.benchmarks.registry import find_dataset
from sstcast.errors import SSTCastError
from studies.study import Study, run_study

FORMATS = (
    *("CiteSeer", "minesweeper", "amazon-photo", "wikics", "PROTEINS", "CSL", "ZINC", "PATTERN", "PCQM-Contact"),
    *("PascalVOC-SP", "MalNet-Tiny", "ogbg-molhiv", "ogbg-code2", "ogbn-arxiv", "peptides-func", "PCQM4Mv2"),
)
WRONG = (None, {}, [], "text", 5, [[]], {"train": 1}, [None], np.eye(3), [np.eye(2)], {0: [10**30]}, {0: {}})
OTHERS = {"a folder": None, "no text": b"\xff\xfe\x00" * 9, "a list": b"[1, 2]", "null": b"null", "nan": b"nan\n"}


@pytest.fixture
def untrained(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out the training, which no file has a part in once it has been read."""

    def score(config: Any, run: Any, task: Any, model: Any, fabric: Any, train: bool = True) -> dict[str, Any]:
        known = {"dataset": config.dataset, "model": config.label, "seed": config.training.seed}
        sizes = {"best_epoch": 0, "epochs": 1, "parameters": 1, "seconds": 0.0, "device": "cpu"}
        return known | sizes | {"metric": task.dataset.metric, "test": 0.5, "validation": 0.5}

    monkeypatch.setattr(run_module, "_fit_and_score", score)


def command(folder: Path, what: object, number: int, *extra: object) -> list[object]:
    """Run a small model, in a folder of its own for each number."""
    keys = (f"runs={folder}/runs/{number}", f"cache={folder}/cache", "training.device=cpu", "training.epochs=1")
    small = ("model.width=4", "model.layers=1", "training.batch_size=4")
    sets = [part for key in (*keys, *small) for part in ("--set", key)]
    return ["benchmark", what, "--model", "mpnn", "--root", folder / "raw", *sets, *extra]


def changes(path: Path, chance: random.Random, most: int) -> Iterator[tuple[str, bytes | None]]:
    content = path.read_bytes()
    cases = [(kind, change(content, chance)) for kind, change in CHANGES.items()] + list(OTHERS.items())
    yield from chance.sample(cases, min(most, len(cases)))


@pytest.mark.usefixtures("untrained")
def test_raw_files_of_every_format(tmp_path: Path) -> None:
    family, chance, number = Family("raw files of benchmarks", tmp_path), random.Random(5), itertools.count()
    for name in FORMATS:
        dataset = find_dataset(name)
        small_raw.write(dataset, tmp_path / "raw")
        assert run(*command(tmp_path, name, next(number), "--trust"))[0] == 0
        paths = small_raw.raw_files(dataset, tmp_path / "raw")
        folders = [path for path in paths if path.is_dir()]
        paths += [file for folder in folders for file in sorted(folder.rglob("*.*"))[:4]]
        for path in (path for path in paths if path.is_file()):
            for kind, content in changes(path, chance, 2):
                with changed(path, content):
                    case = command(tmp_path, name, next(number))
                    family.try_out(f"{path.name}, {kind}", (path.name, name, name.lower()), *case)
    family.close(at_least=90)


@pytest.mark.usefixtures("untrained")
def test_trusted_files_that_hold_something_else(tmp_path: Path) -> None:
    family, number = Family("pickles that hold something else", tmp_path), itertools.count()
    for name in ("CiteSeer", "CSL", "ZINC", "PATTERN", "PascalVOC-SP", "peptides-func"):
        dataset = find_dataset(name)
        small_raw.write(dataset, tmp_path / "raw")
        path = small_raw.raw_files(dataset, tmp_path / "raw")[-1]
        for wrong in WRONG:
            with changed(path, pickle.dumps(wrong)):
                if path.suffix == ".pt":
                    torch.save(wrong, path)
                case = command(tmp_path, name, next(number), "--trust")
                family.try_out(f"{path.name}, {wrong!r}", (path.name, name, name.lower()), *case)
    family.close(at_least=70)


@pytest.mark.usefixtures("untrained")
def test_files_of_one_s_own(tmp_path: Path) -> None:
    family, chance, number = Family("one's own files", tmp_path), random.Random(6), itertools.count()
    for make in (small_own.smiles_csv, small_own.graph_csv, small_own.pyg):
        folder = tmp_path / make.__name__
        folder.mkdir()
        (folder / "mine.yaml").write_text(yaml.safe_dump(make(folder)))
        files = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.suffix != ".yaml"]
        for path in files:
            for kind, content in changes(path, chance, 8):
                with changed(path, content):
                    case = command(tmp_path, folder / "mine.yaml", next(number))
                    family.try_out(f"{path.name}, {kind}", (path.name, "mine", path.parent.name), *case)
    family.close(at_least=30)


DEEP = "[" * 5000
KEYS: dict[str, list[str]] = {
    "kind": ["npz", "7", "[pyg]", "{a: 1}", ""],
    "path": ["7", "[mine.csv]", "''", "'.'", "'/dev/null'", '"a\\0b"', f"'{'a' * 5000}'", "..", ".nan", ""],
    "task": ["graph-regression", "1", "[1]", "link-ranking"],
    "metric": ["mae", "1", "[accuracy]", ".inf"],
    "split": [
        "random:1/2/3",
        "random:0/0/1",
        "random:./././",
        "folds:1",
        "folds:2",
        f"folds:{'9' * 5000}",
        "official",
    ],
    "classes": ["1", "-1", ".nan", ".inf", "9" * 5000, "1.5", "yes", "[2]", str(10**12), "2"],
    "edges": ["7", "''", "mine.csv", "none", "[edges]"],
    "features": ["7", "[kind]", "x", "[x]"],
    "target": ["name", "y", "7", DEEP],
    "edge_features": ["1", "[weights]"],
    "name": ["../mine", "a/b", "''", '"a\\0b"', "[a]", f"'{'a' * 500}'", "7.5e3000"],
    "unknown": ["1", DEEP, "&a [*a]", "!!python/object:os.system {}"],
}


@pytest.mark.usefixtures("untrained")
def test_yaml_of_one_s_own(tmp_path: Path) -> None:
    family, number = Family("YAML of one's own data", tmp_path), itertools.count()
    raw = small_own.graph_csv(tmp_path)
    for key, values in KEYS.items():
        for value in values:
            lines = [f"{k}: {v}" for k, v in raw.items() if k != key]
            (tmp_path / "mine.yaml").write_text("\n".join([*lines, f"{key}: {value}"]) + "\n")
            case = command(tmp_path, tmp_path / "mine.yaml", next(number))
            family.try_out(f"{key}: {value[:40]}", (key, "mine", tmp_path.name, "/dev/null"), *case)
    for content in (b"", b"kind", b"[1]", b"\xff\xfe", b"a: [", b"kind: pyg\nkind: pyg\n", None):
        with changed(tmp_path / "mine.yaml", content):
            family.try_out(
                f"{content!r}", ("mine.yaml",), *command(tmp_path, tmp_path / "mine.yaml", next(number))
            )
    family.close(at_least=60)


def test_command_lines_of_benchmark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:9")  # where nobody answers: no download leaves the machine
    family = Family("command lines of benchmark", tmp_path)
    small_raw.write(find_dataset("minesweeper"), tmp_path / "raw")
    (tmp_path / "file").write_text("")
    words = (
        "--seeds",
        "--model",
        "--set",
        "data set",
        "missing",
        "minesweeper.npz",
        "file",
        "HeterophilousGraphDataset",
    )
    extras: list[list[object]] = [["--seeds", s] for s in ("0..999999999999", "9" * 5000, "-1", "", "0..", "nan")]
    extras += [["--root", tmp_path / "file"], ["--root", ""], ["--root", tmp_path / ("a" * 300)]]
    extras += [["--model", name] for name in ("", "a/b", "../minesweeper/gps", "a" * 5000, "gcn.yaml", "\n")]
    for key in ("part", "local_epochs", "predictor.pairs", "predictor.steps", "training.batch_size"):
        extras += [["--set", f"{key}={value}"] for value in ("-1", ".nan", "9" * 30, "[1]")]
    extras += [["--set", f"{key}={tmp_path / 'file'}"] for key in ("root", "cache", "runs")]
    for extra in extras:
        key = str(extra[1]).partition("=")[0] if extra[0] == "--set" else words[0]
        family.try_out(str(extra), (*words, key), *command(tmp_path, "minesweeper", 0, *extra))
    for name in ("", "a/b", "../minesweeper", "mine.yaml/", ".yaml", "a" * 5000, "/", "-"):
        family.try_out(f"{name[:20]!r}", ("data set", name or "''"), *command(tmp_path, name, 0))
    family.close(at_least=45)


def test_files_of_a_benchmark_run(tmp_path: Path) -> None:
    family, chance = Family("files of a benchmark run", tmp_path), random.Random(7)
    small_raw.write(find_dataset("minesweeper"), tmp_path / "raw")
    finished = command(tmp_path, "minesweeper", 0, "--set", "predictor.positional=rwse")
    assert run(*finished)[0] == 0
    folder = tmp_path / "runs/0/minesweeper/mpnn/seed-0"
    files = [path for path in sorted(folder.rglob("[!.]*")) if path.is_file() and "tensorboard" not in path.parts]
    assert {"config.yaml", "data.json", "metrics.json", "history.csv", "best.pt"} <= {path.name for path in files}
    for path in files:
        for kind, content in changes(path, chance, 3):
            with changed(path, content):
                family.try_out(f"{path.name}, {kind}, finished", (path.name, "seed-0"), *finished)
                if path.name != "metrics.json":
                    (folder / "metrics.json").unlink()
                    family.try_out(f"{path.name}, {kind}, interrupted", (path.name, "seed-0"), *finished)
            if path.parent != folder:
                assert run(*finished)[0] == 0  # scores the run again
    scored = (folder / "metrics.json").read_text()
    for old, new in (
        ("0.", "NaN"),
        ('"test"', '"text"'),
        ('"seed": 0', '"seed": "0"'),
        ("0.", "1e999"),
        ("{", "["),
    ):
        with changed(folder / "metrics.json", scored.replace(old, new, 1).encode()):
            family.try_out(f"metrics.json: {new}", ("metrics.json",), *finished)
    for path in sorted((tmp_path / "cache").glob("[!.]*.pt")):
        for kind, content in changes(path, chance, 3):
            with changed(path, content):
                (folder / "metrics.json").unlink(missing_ok=True)
                family.try_out(f"{path.name}, {kind}", ("",), *finished)
                assert (folder / "metrics.json").read_text() == scored  # what is damaged is made anew
    family.close(at_least=45)


def refusal(study: Study, folder: Path) -> str:
    """Return what is said of a folder that cannot be used, or nothing."""
    try:
        run_study(study, folder)
    except SSTCastError as error:
        return str(error)
    return ""


def test_files_of_a_study(tmp_path: Path) -> None:
    def study() -> Study:
        from matplotlib.figure import Figure

        def draw(rows: Any) -> Figure:
            rows["value"].astype(float).mean()
            return Figure()

        cases = [{"number": number, "name": "a"} for number in (2, 3)]
        return Study(cases, lambda number, name: [{"value": number**2.0}], lambda rows: rows[["value"]], draw)

    page, _ = run_study(study(), tmp_path)
    chance = random.Random(8)
    for path in (tmp_path / name for name in ("rows.csv", "table.md", "figure.png")):
        for kind, content in changes(path, chance, 11):
            with changed(path, content):
                message = refusal(study(), tmp_path)
                assert "\n" not in message, kind
                assert not message or path.name in message, kind
    assert run_study(study(), tmp_path) == (page, False)

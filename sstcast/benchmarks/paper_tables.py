"""The papers' tables of scores on graphs: their cells, the runs that repeat them, and what is left to run."""

import re
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from statistics import mean, stdev
from typing import NamedTuple

import torch
from lightning_fabric import Fabric
from torch.utils.benchmark import Timer

from sstcast.benchmarks.config import PRESETS, BenchmarkConfig, is_preset, load_benchmark, published_numbers
from sstcast.benchmarks.graph_model import check_model
from sstcast.benchmarks.load import LoadedDataset, load
from sstcast.benchmarks.registry import aligned
from sstcast.benchmarks.run import SplitScore, build_task, find_run, run_benchmark
from sstcast.errors import SSTCastError, in_short, lacks_memory
from sstcast.storage.paths import packaged
from sstcast.storage.yaml_files import suggest
from sstcast.training.devices import start
from sstcast.training.engine import build_optimizer

PAPERS = {  # by the name in the sources of `published.yaml`
    "Cai et al. 2023": "mpnn-gt",
    "Primphormer": "primphormer",
    "Polynormer": "polynormer",
    "TokenGT": "tokengt",
    "KDLGT": "kdlgt",
}
SOURCE = re.compile(rf"({'|'.join(PAPERS)}) Table (\w+)")
TIMED_STEPS = 3  # timed by a dry run


class Cell(NamedTuple):
    """A score in a table: its data set, the name of its row, its value, and the reason if it cannot be repeated.

    `remark` is what its source says beside the table.
    """

    dataset: str
    row: str
    score: float
    missing: str | None
    remark: str


class Trial(NamedTuple):
    """A cell with its configuration, which is None if it cannot be repeated, and the seeds of its runs."""

    cell: Cell
    config: BenchmarkConfig | None
    seeds: Sequence[int]

    @property
    def runs(self) -> list[BenchmarkConfig]:
        """A configuration for each seed."""
        return [] if self.config is None else [self.config.with_seed(seed) for seed in self.seeds]

    @property
    def scores(self) -> list[SplitScore]:
        """The scores of the runs that are done."""
        files = [find_run(run).metrics for run in self.runs]
        return [SplitScore.load(file, "delete the file and re-run the command") for file in files if file.exists()]

    @property
    def paper(self) -> float | None:
        """The published score, or None if the configured model is not that of the paper."""
        return self.cell.score if self.config is None or is_preset(self.config) else None

    @property
    def label(self) -> str:
        return self.cell.row if self.config is None else self.config.label


def paper_tables() -> dict[str, list[Cell]]:
    """Return the cells of each table, which are called `kdlgt:2` and the like."""
    tables: dict[str, list[Cell]] = {}
    for dataset, rows in published_numbers().items():
        for row, entries in rows.items():
            for score, source, reason in entries:
                if (match := SOURCE.search(source)) is not None:
                    table = f"{PAPERS[match[1]]}:{match[2]}"
                    remark = SOURCE.sub("", source).strip(", ")
                    tables.setdefault(table, []).append(Cell(dataset, row, score, reason, remark))
    return dict(sorted(tables.items()))


def choose(cells: Sequence[Cell], datasets: Sequence[str] | None, models: Sequence[str] | None) -> list[Cell]:
    """Return the cells of these data sets and rows, or of all. Raises SSTCastError for a name without a cell."""
    for option, requested_names, valid in (
        ("datasets", datasets, {cell.dataset for cell in cells}),
        ("models", models, {cell.row for cell in cells}),
    ):
        for name in requested_names or ():
            if name.lower() not in {candidate.lower() for candidate in valid}:
                choices = ", ".join(sorted(valid))
                raise SSTCastError(f"--{option} {name}: not in the table{suggest(name, valid)}; it has {choices}")
    sets, rows = ([name.lower() for name in names or ()] for names in (datasets, models))
    matches = [c for c in cells if (not sets or c.dataset.lower() in sets) and (not rows or c.row.lower() in rows)]
    if not matches:
        raise SSTCastError("--models: the table has none of them on these data sets; choose others")
    return matches


def plan(cells: Sequence[Cell], seeds: Sequence[int], root: Path | None, overrides: Sequence[str]) -> list[Trial]:
    """Return the cells with the preset of their row, and with the paper's training if there is such a preset.

    Raises SSTCastError for overrides that do not suit a model, or a folder that holds other runs.
    """
    trials = []
    for cell in cells:
        config = None
        if cell.missing is None:
            folders = (cell.dataset.lower(), "default")
            paper = any(packaged(f"{PRESETS}/{folder}/{cell.row}-paper.yaml").exists() for folder in folders)
            label = f"{cell.row}-paper" if paper else cell.row
            config = load_benchmark(cell.dataset, label, root, list(overrides))
            if config.label != label:
                raise SSTCastError("--set label: the rows of a table have their own; choose another --out instead")
            check_model(config)
        trials.append(Trial(cell, config, seeds))
        for run in trials[-1].runs:
            find_run(run)
    return trials


def fit(config: BenchmarkConfig) -> str:
    """Train and score the run of the configured seed, unless it is done. Return a line that says what happened.

    Raises SSTCastError if the run is done, but with other data: its score would be wrong in a table.
    """
    run = find_run(config)
    try:
        [score] = run_benchmark(config, [config.training.seed])
    except Exception as error:
        if run.metrics.exists():
            raise
        return f"{run.folder}: not run: {_reason(error)}"
    return f"{run.folder}: test {score['metric']} {score['test']:.4f}"


def table_lines(trials: Sequence[Trial]) -> Iterator[str]:
    """Yield a line per cell: the paper's score and ours, seeds, weights, seconds, and a note, such as why there is
    no score.
    """
    rows: list[Sequence[str]] = [("data set, metric", "model", "paper", "here", "seeds", "weights", "s a run", "")]
    for trial in trials:
        scores = trial.scores
        test_scores, seeds = [score.test for score in scores], f"{len(scores)} of {len(trial.seeds)}"
        spread = f" ± {stdev(test_scores):.4f}" if len(test_scores) > 1 else ""
        rows.append(
            (
                *_named(trial),
                f"{mean(test_scores):.4f}{spread}" if test_scores else "-",
                "-" if trial.config is None else seeds,
                f"{scores[0].parameters:,}" if scores else "-",
                f"{mean(score.seconds for score in scores):.0f}" if scores else "-",
                _note(trial, "not run" if trial.runs and not test_scores else ""),
            )
        )
    yield from aligned(rows)


def needs(trials: Sequence[Trial]) -> Iterator[str]:
    """Yield a line per cell: the runs that are left, weights, seconds of an epoch on this device, and hours.

    Nothing is trained or downloaded. Data at hand are read as for a run, which may write their cache.
    """
    rows: list[Sequence[str]] = [
        ("data set, metric", "model", "paper", "at hand", "left", "weights", "s an epoch", "epochs", "hours", "")
    ]
    hours, absent = 0.0, set()
    for dataset, group in groupby(trials, key=lambda trial: trial.cell.dataset):
        loaded: LoadedDataset | None = None
        for trial in group:
            config, runs_left = trial.config, len(trial.seeds) - len(trial.scores)
            cost, note, at_hand = None, "", "-"
            if config is not None:
                at_hand = "yes" if config.declaration.at_hand(config.root) else "no"
                if at_hand == "no":
                    absent.add(dataset)
                elif runs_left:
                    try:
                        loaded = loaded or load(config.declaration, config.root, config.cache)
                        cost = _cost(config, loaded, start(config.training))
                    except Exception as error:
                        note = _reason(error)
            cells = ["-"] * 4
            if cost is not None and config is not None:
                weights, seconds = cost
                epochs = sum(config.stages.values()) + config.training.epochs
                hours += (needed := runs_left * epochs * seconds / 3600)
                cells = [f"{weights:,}", f"{seconds:.3f}", f"{epochs:,}", f"{needed:.2f}"]
            runs = "-" if config is None else str(runs_left)
            rows.append([*_named(trial), at_hand, runs, *cells, _note(trial, note)])
    yield from aligned(rows)
    device = next((str(start(t.config.training).device) for t in trials if t.config is not None), "cpu")
    lacking = f"; not at hand: {', '.join(sorted(absent))}" if absent else ""
    yield f"at most {hours:.1f} h on {device} for the runs left of data at hand, one after another{lacking}"


def _reason(error: Exception) -> str:
    """Return the message of an error that ends a cell. Raise any other, which ends the table."""
    if isinstance(error, SSTCastError) or lacks_memory(error):
        return in_short(error)
    raise error


def _named(trial: Trial) -> tuple[str, str, str]:
    metric = f", {trial.config.declaration.metric}" if trial.config is not None else ""
    paper = "-" if trial.paper is None else f"{trial.paper:.4f}"
    return f"{trial.cell.dataset}{metric}", trial.label, paper


def _note(trial: Trial, note: str) -> str:
    changed = "not the paper's model" if trial.paper is None else ""
    split = "here on its own split" if trial.config is not None and trial.config.split is not None else ""
    return "; ".join(filter(None, (trial.cell.missing, trial.cell.remark, changed, split, note)))


def _cost(config: BenchmarkConfig, loaded: LoadedDataset, fabric: Fabric) -> tuple[int, float]:
    """Return the number of weights and the seconds of an epoch, from a few steps on the first batch."""
    task, model = build_task(config, loaded, fabric)
    model = model.to(fabric.device)
    optimizer = build_optimizer(model.parameters(), config.training)
    order, validation = task.order(config.training.seed, 0), len(task.split.validation)
    batch = task.batch(order[0])

    def step() -> None:
        with fabric.autocast():
            loss = task.loss(model, batch)
        (loss / task.weight(batch) + model.auxiliary_loss()).backward()
        optimizer.step()
        optimizer.zero_grad()

    @torch.no_grad()
    def score() -> None:
        with fabric.autocast():
            model(batch)

    seconds = {
        name: Timer(f"{name}()", globals={name: call}, num_threads=torch.get_num_threads())
        .timeit(TIMED_STEPS)
        .mean
        for name, call in (("step", step), ("score", score))
    }
    scored = 1.0 if task.graphs.transductive else validation / len(order[0])
    steps = sum(map(len, order)) / len(order[0])
    weights = sum(parameter.numel() for parameter in model.parameters())
    return weights, steps * seconds["step"] + scored * seconds["score"]

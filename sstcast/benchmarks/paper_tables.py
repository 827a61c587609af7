"""The papers' tables of scores on graphs: their cells, the runs that repeat them, and what is left to run."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import mean, stdev
from typing import NamedTuple

from sstcast.benchmarks.config import BenchmarkConfig, is_preset, load_benchmark, presets_of, published_numbers
from sstcast.benchmarks.graph_model import check_model
from sstcast.benchmarks.results import SCORED, SplitScore
from sstcast.benchmarks.run import find_run, run_benchmark
from sstcast.errors import SSTCastError, aligned, counted, message_of
from sstcast.storage.yaml_files import suggest

PAPERS = {  # by the name in the sources of `published.yaml`
    "Cai et al. 2023": "mpnn-gt",
    "Primphormer": "primphormer",
    "Polynormer": "polynormer",
    "TokenGT": "tokengt",
    "KDLGT": "kdlgt",
}
SOURCE = re.compile(rf"({'|'.join(PAPERS)}) Table (\w+)")


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
        return [SplitScore.load(file, SCORED) for file in files if file.exists()]

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
            paper = f"{cell.row}-paper"
            label = paper if paper in presets_of(cell.dataset) else cell.row
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
        return f"{run.folder}: not run: {message_of(error)}"
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
    """Yield a line per cell: whether its data are at hand, the runs that are left, and their epochs.

    Nothing is opened, trained or downloaded.
    """
    rows: list[Sequence[str]] = [("data set, metric", "model", "paper", "at hand", "left", "epochs", "")]
    left, absent = 0, set()
    for trial in trials:
        config, cells = trial.config, ["-"] * 3
        if config is not None:
            runs_left = len(trial.seeds) - len(trial.scores)
            left += runs_left
            at_hand = config.declaration.at_hand(config.root)
            absent |= set() if at_hand else {trial.cell.dataset}
            epochs = sum(config.stages.values()) + config.training.epochs
            cells = ["yes" if at_hand else "no", str(runs_left), f"{epochs:,}"]
        rows.append([*_named(trial), *cells, _note(trial, "")])
    yield from aligned(rows)
    lacking = f"; not at hand: {', '.join(sorted(absent))}" if absent else ""
    yield f"{counted(left, 'run')} left{lacking}"


def _named(trial: Trial) -> tuple[str, str, str]:
    metric = f", {trial.config.declaration.metric}" if trial.config is not None else ""
    paper = "-" if trial.paper is None else f"{trial.paper:.4f}"
    return f"{trial.cell.dataset}{metric}", trial.label, paper


def _note(trial: Trial, note: str) -> str:
    changed = "not the paper's model" if trial.paper is None else ""
    split = "here on its own split" if trial.config is not None and trial.config.split is not None else ""
    return "; ".join(filter(None, (trial.cell.missing, trial.cell.remark, changed, split, note)))

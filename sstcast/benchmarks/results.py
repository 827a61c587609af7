"""The result of a run on graphs, which it keeps as `metrics.json`, and tables of results."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import mean, stdev
from typing import Annotated, NamedTuple

from pydantic import Field, FiniteFloat

from sstcast.errors import SSTCastError
from sstcast.log import LOG
from sstcast.runs import Run
from sstcast.storage.paths import below
from sstcast.storage.yaml_files import JsonRecord

SCORED = "delete the file and re-run the command, which scores the run again"
SCORE_COLUMNS = ["mean", "sd", "seeds", "seconds"]


class DataDigest(JsonRecord):
    """The SHA-256 of the graphs and splits, and of the checkpoint that training began from, if any.

    `weighted` tells whether the model reads weights of edges.
    """

    graphs: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    weighted: bool
    initial_weights: str | None = None

    def check(self, run: Run) -> None:
        """Raise SSTCastError if a run was trained on other data, or its record of them is damaged or missing."""
        trained = DataDigest.load(run.data, "delete the run's folder to train again")
        if trained.weighted != self.weighted:
            how = "with" if trained.weighted else "without"
            raise SSTCastError(
                f"{run.folder}: trained {how} weights of the edges; delete the folder, or train again with "
                "another runs=FOLDER"
            )
        if (trained_digest := trained.graphs) != self.graphs:
            raise SSTCastError(
                f"{run.folder}: trained on other data: SHA-256 of its graphs {trained_digest[:12]}... then, "
                f"{self.graphs[:12]}... now; put the old data back, or train again with another runs=FOLDER or "
                "without this folder"
            )


class SplitScore(JsonRecord):
    """The content of `metrics.json`.

    `constant` is the test score of the best constant for the training labels. `epoch`, the best one, counts from 1
    and the first stage on, and `epochs` all epochs of all stages. `peak_memory` is in bytes (see
    `training.devices.peak_memory`), None if no epoch was trained.
    """

    dataset: str
    split: str
    model: str
    seed: int
    metric: str
    test: FiniteFloat
    validation: FiniteFloat
    constant: FiniteFloat
    test_samples: int = Field(ge=1)
    epoch: int = Field(ge=1)
    epochs: int = Field(ge=1)
    parameters: int = Field(ge=0)
    seconds: FiniteFloat = Field(ge=0)
    peak_memory: int | None = Field(default=None, ge=0)
    device: str
    data: DataDigest


class ScoreTable(NamedTuple):
    """The models on one data set, best first: a title, the names of the columns, and each name with its cells."""

    title: str
    header: list[str]
    rows: list[tuple[str, list[str]]]


def tables_of(scores: Iterable[tuple[str, SplitScore]]) -> list[ScoreTable]:
    """Return a table for each data set, split and metric, from the name and the score of each run.

    Runs of one name are the seeds of a row. Below the models is the best constant.
    """
    contests: dict[tuple[str, str, str, str], dict[str, list[SplitScore]]] = defaultdict(lambda: defaultdict(list))
    for name, score in scores:
        contests[score.dataset, score.split, score.metric, score.data.graphs][name].append(score)
    titles, tables = Counter(key[:3] for key in contests), []
    if contests:
        from sstcast.benchmarks.objectives import lower_is_better  # imported late, as it imports PyTorch
    for (dataset, split, metric, digest), by_name in contests.items():
        ranked = sorted(by_name.items(), key=lambda row: mean(score.test for score in row[1]))
        rows = [(name, _cells(runs)) for name, runs in ranked[:: 1 if lower_is_better(metric) else -1]]
        runs = [score for group in by_name.values() for score in group]
        constants, samples = {run.seed: run.constant for run in runs}, sorted({run.test_samples for run in runs})
        rows.append(("best constant", [*_spread(list(constants.values())), "", ""]))
        data = f" (data {digest[:8]})" if titles[dataset, split, metric] > 1 else ""
        count = "..".join(map(str, dict.fromkeys((samples[0], samples[-1]))))
        title = f"{dataset}{data}: test {metric}, split {split}, {count} test samples"
        tables.append(ScoreTable(title, SCORE_COLUMNS, rows))
    return tables


def tables_below(folder: Path) -> list[ScoreTable]:
    """Return the tables of all runs on graphs in or below a folder. Warn of damaged ones on stderr."""
    scores: list[tuple[str, SplitScore]] = []
    for file in below(folder, "predictions.npz"):
        metrics, place = file.with_name("metrics.json"), file.parents[1]
        try:
            if metrics.exists():
                score = SplitScore.load(metrics, SCORED)
                scores.append((score.model if place == folder else str(place.relative_to(folder)), score))
        except (SSTCastError, ValueError) as error:
            LOG.warning(f"left out: {error}")
    return tables_of(scores)


def _cells(runs: Sequence[SplitScore]) -> list[str]:
    seconds = mean(run.seconds for run in runs)
    return [*_spread([run.test for run in runs]), str(len(runs)), f"{seconds:.0f}"]


def _spread(scores: Sequence[float]) -> list[str]:
    return [f"{mean(scores):.4f}", f"{stdev(scores):.4f}" if len(scores) > 1 else "-"]

"""The scores in a folder, as commands and pages read them: of which weights they are, and what they hold."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import xarray as xr

from sstcast.config import COMBINATION
from sstcast.errors import SSTCastError
from sstcast.names import DEGREES, INIT_TIME, MODEL
from sstcast.places.point_observations import ENTRY
from sstcast.runs import Run
from sstcast.scores.comparisons import MEAN_SQUARED_ERROR, LossComparison, shares, tests_by_cell
from sstcast.scores.indices import thirds
from sstcast.scores.parts import in_degrees
from sstcast.scores.score_files import ScoreFiles
from sstcast.scores.system_records import run_itself
from sstcast.storage.artefacts import RECIPE
from sstcast.types import Scores

ERRORS_BY_CELL = "squared_error_by_week"  # of each date; they may be larger than memory
WeightsOf = Callable[[Run], str]


def weights_there(run: Run) -> str:
    """Return the digest of a run's weights, or nothing if it has none."""
    with suppress(FileNotFoundError):
        return run.digest
    return ""


@dataclass(frozen=True)
class SavedScores:
    """The scores of a run, a hindcast or a file of forecasts. Tables are read from their folder on first use.

    Attributes:
        files: the folder.
        metrics: the contents of `metrics.json`.
    """

    files: ScoreFiles
    metrics: Scores

    @classmethod
    def read(cls, folder: Path, weights_of: WeightsOf = weights_there) -> "SavedScores":
        """Read the scores in a folder.

        Args:
            folder: the folder of a run, a hindcast, or of the scores of a file.
            weights_of: `weights_there`, or what keeps its answers.

        Raises SSTCastError if they are missing, damaged, edited, from another version, or of weights that have
        been trained since: of the run or a part of it, of a run of the hindcast, or of one that a file was
        compared with. Weights that are not there do not tell.
        """
        files = ScoreFiles(folder)
        scores = cls(files, files.read())
        for run, found, expected in scores._weights(weights_of):
            if all(found) and sorted(found) != sorted(expected):
                raise SSTCastError(f"{run.folder}: has been trained since it was scored; {files.remedy}")
        return scores

    def _weights(self, weights_of: WeightsOf) -> Iterator[tuple[Run, list[str], list[str]]]:
        """Yield the runs that were scored, the weights that they have, and those that were scored."""
        scored, own = self.metrics[RECIPE], Run(self.files.folder)
        runs = {Run(Path(folder)): weights for folder, weights in scored.get("against", {}).items()}
        if "weights" in scored:
            is_combination = self.metrics["systems"][MODEL]["model"] == COMBINATION
            runs = {own: scored["weights"]} | (_parts_below(own.trained) if is_combination else {})
        for run, weights in runs.items():
            yield run, [weights_of(run)], [weights]
        for system, folds in scored.get("runs", {}).items():
            for fold, members in folds.items():
                run = Run(self.files.folder / system / fold)
                yield run, [*map(weights_of, run.members)], members

    @cached_property
    def tables(self) -> xr.Dataset:
        """The contents of `scores.nc`, except the squared errors by cell of each date."""
        with self.files.open() as tables:
            return tables.drop_vars(ERRORS_BY_CELL, errors="ignore").load()

    @cached_property
    def errors(self) -> xr.DataArray:
        """The mean squared error of each forecast in degC², `(system, init_time, lead)`."""
        with self.files.open() as tables:
            return in_degrees(tables, "mse").transpose("system", INIT_TIME, "lead").load()

    def cells(self, system: str, reference: str) -> xr.Dataset:
        """Return maps `(week, lat, lon)` of a system's errors in degC, and of their difference from a reference's.

        They are `mse`, `bias`, `mse_of_reference`, and the adjusted `p_value` of the difference.
        """
        tables = self.tables.sel(units=DEGREES, drop=True)
        own, base = (tables.sel(system=name, drop=True) for name in (system, reference))
        p_value = tables["p_fdr"].sel(compared=system, reference=reference, drop=True)
        maps = {"mse": own["mse_by_cell"], "bias": own["bias_by_cell"], "mse_of_reference": base["mse_by_cell"]}
        return xr.Dataset(maps | {"p_value": p_value})

    def again(self, reference: str | None = None, index: str | None = None) -> "SavedScores":
        """Return these scores compared with another `reference`, or also by third of an `index`.

        The scores `by_index` are of the initial dates in each third (see `indices.thirds`).
        """
        if index is None and reference in (None, self.metrics["reference"]):
            return self
        from sstcast.scores.summary import summarise  # imported late: few commands compute scores

        metrics, tables = self.metrics, self.tables
        if index is not None:
            tables, metrics = tables.assign_coords(third=thirds(tables, index)), metrics | {"index": index}
        found = summarise(tables, reference or metrics["reference"], metrics["systems"], run_itself(metrics))
        if "points" in found:  # `Asked.describe` has told what of the observations the tables do not hold
            found["points"] |= {key: metrics["points"][key] for key in ENTRY}
        return replace(self, metrics=metrics | found)

    def compare(self, other: "SavedScores", names: tuple[str, str]) -> Scores:
        """Compare the squared errors of this run with those of another over the dates that both have.

        `names` are those of both in the sentence. Returns what `LossComparison.compare` does, and `shares`.
        """
        errors = (scores.errors.sel(system=MODEL, drop=True) for scores in (self, other))
        error, other_error = xr.align(*errors, join="inner", exclude={"lead"})
        with self.files.open() as tables, other.files.open() as other_tables:
            cells = xr.align(*(opened[ERRORS_BY_CELL] for opened in (tables, other_tables)), join="inner")
            _, (p_fdr,) = tests_by_cell(cells, [(0, 1)], error)
            difference = cells[0].mean(INIT_TIME).compute() - cells[1].mean(INIT_TIME).compute()
        dates = LossComparison(error)
        losses = dates.loss(error.values), dates.loss(other_error.values)
        compared = dates.compare(*losses, (*names, MEAN_SQUARED_ERROR))
        return compared | shares(difference.copy(data=p_fdr), difference)


def _parts_below(run: Run) -> dict[Run, str]:
    """Return the parts of a combination, and theirs, with their digests when they were combined."""
    parts = run.part_digests if run.config_file.exists() else {}
    return parts | {run: digest for part in parts for run, digest in _parts_below(part).items()}

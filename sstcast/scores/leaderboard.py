"""Ranks evaluated runs.

Runs with the same ocean, protocol, history, horizon and test days form a contest. Runs whose configurations differ
only in the seed share one entry, with the mean and standard deviation of their scores. Equal runs count once.
A linear system has no seed, so those that differ in nothing else are equal.
"""

import datetime as dt
import json
from collections import Counter, defaultdict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from itertools import takewhile
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from sstcast.config import DataConfig, RunConfig
from sstcast.errors import SSTCastError, counted, named
from sstcast.log import LOG
from sstcast.models import LINEAR
from sstcast.names import DEFAULT_REFERENCE, DEGREES, MODEL, STANDARDISED
from sstcast.runs import Run
from sstcast.scores.comparisons import MEAN_SQUARED_ERROR, LossComparison, on_common_dates
from sstcast.scores.metrics import METRICS, columns
from sstcast.scores.saved_scores import SavedScores, WeightsOf, weights_there
from sstcast.scores.score_files import ScoreFiles
from sstcast.scores.system_records import BASE, BASELINE, WITHOUT, distinct, of_role
from sstcast.storage.paths import below
from sstcast.types import Scores

MOST_NAMED = 10  # runs that are not evaluated


@dataclass(frozen=True)
class SeedMean:
    """The mean of a score and its standard deviation over seeds, which is None for a single run."""

    mean: float | None
    spread: float | None = None


@dataclass(frozen=True)
class LeaderboardEntry:
    """A row of a leaderboard: a baseline, or runs that differ only in the seed."""

    name: str
    runs: int  # 0 for a baseline
    members: int  # per run
    scores: dict[tuple[str, str], SeedMean]  # by units and metric
    mse: float  # mean over seeds in the contest's units, by which entries are ranked
    compared: dict[str, Any]  # with the multiscale ridge of the same years (see `LossComparison.compare`)


@dataclass(frozen=True)
class Contest:
    """Entries that can be compared, best first, and a line for each run that is left out as equal to another."""

    title: str
    entries: list[LeaderboardEntry]
    repeated: list[str]


@dataclass(frozen=True)
class EvaluatedRun:
    """An evaluated run: name, configuration, seeds, scores, and `errors(system, init_time, lead)` in degC²."""

    name: str
    config: RunConfig
    seeds: list[int]  # of its members; none of a linear system
    metrics: Scores
    errors: xr.DataArray

    @classmethod
    def read(cls, folder: Path, name: str, weights_of: WeightsOf) -> "EvaluatedRun":
        """Read a run. Raises SSTCastError if its scores are damaged, from another version or of other weights."""
        run, scores = Run(folder), SavedScores.read(folder, weights_of)
        config = run.config
        is_linear = config.model.name in LINEAR
        seeds = [] if is_linear else [member.config.training.seed for member in run.members]
        return cls(name, config, seeds, scores.metrics, on_common_dates(scores.errors))

    @property
    def contest(self) -> tuple[str, ...]:
        """What its contest is: the ocean and the days it forecasts; grid, base period and digest of its test days.

        The base period decides errors in standardised units, by which the protocol `paper` ranks.
        """
        data = self.config.data
        ocean, (first, last) = f"{data.source}, {_region(data)}: {data.protocol} protocol", data.splits.test
        days = f"{counted(data.horizon, 'day')} ahead from {data.history} days of history"
        grid = "" if data.grid is None else f", on a grid of {data.grid:g} degrees"
        base = f", base {_span(data.splits.base)}" if data.protocol == "paper" else ""
        test = self.metrics["data"]["test"]
        return f"{ocean}, {days}, {first} to {last}", grid, base, f" (test days {test[:8]})", test

    @property
    def years(self) -> str:
        """The days that its baselines are fitted to and choose their penalties on."""
        splits = self.config.data.splits
        base = [] if splits.base == splits.train else [f"base {_span(splits.base)}"]
        return ", ".join([_span(splits.train), _span(splits.validation), *base])

    @property
    def recipe(self) -> str:
        """Everything that distinguishes it from other runs, except the seed."""
        config = self.config.model_dump(mode="json", exclude={"name": True, "runs": True, "training": {"seed"}})
        return json.dumps([config, self.members], sort_keys=True)

    @property
    def members(self) -> int:
        """The number of ensemble members."""
        members: int = self.metrics["systems"][MODEL]["members"]
        return members


def _region(data: DataConfig) -> str:
    """Describe a region: by its name, or by its box, coarsening and tiles, which decide the cells scored."""
    if isinstance(data.region, str):
        return data.region
    coarsened = f", coarsened by {data.region.coarsen}" if data.region.coarsen > 1 else ""
    without = f" without {', '.join(map(str, data.region.skip))}" if data.region.skip else ""
    return f"{data.place}{coarsened}, tiles of {' x '.join(map(str, data.region.tile))}{without}"


def leaderboard_columns() -> list[tuple[str, str, str]]:
    """Return the columns of a leaderboard: heading, units and name of each metric.

    Of the metrics in standardised units, only the MSE is included.
    """
    ranked = [column for column in columns() if METRICS[column[2]].ranked]
    return [(head, units, name) for head, units, name in ranked if units == DEGREES or name == "mse"]


def leaderboard(folder: Path, empty: bool = False) -> list[Contest]:
    """Return the contests of all evaluated runs below `folder`, the largest contest first.

    A run that cannot be read is omitted with a warning on stderr. Raises SSTCastError if no run is left, unless
    `empty` is true.
    """
    runs, problems, weights_of = [], [], cache(weights_there)  # of parts, which are runs too
    for file in below(folder, "scores.nc"):
        if Run(file.parent).config_file.exists():
            try:
                runs.append(EvaluatedRun.read(file.parent, str(file.parent.relative_to(folder)), weights_of))
            except (SSTCastError, OSError) as error:
                problems.append(str(error))
    if not runs and not empty:
        raise SSTCastError(
            problems[0] if problems else f"{folder}: no evaluated runs; run `sstcast evaluate RUN...` first"
        )
    for problem in problems:
        LOG.warning(f"left out: {problem}")
    if names := _not_evaluated(folder):
        LOG.info(f"left out, as they are not evaluated: {named(names, MOST_NAMED)}; run `sstcast evaluate`")
    groups = _groups(runs, lambda run: run.contest)
    contests = []
    for contest, title in _titles([*groups]).items():
        distinct, repeated = _distinct(groups[contest])
        contests.append(Contest(title, _entries(distinct), repeated))
    return sorted(contests, key=lambda contest: -len(contest.entries))


def _not_evaluated(folder: Path) -> list[str]:
    """Return the trained runs below a folder that have no scores, without those of ensembles and hindcasts."""
    names = []
    for run in (Run(file.parent) for file in below(folder, "config.yaml")):
        is_part = Run(run.folder.parent).config_file.exists() or (run.folder / "hindcast.nc").exists()
        is_scored = run.metrics.exists() and ScoreFiles(run.folder).tables.exists()
        if is_part or is_scored or not all(member.best.exists() for member in run.members):
            continue
        with suppress(SSTCastError):  # a run on graphs
            names += [str(run.folder.relative_to(folder))] * isinstance(run.config, RunConfig)
    return names


def _titles(contests: list[tuple[str, ...]]) -> dict[tuple[str, ...], str]:
    """Return the title of each contest: its first part, and of the others those that are needed to tell it."""
    titles = {contest: contest[0] for contest in contests}
    for part in range(1, len(contests[0]) if contests else 0):
        shared = Counter(titles.values())
        differ = {title for title in shared if len({of[part] for of in contests if titles[of] == title}) > 1}
        titles = {of: title + of[part] * (title in differ) for of, title in titles.items()}
    return titles


def _groups(runs: list[EvaluatedRun], key: Callable[[EvaluatedRun], Any]) -> dict[Any, list[EvaluatedRun]]:
    groups: dict[Any, list[EvaluatedRun]] = defaultdict(list)
    for run in runs:
        groups[key(run)].append(run)
    return groups


def _distinct(runs: list[EvaluatedRun]) -> tuple[list[EvaluatedRun], list[str]]:
    """Return the first by name of equal runs, and for each of the others a line with the name of the first.

    Runs of one recipe and one seed may have other scores, for instance if they were trained on different devices.
    """
    distinct, repeated = [], []
    for first, *others in _groups(runs, lambda run: (run.recipe, *run.seeds)).values():
        distinct.append(first)
        for run in others:
            has_other_scores = run.metrics["scores"][MODEL] != first.metrics["scores"][MODEL]
            repeated.append(f"{run.name}: as {first.name}" + ", but with other scores" * has_other_scores)
    return distinct, repeated


def _entries(runs: list[EvaluatedRun]) -> list[LeaderboardEntry]:
    """Return the entries of a contest, best first.

    Runs of the same training and validation days share baselines. If there are several, these days name them.
    Other systems, such as a linear base, are a run's own. Runs that have the same name in common are listed.
    """
    by_years = _groups(runs, lambda run: run.years)
    baselines = [
        _entry(f"{key} ({years})" if len(by_years) > 1 else key, [first], key)
        for years, (first, *_) in by_years.items()
        for key in of_role(first.metrics["systems"], BASELINE)
    ]
    entries: list[LeaderboardEntry] = []
    groups = [*_groups(runs, lambda run: run.recipe).values()]
    names = Counter(map(_common_name, groups))
    for group in groups:
        name, (first, *_) = _common_name(group), group
        listed = name if names[name] == 1 else ", ".join(run.name for run in group)
        name = distinct(listed, [entry.name for entry in (*baselines, *entries)], "run")
        entries.append(_entry(name, group, MODEL))
        systems = first.metrics["systems"]
        of_run = [key for role in (BASE, WITHOUT) for key in of_role(systems, role, MODEL)]
        entries += [_entry(f"{key} of {name}", [first], key) for key in of_run]
    return sorted([*entries, *baselines], key=lambda entry: entry.mse)


def _span(days: tuple[dt.date, dt.date]) -> str:
    """Return years as 2001..2002, and other days by date."""
    first, last = days
    whole = (first.month, first.day, last.month, last.day) == (1, 1, 12, 31)
    ends = [f"{first.year}", f"{last.year}"] if whole else [str(first), str(last)]
    return "..".join(dict.fromkeys(ends))


def _entry(name: str, runs: list[EvaluatedRun], method: str) -> LeaderboardEntry:
    def score(units: str, metric: str) -> SeedMean:
        values = [run.metrics["scores"][method][units][metric] for run in runs]
        if None in values:
            return SeedMean(None)
        return SeedMean(float(np.mean(values)), float(np.std(values, ddof=1)) if len(values) > 1 else None)

    scores = {(units, metric): score(units, metric) for _, units, metric in leaderboard_columns()}
    units = STANDARDISED if runs[0].config.data.protocol == "paper" else DEGREES
    mse = float(np.mean([run.metrics["scores"][method][units]["mse"] for run in runs]))
    own, base = (
        xr.concat([run.errors.sel(system=of) for run in runs], "run", join="inner").mean("run")
        for of in (method, DEFAULT_REFERENCE)
    )
    dates = LossComparison(own)
    compared = dates.compare(
        dates.loss(own.values), dates.loss(base.values), (name, DEFAULT_REFERENCE, MEAN_SQUARED_ERROR)
    )
    is_model = method == MODEL
    members = runs[0].members if is_model else 1
    return LeaderboardEntry(name, len(runs) if is_model else 0, members, scores, mse, compared)


def _common_name(runs: list[EvaluatedRun]) -> str:
    """Return the common prefix of the runs' names: `mpnn` for `mpnn/seed-0` and `mpnn/seed-1`."""
    if len(runs) == 1:
        return runs[0].name
    letters = zip(*(run.name for run in runs), strict=False)
    shared = "".join(column[0] for column in takewhile(lambda column: len(set(column)) == 1, letters))
    return shared.rstrip("-_./").removesuffix("seed").rstrip("-_./") or ", ".join(run.name for run in runs)

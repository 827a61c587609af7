"""Table 5 of Cai et al. (2023, arXiv:2301.11956): five systems, 4, 2 and 1 weeks ahead in the tropical Pacific.

The error is the mean squared error of standardised anomalies under the `paper` protocol.
`docs/table5.md` says how the experiment here differs from the published one.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from sstcast.config import DataConfig, RunConfig, load_config
from sstcast.errors import SSTCastError, counted, reading
from sstcast.forecasting.system import Fits, ForecastSystem, system_of
from sstcast.hindcasts.executors import run_tasks
from sstcast.models.base import Base
from sstcast.names import BASELINES
from sstcast.ocean.prepare import prepare
from sstcast.ocean.prepared import Prepared, check_source
from sstcast.progress import tracked
from sstcast.reading.raw import FIRST_DAY
from sstcast.runs import Run
from sstcast.scores.analysis import Analysis
from sstcast.scores.significance import DateBlocks, diebold_mariano, ratio
from sstcast.sources.fetch import fetch
from sstcast.sources.source import FetchRequest
from sstcast.storage.artefacts import check_intact, digest, locked, write_json
from sstcast.storage.paths import packaged
from sstcast.storage.yaml_files import read_config, suggest
from sstcast.training.data_record import check_data
from sstcast.training.train import train, training_windows

HORIZONS = (28, 14, 7)  # days: 4, 2 and 1 weeks
PUBLISHED: dict[str, dict[int, float]] = {  # by system and horizon; YAML's keys are text
    system: {int(days): error for days, error in errors.items()}
    for system, errors in read_config(packaged("configs/benchmarks/papers.yaml"))["mpnn-gt"]["Table 5"].items()
}
WITHOUT_NODE, WITH_NODE = "mpnn", "mpnn-vn"  # the virtual node
RECOMMENDED = "local-memory-stencil"  # the linear system of configs/linear that docs/results.md recommends
TABLE_BASELINES = ("persistence", "ridge", "multiscale ridge", RECOMMENDED)

Interval = tuple[float, float]
ErrorsBySystem = dict[
    str, dict[int, list[list[float]]]
]  # by system or baseline, then by horizon: errors [seeds, dates]


@dataclass(frozen=True)
class Table5:
    """The runs of the table: one for each system, horizon and seed, named after the three.

    `presets` is a folder with a YAML for each system. Missing days are fetched from `source`, unless `overrides`
    name another `data.source`. Raises SSTCastError for an unknown system, a system, horizon or seed given twice,
    an override that is wrong or that another argument sets, or a folder that holds other runs.
    """

    folder: Path
    systems: Sequence[str] = tuple(PUBLISHED)
    horizons: Sequence[int] = HORIZONS
    seeds: Sequence[int] = (0, 1, 2)
    region: str = "pacific"
    base: Base = "none"
    source: str = "aws"
    presets: Path = Path("configs/models/paper")
    overrides: Sequence[str] = ()

    @cached_property
    def runs(self) -> list[RunConfig]:
        """All runs in the order of training: seed by seed, then horizon by horizon."""
        if unknown := [system for system in self.systems if system not in PUBLISHED]:
            hint = suggest(unknown[0], PUBLISHED)
            raise SSTCastError(f"--systems {unknown[0]}: not in the table{hint}; it has {', '.join(PUBLISHED)}")
        for option, values in (("systems", self.systems), ("horizons", self.horizons), ("seeds", self.seeds)):
            if duplicates := [value for number, value in enumerate(values) if value in values[:number]]:
                raise SSTCastError(f"--{option}: has {duplicates[0]} twice; give each once")
        return [
            self._run(system, horizon, seed)
            for seed in self.seeds
            for horizon in self.horizons
            for system in self.systems
        ]

    @property
    def data(self) -> list[DataConfig]:
        """The data of the runs, one for each horizon."""
        return [run.data for run in self.runs[:: len(self.systems)][: len(self.horizons)]]

    @property
    def request(self) -> FetchRequest | None:
        """The days to fetch, or None if `overrides` name another source."""
        data = self.data[0]
        first, last = data.splits.whole
        request = FetchRequest(first, last, self.source, self.region)
        return request if Path(data.source) == request.path else None

    def _run(self, system: str, horizon: int, seed: int) -> RunConfig:
        store = FetchRequest(FIRST_DAY, FIRST_DAY, self.source, self.region).path
        settings = {
            "runs": self.folder,
            "name": f"{system}-{horizon}d-seed{seed}",
            "data.region": self.region,
            "data.protocol": "paper",
            "data.horizon": horizon,
            "model.name": system,
            "model.base": self.base,
            "training.seed": seed,
        }
        if conflicts := [key for override in self.overrides if (key := override.partition("=")[0]) in settings]:
            raise SSTCastError(
                f"--set {conflicts[0]}: table5 sets it; leave it out, or use an option of the command"
            )
        assignments = [f"{key}={value}" for key, value in settings.items()]
        config = load_config(
            self.presets / f"{system}.yaml", [f"data.source={store}", *self.overrides, *assignments]
        )
        run = Run(config.folder)
        if run.config_file.exists() and run.config.difference(config):
            raise SSTCastError(f"{run.config_file}: a run with other options; choose another --out")
        return config


def table5(table: Table5, jobs: int = 1) -> tuple[ErrorsBySystem, bool]:
    """Fetch, prepare, train and forecast whatever is not done yet. Keep the errors in `table5.json`.

    Runs train in `jobs` processes. Returns the errors, and whether there was anything to do. Logs each step.
    Raises SSTCastError if days are missing or a run cannot be trained, and Interrupted after Ctrl-C or
    SIGTERM. The same call resumes.
    """
    file = ErrorFile(table.folder)
    finished_runs = [config for config in table.runs if file.find(*_of_run(config)) is not None]
    work_left = finished_runs != table.runs or any(
        file.find(*_of_baselines(Prepared.of(data))) is None for data in table.data
    )
    if not work_left:
        check_source(Prepared.of(table.data[0]))
    else:
        if table.request is not None and not (report := fetch(table.request)).complete:
            raise SSTCastError(
                f"{report.path}: lacks {counted(len(report.missing), 'day')}; re-run the command later"
            )
        for data in table.data:  # the same stores for all horizons
            prepare(data)
    for config in finished_runs:
        check_data(Run(config.folder))
    if not work_left:
        return _collect(table, file), False
    for prepared in map(Prepared.of, table.data):
        if file.find(*_of_baselines(prepared)) is None:
            fits = Fits.of(prepared)
            systems = {name: fits.system(BASELINES[name]) for name in TABLE_BASELINES if name != RECOMMENDED}
            systems[RECOMMENDED] = fits.system("local-ridge", memory=True, stencil=True)
            file.write(*_of_baselines(prepared), errors(prepared, systems))
    run_tasks([partial(_run, table.folder, config, config in finished_runs) for config in table.runs], jobs, None)
    return _collect(table, file), True


def _run(folder: Path, config: RunConfig, done: bool) -> str:
    """Train a run, unless it is done, and keep its errors. Return a line that says what it did."""
    if done:
        return f"{config.folder}: nothing to do"
    prepared = Prepared.of(config.data)
    run, _ = train(config, training_windows(config, prepared), prepared)
    errors_by_name = errors(prepared, {config.name: system_of(run, prepared)})
    ErrorFile(folder).write(*_of_run(config), errors_by_name[config.name])
    return f"{config.folder}: trained and forecast"


def needs(table: Table5) -> list[str]:
    """Return lines that list the remaining runs, their epochs and the paper's errors. Open no data."""
    file = ErrorFile(table.folder)
    remaining_runs = [run for run in table.runs if file.find(*_of_run(run)) is None]
    lines = [f"{len(remaining_runs)} of {len(table.runs)} runs are left"]
    for run in remaining_runs:
        paper_error = PUBLISHED[run.model.name].get(run.data.horizon)
        paper = "not in the paper" if paper_error is None else f"{paper_error:.4f} in the paper"
        lines.append(f"  {run.name}: {counted(run.training.epochs, 'epoch')}, {paper}")
    return lines


def errors(prepared: Prepared, systems: Mapping[str, ForecastSystem]) -> dict[str, list[float]]:
    """Return mean squared errors of standardised anomalies by initial date, over leads and all ocean nodes.

    Each node counts the same, as in the paper and as `sstcast evaluate` counts in standardised units.
    """
    test = Analysis.open(prepared)
    count = prepared.data.horizon * int(test.ocean.sum())
    date_errors: dict[str, list[float]] = {name: [] for name in systems}
    for dates in tracked(test.blocks(), f"errors of {', '.join(systems)}"):
        past, target = test.histories(dates), test.ahead(test.anomaly, dates)
        for name, system in systems.items():
            error = test.on_tiles(test.of_dates(system.predict(*past), dates).mean("member")) - target
            squares = np.square(error, dtype=np.float64)
            date_errors[name] += (squares.sum(tuple(range(1, squares.ndim))) / count).tolist()
    return date_errors


Made = tuple[str, str, dict[str, Any]]  # the part of `table5.json`, the name in it, and the recipe of the errors


def _of_run(config: RunConfig) -> Made:
    best = Run(config.folder).best
    return "runs", config.name, {"checkpoint": digest(best) if best.exists() else None}


def _of_baselines(prepared: Prepared) -> Made:
    return "baselines", str(prepared.data.horizon), {"data": prepared.record().model_dump()}


class ErrorFile:
    """`table5.json` in a folder: errors of runs and baselines by date, each with its recipe."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "table5.json"

    def find(self, part: str, name: str, recipe: dict[str, Any]) -> Any:
        """Return the errors, or None if they are missing or have another recipe."""
        entry = self._read()[part].get(name, {})
        return entry.get("errors") if entry.items() >= recipe.items() else None

    def write(self, part: str, name: str, recipe: dict[str, Any], errors: Any) -> None:
        with locked(self.file):
            content = self._read()
            content[part][name] = recipe | {"errors": errors}
            write_json(self.file, content)

    def _read(self) -> dict[str, Any]:
        if not self.file.exists():
            return {"runs": {}, "baselines": {}}
        with reading(self.file, "delete it; the runs are kept"):
            content: dict[str, Any] = json.loads(self.file.read_bytes())
            check_intact(self.file, "delete it; the runs are kept")
            return {part: content[part] for part in ("runs", "baselines")}


def gains(results: ErrorsBySystem) -> dict[int, tuple[float | None, float | None]]:
    """Return by horizon the share of MPNN's error that the virtual node saves, in the paper and here."""
    with_node, without_node = results.get(WITH_NODE, {}), results.get(WITHOUT_NODE, {})
    horizons = [*HORIZONS, *(n for n in without_node if n not in HORIZONS)]
    return {
        n: (
            1 - PUBLISHED[WITH_NODE][n] / PUBLISHED[WITHOUT_NODE][n] if n in HORIZONS else None,
            1 - float(np.mean(with_node[n]) / np.mean(without_node[n]))
            if n in with_node and n in without_node
            else None,
        )
        for n in horizons
    }


def saving_interval(errors: Any, references: Any, horizon: int) -> Interval | None:
    """Return a 95 % interval of the share of `references [seeds, dates]` that `errors` save, from blocks of dates.

    It is None for fewer than two blocks.
    """
    error, reference = np.mean(errors, axis=0), np.mean(references, axis=0)
    _, (low, high) = ratio(error, reference, DateBlocks.of(horizon, 1).block)
    return None if np.isnan(low) else (float(1 - high), float(1 - low))


def error_interval(seeds: list[list[float]], horizon: int) -> Interval | None:
    """Return a 95 % interval of the mean error of all seeds, from blocks of dates, or None for fewer than two."""
    saving = saving_interval(seeds, np.ones_like(seeds), horizon)  # an error is 1 less its saving of 1
    return None if saving is None else (1 - saving[1], 1 - saving[0])


def gain_significance(results: ErrorsBySystem, horizon: int) -> tuple[Interval, float] | None:
    """Return a 95 % interval of the virtual node's saving here, and the p-value of a Diebold-Mariano test.

    Both use means over seeds by date. None if a system is missing, or there are fewer than two blocks of dates.
    """
    with_node, without_node = (results.get(name, {}).get(horizon) for name in (WITH_NODE, WITHOUT_NODE))
    if (
        not with_node
        or not without_node
        or (interval := saving_interval(with_node, without_node, horizon)) is None
    ):
        return None
    difference = np.mean(with_node, axis=0) - np.mean(without_node, axis=0)
    return interval, float(diebold_mariano(difference, DateBlocks.of(horizon, 1).lags))


def _collect(table: Table5, file: ErrorFile) -> ErrorsBySystem:
    results: ErrorsBySystem = {name: {} for name in (*table.systems, *TABLE_BASELINES)}
    for config in table.runs:
        if (error := file.find(*_of_run(config))) is not None:
            results[config.model.name].setdefault(config.data.horizon, []).append(error)
    for data in table.data:
        for name, error in (file.find(*_of_baselines(Prepared.of(data))) or {}).items():
            results[name][data.horizon] = [error]
    return results

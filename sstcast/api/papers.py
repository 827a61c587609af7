"""The public functions that repeat tables of papers."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from sstcast.api.arguments import Result, Seeds, expand_path, listed, names_in, seeds_of
from sstcast.errors import SSTCastError, aligned, counted
from sstcast.log import reporting, show
from sstcast.storage.paths import expand_user
from sstcast.storage.yaml_files import suggest

if TYPE_CHECKING:
    from sstcast.benchmarks.paper_tables import Cell
    from sstcast.papers.table5 import ErrorsBySystem


@reporting()
def table5(
    systems: str | Sequence[str] = "mlp,tfnet,linear-transformer,mpnn,mpnn-vn",
    horizons: str | Sequence[int] = "28,14,7",
    seeds: Seeds = "0..2",
    region: str = "pacific",
    source: str = "aws",
    base: Literal["none", "persistence", "linear"] = "none",
    presets: Path | str = "configs/models/paper",
    overrides: Sequence[str] = (),
    out: Path | str = "runs/table5",
    jobs: int = 1,
    dry_run: bool = False,
) -> Result[ErrorsBySystem]:
    """Repeat Table 5 of Cai et al. (2023): train five systems for three horizons, and score them on the test days.

    Args:
        systems: names of the systems, separated by commas; in Python also a list.
        horizons: days ahead, separated by commas; in Python also a list.
        seeds: train one run or member per seed, for instance `0..4` for the seeds 0 to 4; in Python also numbers.
        region: a name in `configs/regions.yaml`, which has the tiles, too.
        source: source of missing days, as for `fetch`.
        base: the forecast that networks correct. `none` is as published.
        presets: the folder of the systems' YAMLs. `configs/models` has small ones.
        overrides: change the YAML with `key.sub=value`, for instance `training.epochs=3`.
        out: the folder of the runs.
        jobs: number of runs to train in parallel.
        dry_run: list the remaining runs with their epochs, without opening data.

    Returns:
        Mean squared errors of standardised anomalies by system and horizon, for each seed by initial date.

    Raises:
        Interrupted: Ctrl-C or SIGTERM stopped training. The same call resumes.

    Source:
        Cai et al. (2023), arXiv:2301.11956, Table 5. `docs/table5.md` lists the differences.

    Examples:
        >>> result = sstcast.table5("mpnn,mpnn-vn", seeds="0..4")  # doctest: +SKIP
    """
    from sstcast.papers.table5 import Table5, needs, table5

    try:
        days = [int(day) for day in (horizons.split(",") if isinstance(horizons, str) else horizons)]
    except ValueError:
        raise SSTCastError(f"--horizons {horizons}: give days separated by commas, for instance 28,14,7") from None
    folder = expand_user(out)
    table = Table5(
        folder,
        names_in(systems),
        days,
        seeds_of(seeds) or [],
        region,
        base,
        source,
        expand_user(presets),
        listed(overrides),
    )
    if dry_run:
        show(*needs(table))
        return Result({}, folder / "table5.json", False)
    errors, new = table5(table, jobs)
    return Result(errors, folder / "table5.json", new)


@reporting()
def table(
    name: str | None = None,
    datasets: str | Sequence[str] | None = None,
    models: str | Sequence[str] | None = None,
    seeds: Seeds = "0..2",
    root: Path | str | None = None,
    overrides: Sequence[str] = (),
    out: Path | str | None = None,
    jobs: int = 1,
    dry_run: bool = False,
) -> Result[Any]:
    """Repeat a table of a paper: train each cell, and print the scores beside the published ones. Runs resume.

    Each cell has the preset of its row, with the paper's training if there is such a preset. The runs are those of
    `benchmark`. A cell that cannot be trained does not stop the others. The command then exits with code 3.

    Args:
        name: a table such as `kdlgt:2`. By default, list the tables.
        datasets: only these data sets, separated by commas; in Python also a list.
        models: only these rows, separated by commas; in Python also a list.
        seeds: train one run or member per seed, for instance `0..4` for the seeds 0 to 4; in Python also numbers.
        root: the folder of raw files, `data/graphs` by default. Missing data are downloaded.
        overrides: change every preset with `key.sub=value`, for instance `training.epochs=3`.
        out: the folder of the runs, `runs/benchmarks` by default.
        jobs: number of runs to train in parallel.
        dry_run: list data at hand, and the runs that are left with their epochs, without opening data.

    Returns:
        A dictionary per cell with `dataset`, `model`, the `published` score, the `test` scores of the seeds, the
        number of runs that are `left`, and why the cell is `missing`, if so. Without a name, the names of the
        tables.

    Raises:
        SSTCastError: there is no such table, data set or row, or an override does not suit a model.
        Interrupted: Ctrl-C or SIGTERM stopped training. The same call resumes.

    Examples:
        >>> result = sstcast.table("kdlgt:2", datasets="mutag", seeds="0..9")  # doctest: +SKIP
    """
    from sstcast.benchmarks.paper_tables import choose, fit, needs, paper_tables, plan, table_lines
    from sstcast.hindcasts.executors import run_tasks

    tables, folder = paper_tables(), expand_user(out or "runs/benchmarks")
    if name is None:
        lines = {table: (table, _sets(cells), f"{counted(len(cells), 'cell')}") for table, cells in tables.items()}
        show(*aligned([lines[table] for table in sorted(lines)]))
        return Result(sorted(lines), folder, False)
    if name not in tables:
        raise SSTCastError(f"no table {name!r}{suggest(name, tables)}; see `sstcast table`")
    changes = [*listed(overrides), *([] if out is None else [f"runs={folder}"])]
    cells = choose(tables[name], *(None if given is None else names_in(given) for given in (datasets, models)))
    trials = plan(cells, seeds_of(seeds) or [], expand_path(root), changes)
    earlier_count = sum(len(trial.scores) for trial in trials)
    if not dry_run:
        configs = [trial.config.with_seed(seed) for seed in trials[0].seeds for trial in trials if trial.config]
        run_tasks([partial(fit, config) for config in configs], jobs, None)
    show(*(needs(trials) if dry_run else table_lines(trials)))
    value: list[dict[str, Any]] = [
        {
            "dataset": trial.cell.dataset,
            "model": trial.label,
            "published": trial.paper,
            "test": (scores := [score.test for score in trial.scores]),
            "left": len(trial.runs) - len(scores),
            "missing": trial.cell.missing,
        }
        for trial in trials
    ]
    return Result(value, folder, sum(len(cell["test"]) for cell in value) > earlier_count)


def _sets(cells: Sequence[Cell]) -> str:
    return ", ".join(dict.fromkeys(cell.dataset for cell in cells))

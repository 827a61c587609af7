"""The public functions that repeat tables of papers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from sstcast.api.data import Result, Say, Seeds, listed, seeds_of
from sstcast.errors import SSTCastError
from sstcast.storage.artefacts import at_home

if TYPE_CHECKING:
    from sstcast.papers.table5 import Found


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
    say: Say = print,
) -> Result[Found]:
    """Repeat Table 5 of Cai et al. (2023): train five systems for three horizons, and score them on the test days.

    Args:
        systems: names of the systems, separated by commas; in Python also a list.
        horizons: days ahead, separated by commas; in Python also a list.
        region: a name in `configs/regions.yaml`, or `W,E,S,N` in degrees.
        source: source of missing days, as for `fetch`.
        base: the forecast that networks correct. `none` is as published.
        presets: the folder of the systems' YAMLs. `configs/models` has small ones.
        out: the folder of the runs.
        jobs: number of runs to train in parallel.
        dry_run: list the remaining runs and time three steps of the first, without training.

    Returns:
        Mean squared errors of standardised anomalies by system and horizon, for each seed by initial date.

    Raises:
        Interrupted: Ctrl-C or SIGTERM stopped training. The same call resumes.

    Source:
        Cai et al. (2023), arXiv:2301.11956, Table 5. `docs/table5-differences.md` lists the differences.
    """
    from sstcast.papers.table5 import Table5, needs, table5

    names = [name.strip() for name in systems.split(",")] if isinstance(systems, str) else list(systems)
    try:
        days = [int(day) for day in (horizons.split(",") if isinstance(horizons, str) else horizons)]
    except ValueError:
        raise SSTCastError(f"--horizons {horizons}: give days separated by commas, for instance 28,14,7") from None
    folder = at_home(out)
    table = Table5(
        folder, names, days, seeds_of(seeds) or [], region, base, source, at_home(presets), listed(overrides)
    )
    if dry_run:
        for line in needs(table):
            say(line)
        return Result({}, folder / "table5.json", False)
    found, new = table5(table, jobs, say)
    return Result(found, folder / "table5.json", new)

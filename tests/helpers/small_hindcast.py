"""Hindcasts of some years of the small ocean by systems that train in a moment.

As a script, `hindcast FOLDER JOBS`, it makes one in a process that may be killed.
"""

import contextlib
import json
import logging
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

from scored_runs import configure
from small_ocean import make_sst

from sstcast.config import RunConfig
from sstcast.hindcasts.hindcast import hindcast
from sstcast.hindcasts.plan import Hindcast, Plan, Protocol
from sstcast.log import LOG

EVERY = 6  # days from one initial date to the next
QUICK = {"epochs": 2, "windows_per_epoch": 100, "checkpoint_steps": 2}


def write_ocean(folder: Path, jump: float = 0, years: int = 8) -> Path:
    """Write `years` of the small ocean as `small.nc`, the last one warmer by `jump`."""
    ocean = make_sst(years)
    ocean["sst"].loc[{"time": str(2000 + years)}] += jump
    folder.mkdir(parents=True, exist_ok=True)
    ocean.to_netcdf(folder / "small.nc", engine="netcdf4")
    return folder / "small.nc"


def system(
    name: str,
    model: str = "mlp-pointwise",
    training: dict[str, Any] | None = None,
    options: dict[str, Any] | None = None,
    **data: Any,
) -> RunConfig:
    """Describe a system; its paths are relative to the working folder."""
    chosen = {"name": model} | ({"width": 8} if options is None else options)
    return configure(Path(), "small.nc", name, chosen, QUICK | (training or {}), **data)


def plan(
    *systems: RunConfig,
    seeds: tuple[int, ...] = (),
    out: str = "hindcast",
    fitted: str | None = None,
    equal: str | None = None,
    select: tuple[str, ...] = (),
    **protocol: int,
) -> Plan:
    """Plan two folds of a year each."""
    chosen = {"first": 2005, "last": 2006, "fold": 1, "validation": 1, "every": EVERY} | protocol
    return Plan(Hindcast(Path(out)), Protocol(**chosen), list(systems), list(seeds), fitted, equal, select)


def systems() -> Plan:
    """Plan two systems on the two folds."""
    return plan(system("one"), system("two", "mpnn"))


@contextlib.contextmanager
def without_baselines() -> Iterator[None]:
    """Leave out the baselines of a hindcast, and with them the scores of all folds together."""
    with patch.multiple("sstcast.hindcasts.hindcast", score_baselines=lambda *_: "left out", _score=lambda _: {}):
        yield


@contextlib.contextmanager
def only_trained() -> Iterator[None]:
    """Train, choose and combine the runs of a hindcast, and forecast and score nothing."""
    left_out = {name: lambda *_: "left out" for name in ("score_run", "join_forecasts")}
    with without_baselines(), patch.multiple("sstcast.hindcasts.hindcast", **left_out):
        yield


def metrics() -> dict[str, Any]:
    """Return the scores of the hindcast in the working folder."""
    return json.loads(Path("hindcast/metrics.json").read_text())


if __name__ == "__main__":
    os.chdir(sys.argv[1])
    LOG.setLevel(logging.INFO)
    hindcast(plan(system("one")), jobs=int(sys.argv[2]))

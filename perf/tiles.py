"""Seconds and peak memory of `sstcast evaluate`, or `hindcast`, by the number of tiles, as a Markdown table.

    python perf/tiles.py [--tiles 24 72 144 288] [--years 2] [--days 240] [--hindcast] [--folder data/perf-tiles]

Boxes of a simulated ocean at 0.5 degrees, in tiles of 30 x 30 nodes; 288 are the globe. The years train the
baselines, one more gives spreads, and the days after it, 238 at least, are tested: every day but the first 41 and
the last 29 is forecast, by persistence as the run. A hindcast also prepares and trains, and forecasts every third
day of two years, each a fold. What is simulated, and made from it, stays in the folder.
"""

import argparse
import datetime as dt
import os
import platform
import shutil
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import simulated  # noqa: F401 - adds the source `simulator`
import torch
import yaml

from sstcast import __version__
from sstcast.config import RunConfig
from sstcast.ocean.prepare import prepare
from sstcast.ocean.prepared import Prepared
from sstcast.sources.fetch import fetch
from sstcast.sources.source import FetchRequest
from sstcast.training.train import train, training_windows

SIDE, WIDEST = 15, 24  # degrees of a tile, and tiles around the globe
FIRST = 2000  # year of the simulated days


def box(tiles: int) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return longitudes and latitudes of so many tiles, in as many rows as divide them, 6 at most if that does."""
    most = max(6, tiles // WIDEST)
    rows = max(n for n in range(1, most + 1) if tiles % n == 0)
    south = -SIDE * rows // 2
    return (0, SIDE * tiles // rows), (south, south + SIDE * rows)


def simulate(tiles: int, years: int, last: dt.date, folder: Path) -> dict[str, Any]:
    """Simulate the days of a box until `last`; return a run's configuration; it tests the days after validation.

    Args:
        tiles: how many the box has.
        years: to train.
        last: the last day to test.
        folder: where all of it is.
    """
    lon, lat = box(tiles)
    folder.mkdir(parents=True, exist_ok=True)
    late = FIRST + years  # the year of validation
    region = ",".join(map(str, (*lon, *lat)))
    fetch(FetchRequest(dt.date(FIRST, 1, 1), last, "simulator", region, folder / "sst.zarr"))
    data = {
        "source": str(folder / "sst.zarr"),
        "region": {"lon": list(lon), "lat": list(lat), "coarsen": 2, "land_tiles": "keep"},
        "directory": str(folder),
        "splits": {
            "train": [FIRST, late - 1],
            "validation": [late, late],
            "test": [dt.date(late + 1, 1, 1), last],
        },
    }
    return {"name": "run", "runs": str(folder), "data": data, "model": {"name": "persistence"}}


def make_run(tiles: int, years: int, test: int, folder: Path) -> list[str]:
    """Train on a box, `test` days of which are tested; return the command that evaluates the run."""
    last = dt.date(FIRST + years + 1, 1, 1) + dt.timedelta(test - 1)
    config = RunConfig.model_validate(simulate(tiles, years, last, folder))
    prepare(config.data)
    run, _ = train(config, training_windows(config))
    for file in (run.metrics, run.folder / "spread.nc", Prepared.of(config.data).limits):
        file.unlink(missing_ok=True)
    return ["evaluate", str(run.folder)]


def make_hindcast(tiles: int, years: int, folder: Path) -> list[str]:
    """Simulate a box; return the command that makes a hindcast of two years, each a fold."""
    first, last = FIRST + years + 1, FIRST + years + 2
    config, out = folder / "run.yaml", folder / "hindcast"
    told = yaml.safe_dump(simulate(tiles, years, dt.date(last, 12, 31), folder))
    for made in (out, *folder.glob("sst-*")):
        shutil.rmtree(made, ignore_errors=True)
    config.write_text(told)
    protocol = ["--years", f"{first}:{last}", "--fold", "1", "--validation", "1"]
    return ["hindcast", str(config), *protocol, "--out", str(out)]


def measure(arguments: list[str]) -> tuple[float, float, float]:
    """Run a command in a process; return its seconds, CPU seconds and peak resident size in MiB."""
    started = time.perf_counter()
    command = [sys.executable, "-m", "sstcast.cli", *arguments]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"{' '.join(command)}: failed")
    return time.perf_counter() - started, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tiles", type=int, nargs="+", default=[24, 72, 144, 288])
    parser.add_argument("--years", type=int, default=2)
    parser.add_argument("--days", type=int, default=240)
    parser.add_argument("--hindcast", action="store_true")
    parser.add_argument("--folder", type=Path, default=Path("data/perf-tiles"))
    options = parser.parse_args()

    # Elsewhere, as Linux counts the parent's peak as that of each process that it starts.
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        made = {}
        for tiles in options.tiles:
            place = options.folder / f"{tiles}-{options.years}-{'hindcast' if options.hindcast else options.days}"
            if options.hindcast:
                made[tiles] = pool.submit(make_hindcast, tiles, options.years, place)
            else:
                made[tiles] = pool.submit(make_run, tiles, options.years, options.days, place)
    print(f"\nsstcast {__version__}, torch {torch.__version__}, {platform.machine()}, ", end="")
    print(f"{torch.get_num_threads()} threads, {dt.date.today()}; {options.years} years, {options.days} days\n")
    print("| tiles | seconds | CPU seconds | peak MiB |\n|---|---|---|---|")
    for tiles, command in made.items():
        values = measure(command.result())
        print(f"| {tiles} | {' | '.join(f'{value:,.0f}' for value in values)} |", flush=True)


if __name__ == "__main__":
    main()

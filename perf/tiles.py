"""Seconds and peak memory of `sstcast evaluate` by the number of tiles, as a Markdown table.

    python perf/tiles.py [--tiles 24 72 144 288] [--years 2] [--days 240] [--folder data/perf-tiles]

Boxes of a simulated ocean at 0.5 degrees, in tiles of 30 x 30 nodes; 288 are the globe. The years train the
baselines, one more gives spreads, and the days after it, 238 at least, are tested: every day but the first 41 and
the last 29 is forecast, by persistence as the run. What is simulated, and made from it, stays in the folder.
"""

import argparse
import datetime as dt
import os
import platform
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import torch

from sstcast import __version__
from sstcast.config import RunConfig
from sstcast.ocean.prepare import prepare
from sstcast.ocean.prepared import Prepared
from sstcast.runs import Run
from sstcast.sources.fetch import fetch
from sstcast.sources.request import FetchRequest
from sstcast.training.train import train, training_windows

SIDE, WIDEST = 15, 24  # degrees of a tile, and tiles around the globe
FIRST = 2000  # year of the simulated days


def box(tiles: int) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return longitudes and latitudes of so many tiles, in as many rows as divide them, 6 at most if that does."""
    most = max(6, tiles // WIDEST)
    rows = max(n for n in range(1, most + 1) if tiles % n == 0)
    south = -SIDE * rows // 2
    return (0, SIDE * tiles // rows), (south, south + SIDE * rows)


def make_run(tiles: int, years: int, test: int, folder: Path) -> Run:
    """Simulate and prepare the days of a box; return a run on them that is not evaluated.

    Args:
        tiles: how many the box has.
        years: to train.
        test: days to test.
        folder: where all of it is.
    """
    lon, lat = box(tiles)
    folder.mkdir(parents=True, exist_ok=True)
    late = FIRST + years  # the year of validation
    tested = dt.date(late + 1, 1, 1), dt.date(late + 1, 1, 1) + dt.timedelta(test - 1)
    region = ",".join(map(str, (*lon, *lat)))
    fetch(FetchRequest(dt.date(FIRST, 1, 1), tested[1], "simulator", region, folder / "sst.zarr"))
    data = {
        "source": str(folder / "sst.zarr"),
        "region": {"lon": lon, "lat": lat, "coarsen": 2, "land_tiles": "keep"},
        "directory": folder,
        "splits": {"train": (FIRST, late - 1), "validation": (late, late), "test": tested},
    }
    config = RunConfig.model_validate(
        {"name": "run", "runs": folder, "data": data, "model": {"name": "persistence"}}
    )
    prepare(config.data)
    run, _ = train(config, training_windows(config))
    for file in (run.metrics, run.folder / "spread.nc", Prepared.of(config.data).limits):
        file.unlink(missing_ok=True)
    return run


def measure(run: Run) -> tuple[float, float, float]:
    """Evaluate a run in a process; return its seconds, CPU seconds and peak resident size in MiB."""
    started = time.perf_counter()
    command = [sys.executable, "-m", "sstcast.cli", "evaluate", str(run.folder)]
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
    parser.add_argument("--folder", type=Path, default=Path("data/perf-tiles"))
    options = parser.parse_args()

    places = {tiles: options.folder / f"{tiles}-{options.years}-{options.days}" for tiles in options.tiles}
    # Elsewhere, as Linux counts the parent's peak as that of each process that it starts.
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        made = {n: pool.submit(make_run, n, options.years, options.days, place) for n, place in places.items()}
    runs = {tiles: run.result() for tiles, run in made.items()}
    print(f"\nsstcast {__version__}, torch {torch.__version__}, {platform.machine()}, ", end="")
    print(f"{torch.get_num_threads()} threads, {dt.date.today()}; {options.years} years, {options.days} days\n")
    print("| tiles | seconds | CPU seconds | peak MiB |\n|---|---|---|---|")
    for tiles, run in runs.items():
        print(f"| {tiles} | {' | '.join(f'{value:,.0f}' for value in measure(run))} |", flush=True)


if __name__ == "__main__":
    main()

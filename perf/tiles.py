"""Seconds and peak memory of `sstcast evaluate` by the number of tiles, as a Markdown table.

    python perf/tiles.py [--tiles 12 24 48] [--folder data/perf-tiles]

Boxes of a simulated ocean at 0.5 degrees, in tiles of 30 x 30 nodes: of four years, two train the baselines, one
gives spreads, and every day of one is forecast, by persistence as the run. The last row, if there are two or more,
is for the 288 tiles of the globe, on the line through the last two: it is computed, not measured. The simulated
days and what is made from them stay in the folder.
"""

import argparse
import datetime as dt
import os
import platform
import subprocess
import sys
import time
from pathlib import Path

import torch

from sstcast import __version__
from sstcast.config import RunConfig
from sstcast.ocean.prepare import prepare
from sstcast.runs import Run
from sstcast.sources.fetch import fetch
from sstcast.sources.request import FetchRequest
from sstcast.training.train import train, training_windows

SIDE, GLOBE = 15, 288  # degrees of a tile, and tiles of the globe


def box(tiles: int) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return longitudes and latitudes of so many tiles, in as many rows as divide them, 6 at most."""
    rows = max(n for n in range(1, 7) if tiles % n == 0)
    south = -SIDE * rows // 2
    return (140, 140 + SIDE * tiles // rows), (south, south + SIDE * rows)


def make_run(tiles: int, folder: Path) -> Run:
    """Simulate and prepare the days of a box, and return a run on them that is not evaluated."""
    lon, lat = box(tiles)
    folder.mkdir(parents=True, exist_ok=True)
    days = (dt.date(2000, 1, 1), dt.date(2003, 12, 31))
    fetch(FetchRequest(*days, "simulator", ",".join(map(str, (*lon, *lat))), folder / "sst.zarr"))
    data = {
        "source": str(folder / "sst.zarr"),
        "region": {"lon": lon, "lat": lat, "coarsen": 2, "land_tiles": "keep"},
        "directory": folder,
        "splits": {"train": (2000, 2001), "validation": (2002, 2002), "test": (2003, 2003)},
    }
    config = RunConfig.model_validate(
        {"name": "run", "runs": folder, "data": data, "model": {"name": "persistence"}}
    )
    prepare(config.data)
    run, _ = train(config, training_windows(config))
    for file in (run.metrics, run.folder / "spread.nc"):
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
    parser.add_argument("--tiles", type=int, nargs="+", default=[12, 24, 48])
    parser.add_argument("--folder", type=Path, default=Path("data/perf-tiles"))
    options = parser.parse_args()

    runs = {tiles: make_run(tiles, options.folder / str(tiles)) for tiles in options.tiles}
    print(f"\nsstcast {__version__}, torch {torch.__version__}, {platform.machine()}, ", end="")
    print(f"{torch.get_num_threads()} threads, {dt.date.today()}\n")
    print("| tiles | seconds | CPU seconds | peak MiB |\n|---|---|---|---|")
    found = {}
    for tiles, run in runs.items():
        found[tiles] = measure(run)
        print(f"| {tiles} | {' | '.join(f'{value:,.0f}' for value in found[tiles])} |", flush=True)
    if len(found) > 1:
        (fewer, low), (more, high) = list(found.items())[-2:]
        line = [b + (b - a) / (more - fewer) * (GLOBE - more) for a, b in zip(low, high, strict=True)]
        print(f"| {GLOBE}, computed | {' | '.join(f'{value:,.0f}' for value in line)} |")


if __name__ == "__main__":
    main()

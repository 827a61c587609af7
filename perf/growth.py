"""Time and memory of the commands by the number of tiles of a simulated ocean.

    python perf/growth.py FOLDER [--tiles 1 4 11] [--years 10] [--steps prepare train evaluate forecast page]

Makes the days of the largest region once, in FOLDER. Then runs each command on each region, with the recommended
system, and prints a Markdown table: seconds of the CPU (user and system, one thread), seconds on the clock, the
largest memory of the process, and the size of the page. FOLDER needs about 2 GB for 11 tiles and ten years.
"""

import argparse
import datetime as dt
import os
import platform
import shutil
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path

HERE = Path(__file__).resolve().parents[1]
REGIONS = {  # tiles: edges of a box of tiles of 15 degrees, of which those in `skip` are land
    1: {"lon": [180, 195], "lat": [0, 15]},
    4: {"lon": [180, 210], "lat": [-15, 15]},
    11: {"lon": [180, 270], "lat": [-15, 15], "skip": [11]},
    48: {"lon": [120, 300], "lat": [-30, 30], "land_tiles": "keep"},
}
STEPS = ("prepare", "train", "evaluate", "forecast", "page")


def call(folder: Path, *arguments: str) -> tuple[float, float, float]:
    """Run a command. Return seconds of the CPU and on the clock, and megabytes; end this program if it fails."""
    threads = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    environment, start = os.environ | threads | {"PYTHONPATH": str(HERE)}, time.perf_counter()
    line = [sys.executable, "-m", "sstcast.cli", *arguments]
    process = subprocess.Popen(line, cwd=folder, env=environment, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    if os.waitstatus_to_exitcode(status):
        sys.exit(f"sstcast {' '.join(arguments)} failed")
    return used.ru_utime + used.ru_stime, time.perf_counter() - start, used.ru_maxrss / 1e3


def make_source(store: Path, tiles: int, years: int) -> None:
    """Simulate the days of a region, unless the store has them."""
    (west, east), (south, north) = (REGIONS[tiles][axis] for axis in ("lon", "lat"))
    days = [
        "--start",
        "1982-01-01",
        "--end",
        f"{1981 + years}-12-31",
        "--region",
        f"{west},{east},{south},{north}",
    ]
    command = [sys.executable, str(HERE / "perf/simulated.py"), str(store), *days]
    subprocess.run(command, check=True, env=os.environ | {"PYTHONPATH": str(HERE)}, stdout=subprocess.DEVNULL)


def commands(tiles: int, store: Path, years: int) -> dict[str, tuple[str, ...]]:
    """Return the arguments of each command on a region."""
    last, name = 1981 + years, f"tiles-{tiles}"
    region = ", ".join(f"{key}: {value}" for key, value in (REGIONS[tiles] | {"coarsen": 2}).items())
    splits = f"{{train: [1982, {last - 3}], validation: [{last - 2}, {last - 2}], test: [{last - 1}, {last}]}}"
    settings = (f"name={name}", f"data.source={store}", f"data.region={{{region}}}", f"data.splits={splits}")
    changes = [word for setting in settings for word in ("--set", setting)]
    config = str(HERE / "configs/demo.yaml")
    return {
        "prepare": ("prepare", config, *changes),
        "train": ("train", config, *changes),
        "evaluate": ("evaluate", f"runs/{name}"),
        "forecast": ("forecast", f"runs/{name}"),
        "page": ("page", f"runs/{name}", "--max-size", "20"),
    }


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--tiles", type=int, nargs="+", choices=REGIONS, default=[1, 4, 11])
    parser.add_argument("--years", type=int, default=10)
    parser.add_argument("--steps", nargs="+", choices=STEPS, default=[*STEPS])
    options = parser.parse_args()
    folder = options.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    store = folder / f"days-{max(options.tiles)}-{options.years}.zarr"
    make_source(store, max(options.tiles), options.years)
    versions = ", ".join(f"{name} {version(name)}" for name in ("torch", "xarray"))
    print(f"{platform.machine()}, one thread, {options.years} years, {versions}, {dt.date.today()}\n")
    print("| tiles | command | CPU s | s | MB | size of the page, MB |\n" + "|---" * 6 + "|")
    for tiles in options.tiles:
        place = folder / f"{tiles}-tiles"
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        for step, arguments in commands(tiles, store, options.years).items():
            if step not in options.steps:
                continue
            cpu, clock, memory = call(place, *arguments)
            pages = [path.stat().st_size / 1e6 for path in place.glob("runs/*/*.html")]
            size = f"{pages[0]:.1f}" if step == "page" and pages else ""
            print(f"| {tiles} | {step} | {cpu:.1f} | {clock:.1f} | {memory:,.0f} | {size} |", flush=True)


if __name__ == "__main__":
    main()

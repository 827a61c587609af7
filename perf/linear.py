"""Linear systems on the whole tropical Pacific, simulated: seconds and peak memory of a fit, as a Markdown table.

    python perf/linear.py [--years 40] [--systems multiscale-ridge local-ridge lim] [--folder data/perf-linear]

Eleven tiles at 0.5 degrees; each system is fitted in a process of its own. `local-ridge+memory+stencil` is a local
ridge with these options. Memory is the peak resident size of the
process, and what it has above that of a process that only imports sstcast. The simulated days and what is prepared
from them stay in the folder.
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

import simulated  # noqa: F401 - adds the source `simulator`
import torch
import yaml

from sstcast import __version__
from sstcast.config import load_config
from sstcast.ocean.prepare import prepare
from sstcast.sources.fetch import fetch
from sstcast.sources.source import FetchRequest

LAST_YEAR = 2021
IMPORT = "from sstcast.training.train import train"
FIT = "import sys, sstcast; sstcast.train(sys.argv[1])"


def write_config(folder: Path, system: str, years: int) -> Path:
    """Write the YAML of a run that tests on the last two years; after its name, a system has options after `+`."""
    name, *options = system.split("+")
    splits = {
        "train": [LAST_YEAR - years + 1, LAST_YEAR - 4],
        "validation": [LAST_YEAR - 3, LAST_YEAR - 2],
        "test": [LAST_YEAR - 1, LAST_YEAR],
    }
    config = {
        "name": f"{system}-{years}".replace("+", "-"),
        "runs": str(folder / "runs"),
        "data": {
            "source": str(folder / f"pacific-{years}.zarr"),
            "region": "pacific",
            "directory": str(folder / "prepared"),
            "splits": splits,
        },
        "model": {"name": name} | dict.fromkeys(options, True),
    }
    file = folder / f"{system}.yaml"
    file.write_text(yaml.safe_dump(config))
    return file


def measure(code: str, *arguments: str) -> tuple[float, float]:
    """Run Python code in a process; return its seconds and its peak resident size in MiB."""
    started = time.perf_counter()
    process = subprocess.Popen([sys.executable, "-c", code, *arguments], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"{code}: failed")
    return time.perf_counter() - started, usage.ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--years", type=int, default=40)
    parser.add_argument("--systems", nargs="+", default=["multiscale-ridge", "local-ridge", "lim"])
    parser.add_argument("--folder", type=Path, default=Path("data/perf-linear"))
    options = parser.parse_args()

    options.folder.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(options.folder / "runs", ignore_errors=True)  # a finished run would take no time
    first = dt.date(LAST_YEAR - options.years + 1, 1, 1)
    store = options.folder / f"pacific-{options.years}.zarr"
    files = {system: write_config(options.folder, system, options.years) for system in options.systems}
    # Elsewhere, as Linux counts the parent's peak as that of each process that it starts.
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        request = FetchRequest(first, dt.date(LAST_YEAR, 12, 31), "simulator", "pacific", store)
        pool.submit(fetch, request).result()
        pool.submit(prepare, load_config(files[options.systems[0]]).data).result()
    _, least = measure(IMPORT)
    print(f"\nsstcast {__version__}, torch {torch.__version__}, {platform.machine()}, ", end="")
    print(f"{torch.get_num_threads()} threads, {options.years} years, {dt.date.today()}\n")
    print("| system | s | peak MiB | above an import |\n|---|---|---|---|")
    for system, file in files.items():
        seconds, peak = measure(FIT, str(file))
        print(f"| {system} | {seconds:.0f} | {peak:,.0f} | {peak - least:,.0f} |", flush=True)


if __name__ == "__main__":
    main()

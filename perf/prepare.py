"""Prepare against only opening and decompressing the same daily files, and its memory and time by length.

    python perf/prepare.py [--years 2 4 8 16] [--files 400]      (--files 0: the second table only)

Prints two Markdown tables. The first makes simulated global files in NOAA's layout and times, side by side:
opening and inflating each; `fetch` from that folder followed by `prepare`. The second prepares longer and
longer records of the Pacific from a store of fetched days, each in a process of its own.
"""

import argparse
import datetime as dt
import platform
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import h5py
import yaml
from simulated import Simulator, canonical_name, write_day

from sstcast import __version__
from sstcast.config import FieldSource, load_config
from sstcast.ocean.prepare import prepare
from sstcast.reading.reading import open_sst
from sstcast.sources.fetch import fetch
from sstcast.sources.source import FetchRequest

FIRST = dt.date(1982, 1, 1)
CHILD = """
import re, sys, time
from pathlib import Path
from sstcast.config import FieldSource, load_config
from sstcast.reading.reading import open_sst
from sstcast.ocean.prepare import prepare
data = load_config(Path(sys.argv[1])).data
started = time.perf_counter()
open_sst(data).data.map_blocks(lambda block: block[:1, :1, :1].copy()).compute()
only_open = time.perf_counter() - started
started = time.perf_counter()
prepare(data)
seconds = time.perf_counter() - started
print(only_open, seconds, re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])
"""


def write_config(folder: Path, store: Path, days: int, protocol: str) -> Path:
    """Write a run on the Pacific with a year of training in `days` from FIRST."""

    def day(index: int) -> str:
        return str(FIRST + dt.timedelta(index))

    rest = (days - 365) // 2  # statistics need a whole year
    splits = {
        "train": [day(0), day(364)],
        "validation": [day(365), day(364 + rest)],
        "test": [day(365 + rest), day(days - 1)],
    }
    data = {"source": str(store), "region": "pacific", "protocol": protocol, "directory": str(folder / "prepared")}
    path = folder / f"{protocol}.yaml"
    config = {"data": data | {"splits": splits, "history": 5, "horizon": 5}, "model": {"name": "mpnn"}}
    path.write_text(yaml.safe_dump(config))
    return path


def against_files(folder: Path, count: int) -> None:
    """Print the ratio to opening and decompressing `count` daily files."""
    days = [FIRST + dt.timedelta(i) for i in range(count)]
    source, simulator = folder / "files", Simulator()
    for day in days:
        (source / f"{day:%Y%m}").mkdir(parents=True, exist_ok=True)
        write_day(source / f"{day:%Y%m}" / canonical_name(day), day, simulator)
    started = time.perf_counter()
    for day in days:
        with h5py.File(source / f"{day:%Y%m}" / canonical_name(day)) as file:
            file["sst"][...]
    only_open = time.perf_counter() - started
    print(f"| {count} daily files | seconds | ratio |\n|---|---|---|")
    print(f"| open and decompress only | {only_open:.2f} | 1.00 |")
    for protocol in ("physical", "paper"):
        home = folder / protocol
        home.mkdir()
        started = time.perf_counter()
        fetch(FetchRequest(days[0], days[-1], str(source), "pacific", home / "store.zarr"))
        fetched = time.perf_counter() - started
        prepare(load_config(write_config(home, home / "store.zarr", count, protocol)).data)
        both = time.perf_counter() - started
        print(f"| fetch from the folder + prepare, {protocol} | {both:.2f} | {both / only_open:.2f} |")
        print(f"| of it, prepare | {both - fetched:.2f} | {(both - fetched) / only_open:.2f} |")
    started = time.perf_counter()
    open_sst(FieldSource(source=home / "store.zarr")).data.map_blocks(
        lambda block: block[:1, :1, :1].copy()
    ).compute()
    print(f"| open and decompress what fetch made of them | {time.perf_counter() - started:.2f} | |")


def by_length(folder: Path, years: list[int]) -> None:
    """Print seconds and peak memory of preparing longer and longer records."""
    print("\n| years | protocol | open and decompress the store, s | prepare, s | ratio | peak memory, MB |")
    print("|---|---|---|---|---|---|")
    for count in years:
        home = folder / f"years{count}"
        home.mkdir()
        end = dt.date(FIRST.year + count - 1, 12, 31)
        fetch(FetchRequest(FIRST, end, "simulator", "pacific", home / "store.zarr"))
        for protocol in ("physical", "paper"):
            config = write_config(home, home / "store.zarr", (end - FIRST).days + 1, protocol)
            out = subprocess.run([sys.executable, "-c", CHILD, config], capture_output=True, text=True, check=True)
            opening, seconds, memory = map(float, re.findall(r"[\d.]+", out.stdout))
            figures = f"{opening:.2f} | {seconds:.2f} | {seconds / opening:.1f} | {memory / 1024:.0f}"
            print(f"| {count} | {protocol} | {figures} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--years", type=int, nargs="*", default=[2, 4, 8, 16])
    parser.add_argument("--files", type=int, default=400)
    options = parser.parse_args()
    print(f"sstcast {__version__}, {platform.machine()}, {dt.date.today()}\n")
    with tempfile.TemporaryDirectory() as folder:
        if options.files:
            against_files(Path(folder), options.files)
        by_length(Path(folder), options.years)


if __name__ == "__main__":
    main()

"""How long a forecast takes once Python, NumPy and PyTorch are loaded.

    python perf/forecast.py [--region pacific] [--width 256] [--layers 3] [--members 1]

Prints a Markdown table, seconds by the clock and of the CPU: the last 42 days of a simulated Pacific, 28 days
ahead, MPNN with a virtual node of random weights; then the same again with the run still in memory. The store
and the statistics of one year are made first and not timed.
"""

import argparse
import datetime as dt
import platform
import tempfile
import time
from itertools import pairwise
from pathlib import Path

import numpy as np
import simulated  # noqa: F401 - adds the source `simulator`
import torch

import sstcast
from sstcast.config import RunConfig
from sstcast.forecasting.history import last_days
from sstcast.forecasting.loaded_run import LoadedRun
from sstcast.ocean.prepare import prepare
from sstcast.ocean.windows import cut_windows
from sstcast.runs import Run
from sstcast.sources.fetch import fetch
from sstcast.sources.source import FetchRequest
from sstcast.storage.dataset_files import write
from sstcast.training.checkpoint import save_checkpoint
from sstcast.training.train import forecaster

SPLITS = {
    "train": ["1982-01-01", "1982-12-31"],
    "validation": ["1983-01-01", "1983-03-31"],
    "test": ["1983-04-01", "1983-06-30"],
}


def now() -> np.ndarray:
    """Return seconds by the clock, and of the CPU (all threads)."""
    return np.array([time.perf_counter(), time.process_time()])


def make_run(folder: Path, options: argparse.Namespace) -> Run:
    """Make an ensemble of untrained models, and all that a forecast needs."""
    store = folder / "store.zarr"
    fetch(FetchRequest(dt.date(1982, 1, 1), dt.date(1983, 6, 30), "simulator", "pacific", store))
    data = {
        "source": str(store),
        "region": options.region,
        "protocol": options.protocol,
        "directory": str(folder / "prepared"),
        "splits": SPLITS,
    }
    model = {"name": "mpnn-vn", "width": options.width, "layers": options.layers}
    config = RunConfig.model_validate({"name": "run", "runs": str(folder), "data": data, "model": model})
    windows = cut_windows(prepare(config.data).open()[1], config.data, "test")
    run = Run.create(config)
    for seed in range(options.members):
        own = config.model_copy(update={"name": f"seed-{seed}", "runs": run.folder})
        save_checkpoint(Run.create(own).best, own, model=forecaster(own, windows).state_dict(), epoch=0)
    return run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--region", default="pacific")
    parser.add_argument("--protocol", default="paper")
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--layers", type=int, default=3)
    parser.add_argument("--members", type=int, default=1)
    options = parser.parse_args()
    print(
        f"sstcast {sstcast.__version__}, torch {torch.__version__}, {platform.machine()}, {dt.date.today()}, ",
        end="",
    )
    print(f"{torch.get_num_threads()} threads, {options}\n\n| | seconds | CPU seconds |\n|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        run = make_run(Path(folder), options)
        marks = [now()]
        loaded = LoadedRun(run.folder)
        history = last_days(loaded.data, None, dt.date.today())
        marks.append(now())
        forecast = loaded.forecast(history)
        marks.append(now())
        write(forecast, run.folder / "a.nc")
        marks.append(now())
        loaded.forecast(history)
        marks.append(now())
    steps = ("open the run, read 42 days", "load models and statistics, forecast", "write NetCDF")
    rows = {name: end - start for name, (start, end) in zip(steps, pairwise(marks), strict=False)}
    rows |= {"all": marks[3] - marks[0], "forecast again, run in memory": marks[4] - marks[3]}
    for name, (clock, cpu) in rows.items():
        print(f"| {name} | {clock:.2f} | {cpu:.2f} |")


if __name__ == "__main__":
    main()

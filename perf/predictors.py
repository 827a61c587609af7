"""What predictors are worth and what they cost (docs/predictors.md).

    python perf/predictors.py [--only forced forecast network noise costs memory] [--folder data/perf-predictors]

- `forced`: an ocean in which a day's wind acts on the SST of the next day. Ridges read the wind, or not.
- `forecast`: the same, with forecasts of the wind that have a known error.
- `network`: networks without a linear base on the ocean of `forced`.
- `noise`: white noise as a predictor of a quarter of the sample, which a ridge reads, five draws of each kind.
- `costs`: CPU time of fitting the recommended system to the sample, with predictors and without.
- `memory`: memory of preparing and fitting a simulated Pacific, by the length of its record.

Prints Markdown tables. What is done stays in the folder, so that the same command goes on.
"""

import argparse
import datetime as dt
import os
import platform
import re
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import simulated  # noqa: F401 - adds the source `simulator`
import torch
import xarray as xr
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter

import sstcast
from sstcast.config import RunConfig
from sstcast.models import build_forecaster
from sstcast.ocean.windows import Windows
from sstcast.sources.fetch import fetch
from sstcast.sources.source import FetchRequest
from sstcast.storage.yaml_files import save_config
from sstcast.training.forecast_task import fit, samples
from sstcast.training.train import forecaster, training_windows

ROWS, COLS, HORIZON, DAMPING, FORCING = 12, 14, 8, 0.95, 0.6
SIZE = 0.25  # degC, of the noise that changes SST from day to day
LEADS = np.arange(1, HORIZON + 1)
ERROR = LEADS / 4  # variance of the error of a forecast wind by lead, of a wind of variance 1
FORCED = [
    "data.region={lon: [170, 173.5], lat: [-12, -9], tile: [12, 14]}",
    "data.splits={train: [2001, 2019], validation: [2020, 2020], test: [2021, 2030]}",
    f"data.horizon={HORIZON}",
]
QUARTER = [
    "data.region=tasman-north-west",
    "data.splits={train: [1982, 2000], validation: [2001, 2001], test: [2002, 2016]}",
]
RECOMMENDED = "model={name: local-ridge, memory: true, stencil: true}"
RIDGES = {"`multiscale-ridge`": [], "the recommended system": [RECOMMENDED]}
NETWORKS = {
    f"`mpnn`, base {base}": [
        f"model={{name: mpnn, width: 32, layers: 2, base: {base}}}",
        "training={epochs: 10, learning_rate: 3.e-3, schedule: one-cycle, clip: 1.0}",
    ]
    for base in ("none", "persistence")
}
CHILD = """
import re, sys
from pathlib import Path
from sstcast.config import load_config
from sstcast.ocean.prepare import prepare
from sstcast.training.forecast_task import fit
from sstcast.training.train import forecaster, training_windows
config = load_config(Path(sys.argv[2]))
if sys.argv[1] == "prepare":
    prepare(config.data)
else:
    windows = training_windows(config)
    fit(forecaster(config, windows["train"]), windows["train"], windows["validation"])
print(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])
"""

Array = NDArray[Any]


def configured(folder: Path, options: list[str], predictors: str = "{}") -> RunConfig:
    """Return a multiscale ridge, or what the options make of it, with its files in a folder."""
    common = [f"runs={folder / 'runs'}", f"data.directory={folder / 'prepared'}", f"data.predictors={predictors}"]
    return sstcast.load_config("configs/linear/multiscale-ridge.yaml", [*common, *options])


def smooth_noise(random: np.random.Generator, days: int, memory: float = 0.0) -> Array:
    """Return noise of unit variance, smooth in space, with the given correlation from day to day."""
    noise = gaussian_filter(random.standard_normal((days, ROWS, COLS)), (0, 2, 2), mode="wrap")
    noise /= noise.std()
    for day in range(1, days):
        noise[day] = memory * noise[day - 1] + np.sqrt(1 - memory**2) * noise[day]
    return noise


def forced_ocean(memory: float) -> tuple[xr.DataArray, xr.DataArray]:
    """Return SST in degC and wind of an ocean in which a day's wind acts on the next day's SST."""
    random, days = np.random.default_rng(0), pd.date_range("2001", "2030-12-31")
    wind, sst = smooth_noise(random, len(days), memory), smooth_noise(random, len(days))
    for day in range(1, len(days)):
        sst[day] += DAMPING * sst[day - 1] + FORCING * wind[day - 1]
    axes = {"time": days, "lat": -11.875 + 0.25 * np.arange(ROWS), "lon": 170.125 + 0.25 * np.arange(COLS)}
    fields = (("sst", "degC", 15 + SIZE * sst), ("wind", "m s-1", wind))
    ocean, forcing = (
        xr.DataArray(values.astype(np.float32), axes, [*axes], name, {"units": units})
        for name, units, values in fields
    )
    return ocean, forcing


def wind_forecasts(wind: xr.DataArray) -> xr.DataArray:
    """Return forecasts of a wind by initial time and lead, with an error of variance `ERROR`."""
    random, ahead = np.random.default_rng(1), []
    for lead, variance in zip(LEADS, ERROR, strict=True):
        error = np.sqrt(variance) * smooth_noise(random, len(wind))
        ahead.append((wind.shift(time=-int(lead)) + error.astype(np.float32)).rename(time="init_time"))
    return xr.concat(ahead, pd.Index(LEADS, name="lead")).transpose("init_time", ...).rename("wind")


def errors(forecasts: Array, sst: Array, at: Array) -> Array:
    """Return the mean squared error by lead of `forecasts [date, lead, ...]` from the days `at` of `sst`."""
    return np.array([np.square(forecasts[:, lead - 1] - sst[at + lead]).mean() for lead in LEADS])


def forced(folder: Path, kind: str, memory: float, systems: dict[str, list[str]]) -> None:
    """Print the errors of systems by lead, as ratios to those of the mean given today's SST and what is told."""
    folder = folder / f"{kind}-{memory:g}"
    folder.mkdir(parents=True, exist_ok=True)
    sst, wind = forced_ocean(memory)
    told = wind if kind == "grid" else wind_forecasts(wind)
    for name, field in (("sst", sst), ("wind", told)):
        if not (folder / f"{name}.nc").exists():
            field.to_netcdf(folder / f"{name}.nc")
    if kind == "grid":
        winds = wind.values[:, None] * memory ** (LEADS - 1)[:, None, None]
    else:  # the wind of the initial date is not told
        winds = (told.values / (1 + ERROR[:, None, None]))[:, :-1]
        winds = np.concatenate([np.zeros_like(winds[:, :1]), winds], 1)
    print(f"\n| {kind}, correlation {memory:g} | with the wind, by lead | without |\n|---|---|---|")
    for system, options in systems.items():
        ratios = []
        for label, keys in (
            ("with", f"{{wind: {{kind: {kind}, source: {folder / 'wind.nc'}}}}}"),
            ("without", "{}"),
        ):
            name = re.sub(r"\W+", "-", f"{system} {label}").strip("-")
            source = [f"data.source={folder / 'sst.nc'}", f"name={name}"]
            run = sstcast.train(configured(folder, [*FORCED, *source, *options], keys))
            sstcast.evaluate(run)
            with xr.open_dataset(run.forecasts) as dataset:
                issued = dataset["sst"].load()
            at = sst.indexes["time"].get_indexer(issued["init_time"].values)
            best, last = [], (sst.values[at].astype(float) - 15) / SIZE
            for lead in range(HORIZON):
                best.append(last := DAMPING * last + FORCING * winds[at, lead])
            of_oracle = errors(15 + SIZE * np.stack(best, 1), sst.values, at)
            ratios.append(" ".join(f"{ratio:.3f}" for ratio in errors(issued.values, sst.values, at) / of_oracle))
        print(f"| {system} | {' | '.join(ratios)} |", flush=True)


def index_noise(random: np.random.Generator, days: pd.DatetimeIndex, monthly: bool) -> Array:
    """Return what `days` know of an index of white noise, by month or by day, after ten days."""
    known = days - pd.Timedelta(days=10)
    ends = (known + pd.Timedelta(days=1)).to_period("M") - 1 if monthly else known.to_period("D")
    labels = pd.period_range("1980-01-01", "2017-12-31", freq=ends.freqstr)
    series = pd.Series(random.standard_normal(len(labels)), labels)
    means = [series.rolling(count).mean().reindex(ends) for count in ((1, 3) if monthly else (30, 90))]
    return np.stack(means, 1)


@torch.no_grad()
def ridge_error(windows: list[Windows], kind: str = "", known: Callable[[Windows], Array] | None = None) -> float:
    """Fit a ridge to the first two windows. Return its mean squared error on the third, in standard deviations."""
    if known is not None:
        tensors = [torch.from_numpy(known(part).astype(np.float32)) for part in windows]
        windows = [replace(part, predictors={"noise": told}) for part, told in zip(windows, tensors, strict=True)]
    test = windows[-1]
    sizes = {"history": test.history, "horizon": test.horizon, "shape": test.shape}
    model = build_forecaster("multiscale-ridge", predictors={"noise": kind} if kind else None, **sizes)
    fit(model, *windows[:2])
    error = [model.forecast_windows(part) - part.spans(test.history, test.horizon) for part in samples(test)(1)]
    return float(torch.cat(error)[..., test.ocean].square().mean())


def noise(folder: Path) -> None:
    """Print the ratio of the error with white noise as a predictor to that without, of five draws of each kind."""
    config = configured(folder / "noise", QUARTER)
    sstcast.prepare(config)
    windows = [sstcast.windows(config, split) for split in ("train", "validation", "test")]
    alone, (tile, nodes) = ridge_error(windows), windows[0].ocean.shape

    def drawn(kind: str, by: str, seed: int) -> Callable[[Windows], Array]:
        random = np.random.default_rng(seed)
        if kind == "index":  # one series for all splits
            return lambda part: index_noise(
                np.random.default_rng(seed), pd.DatetimeIndex(part.days), by == "month"
            )
        leads = [config.data.horizon] if kind == "forecast" else []
        return lambda part: random.standard_normal((len(part.days), *leads, tile, nodes), np.float32)

    print("\n| white noise | ratio, mean of five draws | draws |\n|---|---|---|")
    for kind, by in (
        ("index", "month"),
        ("index", "day"),
        ("grid", "day and cell"),
        ("forecast", "day, lead and cell"),
    ):
        ratios = [ridge_error(windows, kind, drawn(kind, by, seed)) / alone for seed in range(5)]
        draws = " ".join(f"{ratio:.4f}" for ratio in ratios)
        print(f"| {kind}, by {by} | {np.mean(ratios):.4f} | {draws} |", flush=True)


def costs(folder: Path) -> None:
    """Print the CPU time of fitting the recommended system to the sample, the shorter of two."""
    predictors = {
        "none": "{}",
        "an index": "{soi: {kind: index, source: data/sample/soi.csv, delay: 10}}",
        "a grid": "{other: {kind: grid, source: sample, delay: 1}}",
    }
    seconds: dict[str, list[float]] = {label: [] for label in predictors}
    for label, keys in [*predictors.items()] * 2:
        config = configured(folder, [RECOMMENDED], keys)
        sstcast.prepare(config)
        windows = training_windows(config)
        model, started = forecaster(config, windows["train"]), time.process_time()
        fit(model, windows["train"], windows["validation"])
        seconds[label].append(time.process_time() - started)
    print("\n| predictors | CPU seconds of a fit | ratio |\n|---|---|---|")
    for label, times in seconds.items():
        print(f"| {label} | {min(times):.1f} | {min(times) / min(seconds['none']):.2f} |")


def memory(folder: Path) -> None:
    """Print the peak memory of preparing and fitting the Pacific, each in a process of its own."""
    print("\n| years | fields | prepare, MB | fit, MB |\n|---|---|---|---|")
    for years in (2, 4, 8):
        last, place = 1981 + years, folder / f"pacific-{years}"
        fetch(
            FetchRequest(dt.date(1982, 1, 1), dt.date(last, 12, 31), "simulator", "pacific", place / "store.zarr")
        )
        ends = [f"{last}-06-30", f"{last}-07-01", f"{last}-09-15", f"{last}-09-16", f"{last}-12-31"]
        splits = "{{train: [1982-01-01, {}], validation: [{}, {}], test: [{}, {}]}}".format(*ends)
        for fields in (0, 3):
            keys = [f"g{n}: {{kind: grid, source: {place / 'store.zarr'}, delay: {n}}}" for n in range(fields)]
            options = [f"data.source={place / 'store.zarr'}", "data.region=pacific-whole", f"data.splits={splits}"]
            path, peaks = place / f"{fields}.yaml", []
            config = configured(place / f"{fields}-fields", options, f"{{{', '.join(keys)}}}")
            save_config(config, path)
            for verb in ("prepare", "fit"):
                command = [sys.executable, "-c", CHILD, verb, path]
                told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
                peaks.append(f"{int(told.split()[-1]) / 1024:.0f}")
            print(f"| {years} | {fields} | {' | '.join(peaks)} |", flush=True)


def main() -> None:
    tables: dict[str, Callable[[Path], Any]] = {
        "forced": lambda folder: [forced(folder, "grid", memory, RIDGES) for memory in (0.0, 0.8)],
        "forecast": lambda folder: forced(folder, "forecast", 0.0, RIDGES),
        "network": lambda folder: forced(folder, "grid", 0.0, NETWORKS),
        "noise": noise,
        "costs": costs,
        "memory": memory,
    }
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=tables, default=[*tables])
    parser.add_argument("--folder", type=Path, default=Path("data/perf-predictors"))
    options = parser.parse_args()
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    print(f"sstcast {sstcast.__version__}, torch {torch.__version__}, {platform.machine()} CPU, {dt.date.today()}")
    for name in options.only:
        tables[name](options.folder)


if __name__ == "__main__":
    main()

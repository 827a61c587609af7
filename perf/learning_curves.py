"""Networks after more and more steps, beside the linear system that the project recommends.

    python perf/learning_curves.py OUT [--steps 150 600 2400] [--seeds 0] [--only tfnet mpnn-vn gps] [--device cpu]
    python perf/learning_curves.py OUT --simulated 10 40 160 --figure docs/images/years.png

Trains each network of `NETWORKS` on 1982-2004 of the ocean that ships, with a constant rate and an exponential
moving average of its weights: without a base and on the recommended system (a local ridge with memory and
stencil), in the `SETTINGS` of weight decay and dropout. Every number of steps is a checkpoint of the same
training. Prints squared errors (degC^2, mean of 28 leads, every third date) over those of the linear system
fitted to the same years, in the validation years 2005-2010, which choose setting and steps, and in the test
years 2011-2016. 95 % intervals are from blocks of dates. A killed call resumes; the same call with everything
done only prints. The first row is the linear rival of the networks without a base: a multiscale ridge that reads
the same 42 days as they do, without season, place or memory.

With --simulated, a pointwise network learns the change of a linear ridge in an ocean of two weak states, for which
the best forecast is known by simulation from the true state. TRIES of PULL and NOISE were looked at until the best
forecast was only a little better than a linear one, before any network was trained.
"""

import argparse
import datetime as dt
import json
import platform
import sys
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure
from numpy.typing import NDArray

import sstcast
from sstcast.config import RunConfig, load_config
from sstcast.errors import Interrupted
from sstcast.figures.curves import BAND_ALPHA, SIZE, legend, style_axes
from sstcast.forecasting.system import ForecastSystem, Models
from sstcast.models import build_forecaster
from sstcast.names import DEGREES
from sstcast.ocean.prepared import Prepared
from sstcast.ocean.windows import Windows
from sstcast.runs import Run
from sstcast.scores.analysis import Analysis
from sstcast.scores.significance import DateBlocks, ratio
from sstcast.storage.artefacts import atomic
from sstcast.training.checkpoint import load_checkpoint
from sstcast.training.forecast_task import fit
from sstcast.training.train import forecaster, train, training_windows

RECOMMENDED = {"name": "local", "memory": True, "stencil": True}
LINEAR: dict[str, tuple[str, dict[str, Any]]] = {  # the reference, and the rival that reads what networks read
    "linear": ("local-ridge", {"memory": True, "stencil": True}),
    "multiscale ridge": ("multiscale-ridge", {}),
}
NETWORKS: dict[str, dict[str, Any]] = {  # as in configs/linear-base
    "tfnet": {"width": 16},
    "mpnn-vn": {"width": 48, "layers": 3},
    "gps": {
        "width": 32,
        "layers": 2,
        "conv": "mean",
        "attention": "performer",
        "heads": 2,
        "positional": "rwse",
        "geography": True,
    },
}
BASES = {"no base": {}, "on the linear system": {"base": RECOMMENDED}}
SETTINGS = {"plain": (0.0, 0.0), "regularised": (0.1, 0.2)}  # weight decay, dropout
SPLITS = {"train": [1982, 2004], "validation": [2005, 2010], "test": [2011, 2016]}
STEPS_PER_EPOCH, BATCH, EVERY = 300, 16, 3
CHECKPOINT_STEPS = 150

Errors = NDArray[np.float64]  # by initial date


def configuration(network: str, base: str, setting: str, seed: int, options: argparse.Namespace) -> RunConfig:
    """Return the training of a network, long enough for the largest number of steps."""
    decay, dropout = SETTINGS[setting]
    model = {"name": network, "dropout": dropout, **NETWORKS[network], **BASES[base]}
    settings: dict[str, Any] = {
        "runs": options.out / "runs",
        "name": f"{network}-{base.replace(' ', '-')}-{setting}-{seed}",
        "data.source": "sample",
        "data.region": "tasman",
        "data.directory": options.out / "prepared",
        "data.splits": json.dumps(SPLITS),
        "model": json.dumps(model),
        "training.seed": seed,
        "training.optimizer": "adamw",
        "training.learning_rate": 1e-3,
        "training.weight_decay": decay,
        "training.schedule": "constant",
        "training.clip": 1.0,
        "training.ema": 0.98,
        "training.batch_size": BATCH,
        "training.windows_per_epoch": BATCH * STEPS_PER_EPOCH,
        "training.epochs": -(-max(options.steps) // STEPS_PER_EPOCH),
        "training.precision": "32-true",
        "training.compile": "auto" if options.device != "cpu" else "false",
        "training.device": options.device,
        "training.checkpoint_steps": CHECKPOINT_STEPS,
        "training.keep": 10_000,
    }
    return load_config(Path("configs/base/tasman.yaml"), [f"{key}={value}" for key, value in settings.items()])


def errors_of(system: ForecastSystem, config: RunConfig) -> dict[str, list[float]]:
    """Return mean squared errors in degC^2 by initial date, over leads and cells weighted by area, by split."""
    found: dict[str, list[float]] = {}
    for split in ("validation", "test"):
        truth = Analysis.open(Prepared.of(config.data), split, every=EVERY)
        found[split] = []
        for observed in truth.observe():
            forecast = truth.on_tiles(system.predict(*truth.histories(observed.dates)).mean("member"))
            squares = np.square(forecast * observed.scale - observed.anomaly[DEGREES], dtype=np.float64)
            found[split] += (squares * truth.area).sum((2, 3)).mean(1).tolist()
    return found


def read(file: Path) -> dict[str, Any]:
    return json.loads(file.read_text()) if file.exists() else {}


def keep(file: Path, content: dict[str, Any]) -> None:
    with atomic(file) as temporary:
        temporary.write_text(json.dumps(content))


def as_predictor(config: RunConfig, model: Any) -> Models:
    data = config.data
    return Models(data.box, data.history, data.horizon, [model], torch.device("cpu"))


def curves(options: argparse.Namespace) -> None:
    """Train whatever is not done, keep all errors, and print the table."""
    file, kept = options.out / "curves.json", read(options.out / "curves.json")
    first = configuration("tfnet", "no base", "plain", 0, options)
    sstcast.prepare(first)
    for name, (kind, inputs) in LINEAR.items():
        if name in kept:
            continue
        windows = training_windows(configuration("tfnet", "on the linear system", "plain", 0, options))["train"]
        sizes = {"history": first.data.history, "horizon": first.data.horizon, "shape": windows.shape}
        linear = build_forecaster(kind, **sizes, **inputs)
        fit(linear, windows, None)
        kept[name] = errors_of(as_predictor(first, linear), first)
        keep(file, kept)
    print("| network | base | setting | seed | steps | validation | test, 95 % interval |\n" + "|---" * 7 + "|")
    print(f"| multiscale ridge | the same inputs | | | | {cells(kept['multiscale ridge'], kept['linear'])} |")
    for network, seed, base, setting in product(options.only, options.seeds, BASES, SETTINGS):
        config = configuration(network, base, setting, seed, options)
        names = {steps: f"{config.name}-{steps}" for steps in options.steps}
        if any(name not in kept for name in names.values()):
            windows = training_windows(config)
            run, _ = train(config, windows)
            for steps, name in names.items():
                model = forecaster(config, windows["train"])
                averaged = load_checkpoint(Run(run.folder).checkpoints / f"step-{steps:09d}.pt")["ema"]
                weights = {key.removeprefix("module."): value for key, value in averaged.items()}
                model.load_state_dict({key: value for key, value in weights.items() if key != "n_averaged"})
                kept[name] = errors_of(as_predictor(config, model), config)
                keep(file, kept)
        for steps, name in names.items():
            print(
                f"| {network} | {base} | {setting} | {seed} | {steps:,} | {cells(kept[name], kept['linear'])} |",
                flush=True,
            )


def cells(errors: dict[str, list[float]], references: dict[str, list[float]]) -> str:
    """Return the ratios of the validation years and of the test years, the latter with its interval."""
    block = DateBlocks.of(28, EVERY).block
    validation = np.mean(errors["validation"]) / np.mean(references["validation"])
    value, (low, high) = ratio(np.array(errors["test"]), np.array(references["test"]), block)
    return f"{validation:.4f} | {value:.4f} ({low:.4f}-{high:.4f})"


ROWS, COLUMNS, HISTORY, HORIZON = 5, 6, 5, 7
PULL, NOISE = 0.08, 0.4  # to one of the states -1 and 1 in a day; standard deviation of the daily noise
TRIES = {  # pull, noise: best / linear after 40 years, tested on 12; with three more, fields grow without bounds
    (0.3, 0.35): 0.898,
    (0.12, 0.2): 0.898,
    (0.12, 0.35): 0.933,
    (0.06, 0.35): 0.941,
    (0.08, 0.4): 0.951,
}


def step(field: NDArray[np.floating], random: np.random.Generator) -> NDArray[np.floating]:
    """Advance fields `[..., rows, columns]` by a day: advection, diffusion, the pull of two states, and noise."""
    moved = 0.9 * field + 0.07 * np.roll(field, 1, -1) + 0.03 * np.roll(field, 1, -2)
    return moved + PULL * (moved - moved**3) + random.normal(0, NOISE, field.shape)


def simulated_days(years: int, seed: int) -> NDArray[np.float32]:
    """Return `years` of fields `[day, rows, columns]`."""
    random, field = np.random.default_rng(seed), np.zeros((ROWS, COLUMNS))
    days = np.empty((365 * years, ROWS, COLUMNS), np.float32)
    for day in range(len(days)):
        field = step(field, random)
        days[day] = field
    return days


def windows_of_days(days: NDArray[np.float32]) -> Windows:
    times = np.datetime64("2001-01-01", "ns") + np.arange(len(days)) * np.timedelta64(1, "D")
    tiles = torch.from_numpy(days.reshape(len(days), 1, -1))
    ocean, place = torch.ones(1, ROWS * COLUMNS, dtype=torch.bool), torch.zeros(1, ROWS * COLUMNS, 3)
    return Windows(tiles, ocean, times, (ROWS, COLUMNS), HISTORY, HORIZON, place)


def best_forecasts(days: NDArray[np.float32], at: NDArray[np.int64], members: int = 400) -> NDArray[np.float64]:
    """Return the mean of simulations from the true states on the days `at`, `[at, lead, cell]`."""
    random, leads = np.random.default_rng(9), []
    fields = np.repeat(days[at][:, None].astype(float), members, axis=1)
    for _ in range(HORIZON):
        fields = step(fields, random)
        leads.append(fields.mean(1).reshape(len(at), -1))
    return np.stack(leads, 1)


def simulated(options: argparse.Namespace) -> None:
    """Print by years of training data the errors of network and best forecast over those of the linear system."""
    test = simulated_days(24, seed=1)
    windows = windows_of_days(test).thinned(EVERY)
    batch = windows.batch(torch.arange(len(windows)))
    target = batch.target.numpy().astype(float)
    last_days = np.arange(HISTORY - 1, HISTORY - 1 + EVERY * len(windows), EVERY)
    block = DateBlocks.of(HORIZON, EVERY).block

    def by_date(forecast: NDArray[Any]) -> Errors:
        aligned = forecast.reshape(target.shape) if forecast.shape == target.shape else np.swapaxes(forecast, 1, 2)
        return np.square(aligned - target).mean((1, 2))

    best = by_date(best_forecasts(test, last_days))
    print(f"| years | {' | '.join(f'{steps:,} steps' for steps in options.steps)} | best forecast |")
    print("|---" * (2 + len(options.steps)) + "|")
    rows = []
    for years in options.simulated:
        train_windows = windows_of_days(simulated_days(years, seed=2))
        torch.manual_seed(0)
        sizes = {"history": HISTORY, "horizon": HORIZON, "shape": (ROWS, COLUMNS)}
        model = build_forecaster(
            "mlp-pointwise", **sizes, width=64, layers=3, base={"name": "linear", "stencil": True}
        )
        assert model.linear is not None
        fit(model.linear, train_windows, None)
        with torch.no_grad():
            linear = by_date(model.linear(batch.history, batch.graph).numpy())
        found = [ratio(errors, linear, block) for errors in trained(model, train_windows, batch, by_date, options)]
        texts = [f"{value:.4f} ({low:.4f}-{high:.4f})" for value, (low, high) in found]
        rows.append((years, found, best.mean() / linear.mean()))
        print(f"| {years} | {' | '.join(texts)} | {rows[-1][2]:.4f} |", flush=True)
    if options.figure:
        draw(rows, options.steps).savefig(options.figure)


def draw(rows: list[tuple[int, list[Any], float]], steps: list[int]) -> Figure:
    """Draw the ratios of the simulated ocean by years of training, after each number of steps."""
    figure = Figure(figsize=SIZE, dpi=150, layout="constrained")
    ax = figure.add_subplot(xlabel="Years of training", ylabel="Squared error / linear system's")
    years = [row[0] for row in rows]
    for number, count in enumerate(steps):
        values = np.array([[row[1][number][0], *row[1][number][1]] for row in rows])
        (line,) = ax.plot(years, values[:, 0], "o-", label=f"network, {count:,} steps")
        ax.fill_between(years, values[:, 1], values[:, 2], color=line.get_color(), alpha=BAND_ALPHA, linewidth=0)
    ax.plot(years, [row[2] for row in rows], color="0.4", linestyle=":", label="best forecast")
    ax.axhline(1, color="0.2", linewidth=0.8)
    ax.set_xscale("log")
    ax.set_xticks(years, map(str, years))
    ax.minorticks_off()
    style_axes(ax)
    legend(figure)
    return figure


def trained(
    model: Any, windows: Windows, batch: Any, by_date: Any, options: argparse.Namespace
) -> Iterator[Errors]:
    """Train the network, and yield its errors on the test batch after each number of steps."""
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3, weight_decay=0.1)
    average = torch.optim.swa_utils.AveragedModel(
        model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.98)
    )
    for number in range(1, max(options.steps) + 1):
        part = windows.batch(torch.randint(len(windows), (64,)))
        optimizer.zero_grad()
        (model(part.history, part.graph) - part.target).square().mean().backward()
        optimizer.step()
        average.update_parameters(model)
        if number in options.steps:
            with torch.no_grad():
                yield by_date(average.module.eval()(batch.history, batch.graph).numpy())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, help="the folder of the trainings and of their errors")
    parser.add_argument("--steps", type=int, nargs="+", default=[150, 600, 2400], help="multiples of 150")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--only", nargs="+", choices=NETWORKS, default=[*NETWORKS])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--simulated", type=int, nargs="+", metavar="YEARS")
    parser.add_argument("--figure", type=Path, help="the picture of the simulated ocean")
    options = parser.parse_args()
    if any(steps % CHECKPOINT_STEPS for steps in options.steps):
        parser.error(f"--steps: give multiples of {CHECKPOINT_STEPS}")
    versions = f"sstcast {sstcast.__version__}, torch {torch.__version__}, Python {platform.python_version()}"
    print(f"{versions}, {options.device} ({platform.machine()}), {dt.date.today()}\n")
    options.out = options.out.resolve()
    try:
        (simulated if options.simulated else curves)(options)
    except Interrupted as end:  # a checkpoint is saved
        sys.exit(f"stopped by signal {end.signal}: the same command goes on")


if __name__ == "__main__":
    main()

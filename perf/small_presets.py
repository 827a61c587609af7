"""Every small preset of configs/models/, three seeds, both protocols, 28 days: prints a Markdown table.

    python perf/small_presets.py [--models mpnn gps ...] [--seeds 3] [--protocols physical paper] [--train-only]

Runs go to runs/zoo/; finished ones are not repeated, and one that was interrupted goes on. So several processes
may train different models at once, and a last call evaluates what is left and prints the table of all.
"""

import argparse
import datetime as dt
import platform
import statistics
import sys
import time
from functools import cache
from pathlib import Path
from typing import Any

import torch
from filelock import FileLock

from sstcast import __version__
from sstcast.config import DataConfig, RunConfig, load_config
from sstcast.models import MODELS
from sstcast.names import MODEL
from sstcast.ocean.prepare import prepare
from sstcast.ocean.windows import Windows, cut_windows
from sstcast.runs import Run
from sstcast.scores.evaluate import evaluate
from sstcast.training.train import forecaster, train

RUNS = Path("runs/zoo")
TO_BEAT = "damped persistence"
Scores = dict[str, Any]


def configure(model: str, protocol: str, seed: int, overrides: list[str]) -> RunConfig:
    """Return the preset as one run of this benchmark."""
    chosen = [f"runs={RUNS}", f"name={model}-{protocol}-{seed}", f"training.seed={seed}"]
    return load_config(Path(f"configs/models/{model}.yaml"), [f"data.protocol={protocol}", *chosen, *overrides])


@cache
def cut(data: DataConfig) -> dict[str, Windows]:
    """Prepare and cut the windows; one process at a time prepares."""
    RUNS.mkdir(parents=True, exist_ok=True)
    with FileLock(RUNS / "prepare.lock"):
        _, anomalies = prepare(data).open()
    return {split: cut_windows(anomalies, data, split) for split in ("train", "validation")}


def fit(config: RunConfig) -> Run:
    """Train one run, as far as it is not done."""
    print(f"{config.name}: {config.training.epochs} epochs", file=sys.stderr)
    return train(config, cut(config.data))[0]


def cost(config: RunConfig) -> tuple[int, float]:
    """Return the number of parameters, and the median seconds of a step of training."""
    windows = cut(config.data)["train"]
    torch.manual_seed(0)
    model = forecaster(config, windows)
    optimizer = torch.optim.Adam(model.parameters())
    batch = windows.batch(torch.arange(config.training.batch_size))
    seconds = []
    for _ in range(7):
        started = time.perf_counter()
        error = (model(batch.history, batch.graph) - batch.target).square().mean()
        (error + model.auxiliary_loss()).backward()
        optimizer.step()
        optimizer.zero_grad()
        seconds.append(time.perf_counter() - started)
    return sum(p.numel() for p in model.parameters()), statistics.median(seconds[2:])


def cells(scores: list[Scores], method: str) -> str:
    """Return the two cells of a protocol: both means over seeds, the first with its standard deviation."""
    errors = [s[method]["standardised"]["mse"] for s in scores]
    spread = f" ± {statistics.stdev(errors):.4f}" if len(errors) > 1 and method == MODEL else ""
    lost = statistics.mean(errors) >= scores[0][TO_BEAT]["standardised"]["mse"] and method == MODEL
    rmse = statistics.mean(s[method]["degC"]["rmse"] for s in scores)
    return f"{statistics.mean(errors):.4f}{spread}{' †' if lost else ''} | {rmse:.3f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", choices=list(MODELS), default=list(MODELS), metavar="NAME")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--protocols", nargs="+", choices=["physical", "paper"], default=["physical", "paper"])
    parser.add_argument("--train-only", action="store_true", help="leave evaluation to a later call")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    options = parser.parse_args()

    runs = {
        (model, protocol): [fit(configure(model, protocol, seed, options.set)) for seed in range(options.seeds)]
        for model in options.models
        for protocol in options.protocols
    }
    if options.train_only:
        return
    scores = {of: [evaluate(run)[0]["scores"] for run in of_seeds] for of, of_seeds in runs.items()}
    print(f"\nsstcast {__version__}, torch {torch.__version__}, {platform.machine()}, ", end="")
    print(f"{torch.get_num_threads()} threads, {options.seeds} seeds, {dt.date.today()}\n")
    print("| model | parameters | s a step |" + "".join(f" MSE, {p} | RMSE °C |" for p in options.protocols))
    print("|---|---|---|" + "---|---|" * len(options.protocols))
    for model in options.models:
        parameters, seconds = cost(configure(model, options.protocols[0], 0, options.set))
        found = " | ".join(cells(scores[model, protocol], MODEL) for protocol in options.protocols)
        print(f"| {model} | {parameters:,} | {seconds:.2f} | {found} |")
    for method in [name for name in next(iter(scores.values()))[0] if name != MODEL]:
        found = " | ".join(cells(scores[options.models[0], protocol], method) for protocol in options.protocols)
        print(f"| {method} | | | {found} |")
    print(f"\n† loses to {TO_BEAT}")


if __name__ == "__main__":
    main()

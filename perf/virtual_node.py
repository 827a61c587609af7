"""MPNN with and without the virtual node, three seeds, everything else equal: prints a Markdown table.

    python perf/virtual_node.py [--seeds 3] [--set KEY=VALUE ...]

Runs go to runs/virtual-node/; finished ones are not repeated.
"""

import argparse
import platform
import statistics
from pathlib import Path

import torch

from sstcast import __version__
from sstcast.config import load_config
from sstcast.names import MODEL
from sstcast.ocean.prepare import prepare
from sstcast.ocean.windows import cut_windows
from sstcast.scores.evaluate import evaluate
from sstcast.training.train import train


def score(name: str, seed: int, overrides: list[str]) -> dict:
    """Train and evaluate one run; return its scores."""
    chosen = [f"model.name={name}", f"training.seed={seed}", f"name={name}-{seed}", "runs=runs/virtual-node"]
    config = load_config(Path("configs/mpnn-vn.yaml"), ["training.epochs=8", *chosen, *overrides])
    _, anomalies = prepare(config.data).open()
    windows = {split: cut_windows(anomalies, config.data, split) for split in ("train", "validation")}
    run, _ = train(config, windows)
    return evaluate(run)[0]["scores"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    options = parser.parse_args()
    rows = {
        name: [score(name, seed, options.set) for seed in range(options.seeds)] for name in ("mpnn", "mpnn-vn")
    }
    threads = torch.get_num_threads()
    print(f"\nsstcast {__version__}, torch {torch.__version__}, {platform.machine()}, {threads} threads\n")
    print("| model | MSE, standardised: mean (each seed) | RMSE °C |\n|---|---|---|")
    for name, scores in rows.items():
        errors = [s[MODEL]["standardised"]["mse"] for s in scores]
        rmse = statistics.mean(s[MODEL]["degC"]["rmse"] for s in scores)
        each = ", ".join(f"{error:.4f}" for error in errors)
        print(f"| {name} | {statistics.mean(errors):.4f} ({each}) | {rmse:.4f} |")
    for name, s in rows["mpnn"][0].items():
        if name != MODEL:
            print(f"| {name} | {s['standardised']['mse']:.4f} | {s['degC']['rmse']:.4f} |")


if __name__ == "__main__":
    main()

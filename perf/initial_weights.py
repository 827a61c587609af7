"""Does it help to begin from weights? The sample's quarters, with weights trained on the whole ocean.

    python perf/initial_weights.py OUT

`OUT` gets the runs. A small graph network adds a correction to a local ridge. It is trained on each quarter from
random weights, which begin as the ridge alone, and from those of the same network trained on the whole ocean. The
table has the mean squared error of 2013 and 2014 (standardised) after 25 and 100 steps of 16 windows.
"""

import csv
import sys
from pathlib import Path

import sstcast
from sstcast.storage.paths import packaged

QUARTERS = ("south-west", "south-east", "north-west", "north-east")
STEPS = (25, 100)
BATCH = 16


def loss(out: Path, name: str, steps: int, *overrides: str) -> float:
    """Train a run and return its mean squared error on the validation days."""
    config = sstcast.load_config(
        packaged("configs/demo-network.yaml"),
        [
            f"name={name}",
            f"runs={out}",
            f"data.directory={out / 'prepared'}",
            "model={name: mpnn-vn, width: 16, layers: 2, base: local}",
            "training.include_validation=false",
            f"training.windows_per_epoch={steps * BATCH}",
            *overrides,
        ],
    )
    run = sstcast.train(config)
    with (run.folder / "history.csv").open() as rows:
        return float(list(csv.DictReader(rows))[-1]["validation_mse"])


def main(out: Path) -> None:
    """Train all runs, and print a line per quarter and number of steps."""
    whole = loss(out, "whole", STEPS[-1])
    print(f"the whole ocean, {STEPS[-1]} steps: {whole:.4f}", flush=True)
    print("quarter       steps   random   from weights   ratio", flush=True)
    for quarter in QUARTERS:
        for steps in STEPS:
            region = f"data.region=tasman-{quarter}"
            random, tuned = (
                loss(out, f"{quarter}-{steps}-{kind}", steps, region, *extra)
                for kind, extra in (("random", ()), ("tuned", (f"training.weights={out / 'whole'}",)))
            )
            print(f"{quarter:12} {steps:6} {random:8.4f} {tuned:14.4f} {tuned / random:7.3f}", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))

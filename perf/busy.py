"""How long an epoch takes beside another process that keeps a core busy, by how long threads spin.

    python perf/busy.py [--windows 1000] [--repeats 3] [--spins default ours 0]

Prints a Markdown table: the shortest seconds of an epoch of the demo's model, alone and beside a process that this
script starts, and their ratio. `default` is libgomp's own GOMP_SPINCOUNT of 300,000, `ours` what sstcast sets, and
a number any other. Measurements of all settings alternate, so that other work on the machine meets all alike.
"""

import argparse
import csv
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

CONFIG = ("configs/mpnn-vn.yaml", "--set", "training.epochs=1", "--set", "training.compile=false")
SPINS = {"default": {"GOMP_SPINCOUNT": "300000"}, "ours": {}}


def sstcast(folder: Path, *arguments: str, spin: dict[str, str]) -> None:
    """Run a command with these variables, and no others of the kind."""
    kept = {name: value for name, value in os.environ.items() if name not in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")}
    command = [sys.executable, "-m", "sstcast.cli", *arguments]
    subprocess.run(command, cwd=folder, env=kept | spin, stdout=subprocess.DEVNULL, check=True)


def epoch(folder: Path, windows: int, spin: dict[str, str]) -> float:
    """Train for an epoch; return its seconds."""
    shutil.rmtree(folder / "runs", ignore_errors=True)
    sstcast(folder, "train", *CONFIG, "--set", f"training.windows_per_epoch={windows}", spin=spin)
    with (folder / "runs/mpnn-vn/history.csv").open() as file:
        return float(next(csv.DictReader(file))["seconds"])


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--windows", type=int, default=1000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--spins", nargs="*", default=["default", "ours", "0"])
    options = parser.parse_args()
    spins = {name: SPINS.get(name, {"GOMP_SPINCOUNT": name}) for name in options.spins}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        sstcast(folder, "prepare", CONFIG[0], spin={})
        found = np.empty((options.repeats, 2, len(spins)))
        for repeat in range(options.repeats):
            for busy in (0, 1):
                for column, spin in enumerate(spins.values()):
                    neighbour = subprocess.Popen([sys.executable, "-c", "while True: pass"]) if busy else None
                    try:
                        found[repeat, busy, column] = epoch(folder, options.windows, spin)
                    finally:
                        if neighbour is not None:
                            neighbour.kill()
                            neighbour.wait()
                    where, seconds = ("alone", "busy")[busy], found[repeat, busy, column]
                    print(f"{list(spins)[column]} {where} {seconds:.1f} s", file=sys.stderr)
    print(f"| spin | alone, s | beside a busy core, s | ratio |\n|{'---|' * 4}")
    for name, (alone, busy) in zip(spins, found.min(0).T, strict=True):
        print(f"| {name} | {alone:.1f} | {busy:.1f} | {busy / alone:.2f} |")


if __name__ == "__main__":
    main()

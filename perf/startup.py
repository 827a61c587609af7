"""How long a command takes that finds its work done.

    python perf/startup.py [--repeats 5]

Prints a Markdown table: of each command the shortest time by the clock, seconds of the CPU (user and system), and
peak memory. The demo's ocean, one short training, a hindcast of a linear system and a small benchmark are made
first in a temporary folder, in minutes, and not timed.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

SHORT = ("training.epochs=1", "training.windows_per_epoch=20")
RINGS = "kind: npz\npath: rings.npz\ntask: node-classification\n"
HINDCAST = ("hindcast", "configs/demo.yaml", "--set", "model={name: lim}", "--years", "2009:2016")
BENCHMARK = ("benchmark", "rings.yaml", "--model", "gcn", "--set", "training.epochs=1")
DONE = (
    ("prepare", "configs/demo.yaml"),
    ("train", "configs/demo.yaml", *(word for key in SHORT for word in ("--set", key))),
    ("evaluate", "runs/demo"),
    ("map", "runs/demo"),
    ("report", "runs/demo"),
    ("forecast", "runs/demo"),
    HINDCAST,
    BENCHMARK,
    ("leaderboard",),
    ("datasets",),
    ("models",),
    ("status",),
    ("runs",),
    ("--help",),
)


def call(folder: Path, arguments: tuple[str, ...]) -> tuple[float, float, float]:
    """Run a command; return seconds by the clock and of the CPU, and MB."""
    started = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "sstcast.cli", *arguments], cwd=folder, stdout=subprocess.DEVNULL
    )
    _, status, used = os.wait4(process.pid, 0)
    elapsed = time.perf_counter() - started
    if status:
        raise SystemExit(f"sstcast {' '.join(arguments)} failed")
    return elapsed, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024 / 1e6


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5)
    repeats = parser.parse_args().repeats
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ["XDG_CACHE_HOME"] = str(folder / "cache")
        nodes = np.arange(60)
        edges, features = np.stack([nodes, (nodes + 1) % 60]), np.eye(3)[nodes % 3]
        np.savez(folder / "rings.npz", edges=edges, features=features, labels=nodes % 3)
        (folder / "rings.yaml").write_text(RINGS)
        call(folder, ("fetch", "--source", "sample", "--end", "1982-12-31"))
        for arguments in DONE:
            call(folder, arguments)
        print(f"| command | seconds | CPU seconds | MB |\n|{'---|' * 4}")
        for arguments in DONE:
            found = np.array([call(folder, arguments) for _ in range(repeats)])
            seconds, cpu, memory = found.min(0)
            print(f"| {arguments[0]} | {seconds:.2f} | {cpu:.2f} | {memory:.0f} |", flush=True)


if __name__ == "__main__":
    main()

"""The scores that a change of the code must not move: run it before and after, and compare.

    python perf/frozen.py --keep /tmp/frozen.json    # before: writes the scores
    python perf/frozen.py /tmp/frozen.json           # after: prints what differs by more than 1e-6

Runs the commands below in an empty folder, on one thread, from fixed seeds: `frozen-demo.yaml`; a hindcast of
two folds of linear systems, a TF-Net and their mean, with probabilities and heatwaves; a forecast scored as a
file; and three graph benchmarks, whose raw files are read from `--root`. It takes about six minutes. The last
digits depend on the processor and on the version of PyTorch, so both runs must be on one machine.
"""

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parents[1]
TOLERANCE = 1e-6
NOT_SCORES = ("seconds", "peak", "version", "date", "digest", "layout")  # keys whose values may differ
DEMO = HERE / "perf/frozen-demo.yaml"
TINY = "--set training.windows_per_epoch=1600"
GRAPHS = {"mutag": "gin", "cora": "gcn-kipf", "minesweeper": "sage"}

OCEAN = {
    "demo": (
        [f"prepare {DEMO}", f"train {DEMO}", "evaluate runs/demo"],
        "runs/demo/metrics.json",
    ),
    "hindcast": (
        [
            f"hindcast configs/linear/multiscale-ridge.yaml configs/linear/local-ridge.yaml {DEMO}"
            f" --years 2009:2016 --every 20 --average mean --out runs/hindcast {TINY}"
        ],
        "runs/hindcast/metrics.json",
    ),
    "file": (
        ["forecast runs/demo --date 2016-03-01 --out file.nc", "score file.nc --truth sample --out scored"],
        "scored/metrics.json",
    ),
}


def numbers(value: Any, name: str = "") -> Iterator[tuple[str, float]]:
    """Yield all numbers of nested lists and dictionaries by their path, except those of `NOT_SCORES`.

    Of a list of numbers, such as the errors by lead, the sum stands for all.
    """
    if isinstance(value, list) and value and not any(isinstance(item, (dict, list, str)) for item in value):
        yield f"{name}/sum", math.fsum(item for item in value if item is not None)
        return
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        if not any(word in str(key) for word in NOT_SCORES):
            yield from numbers(inner, f"{name}/{key}")
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        yield name, float(value)


def run(command: str, folder: Path, environment: dict[str, str]) -> None:
    """Run a command of sstcast in `folder`; end this program if it fails."""
    started = time.monotonic()
    line = [sys.executable, "-c", "from sstcast.cli import main; main()", *command.split()]
    done = subprocess.run(line, cwd=folder, env=environment, capture_output=True, text=True)
    print(f"{time.monotonic() - started:6.1f} s  sstcast {command}", flush=True)
    if done.returncode != 0:
        sys.exit(f"{done.stdout[-1000:]}\n{done.stderr[-2000:]}")


def measure(folder: Path, root: Path, parts: list[str]) -> dict[str, float]:
    """Return the scores of all chosen parts, by their paths."""
    environment = os.environ | {
        "OMP_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "XDG_CACHE_HOME": str(folder / "cache"),
        "PYTHONPATH": f"{HERE}{os.pathsep}{os.environ.get('PYTHONPATH', '')}",
    }
    found: dict[str, float] = {}
    for part, (commands, file) in OCEAN.items():
        if part in parts:
            for command in commands:
                run(command, folder, environment)
            found |= numbers(json.loads((folder / file).read_text()), part)
    if "graphs" in parts:
        for data, model in GRAPHS.items():
            run(f"benchmark {data} --model {model} --root {root} --set training.epochs=3", folder, environment)
        for file in sorted(folder.glob("runs/benchmarks/*/*/seed-0/metrics.json")):
            found |= numbers(json.loads(file.read_text()), f"graphs/{file.parts[-4]}")
    return found


def differences(before: dict[str, float], after: dict[str, float]) -> Iterator[str]:
    """Yield a line for every score that is gone, or that differs by more than `TOLERANCE`."""
    for name, old in before.items():
        new = after.get(name)
        if new is None:
            yield f"{name}: {old!r} is gone"
        elif not (abs(new - old) <= 1.001 * TOLERANCE or (math.isnan(new) and math.isnan(old))):
            yield f"{name}: {old!r} -> {new!r}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", type=Path, nargs="?", help="scores of an earlier run, to compare with")
    parser.add_argument("--keep", type=Path, help="write the scores to this file")
    parser.add_argument("--root", type=Path, default=HERE / "data/graphs", help="raw files of graph data sets")
    parser.add_argument("--parts", nargs="+", default=[*OCEAN, "graphs"], choices=[*OCEAN, "graphs"])
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        after = measure(Path(folder), options.root.resolve(), options.parts)
    if options.keep is not None:
        options.keep.write_text(json.dumps(after, indent=0) + "\n")
    print(f"{len(after)} scores")
    if options.before is not None:
        before = {
            name: value
            for name, value in json.loads(options.before.read_text()).items()
            if name.split("/")[0] in options.parts and name.split("/")[-1] not in NOT_SCORES
        }
        changed = list(differences(before, after))
        print("\n".join(changed) or f"all {len(before)} scores are as before")
        sys.exit(1 if changed else 0)


if __name__ == "__main__":
    main()

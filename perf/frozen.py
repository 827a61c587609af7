"""The scores that a change of the code must not move: run it before and after, and compare.

    python perf/frozen.py --keep /tmp/frozen.json    # before: writes the scores
    python perf/frozen.py --keep /tmp/frozen.json --code ../before    # the same, of the code in another folder
    python perf/frozen.py /tmp/frozen.json           # after: prints what differs by more than 1e-6
    python perf/frozen.py /tmp/frozen.json --exact   # after: prints what differs by a bit, in any table

Runs the commands below in an empty folder, on one thread, from fixed seeds: `frozen-demo.yaml`; a hindcast of two
folds of linear systems, a TF-Net and their mean, with probabilities and heatwaves; a forecast scored as a file;
and three graph benchmarks, whose raw files are read from `--root`. The parts `sea`, `sea-hindcasts` and
`sea-files` score every kind of table on a small ocean that `frozen_sea.py` makes; each needs those before it.
`sea-forecasts` forecasts it with a network on a linear base, a combination and the run that ships, and needs
`sea`. `fields`, `curved` and `ice` read the predictors, grids and stores of `frozen_fields.py`. All parts take
about eleven minutes, those of the small ocean three, and the last three one and a half. The last digits depend on
the processor and on the version of PyTorch, so both runs must be on one machine.

Of prepared stores, the mean, deviation, share of known values and a sum with fixed random weights are compared.

`--exact` also compares the bits of every variable of `scores.nc`, of forecasts, of the folds' `hindcast.nc` and of
the baselines' files, their recipes, the text of `metrics.json`, and the values of prepared stores, not their
digests. In recipes, numbers of layouts and keys that are unset do not count.
"""

import argparse
import hashlib
import json
import math
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from frozen_fields import write_curved, write_fields, write_ice
from frozen_sea import ASKED, write_inputs, write_weeks

HERE = Path(__file__).resolve().parents[1]
UNCOUNTED = ("layout", "linear_base", "thirds")  # keys of recipes that may change, or go
RECIPES = ("recipe", "data")  # in JSON files
TOLERANCE = 1e-6
NOT_SCORES = ("seconds", "peak", "version", "date", "digest", "layout")  # keys whose values may differ
DEMO = HERE / "perf/frozen-demo.yaml"
BITS = "bits of "
HASH = re.compile(r"-(box)?[0-9a-f]{8}(?=\.|-box|[:/])")  # in a name, of what a file or folder was made from
SEA_YEARS = "--years 2006:2009 --fold 2 --validation 1 --every 6"
TINY = "--set training.windows_per_epoch=1600"
GRAPHS = {"mutag": "gin", "cora": "gcn-kipf", "minesweeper": "sage"}

HINDCAST = (
    "runs/hindcast/metrics.json runs/hindcast/*.nc runs/hindcast/*/*/hindcast.nc runs/hindcast/baselines/*.nc"
)

# Each part is its commands or functions of the folder, and the files to keep. The first holds the scores.
OCEAN: dict[str, tuple[list[str | Callable[[Path], None]], str]] = {
    "demo": (
        [f"prepare {DEMO}", f"train {DEMO}", "evaluate runs/demo"],
        "runs/demo/metrics.json runs/demo/scores.nc",
    ),
    "hindcast": (
        [
            f"hindcast configs/linear/multiscale-ridge.yaml configs/linear/local-ridge.yaml {DEMO}"
            f" --years 2009:2016 --every 20 --average mean --out runs/hindcast {TINY}"
        ],
        HINDCAST,
    ),
    "file": (
        ["forecast runs/demo --date 2016-03-01 --out file.nc", "score file.nc --truth sample --out scored"],
        "scored/metrics.json scored/scores.nc",
    ),
    "sea": (
        [
            write_inputs,
            "train sea/net.yaml --seeds 0..1",
            f"evaluate sea/runs/net {ASKED}",
        ],
        "sea/runs/net/metrics.json sea/runs/net/scores.nc",
    ),
    "sea-hindcasts": (
        [
            f"hindcast sea/net.yaml sea/local.yaml {SEA_YEARS} --seeds 0..1 --average mean --combine fitted"
            f" --out sea/runs/hindcast {ASKED}",
            f"hindcast sea/local.yaml sea/later.yaml {SEA_YEARS} --out sea/runs/ridges {ASKED}",
        ],
        " ".join(HINDCAST.replace("runs/hindcast", f"sea/runs/{name}") for name in ("hindcast", "ridges")),
    ),
    "sea-files": (
        [
            "score sea/runs/hindcast/local/hindcast.zarr --truth sea/sea.nc --remove-bias --out sea/daily"
            " --observations sea/points.csv --platforms b",
            write_weeks,
            "score sea/weeks.nc --truth sea/sea.nc --against sea/runs/net --observations sea/points.csv"
            " --out sea/weekly",
            "score sea/members.nc --truth sea/sea.nc --out sea/with-members",
        ],
        "sea/daily/metrics.json sea/weekly/metrics.json sea/with-members/metrics.json sea/*/scores.nc",
    ),
    "sea-forecasts": (
        [
            "train sea/local.yaml",
            "combine sea/runs/net sea/runs/local --name both",
            "forecast sea/runs/net --out sea/net.nc",
            "forecast sea/runs/both --date 2008-02-01 --out sea/both.nc",
            "forecast pretrained --source sea/sea.nc --out sea/elsewhere.nc",
        ],
        "sea/net.nc sea/both.nc sea/elsewhere.nc",
    ),
    "fields": (
        [
            write_fields,
            *(f"train fields/{name}.yaml" for name in ("ridge", "network")),
            *(f"evaluate fields/runs/{name}" for name in ("ridge", "network")),
        ],
        "fields/runs/*/metrics.json fields/prepared/*/*.zarr",
    ),
    "curved": (
        [
            write_curved,
            *(f"train curved/{name}.yaml" for name in ("means", "between")),
            *(f"evaluate curved/runs/{name}" for name in ("means", "between")),
        ],
        "curved/runs/*/metrics.json curved/prepared-*/*/*.zarr",
    ),
    "ice": (
        [
            write_ice,
            "fetch --source ice/files --start 2001-01-01 --end 2005-12-31 --region 170,173,-12,-10"
            " --variables sst,ice --out ice/days.zarr",
            "train ice/iced.yaml",
            "evaluate ice/runs/iced",
        ],
        "ice/runs/*/metrics.json ice/days.zarr ice/prepared-*/*/*.zarr",
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


def counted(recipe: Any) -> Any:
    """Return a recipe without the keys that are `UNCOUNTED` or unset."""
    if isinstance(recipe, list):
        return [counted(item) for item in recipe]
    if not isinstance(recipe, dict):
        return recipe
    kept = {key: counted(value) for key, value in recipe.items() if key not in UNCOUNTED}
    return {key: value for key, value in kept.items() if value is not None and value is not False and value != {}}


def bits(file: Path, folder: Path) -> Iterator[tuple[str, str]]:
    """Yield digests of the variables and the recipe of a NetCDF file, or of the text of a JSON file, by name."""

    def digest(value: bytes | str) -> str:
        return hashlib.sha256(value if isinstance(value, bytes) else value.encode()).hexdigest()[:16]

    def text(contents: Any) -> str:
        contents.get("recipe", contents).pop("file", None)  # the time of a file that was just written
        return json.dumps(contents, sort_keys=True).replace(f"{folder}/", "")

    if file.suffix == ".json":
        contents = json.loads(file.read_text())
        contents |= {key: counted(contents[key]) for key in RECIPES if key in contents}
        yield from ((key, digest(text({key: value}))) for key, value in contents.items())
        return
    with xr.open_dataset(file, decode_cf=False) as tables:
        yield "recipe", digest(text(counted(json.loads(tables.attrs["recipe"]))))
        for name, field in tables.variables.items():
            yield f"{name}{field.dims}", digest(f"{field.dtype}".encode() + field.values.tobytes())


def of_store(store: Path) -> Iterator[tuple[str, float | str]]:
    """Yield numbers that tell the values of the variables of a Zarr store, and digests of their bits, by name."""
    with xr.open_zarr(store) as dataset:
        for name, field in dataset.data_vars.items():
            if field.ndim < 2 or name == "digest":
                continue
            values = np.ascontiguousarray(field.values)
            known = np.isfinite(values)
            filled, weights = np.where(known, values, 0.0), np.random.default_rng(0).random(values.shape)
            yield f"{name}/known", float(known.mean())
            yield f"{name}/mean", float(filled.mean())
            yield f"{name}/deviation", float(filled.std())
            yield f"{name}/weighted", float((filled * weights).mean())
            yield f"{BITS}{name}", hashlib.sha256(values.tobytes()).hexdigest()[:16]


def kept(part: str, folder: Path, patterns: str) -> Iterator[tuple[str, float | str]]:
    """Yield the scores and the bits of the files of a part."""

    def age(file: Path) -> tuple[str, int]:
        return HASH.sub("", str(file)), file.stat().st_mtime_ns

    files = [file for pattern in patterns.split() for file in sorted(folder.glob(pattern), key=age)]
    names = [HASH.sub("", str(file.relative_to(folder)).replace("/", ":")) for file in files]
    for number, file in enumerate(files):
        name = f"{names[number]}{names[:number].count(names[number]) or ''}"
        if file.suffix == ".zarr":
            yield from ((f"{part}/{name}/{key}", value) for key, value in of_store(file))
            continue
        if file.suffix == ".json":
            yield from numbers(json.loads(file.read_text()), f"{part}/{name}" if number else part)
        yield from ((f"{part}/{name}/{BITS}{key}", value) for key, value in bits(file, folder))


def measure(folder: Path, root: Path, parts: list[str], code: Path, found: dict[str, float | str]) -> None:
    """Add the scores and the bits of all chosen parts, by their paths, from the code in a folder to `found`."""
    environment = os.environ | {
        "OMP_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "XDG_CACHE_HOME": str(folder / "cache"),
        "PYTHONPATH": f"{code}{os.pathsep}{os.environ.get('PYTHONPATH', '')}",
    }
    for part, (commands, files) in OCEAN.items():
        if part in parts:
            for command in commands:
                if callable(command):
                    command(folder)
                else:
                    run(command, folder, environment)
            found |= kept(part, folder, files)
    if "graphs" in parts:
        for data, model in GRAPHS.items():
            run(f"benchmark {data} --model {model} --root {root} --set training.epochs=3", folder, environment)
        for file in sorted(folder.glob("runs/benchmarks/*/*/seed-0/metrics.json")):
            found |= numbers(json.loads(file.read_text()), f"graphs/{file.parts[-4]}")


def differences(
    before: dict[str, float | str], after: dict[str, float | str], exact: bool = False
) -> Iterator[str]:
    """Yield a line for every score that is gone, or that differs by more than `TOLERANCE`, or at all."""
    for name, old in before.items():
        new = after.get(name)
        if new is None:
            yield f"{name}: {old!r} is gone"
        elif exact or isinstance(old, str) or isinstance(new, str):
            if repr(new) != repr(old):
                yield f"{name}: {old!r} -> {new!r}"
        elif not (abs(new - old) <= 1.001 * TOLERANCE or (math.isnan(new) and math.isnan(old))):
            yield f"{name}: {old!r} -> {new!r}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", type=Path, nargs="?", help="scores of an earlier run, to compare with")
    parser.add_argument("--keep", type=Path, help="write the scores to this file")
    parser.add_argument("--root", type=Path, default=HERE / "data/graphs", help="raw files of graph data sets")
    parser.add_argument("--code", type=Path, default=HERE, help="the checkout whose code is run")
    parser.add_argument("--parts", nargs="+", default=[*OCEAN, "graphs"], choices=[*OCEAN, "graphs"])
    parser.add_argument("--exact", action="store_true", help="compare the bits of all tables too")
    options = parser.parse_args()
    after: dict[str, float | str] = {}
    try:
        with tempfile.TemporaryDirectory() as folder:
            measure(Path(folder), options.root.resolve(), options.parts, options.code.resolve(), after)
    finally:  # a part that fails loses itself alone, not those before it
        if options.keep is not None:
            options.keep.write_text(json.dumps(after, indent=0) + "\n")
    print(f"{len(after)} scores")
    if options.before is not None:
        before = {
            name: value
            for name, value in json.loads(options.before.read_text()).items()
            if name.split("/")[0] in options.parts
            and name.split("/")[-1] not in NOT_SCORES
            and (options.exact or not isinstance(value, str))
        }
        changed = list(differences(before, after, options.exact))
        if options.exact:
            changed += [f"{name} is new" for name in after.keys() - before.keys()]
        print("\n".join(changed) or f"all {len(before)} scores are as before")
        sys.exit(1 if changed else 0)


if __name__ == "__main__":
    main()

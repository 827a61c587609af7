"""What a system loses if it is fitted to a part of an ocean: hindcasts of the sample, its halves and quarters.

    python perf/region_size.py [--system local-memory-stencil] [--years 1997:2016] [--fold 4] [--folder FOLDER]

Fits the system to the whole ocean and to each part, and compares both on the cells of the part. Prints a Markdown
table of squared errors (degC^2, all leads) and of their ratio, part over whole: over all folds, with Student's
interval over the folds' ratios, and in each fold. A second table has the ratio whole over part on the quarters, to
stand beside a network that is fitted to a quarter. What is done stays in the folder, so that the same command
goes on.
"""

import argparse
import datetime as dt
import platform
from pathlib import Path

import numpy as np
import scipy.stats
import torch
import xarray as xr

import sstcast
from sstcast.geo import area_weights
from sstcast.names import DEGREES

WEST, MIDDLE, EAST = 147.25, 151.0, 154.75
SOUTH, CENTRE, NORTH = -44.75, -41.0, -37.25
PARTS = {  # west, east, south, north
    "western half": (WEST, MIDDLE, SOUTH, NORTH),
    "eastern half": (MIDDLE, EAST, SOUTH, NORTH),
    "southern half": (WEST, EAST, SOUTH, CENTRE),
    "northern half": (WEST, EAST, CENTRE, NORTH),
    "south-western quarter": (WEST, MIDDLE, SOUTH, CENTRE),
    "south-eastern quarter": (MIDDLE, EAST, SOUTH, CENTRE),
    "north-western quarter": (WEST, MIDDLE, CENTRE, NORTH),
    "north-eastern quarter": (MIDDLE, EAST, CENTRE, NORTH),
}
POOLED = {
    "western and eastern half": ("western half", "eastern half"),
    "southern and northern half": ("southern half", "northern half"),
    "four quarters": tuple(name for name in PARTS if name.endswith("quarter")),
}


def errors_by_cell(region: str, options: argparse.Namespace, name: str) -> list[xr.DataArray]:
    """Return the squared errors by cell in degC^2, mean of all leads, of each fold of a hindcast of `region`."""
    settings = [f"data.region={region}", f"data.directory={options.folder / 'prepared'}"]
    config = sstcast.load_config(f"configs/linear/{options.system}.yaml", settings)
    out = options.folder / name.replace(" ", "-")
    sstcast.hindcast([config], options.years, options.fold, every=options.every, out=out)
    found = []
    for file in sorted((out / options.system).glob("*/hindcast.nc")):
        with xr.open_dataset(file) as tables:
            errors = tables["mse_by_cell"].sel(units=DEGREES, system=options.system, drop=True)
            found.append(errors.astype(float).mean("week").load())
    return found


def means(errors: list[xr.DataArray], cells: xr.DataArray) -> np.ndarray:
    """Return the mean error of each fold over `cells` of a map, weighted by area."""
    weights = (area_weights(cells["lat"]) * cells).fillna(0)
    return np.array(
        [float(fold.sel(lat=cells["lat"], lon=cells["lon"]).weighted(weights).mean()) for fold in errors]
    )


def row(name: str, errors: np.ndarray, reference: np.ndarray) -> str:
    """Return a row of a table: errors of the folds, which are of equal length, and of their reference."""
    by_fold = errors / reference
    low, high = scipy.stats.t.interval(0.95, len(by_fold) - 1, by_fold.mean(), scipy.stats.sem(by_fold))
    folds = " ".join(f"{each:.4f}" for each in by_fold)
    ratio = f"{errors.sum() / reference.sum():.4f}, {low:.4f}-{high:.4f}"
    return f"| {name} | {errors.mean():.4f} | {reference.mean():.4f} | {ratio} | {folds} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--system", default="local-memory-stencil", help="a configuration of configs/linear")
    parser.add_argument("--years", default="1997:2016")
    parser.add_argument("--fold", type=int, default=4)
    parser.add_argument("--every", type=int, default=3)
    parser.add_argument("--folder", type=Path, default=Path("data/perf-region-size"))
    options = parser.parse_args()
    versions = f"sstcast {sstcast.__version__}, torch {torch.__version__}, Python {platform.python_version()}"
    print(f"{versions}, {dt.date.today()}\n")
    print(f"| {options.system} fitted to | MSE, °C² | fitted to all | ratio, over folds | by fold |")
    print("|---" * 5 + "|")
    whole = errors_by_cell("tasman", options, "all")
    pairs, areas = {}, {}
    for name, (west, east, south, north) in PARTS.items():
        side = [round((north - south) / 0.25), round((east - west) / 0.25)]
        box = f"{{lon: [{west}, {east}], lat: [{south}, {north}], tile: {side}}}"
        part = errors_by_cell(box, options, name)
        cells = part[0].notnull()
        pairs[name] = means(part, cells), means(whole, cells)
        areas[name] = float((area_weights(cells["lat"]) * cells).sum())
        print(row(name, *pairs[name]), flush=True)
    for name, parts in POOLED.items():
        shares = np.array([areas[part] for part in parts]) / sum(areas[part] for part in parts)
        print(row(name, *(shares @ np.stack([pairs[part][which] for part in parts]) for which in (0, 1))))
    print(f"\n| {options.system} fitted to all, on the | MSE, °C² | fitted to it | ratio, over folds | by fold |")
    print("|---" * 5 + "|")
    for name in POOLED["four quarters"]:
        print(row(name, *reversed(pairs[name])))


if __name__ == "__main__":
    main()

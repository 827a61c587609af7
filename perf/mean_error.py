"""A rival without a network: a system less the mean error of its earlier folds.

    python perf/mean_error.py runs/hindcast-1997-2016 local-memory-stencil tfnet-share

For each fold of a hindcast but the first, the mean error of all folds before, by lead and over the region, is
subtracted from the forecasts: none of it, half, or all. Prints a Markdown table of squared errors divided by those
of the first system, over these folds and in each, and divided by those of the first system corrected alike, both
with Student's interval over folds.
"""

import argparse
from pathlib import Path

import numpy as np
import scipy.stats
import xarray as xr

from sstcast.scores.score_files import ScoreFiles

SHARES = {"as it is": 0.0, "less half the mean error": 0.5, "less the mean error": 1.0}


def fold_errors(tables: xr.Dataset, system: str, share: float) -> np.ndarray:
    """Return the mean squared error in degC2 of a system on each fold but the first, `[folds - 1]`.

    `share` of its mean error by lead on all folds before is subtracted.
    """
    own = tables[["mse_by_date", "bias_by_date"]].sel(units="degC", system=system).astype(float)
    found = []
    for fold in np.unique(tables["fold"])[1:]:
        before, here = (own.isel(init_time=mask) for mask in (tables["fold"] < fold, tables["fold"] == fold))
        correction = share * before["bias_by_date"].mean("init_time")
        # The regional mean of (e - c)^2 is the mean of e^2 less 2 c times the mean of e, plus c^2.
        squares = here["mse_by_date"] - 2 * correction * here["bias_by_date"] + correction**2
        found.append(float(squares.mean()))
    return np.array(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("hindcast", type=Path, help="the folder of a hindcast")
    parser.add_argument("systems", nargs="+", help="the system that others are compared with, and others")
    options = parser.parse_args()
    with ScoreFiles(options.hindcast).open() as opened:
        tables = opened[["mse_by_date", "bias_by_date"]].load()
    first, folds = options.systems[0], np.unique(tables["fold"])[1:]
    dates = np.array([int((tables["fold"] == fold).sum()) for fold in folds])

    def ratio(errors: np.ndarray, reference: np.ndarray) -> str:
        if np.array_equal(errors, reference):
            return "1"
        by_fold = errors / reference
        low, high = scipy.stats.t.interval(0.95, len(folds) - 1, by_fold.mean(), scipy.stats.sem(by_fold))
        return f"{dates @ errors / (dates @ reference):.3f}, {low:.3f}-{high:.3f}"

    names = " | ".join(map(str, folds))
    print(f"| system | ratio to {first}, over folds | {names} | to {first} corrected alike |")
    print("|---" * (3 + len(folds)) + "|")
    plain = fold_errors(tables, first, 0.0)
    for how, share in SHARES.items():
        alike = fold_errors(tables, first, share)
        for name in options.systems:
            errors = alike if name == first else fold_errors(tables, name, share)
            parts = " | ".join(f"{each:.3f}" for each in errors / plain)
            print(f"| {name}, {how} | {ratio(errors, plain)} | {parts} | {ratio(errors, alike)} |")


if __name__ == "__main__":
    main()

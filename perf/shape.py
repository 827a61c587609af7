"""The shape of the predictive distribution: how often intervals hold, and what other quantiles could gain at best.

    python perf/shape.py                       # the ocean that ships and its quarters
    python perf/shape.py --regions tasman --every 6

Forecasts the folds of docs/results.md with `local-memory-stencil` and its spread, as `sstcast hindcast` does.
Prints the share of observed values in the 50, 80 and 95 % intervals by lead. For days 1 to 3, also prints the CRPS
of quantiles of the standardised errors that are fitted, by lead, to the scored years themselves, over that of the
Gaussian. No forecaster knows these years, so this is a bound for any other shape or width by lead. Both scores are
means of the loss of 200 quantiles.
"""

import argparse
import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

import sstcast
from sstcast.forecasting.spread import SpreadCalibrator
from sstcast.forecasting.system import Fits
from sstcast.hindcasts.plan import Protocol
from sstcast.names import DEGREES, LEVELS
from sstcast.ocean.prepared import Prepared
from sstcast.scores.analysis import Analysis
from sstcast.scores.systems import ScoredSystem
from sstcast.scores.verify import blocks, pairs

SYSTEM, OPTIONS = "local-ridge", {"memory": True, "stencil": True}
REGIONS = ("tasman", *(f"tasman-{side}" for side in ("south-west", "south-east", "north-west", "north-east")))
LEADS, SHORT = (1, 2, 3, 7, 14, 28), 3
QUANTILES = (np.arange(200) + 0.5) / 200

Array = NDArray[np.floating]


def quantile_losses(z: Array, weights: Array, at: Array) -> Array:
    """Return the mean loss of forecasts `at` of the `QUANTILES` of weighted values `z`, in ascending order."""
    above, moment = (np.append(0, of.cumsum(dtype=float)) for of in (weights, weights * z))
    place = np.searchsorted(z, at)
    below, under = at * above[place] - moment[place], moment[-1] - moment[place] - at * (above[-1] - above[place])
    return ((1 - QUANTILES) * below + QUANTILES * under) / above[-1]


def of_fold(data: sstcast.config.DataConfig, every: int) -> tuple[Array, int, list[tuple[Array, Array]]]:
    """Return the sums of covered shares `[level, lead]`, the number of dates, and of short leads z and weights."""
    prepared = Prepared.of(data)
    days = SpreadCalibrator(prepared)
    fits = Fits.of(prepared)
    fitted, held_out = (fits.system(SYSTEM, without, data.kinds, **OPTIONS) for without in (False, True))
    truth = Analysis.open(prepared, every=every)
    system = ScoredSystem(fitted, days.spread(held_out))
    covered, errors = np.zeros((len(LEVELS), data.horizon)), []
    for observed, name, forecast in pairs(truth, {SYSTEM: system}):
        for block in blocks(truth, name, forecast, observed):
            width = np.where(truth.ocean, block.spread, 1)
            z = (observed.anomaly[DEGREES] - block.mean) / width
            for row, level in enumerate(LEVELS):
                inside = abs(z) <= ndtri(0.5 + level / 200)
                covered[row] += (inside * truth.area).sum((0, 2, 3))
            weights = truth.area * width
            errors.append(
                [(z[:, lead][:, truth.ocean], weights[:, lead][:, truth.ocean]) for lead in range(SHORT)]
            )
    by_lead = [
        tuple(np.concatenate([of[lead][part].ravel() for of in errors]) for part in (0, 1))
        for lead in range(SHORT)
    ]
    return covered, truth.windows.starts, by_lead


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--regions", nargs="+", default=REGIONS)
    parser.add_argument("--every", type=int, default=3, help="days from one initial date to the next")
    parser.add_argument("--directory", type=Path, default=Path("data/prepared"), help="of prepared data")
    options = parser.parse_args()
    header = [f"day {lead}" for lead in LEADS] + [f"best CRPS, day {lead}" for lead in range(1, SHORT + 1)]
    print(f"| region, in 50 / 80 / 95 % | {' | '.join(header)} |\n" + "|---" * (1 + len(header)) + "|")
    started = time.process_time()
    for region in options.regions:
        config = sstcast.load_config(
            Path("configs/linear/local-memory-stencil.yaml"),
            [f"data.region={region}", f"data.directory={options.directory}"],
        )
        folds = []
        for fold in Protocol(1997, 2016).folds:
            data = fold.split(config.data)
            sstcast.prepare(config.model_copy(update={"data": data}))
            folds.append(of_fold(data, options.every))
        covered = sum(fold[0] for fold in folds) / sum(fold[1] for fold in folds)
        cells = [" / ".join(f"{share:.1f}" for share in 100 * covered[:, lead - 1]) for lead in LEADS]
        for lead in range(SHORT):
            z, weights = (np.concatenate([fold[2][lead][part] for fold in folds]) for part in (0, 1))
            order = np.argsort(z)
            z, weights = z[order], weights[order]
            position = weights.cumsum(dtype=float)
            best = z[np.searchsorted(position, QUANTILES * position[-1])]
            losses = [quantile_losses(z, weights, at).mean() for at in (best, ndtri(QUANTILES))]
            cells.append(f"{losses[0] / losses[1]:.4f}")
        print(f"| {region} | {' | '.join(cells)} |", flush=True)
    print(f"{time.process_time() - started:.0f} s of processor time")


if __name__ == "__main__":
    main()

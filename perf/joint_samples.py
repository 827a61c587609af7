"""How well joint samples describe areas: `python perf/joint_samples.py HINDCAST SYSTEM [DAYS]`.

Forecasts with the runs of a system that a hindcast has trained, from initial dates DAYS apart (30 by default), and
makes 100 joint samples of each forecast. Prints, over all folds, of the region and its four quarters by lead week:
the share of observed means in the 80 % interval, and the ratio of spread to error. On day 14, prints the variogram
score of order 1/2 (Scheuerer and Hamill 2015, doi:10.1175/MWR-D-14-00269.1) over every fourth cell, relative to
samples whose cells are independent, and to samples whose errors all cells share. Last, prints by how much the CRPS
of a cell differs from that of its Gaussian.
"""

import sys
from pathlib import Path

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from sstcast.forecasting.areas import area_means
from sstcast.forecasting.fields import in_degrees
from sstcast.forecasting.samples import SAMPLES, ErrorPaths, normal_levels
from sstcast.forecasting.spread import Spread, calibrated
from sstcast.forecasting.system import ForecastSystem, system_of
from sstcast.geo import area_weights
from sstcast.ocean.lead_weeks import WEEK
from sstcast.ocean.prepared import Prepared
from sstcast.runs import Run
from sstcast.scores.analysis import Analysis
from sstcast.scores.comparisons import over_folds
from sstcast.scores.distributions import Gaussian, crps

Array = NDArray[np.floating]
DAY, EVERY_CELL = 14, 4
NAMES = ("region", "north-west", "north-east", "south-west", "south-east")


def main() -> None:
    """Measure all folds of a system, and print the tables."""
    folder, system = Path(sys.argv[1]), sys.argv[2]
    days = int(sys.argv[3]) if len(sys.argv) > 3 else 30
    folds = [_measure(Run.open(one), days) for one in sorted((folder / system).glob("fold-*"))]
    names = ("covered", "variance", "error")
    covered, variance, error = (np.mean([fold[name] for fold in folds], 0) for name in names)
    count = sum(int(fold["dates"]) for fold in folds)
    print(f"{system}, {count} forecasts: in the 80 % interval, and spread / error, by lead week")
    for name, shares, ratios in zip(NAMES, covered, np.sqrt(variance / error), strict=True):
        print(f"{name:12}", *(f"{share:7.1%}" for share in shares), " ", *(f"{ratio:5.2f}" for ratio in ratios))
    print(f"{'quarters':12}", *(f"{share:7.1%}" for share in covered[1:].mean(0)))
    for other in ("independent", "shared"):
        ratios = [float(fold["paths"] / fold[other]) for fold in folds]
        low, high = over_folds(np.array(ratios))["interval"]
        each = " ".join(f"{ratio:.3f}" for ratio in ratios)
        print(f"variogram score / that of {other} errors: {np.mean(ratios):.3f} ({low:.3f}-{high:.3f}); {each}")
    print(f"CRPS of cells / that of the Gaussian - 1: {np.mean([fold['crps'] for fold in folds]):.4%}")


def _measure(run: Run, every: int) -> dict[str, Array]:
    data, spread, system = run.config.data, calibrated(run), system_of(run)
    truth = Analysis.open(Prepared.of(data), every=every)
    issued = xr.concat([_forecast(system, spread, truth, dates) for dates in truth.blocks()], "init_time")
    ocean = issued["sst"].notnull().isel(init_time=0, lead=0).values
    prepared = Prepared.of(data)
    cube = prepared.open_cube()["sst"].sel(time=slice(*map(str, data.splits.test))).load()
    anomaly = prepared.open_anomalies()["anomaly"].sel(time=slice(*map(str, data.splits.train))).load()
    everywhere = np.ones(int(ocean.sum()), bool)
    paths = ErrorPaths(
        anomaly["time"].values, anomaly.values[:, ocean], everywhere, data.splits.train, data.horizon, data.source
    )
    weights = _weights(issued, ocean)
    factor = np.linalg.cholesky(spread.correlation + 1e-6 * np.eye(data.horizon))
    random, levels = np.random.default_rng(0), normal_levels(SAMPLES)
    sums: dict[str, list[Array]] = {name: [] for name in ("covered", "variance", "error", "crps")}
    sums |= {name: [] for name in ("paths", "independent", "shared")}
    for date in issued["init_time"].values:
        one = issued.sel(init_time=date)
        mean, width = (one[name].values[:, ocean] for name in ("sst", "sst_spread"))
        observed = cube.sel(time=one["valid_time"].values).values[:, ocean]
        errors = paths.standard_errors(date, SAMPLES)
        means, came = area_means(mean, width, errors, weights), observed @ weights.T / weights.sum(1)
        low, high = np.quantile(means, [0.1, 0.9], axis=-1, method="hazen")
        for name, values in {
            "covered": (low <= came) & (came <= high),
            "variance": means.var(-1),
            "error": np.square(means.mean(-1) - came),
        }.items():
            sums[name].append(values.reshape(-1, WEEK, len(weights)).mean(1).T)
        cells, day = slice(None, None, EVERY_CELL), DAY - 1
        alone = random.permuted(np.broadcast_to(levels, errors[day, cells].shape), axis=-1)
        alike = np.empty(SAMPLES, np.float32)
        alike[np.argsort((factor @ random.standard_normal((data.horizon, SAMPLES)))[day])] = levels
        for name, drawn in {"paths": errors[day, cells], "independent": alone, "shared": alike[None]}.items():
            values = mean[day, cells, None] + width[day, cells, None] * drawn
            sums[name].append(_variogram_score(values, observed[day, cells]))
        own = crps(mean + width * levels[:, None, None], observed).mean()
        sums["crps"].append(own / Gaussian(mean, width).crps(observed).mean() - 1)
    found = {name: np.mean(values, 0) for name, values in sums.items()}
    return found | {"dates": np.array(issued.sizes["init_time"])}


def _forecast(system: ForecastSystem, spread: Spread, truth: Analysis, dates: slice) -> xr.Dataset:
    forecast = system.predict(*truth.histories(dates))
    fields = in_degrees(forecast, truth.statistics)
    return fields.assign(sst_spread=spread.spread(forecast["valid_time"]))


def _weights(fields: xr.Dataset, ocean: NDArray[np.bool_]) -> NDArray[np.float32]:
    """Return the areas of cells in the region and in its quarters, `[area, cell]`."""
    area = (area_weights(fields["lat"]) * xr.ones_like(fields["lon"])).values
    north = np.arange(len(area))[:, None] >= len(area) // 2
    east = np.arange(area.shape[1])[None] >= area.shape[1] // 2
    masks = [north | True, north & ~east, north & east, ~north & ~east, ~north & east]
    return np.array([(area * mask)[ocean] for mask in masks], np.float32)


def _variogram_score(samples: Array, truth: Array) -> Array:
    """Return the variogram score of order 1/2 of `samples [cell, sample]`, the mean over pairs of cells."""
    expected = np.sqrt(abs(samples[:, None] - samples[None])).mean(-1)
    return np.square(np.sqrt(abs(truth[:, None] - truth[None])) - expected).mean()


if __name__ == "__main__":
    main()

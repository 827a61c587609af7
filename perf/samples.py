"""CPU time and memory of joint samples: `python perf/samples.py [SAMPLES]`.

Writes 34 years of random anomalies of 60 x 180 cells, the Pacific of Cai et al. (2023), to a store. Makes joint
samples of one forecast 28 days ahead from it, and the interval of its share in a heatwave.
"""

import datetime as dt
import resource
import sys
import tempfile
import time
from pathlib import Path

import dask.array as da
import numpy as np
import pandas as pd
import xarray as xr

from sstcast.forecasting.areas import area_means, heatwave_shares
from sstcast.forecasting.samples import SAMPLES, ErrorPaths, sampled
from sstcast.ocean.prepare import DAYS_PER_CHUNK
from sstcast.storage.dataset_files import write_zarr
from sstcast.storage.stores import open_written

ROWS, COLUMNS, HORIZON = 60, 180, 28


def main() -> None:
    """Measure one forecast, and print a line for each step."""
    samples = int(sys.argv[1]) if len(sys.argv) > 1 else SAMPLES
    days = pd.date_range("1982-01-01", "2015-12-31")
    random = da.random.default_rng(0).standard_normal(
        (len(days), ROWS, COLUMNS), dtype=np.float32, chunks=(DAYS_PER_CHUNK, -1, -1)
    )
    coords = {"time": days, "lat": np.arange(ROWS) / 2.0, "lon": np.arange(COLUMNS) / 2.0}
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "anomalies.zarr"
        write_zarr(
            xr.Dataset({"anomaly": (("time", "lat", "lon"), random)}, coords), store, {"time": DAYS_PER_CHUNK}
        )
        anomaly = open_written(store, "")["anomaly"]
        cells = np.ones((ROWS, COLUMNS), bool)
        train = dt.date(1982, 1, 1), dt.date(2012, 12, 31)
        paths = ErrorPaths(days.values, anomaly, cells, train, HORIZON, "random")
        begun = _tell("before", 0.0)
        errors = paths.standard_errors(np.datetime64("2015-03-01"), samples)
        begun = _tell(f"errors of {samples} samples, {cells.sum()} cells", begun)
        mean = np.zeros((HORIZON, cells.sum()), np.float32)
        spread, weights = mean + 1, np.ones((1, cells.sum()), np.float32)
        sst = np.empty((samples, *mean.shape), np.float32)
        for lead in range(HORIZON):
            sst[:, lead] = sampled(mean[lead], spread[lead], errors[lead]).T
        begun = _tell("values in degC", begun)
        area_means(mean, spread, errors, weights)
        begun = _tell("mean of the region", begun)
        heatwave_shares(np.zeros((7, cells.sum()), bool), mean - 1, spread, errors, weights)
        _tell("share in a heatwave", begun)


def _tell(what: str, begun: float) -> float:
    """Print the CPU time since `begun` and the largest memory so far. Return the CPU time of the process."""
    now, memory = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"{what}: {now - begun:.1f} CPU s, at most {memory:.2f} GiB so far")
    return now


if __name__ == "__main__":
    main()

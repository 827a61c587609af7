"""A SIMULATED ocean on the grid of OISST, for tests and measurements without a network; never observations.

    python perf/simulated.py OUT --start 1982-01-01 --end 1989-12-31 --region pacific

writes its days to a store as `sstcast fetch` does. Importing this module adds the source `simulator`; `write_day`
writes a day as a NetCDF file in NOAA's layout. Temperature is a function of seed, day and place: a climatology
and two sums of random plane waves. Nothing is integrated from day to day, so a single day or a small box has the
same values as in a longer or larger request.
"""

import argparse
import datetime as dt
import gzip
import json
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import shapely
import xarray as xr
from numpy.typing import ArrayLike, NDArray

from sstcast.geo import Box
from sstcast.progress import Progress
from sstcast.reading.raw import Day, block_of, pack
from sstcast.sources import SOURCES
from sstcast.sources.fetch import fetch
from sstcast.sources.source import Batch, FetchRequest, Need, Source
from sstcast.storage.artefacts import atomic
from sstcast.storage.paths import packaged

GLOBE = Box(0, 360, -90, 90)
FREEZING = -1.8  # degC, sea water
YEAR = 365.2425
EPOCH = dt.date(1978, 1, 1)  # of NOAA's files, at 12:00
WHOLE_GLOBE = (slice(None), slice(None))
# Scale in degrees, memory in days, standard deviation in degC, and number of waves.
WEATHER, ANALYSIS = (8.0, 45.0, 0.5, 96), (1.3, 3.0, 0.1, 128)
LONG_NAMES = {
    "sst": "daily sea surface temperature",
    "anom": "daily sea surface temperature anomalies",
    "err": "estimated error standard deviation of sst",
    "ice": "sea ice concentration",
}

Array = NDArray[np.float64]


class Simulator:
    """A SIMULATED ocean; `seed` (0 or more) chooses which one, `notice` says so in words."""

    def __init__(self, seed: int = 0) -> None:
        self.notice = f"SIMULATED for tests of sstcast, seed {seed}: not an observation"
        random = np.random.default_rng(seed)
        self._layers = [_waves(random, *layer) for layer in (WEATHER, ANALYSIS)]

    def field(self, days: Sequence[Any], lat: ArrayLike, lon: ArrayLike) -> NDArray[np.float32]:
        """Return temperatures `[time, lat, lon]` in degC, rounded to hundredths, NaN on land."""
        lat, lon = np.deg2rad(np.asarray(lat, float)), np.deg2rad(np.asarray(lon, float))
        land = _land()[np.ix_(*_cells(lat, lon))]
        sst = np.empty((len(days), lat.size, lon.size), np.float32)
        for index, day in enumerate(np.asarray(days).astype("datetime64[D]").astype(int)):
            season = (
                6 * np.sin(lat) * np.cos(2 * np.pi * (day / YEAR - 0.65))
            )  # warmest in late August in the north
            total = (28 - 30 * np.sin(lat) ** 2 + season)[:, None]
            for size, k, meridional, frequency, phase in self._layers:
                along = meridional * lat[:, None] - 2 * np.pi * frequency * day + phase
                total = total + size * (np.cos(along) @ np.cos(k * lon) - np.sin(along) @ np.sin(k * lon))
            sst[index] = np.where(land, np.nan, np.rint(100 * np.maximum(total, FREEZING)) / 100)
        return sst


class Simulation(Source):
    """The simulated ocean of seed 0, on any day."""

    name = store = "simulator"
    title = "SIMULATED for tests of sstcast, seed 0: not an observation"

    def read(self, need: Need, progress: Progress) -> Iterator[Batch]:
        simulator, box = Simulator(), self.request.box
        for _, members in groupby(need, block_of):
            days = list(members)
            fields = zip(days, pack(simulator.field(days, box.lat, box.lon)), strict=True)
            yield {day: Day(field, self.name, preliminary=False) for day, field in fields}
            progress.settled(len(days))


SOURCES["simulator"] = Simulation


def _waves(
    random: np.random.Generator, scale: float, memory: float, size: float, count: int
) -> tuple[float, Array, Array, Array, Array]:
    """Return amplitude, zonal wave number `[n, 1]`, meridional wave number, frequency and phase `[n]`.

    Correlations are Gaussian over `scale` degrees and exponential over `memory` days. Zonal wave numbers are
    integers, so that the waves close around the globe.
    """
    spread = 1 / np.deg2rad(scale)
    k, meridional = np.rint(random.normal(0, spread, (count, 1))), random.normal(0, spread, count)
    frequency = random.standard_cauchy(count) / (2 * np.pi * memory)
    return size * np.sqrt(2 / count), k, meridional, frequency, random.uniform(0, 2 * np.pi, count)


def _cells(lat: Array, lon: Array) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    row = np.clip(np.floor((np.rad2deg(lat) + 90) * 4).astype(int), 0, 719)
    return row, np.floor(np.rad2deg(lon) % 360 * 4).astype(int) % 1440


@cache
def _land() -> NDArray[np.bool_]:
    """Return a mask `[720, 1440]` of the cells whose centre is on land in Natural Earth."""
    collection = json.loads(gzip.decompress(packaged("data/map/ne_50m_land.geojson.gz").read_bytes()))
    shapes: Any = shapely.from_geojson([json.dumps(feature["geometry"]) for feature in collection["features"]])
    land = shapely.multipolygons(shapely.get_parts(shapes))
    shapely.prepare(land)
    inside: NDArray[np.bool_] = shapely.contains_xy(land, *np.meshgrid((GLOBE.lon + 180) % 360 - 180, GLOBE.lat))
    return inside


def canonical_name(day: dt.date, preliminary: bool = False) -> str:
    """Return the name NOAA gives to a day's file, which is also its global attribute `id`."""
    return f"oisst-avhrr-v02r01.{day:%Y%m%d}{'_preliminary' if preliminary else ''}.nc"


def write_day(
    path: Path,
    day: dt.date,
    simulator: Simulator,
    preliminary: bool = False,
    box: tuple[slice, slice] = WHOLE_GLOBE,
) -> None:
    """Write a simulated day to `path`, with the dimensions, packing, chunks and `id` of NOAA's daily files.

    `box` holds the rows and columns of the global 720 x 1440 grid to write, for small files.
    """
    lat, lon = GLOBE.lat[box[0]], GLOBE.lon[box[1]]
    sst = simulator.field([day], lat, lon)[0].astype(float)
    cover = np.clip((-0.8 - sst) / (-0.8 - FREEZING), 0, 1)  # of sea ice
    fields = {
        "sst": sst,
        "anom": sst - 15,
        "err": 0.12 + 0.18 * cover,
        "ice": np.where(cover >= 0.15, cover, np.nan),
    }
    hundredths = {"_FillValue": np.int16(-999), "scale_factor": np.float32(0.01), "add_offset": np.float32(0)}
    dataset = xr.Dataset(
        {name: (("time", "zlev", "lat", "lon"), pack(field)[None, None]) for name, field in fields.items()},
        {
            "time": ("time", np.array([(day - EPOCH).days], np.float32)),
            "zlev": ("zlev", np.zeros(1, np.float32), {"units": "meters", "positive": "down"}),
            "lat": ("lat", lat.astype(np.float32), {"units": "degrees_north"}),
            "lon": ("lon", lon.astype(np.float32), {"units": "degrees_east"}),
        },
        {"title": f"{simulator.notice}; in the layout of OISST", "id": canonical_name(day, preliminary)},
    )
    dataset["time"].attrs["units"] = "days since 1978-01-01 12:00:00"
    for name in fields:
        dataset[name].attrs = {"long_name": f"SIMULATED {LONG_NAMES[name]}", "units": "Celsius", **hundredths}
    dataset["sst"].attrs |= {"valid_min": np.int16(-300), "valid_max": np.int16(4500)}
    chunks = (1, 1, lat.size, lon.size)
    encoding = {name: {"chunksizes": chunks, "zlib": True, "complevel": 4, "shuffle": True} for name in fields}
    with atomic(path) as partial:
        dataset.to_netcdf(partial, engine="netcdf4", unlimited_dims=["time"], encoding=encoding)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--start", type=dt.date.fromisoformat, default=dt.date(1982, 1, 1))
    parser.add_argument("--end", type=dt.date.fromisoformat, default=dt.date(1989, 12, 31))
    parser.add_argument("--region", default="pacific")
    options = parser.parse_args()
    fetch(FetchRequest(options.start, options.end, "simulator", options.region, options.out))

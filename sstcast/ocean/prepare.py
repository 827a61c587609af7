"""The verb `prepare`: a source of daily SST -> the stores a run reads.

    DIRECTORY/SOURCE-REGION/cube.zarr                          sst(time, lat, lon) in degC, ocean_fraction
    DIRECTORY/SOURCE-REGION/PROTOCOL-FROM-TO.statistics.zarr   climatology, scale of the training days
    DIRECTORY/SOURCE-REGION/PROTOCOL-FROM-TO.zarr              anomaly, climatology, scale, ocean_mask

The last two are named after the protocol and the training days. Each store carries its recipe: what it was
made of and how. If the recipe is the one asked for, days that came since are appended; otherwise the store
is made anew. Statistics are made anew only when their own recipe changes, which the days after training
are no part of.
"""

import datetime as dt
import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from sstcast import __version__
from sstcast.config import DataConfig
from sstcast.errors import SSTCastError
from sstcast.files import alone, atomic, write_zarr
from sstcast.ocean.anomalies import fit, standardise
from sstcast.ocean.cube import coarsen, cube_dataset, ocean_cells, ocean_fraction
from sstcast.ocean.gaps import gaps_filled
from sstcast.ocean.plausible import checked
from sstcast.ocean.progress import dask_progress
from sstcast.ocean.reading import open_region, source_path, states_of_days
from sstcast.ocean.tiles import tile_index, to_tiles

DAYS_PER_CHUNK = 128
LAYOUT = 2  # of the stores; part of every recipe

Say = Callable[[str], object]
Recipe = dict[str, Any]


@dataclass(frozen=True)
class Prepared:
    """The stores of a data configuration."""

    cube: Path
    statistics: Path
    anomalies: Path

    @classmethod
    def of(cls, data: DataConfig) -> "Prepared":
        """Name the stores; nothing is read or written."""
        region = data.region
        if not isinstance(region, str):
            region = "box" + hashlib.sha256(region.model_dump_json().encode()).hexdigest()[:8]
        folder = data.directory / f"{Path(data.source).stem}-{region}"
        name = "-".join(map(str, (data.protocol, *data.splits.train)))
        return cls(folder / "cube.zarr", folder / f"{name}.statistics.zarr", folder / f"{name}.zarr")

    def open(self) -> tuple[xr.Dataset, xr.Dataset]:
        """Open cube and anomalies lazily; raise SSTCastError if `prepare` has not made them."""
        for path in (self.cube, self.anomalies):
            if not path.exists():
                raise SSTCastError(f"{path}: not prepared yet; run `sstcast prepare` with the same configuration")
        return xr.open_zarr(self.cube), xr.open_zarr(self.anomalies)


@dataclass(frozen=True)
class Days:
    """The days of a source: `time [T]`, and a number a day, `state [T]`, that changes when its values do."""

    time: NDArray[np.datetime64]
    state: NDArray[np.int64]

    def digest(self, days: int | slice) -> str:
        """Return a fingerprint of the first days, or of some."""
        chosen = slice(days) if isinstance(days, int) else days
        return hashlib.sha256(self.time[chosen].tobytes() + self.state[chosen].tobytes()).hexdigest()

    def between(self, first: dt.date, last: dt.date) -> slice:
        """Return where the days from `first` to `last` are."""
        return slice(*np.searchsorted(self.time, np.array([first, last + dt.timedelta(1)], "datetime64[ns]")))


def prepare(data: DataConfig, say: Say = print) -> Prepared:
    """Bring the stores `data` asks for up to date; `say` gets a line for each.

    Runs on dask's current scheduler: threads, or a cluster whose workers see the same files. Of two processes that
    prepare the same stores one waits for the other.

    Raises SSTCastError if the source is unusable, a tile is all land, or a split holds too few days.
    """
    prepared, path, region = Prepared.of(data), source_path(data.source), data.box
    native = open_region(data)
    check_splits(data, native)
    days = Days(native["time"].values.astype("datetime64[ns]"), states_of_days(path, native))
    recipe = {
        "source": path.name,
        "read": [data.variable, data.units, data.gaps],
        "region": region.model_dump(mode="json"),
        "layout": LAYOUT,
    }
    first, last = data.splits.train
    fitted = recipe | {
        "protocol": data.protocol,
        "train": f"{first}..{last}",
        "training_days": days.digest(days.between(first, last)),
    }
    about = {
        "source": native.attrs["title"],
        "history": f"sstcast {__version__} prepare",
        "references": "Huang et al. (2021), doi:10.1175/JCLI-D-20-0166.1",
    }

    def cube() -> xr.Dataset:
        values, ocean = checked(native, path, data.gaps)
        fraction = ocean_fraction(ocean, region)
        _check_tiles(fraction, data)
        made = cube_dataset(coarsen(values, ocean, region), fraction, fraction >= region.min_ocean)
        return made.assign_attrs(about | ({"gaps_filled": gaps_filled(native)} if data.gaps else {}))

    def statistics() -> xr.Dataset:
        return fit(native, xr.open_zarr(prepared.cube)["sst"], data).assign_attrs(about)

    def anomalies() -> xr.Dataset:
        coarse, fitted = xr.open_zarr(prepared.cube)["sst"], xr.open_zarr(prepared.statistics)
        return standardise(native, coarse, ocean_cells(native), fitted, data).assign_attrs(about)

    with alone(prepared.cube.parent):
        _update(prepared.cube, recipe, days, cube, say)
        if _recipe(prepared.statistics) != fitted:
            with atomic(prepared.statistics) as temporary, dask_progress(prepared.statistics.name):
                write_zarr(statistics().assign_attrs(recipe=json.dumps(fitted)), temporary, {})
            say(f"{prepared.statistics}: statistics of {fitted['train']}")
        _update(prepared.anomalies, fitted, days, anomalies, say)
    return prepared


def check_splits(data: DataConfig, sst: xr.DataArray) -> None:
    """Raise SSTCastError if a split's days are not all in the data, or do not hold a single window."""
    first, last = (sst["time"].values[i].astype("datetime64[D]").astype(dt.date) for i in (0, -1))
    for name in ("train", "validation", "test"):
        start, stop = getattr(data.splits, name)
        if start < first or stop > last:
            raise SSTCastError(
                f"data.splits.{name}: {start}..{stop} has days outside the data ({first}..{last}); "
                "choose others or fetch more"
            )
        if (days := (stop - start).days + 1) <= data.history + data.horizon:
            needed = data.history + data.horizon + 1
            raise SSTCastError(f"data.splits.{name}: {days} days; a window needs {needed}: lengthen it")
        if name == "train" and days < 365:
            raise SSTCastError(f"data.splits.train: {days} days; a climatology needs a whole year: lengthen it")


def _check_tiles(fraction: xr.DataArray, data: DataConfig) -> None:
    tiles = to_tiles(fraction.values >= data.box.min_ocean, tile_index(data.box, fraction.shape))
    if data.box.land_tiles == "refuse" and (empty := np.flatnonzero(~tiles.any(1))).size:
        raise SSTCastError(
            f"data.region: tile {empty[0]} (from the south-west) is all land; skip it, or set land_tiles: keep"
        )


def _update(path: Path, recipe: Recipe, days: Days, make: Callable[[], xr.Dataset], say: Say) -> None:
    """Bring a store with a time axis up to date: keep its whole chunks if they still hold, write the rest."""
    done = _days_done(path, recipe, days)
    if done == len(days.time):
        say(f"{path}: nothing to do")
        return
    kept = done // DAYS_PER_CHUNK
    count = len(days.time)
    marks = {"recipe": json.dumps(recipe), "days": json.dumps([count, days.digest(count)])}
    dataset = make().assign_attrs(marks)
    with atomic(path) as temporary, dask_progress(path.name):
        write_zarr(dataset, temporary, {"time": DAYS_PER_CHUNK}, keep=(path, kept))
        new = xr.open_zarr(temporary).isel(time=slice(kept * DAYS_PER_CHUNK, None))
        _check_values(new["sst" if "sst" in new else "anomaly"], new["ocean_mask"], path)
    say(f"{path}: {len(days.time) - done} days {'appended' if done else 'written'}")


def _days_done(path: Path, recipe: Recipe, days: Days) -> int:
    """Return how many of the source's days, from the first on, the store holds as the source has them now."""
    if _recipe(path) != recipe:
        return 0
    count, digest = json.loads(xr.open_zarr(path).attrs["days"])
    return count if digest == days.digest(count) else 0


def _recipe(path: Path) -> Recipe | None:
    return json.loads(xr.open_zarr(path).attrs["recipe"]) if path.exists() else None


def _check_values(field: xr.DataArray, ocean: xr.DataArray, path: Path) -> None:
    """Refuse a field in which a cell of the mask `ocean` lacks a value on some day."""
    cells = field.notnull().sum(("lat", "lon")).compute()
    short = cells["time"].values[cells.values < int(ocean.sum())]
    if len(short):
        day = np.datetime_as_string(short[0], unit="D")
        raise SSTCastError(
            f"{path}: {len(short)} day(s) lack values at ocean cells, the first {day}; fetch them again"
        )

"""The verb `prepare`: a source of daily SST -> the stores a run reads.

    DIRECTORY/SOURCE-REGION/cube.zarr               sst(time, lat, lon) in degC, ocean_fraction
    DIRECTORY/SOURCE-REGION/PROTOCOL-FROM-TO.zarr   anomaly, climatology, scale, ocean_mask

The second is named after the protocol and the training days its statistics come from. Each store carries
the recipe it was made by as an attribute; a store whose recipe is the one asked for is kept.
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

from sstcast import __version__
from sstcast.config import DataConfig
from sstcast.errors import SSTCastError
from sstcast.files import atomic, write_zarr
from sstcast.ocean.anomalies import standardise
from sstcast.ocean.cube import (
    DAYS_PER_CHUNK,
    coarsen,
    crop,
    cube_dataset,
    ocean_fraction,
    open_sst,
    source_path,
)
from sstcast.ocean.tiles import tile_index, to_tiles


@dataclass(frozen=True)
class Prepared:
    """The two stores of a data configuration."""

    cube: Path
    anomalies: Path

    @classmethod
    def of(cls, data: DataConfig) -> "Prepared":
        """Name the stores; nothing is read or written."""
        region = data.region
        if not isinstance(region, str):
            region = "box" + hashlib.sha256(region.model_dump_json().encode()).hexdigest()[:8]
        folder = data.directory / f"{Path(data.source).stem}-{region}"
        first, last = data.splits.train
        return cls(folder / "cube.zarr", folder / f"{data.protocol}-{first}-{last}.zarr")

    def open(self) -> tuple[xr.Dataset, xr.Dataset]:
        """Open cube and anomalies lazily; raise SSTCastError if `prepare` has not made them."""
        for path in (self.cube, self.anomalies):
            if not path.exists():
                raise SSTCastError(f"{path}: not prepared yet; run `sstcast prepare` with the same configuration")
        return xr.open_zarr(self.cube), xr.open_zarr(self.anomalies)


def prepare(data: DataConfig, say: Callable[[str], object] = print) -> Prepared:
    """Make the stores `data` asks for that are not there yet; `say` gets a line for each.

    Raises SSTCastError if the source is unusable, a tile is all land, or a split holds too few days.
    """
    prepared = Prepared.of(data)
    path = source_path(data.source)
    native = crop(open_sst(path), data.box, path)
    check_splits(data, native)
    cube_recipe = {
        "source": path.name,
        "modified": path.stat().st_mtime_ns,
        "region": data.box.model_dump(mode="json"),
        "days": [str(native["time"].values[i])[:10] for i in (0, -1)],
        "version": 1,
    }
    anomaly_recipe = {**cube_recipe, "protocol": data.protocol, "train": [str(d) for d in data.splits.train]}

    if _up_to_date(prepared.cube, cube_recipe):
        say(f"{prepared.cube}: nothing to do")
    else:
        fraction = ocean_fraction(native, data.box)
        _check_tiles(fraction, data)
        cube = cube_dataset(coarsen(native, fraction, data.box), fraction, _provenance(path))
        _write(cube, prepared.cube, cube_recipe)
        say(f"{prepared.cube}: {cube.sizes['time']} days of {cube.sizes['lat']} x {cube.sizes['lon']} cells")
    if _up_to_date(prepared.anomalies, anomaly_recipe):
        say(f"{prepared.anomalies}: nothing to do")
    else:
        cube = xr.open_zarr(prepared.cube)
        anomalies = standardise(native, cube["sst"], cube["ocean_fraction"].compute(), data)
        anomalies.attrs = {
            "Conventions": "CF-1.11",
            "title": "Standardised SST anomalies",
            **_provenance(path),
        }
        _write(anomalies, prepared.anomalies, anomaly_recipe)
        say(f"{prepared.anomalies}: {data.protocol} anomalies")
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


def _check_tiles(fraction: xr.DataArray, data: DataConfig) -> None:
    tiles = to_tiles(fraction.values >= data.box.min_ocean, tile_index(data.box, fraction.shape))
    for number, tile in enumerate(tiles):
        if not tile.any():
            raise SSTCastError(f"data.region: tile {number} (from the south-west) is all land; add it to skip")


def _up_to_date(path: Path, recipe: dict[str, Any]) -> bool:
    return path.exists() and xr.open_zarr(path).attrs.get("recipe") == json.dumps(recipe)


def _write(dataset: xr.Dataset, path: Path, recipe: dict[str, Any]) -> None:
    dataset = dataset.assign_attrs(recipe=json.dumps(recipe))
    with atomic(path) as temporary:
        write_zarr(dataset, temporary, {"time": DAYS_PER_CHUNK})
        _check_values(xr.open_zarr(temporary), path)


def _check_values(dataset: xr.Dataset, path: Path) -> None:
    """Refuse a store in which an ocean cell lacks a value on some day."""
    field = dataset["sst"] if "sst" in dataset else dataset["anomaly"]
    cells = field.notnull().sum(("lat", "lon")).compute()
    short = cells["time"].values[cells.values < cells.values.max()]
    if len(short):
        day = np.datetime_as_string(short[0], unit="D")
        raise SSTCastError(
            f"{path}: {len(short)} day(s) lack values at ocean cells, the first {day}; fetch them again"
        )


def _provenance(path: Path) -> dict[str, Any]:
    now = dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        "source": f"NOAA Daily OISST as read from {path.name}",
        "history": f"{now} sstcast {__version__} prepare",
        "references": "Huang et al. (2021), doi:10.1175/JCLI-D-20-0166.1",
    }

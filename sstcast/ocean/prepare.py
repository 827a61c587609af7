"""The command `prepare`: converts a source of daily SST to the stores that a run reads.

    DIRECTORY/SOURCE-REGION/cube.zarr                          sst(time, lat, lon) in degC, ocean_fraction
    DIRECTORY/SOURCE-REGION/ocean.nc                           ocean(row, column) of a source on no axes
    DIRECTORY/SOURCE-REGION/PROTOCOL-FROM-TO.statistics.zarr   climatology, scale of the base period
    DIRECTORY/SOURCE-REGION/PROTOCOL-FROM-TO.zarr              anomaly, climatology, scale, ocean_mask

SOURCE is the source's name and a hash of its full path, so that files with the same name do not share stores. The
last two stores are named after the protocol and the base period (by default the training period). A store is made
again if its recipe has changed or it cannot be opened. The recipe of the cube contains the state of the source's
files, the recipe of the statistics a digest of the base period, and the recipe of the anomalies a digest of all
days. So new days after the base period do not change the statistics.
"""

import datetime as dt
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from sstcast._version import __version__
from sstcast.config import DataConfig
from sstcast.errors import SSTCastError, counted
from sstcast.log import LOG
from sstcast.ocean.anomalies import fit_statistics, standardise
from sstcast.ocean.filled_days import MOST_FILLED, left_out
from sstcast.ocean.prepared import SOURCE_DIGEST, STATES, Prepared, agrees_with_source
from sstcast.ocean.splits import check_splits
from sstcast.ocean.tiles import tile_index, to_tiles
from sstcast.predictors.predictors import prepare_predictors
from sstcast.progress import dask_progress
from sstcast.reading.daily_field import source_of
from sstcast.reading.digests import digest_of, digests
from sstcast.reading.gaps import CUT, GAP_COUNTS, gaps_filled
from sstcast.reading.grid import coarsen, ocean_cells, ocean_fraction
from sstcast.reading.plausible import checked
from sstcast.reading.reading import OCEAN, SHARE, open_region
from sstcast.reading.remote_stores import fingerprint
from sstcast.storage.artefacts import (
    as_text,
    clear_leftovers,
    is_up_to_date,
    locked,
    note_source,
    read_recipe,
)
from sstcast.storage.cf import describe, references
from sstcast.storage.dataset_files import write
from sstcast.storage.memory import trim

DAYS_PER_CHUNK = 128

Recipe = dict[str, Any]


def prepare(data: DataConfig) -> Prepared:
    """Bring the stores of a data configuration up to date. Logs each store written.

    The source is not opened if its files have not changed. Computation runs on dask's current scheduler, threads
    or a cluster whose workers see the same files. If two processes prepare the same stores, one waits for the
    other.

    Raises SSTCastError if the source is unusable, a tile is all land, or a split has too few days.
    """
    prepared = Prepared.of(data)
    with locked(prepared.cube.parent):
        for store in (prepared.cube, prepared.statistics, prepared.anomalies):
            clear_leftovers(store)
        with closing(_Preparation(prepared)) as work:
            return replace(prepared, written=work.run())


def update_predictors(prepared: Prepared) -> Prepared:
    """Bring only the stores of the predictors up to date, so that a forecast reads the newest values.

    Returns the stores. Those with predictors are to be opened anew.
    """
    if not prepared.data.predictors:
        return prepared
    with locked(prepared.cube.parent):
        latest = replace(prepared)  # another process may have brought them up to date
        prepare_predictors(latest.predictors, prepared.open_cube())
    return replace(prepared)


def days_of_source(data: DataConfig) -> tuple[dt.date, dt.date]:
    """Return the first and last day of a source. Raises SSTCastError if it cannot be read."""
    with closing(_Preparation(Prepared.of(data))) as work:
        days = work.days
    first, last = days[[0, -1]].astype("datetime64[D]").tolist()
    return first, last


class _Preparation:
    """The work of one call of `prepare`. It opens the source only if necessary."""

    def __init__(self, prepared: Prepared) -> None:
        self.data, self.prepared = prepared.data, prepared
        self.path, self.region = self.data.path, self.data.box
        field = self.field = source_of(self.data.source)
        self.changes = field.changes()  # before the source is read
        self.states = field.states(self.data)
        files = field.state() if self.states is None else fingerprint(self.states)
        if field.needs_python and not field.exists() and (old_recipe := read_recipe(prepared.cube)):
            files = old_recipe.get("files")  # the stores stand for an absent object
        self.of_cube: Recipe = prepared.recipe_of_cube | {"files": files}

    @cached_property
    def source(self) -> xr.DataArray:
        """The region's days in the source."""
        return open_region(self.data, find_ocean=not self._is_current)

    @cached_property
    def cube(self) -> xr.Dataset:
        """The cube, once it is up to date."""
        return self.prepared.open_cube()

    @property
    def native(self) -> xr.DataArray:
        """The source without the counts of filled cells."""
        return self.source.drop_vars(GAP_COUNTS, errors="ignore")

    def close(self) -> None:
        if "source" in vars(self):
            self.source.close()

    @property
    def days(self) -> NDArray[np.datetime64]:
        """The days of the source, read from the cube if the source has not changed."""
        held = self.cube if self._is_current else self.source
        days: NDArray[np.datetime64] = held["time"].values
        return days

    @cached_property
    def _is_current(self) -> bool:
        """Whether the cube holds the days of the source."""
        absent = not self.field.exists()
        return is_up_to_date(self.prepared.cube, self.of_cube) and (absent or agrees_with_source(self.prepared))

    def run(self) -> bool:
        """Bring all stores up to date. Returns whether any was written."""
        self._check_splits()
        if any_written := not self._is_current:
            if (ocean := self.source.attrs.get("ocean")) is not None:
                kept = ocean.astype("int8").to_dataset(name="ocean").assign_attrs(recipe=as_text(self.of_cube))
                write(kept, self.prepared.cube.with_name(OCEAN))
            self._write(self.prepared.cube, self.of_cube, self._cube)
            note_source(self.prepared.cube, self.changes)
            self.prepared = replace(self.prepared)  # the earlier cube may have been opened, to compare it
            if count := left_out(self.prepared):
                LOG.info(
                    f"{self.prepared.cube}: {counted(count, 'initial date')} of the test days will not be scored, "
                    f"because more than {MOST_FILLED:.1%} of the sea was filled"
                )
        made, is_written = self.prepared, self._update
        any_written |= is_written(made.statistics, made.recipe_of_statistics, self._statistics)
        any_written |= is_written(made.anomalies, made.recipe_of_anomalies, self._anomalies)
        return prepare_predictors(self.prepared.predictors, self.cube) or any_written

    def _check_splits(self) -> None:
        """Raise SSTCastError like `check_splits`, and name the gap that ends the record before a split does."""
        days = self.days
        try:
            check_splits(self.data, days)
        except SSTCastError as error:
            last = days[-1].astype("datetime64[D]")
            is_beyond = self.data.splits.whole[1] > last and self.field.exists()
            if not is_beyond or not (cut := self.source.attrs.get(CUT)):
                raise
            remedy = "add them, or fill them with a higher data.gaps"
            raise SSTCastError(
                f"{self.path}: its record ends on {last}, because {cut}; {remedy}: {error}"
            ) from error

    def _cube(self) -> xr.Dataset:
        values, ocean = checked(self.native, self.path, self.data.gaps)
        mask = ocean_fraction(ocean, self.region) >= self.region.min_ocean
        _check_tiles(mask, self.data)
        share = self.source.attrs.get(SHARE, ocean)  # of sea in the cells, which `data.grid` may have averaged
        fraction = ocean_fraction(ocean.copy(data=share.values), self.region)
        sst = coarsen(values, ocean, self.region).astype("float32")
        cube = xr.Dataset(
            {"sst": sst, "ocean_fraction": fraction, "ocean_mask": mask, "digest": digests(sst)},
            attrs={"title": "Daily sea surface temperature"},
        )
        if self.region.coarsen > 1:
            cube[SOURCE_DIGEST] = digests(values)
        if self.states is not None:
            cube[STATES] = self.states.reindex(time=sst["time"], fill_value=0)
        if self.data.gaps:
            cube.attrs["gaps_filled"] = gaps_filled(self.source)
        return cube

    def _statistics(self) -> xr.Dataset:
        statistics = fit_statistics(self.native, self.cube["sst"], self.data)
        n = self.region.coarsen if self.data.protocol == "physical" else 1
        axes = {axis: (axis, self.source[axis].coarsen({axis: n}).mean().values) for axis in ("lat", "lon")}
        return statistics.assign_attrs(
            title="Climatology and scale of daily sea surface temperature",
            digest=digest_of(statistics.assign_coords(axes)),  # of the values before they are `rounded`
        )

    def _anomalies(self) -> xr.Dataset:
        statistics = self.prepared.open_statistics()
        anomalies = standardise(self.native, self.cube["sst"], ocean_cells(self.native), statistics, self.data)
        return anomalies.assign_attrs(title="Standardised anomalies of daily sea surface temperature")

    def _update(self, path: Path, recipe: Recipe, make: Callable[[], xr.Dataset]) -> bool:
        """Write a store unless it exists with the same recipe. Returns whether it was written."""
        if is_up_to_date(path, recipe):
            return False
        self._write(path, recipe, make)
        return True

    def _write(self, path: Path, recipe: Recipe, make: Callable[[], xr.Dataset]) -> None:
        """Write a store."""
        with dask_progress(f"preparing {path.name}"):
            dataset, source = make(), str(self.source.attrs["title"])
        dataset = describe(
            dataset,
            summary=f"{dataset.attrs['title']}, made from {source}; NaN on land",
            source=source,
            history=f"sstcast {__version__} prepare",
            recipe=as_text(recipe),
            **references(source, recipe.get("protocol", "")),
        )
        write(dataset, path, chunks={"time": DAYS_PER_CHUNK})
        trim(0)
        days = dataset.sizes.get("time")
        content = f"{counted(days, 'day')} written" if days else f"statistics of {recipe['train']}"
        LOG.info(f"{path}: {content}")


def _check_tiles(mask: xr.DataArray, data: DataConfig) -> None:
    tiles = to_tiles(mask.values, tile_index(data.box, mask.shape))
    if not tiles.any():
        raise SSTCastError(f"data.region: no ocean in {data.place}; choose another")
    if data.box.land_tiles == "refuse" and (empty := np.flatnonzero(~tiles.any(1))).size:
        raise SSTCastError(
            f"data.region: tile {empty[0]} (from the south-west) is all land; skip it, or set land_tiles: keep"
        )

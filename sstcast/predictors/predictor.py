"""A predictor of a run: its stores, and what is known of it on a day.

What differs between an index, a grid, a forecast and a static field is a `Kind`. Each question about a predictor
is one about *places*: which values of its store a day reads.

    predictor-NAME-HASH.zarr                             value(time, ...), of forecasts (init_time, lead, ...), NaN
                                                         on land; digest, cells with values, extremes of the source
    predictor-NAME-HASH.FROM-TO-DELAY.statistics.zarr    terms(term, ...) of the climatology, deviation

The second store is of the base period. It is made from the values that are known at its end.
"""

import datetime as dt
import hashlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal
from uuid import uuid4

import dask.array as da
import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from sstcast._version import __version__
from sstcast.config import DataConfig
from sstcast.errors import SSTCastError, counted, reading, reworded
from sstcast.log import LOG, warn_once
from sstcast.names import DAY
from sstcast.predictors.newest import Days, Places, newest_known, valid_days
from sstcast.predictors.values import (
    FIELD_FACTOR,
    Extremes,
    Limits,
    check_values,
    counted_cells,
    extremes,
    extremes_of,
    limits,
    stored_values,
)
from sstcast.reading.daily_field import identified, short_hash, source_of_days
from sstcast.reading.digests import digest_of, digest_of_days
from sstcast.reading.remote_stores import Unreachable, fingerprint
from sstcast.storage.artefacts import (
    as_text,
    check_recipe,
    clear_leftovers,
    is_up_to_date,
    note_source,
    noted_source,
    open_intact,
    read_recipe,
)
from sstcast.storage.cf import describe, rounded
from sstcast.storage.dataset_files import write
from sstcast.storage.memory import trim
from sstcast.storage.scratch import parts
from sstcast.storage.stores import ARRAYS, open_written

LAYOUT = 3
REMEDY = "run `sstcast prepare` with the run's config.yaml"
EXTREMES = "extremes"  # variable of a store: those of the source on the cells that the run reads
DRAWN, DRAWN_BLOCKS = 1_000_000, 8  # values of the base period that tell what is plausible, and parts of it
LOOKED_BACK = 365  # newest values among which the last one that is known is looked for, for a message

AHEAD = "ahead"  # dimension of what is known of a forecast: the days after the initial date
VALUES_AT_ONCE = 2**21  # read in a block

Opened = AbstractContextManager[tuple[xr.DataArray, xr.DataArray]]
Shares = dict[str, NDArray[np.float64]]


@dataclass(frozen=True)
class Kind:
    """What is particular to a kind of predictors.

    Attributes:
        entry: what a store has one of on the first axis of its values, in words.
        dims: the dimensions of what is known.
        read: opens the source of a predictor, or given values, for the `cells` of a run. It yields the values as
            they are stored, on those cells, NaN on land, with the attribute `units`, and those of the source that
            are read, on its own cells.
        places: returns the places of the values that each of `days` reads, `[day, value]` on each axis of the
            values but latitude and longitude, -1 for a value that is not there.
        basis: the functions of the climatology on each day, `[day, term]`.
        fit: returns the `terms` of the climatology and the `deviation` of the values of the base period. Raises
            SSTCastError if there are too few.
        of_day: turns standardised values `[day, value, ...]` into what is known, `[day, ...]`.
        reads: whether the days that are read are past ones or those ahead, "" if values are not of days.
        factor: that of the `limits` of plausible values.
        chunk: entries in a chunk of the store.
    """

    entry: str
    dims: tuple[str, ...]
    read: Callable[["Predictor", xr.Dataset, Any], Opened]
    places: Callable[["Predictor", xr.DataArray, Days], Places]
    basis: Callable[[Days], NDArray[np.float64]]
    fit: Callable[["Predictor", xr.DataArray], xr.Dataset]
    of_day: Callable[[NDArray[np.float32]], NDArray[np.float32]]
    reads: Literal["past", "ahead", ""] = ""
    factor: float = FIELD_FACTOR
    chunk: int = 128


class Predictor:
    """A predictor of a run, and its stores in the folder of the run's cube.

    Attributes:
        name: its name in `data.predictors`.
        config: how it is read, and when its values are known.
        kind: what is particular to its kind.
        path: the store of the values. Its name tells source and keys apart.
        field: where its values come from.
    """

    def __init__(self, name: str, kind: Kind, data: DataConfig, folder: Path) -> None:
        self.name, self.kind, self.config, self.data = name, kind, data.predictors[name], data
        self.field = source_of_days(self.config)
        try:
            reading = identified(self.config)
        except SSTCastError as error:
            raise SSTCastError(f"{self.key}.region: {error}") from None
        self.path = folder / f"predictor-{name}-{short_hash(as_text(reading))}.zarr"

    @property
    def key(self) -> str:
        """Its key in the configuration."""
        return f"data.predictors.{self.name}"

    @property
    def statistics(self) -> Path:
        """The store of the climatology and scale of the base period."""
        first, last = self.data.splits.base
        return self.path.with_name(f"{self.path.stem}.{first}-{last}-{self.config.delay}.statistics.zarr")

    @property
    def stores(self) -> list[Path]:
        """All stores of the predictor."""
        return [self.path, self.statistics]

    @property
    def units(self) -> str:
        """The units of the values in the store, "" if they are not known."""
        return str(self.open().attrs["units"])

    def open(self) -> xr.Dataset:
        """Open the store, once until it is written.

        Raises SSTCastError if it is absent, damaged or not what was written.
        """
        return self._opened

    @cached_property
    def _opened(self) -> xr.Dataset:
        opened = open_intact(self.path, REMEDY, {"layout": LAYOUT})
        arrays = {name: opened.encoding[ARRAYS][name] for name in ("digest", "cells") if name in opened}
        with reading(self.path, REMEDY):  # at once, as dask takes ten times as long for their many small chunks
            loaded = {name: opened[name].copy(data=array[:]) for name, array in arrays.items()}
        store = rounded(opened.assign(loaded))
        store["value"].attrs |= {key: store.attrs[key] for key in ("units", "every") if key in store.attrs}
        return self._with_values(store)

    def _with_values(self, dataset: xr.Dataset) -> xr.Dataset:
        """Return values and counts of their known cells without issues that have none, which hide older ones."""
        if self.kind.entry != "issue":
            return dataset
        has_values = dataset["cells"].any("lead").values
        if has_values.all() or not has_values.any():  # choosing among many chunks takes a while
            return dataset
        return dataset.isel(init_time=has_values)

    def open_statistics(self) -> xr.Dataset:
        """Open the climatology and scale, like `open`."""
        return self._opened_statistics

    @cached_property
    def _opened_statistics(self) -> xr.Dataset:
        return rounded(open_intact(self.statistics, REMEDY, {"layout": LAYOUT})).load()

    @contextmanager
    def reading(self, cells: xr.Dataset, given: Any = None) -> Iterator[tuple[xr.DataArray, xr.DataArray]]:
        """Open the source, or what Python gives instead (see `Kind.read`).

        Messages name the keys of the predictor instead of those of SST.
        """
        in_its_keys = reworded(r"(\bdata\.|--)(variable|units|source)\b", rf"{self.key}.\2")
        with in_its_keys, self.kind.read(self, cells, given) as opened:
            yield opened

    def prepare(self, cube: xr.Dataset) -> bool:
        """Bring the stores up to date with the source, for the cells and days of a cube. Returns whether any was
        written, and logs it.

        Raises SSTCastError if the source cannot be read or does not serve.
        """
        recipe = self.recipe(cube) | {"files": self.source_state(cube)}
        clear_leftovers(self.path)
        absent = self.field.needs_python and not self.field.exists() and self.path.exists()
        times, is_new = self.field.changes(), False
        if not absent and not (is_up_to_date(self.path, recipe) and self._agrees()):
            self._write(cube, recipe)
            note_source(self.path, times)
            is_new = True
        if not is_up_to_date(self.statistics, self._recipe_of_statistics):
            values = self.open()["value"]
            statistics = self.kind.fit(self, values[self._base(values)])
            statistics = statistics.assign_attrs(digest=digest_of(statistics))
            self.save(statistics, self.statistics, self._recipe_of_statistics, {})
            is_new = True
        if is_new:
            self._tell(cube["time"].values)
        return is_new

    def recipe(self, cube: xr.Dataset) -> dict[str, Any]:
        """Return what the store is made from besides the source, which its name tells: the cells of a cube."""
        return {"layout": LAYOUT, "cells": digest_of(cube[["ocean_mask"]])}

    @property
    def _recipe_of_statistics(self) -> dict[str, Any]:
        store = self.open()
        return {"layout": LAYOUT, "days": self._digest(store, self._base(store["value"]))}

    def check_current(self, cube: xr.Dataset) -> None:
        """Raise Outdated unless the store was made for the cells of a cube, and the statistics from the store.

        Raises SSTCastError also if one of them is damaged.
        """
        remedy = f"{REMEDY}, which reads {self.config.source}"
        check_recipe(self.path, self.open(), self.recipe(cube), remedy)
        check_recipe(self.statistics, self.open_statistics(), self._recipe_of_statistics, remedy)

    def _base(self, values: xr.DataArray) -> slice:
        """Return the values on the first axis that are of the base period and known at its end."""
        if self.config.kind == "static":
            return slice(None)
        ends, base = values[values.dims[0]].values, np.array(self.data.splits.base, "datetime64[ns]")
        return slice(
            int(np.searchsorted(ends, base[0])), int(newest_known(ends, base[1:], self.config.delay)[0]) + 1
        )

    def _write(self, cube: xr.Dataset, recipe: dict[str, Any]) -> None:
        """Make the store from the source, unless it holds implausible values."""
        with self.reading(cube) as (values, source):
            dataset = stored_values(values).assign(
                {"ocean_mask": cube["ocean_mask"], EXTREMES: extremes_of(source).reset_coords(drop=True)}
            )

            def check(written: Path) -> None:
                store = open_written(written, REMEDY)
                self.check(source, store[EXTREMES].values, self._plausible(store), self.config.path)

            self.save(dataset, self.path, recipe, {str(values.dims[0]): self.kind.chunk}, check)
            trim(0)
            count, method = counted(len(values), self.kind.entry), values.attrs.get("method", "")
            LOG.info(f"{self.path}: {count} of {self.name} written{f'; {method}' if method else ''}")

    def _tell(self, days: Days) -> None:
        """Log how little is known on some days."""
        share = self._shares(days)
        is_known = share.any(1)
        if (share < 1).any():
            partly = 1 - share[is_known].mean() if is_known.any() else 0
            told = f"is not known on {(~is_known).sum()} of {len(days)} days, and on the others in {partly:.2%} of"
            LOG.info(f"{self.path}: {self.name} {told} what they read; its climatology is read there")

    def check(
        self, source: xr.DataArray, found: Extremes, plausible: Limits, where: object, more: Any = ()
    ) -> None:
        """Check the values of a source (see `check_values`), unless all are kept."""
        if self.config.implausible == "error":
            check_values(source, found, plausible, f"{where}", self.key, more)

    def _plausible(self, store: xr.Dataset) -> Limits:
        """Return the limits of plausible values, from a fixed draw of a million values of the base period."""
        values, random = store["value"][self._base(store["value"])], np.random.default_rng(0)
        blocks = list(parts(values)) if values.size else []
        drawn = blocks[:: max(1, len(blocks) // DRAWN_BLOCKS)]
        draws = [random.permutation(values[block].values.ravel())[: DRAWN // len(drawn)] for block in drawn]
        return limits(np.concatenate([[], *draws]), self.kind.factor)

    def _agrees(self) -> bool:
        """Return whether the store holds the values of a source whose files have the size and time that it tells.

        Only if they have changed since, as in a copy, is the source read.
        """
        times = self.field.changes()
        if times == noted_source(self.path)[0] or not self.field.exists():
            return True
        if self.compare(whole=True) != (self.units, True):
            return False
        note_source(self.path, times)
        return True

    def source_state(self, cells: xr.Dataset) -> str:
        """Return a fingerprint of the source's files, or of the chunks at a URL that hold what is read.

        Of another URL, it only tells whether the store has grown.
        """
        is_daily = self.config.kind == "grid" or self.config.perfect
        states = self.field.states(self.config, cells) if is_daily else None
        return self.field.state() if states is None else fingerprint(states)

    def known(self, days: Days, given: xr.DataArray | None = None) -> xr.DataArray:
        """Return what is known on each of `days`, `(time, ...)`, lazily, from the store or the `given` values.

        These are standardised departures from the climatology of the base period, NaN where nothing is known.
        """
        values, statistics = self._values(given), self.open_statistics()
        return known(self.kind, values, self.kind.places(self, values, days), statistics, days)

    def _values(self, given: xr.DataArray | None) -> xr.DataArray:
        return self.open()["value"] if given is None else given

    def digest(self, first: dt.date, last: dt.date) -> str:
        """Hash the units and all that the days from `first` to `last` know."""
        store = self.open()
        known, statistics = self._digest(store, self._read_on(store, first, last)), self.open_statistics()
        text = f"{self.units}\n{known}\n{statistics.attrs['digest']}"
        return hashlib.sha256(text.encode()).hexdigest()

    def _read_on(self, store: xr.Dataset, first: dt.date, last: dt.date) -> NDArray[np.intp]:
        """Return which values on the first axis the days from `first` to `last` read."""
        days = pd.date_range(first, last).as_unit("ns").values
        places = np.unique(self.kind.places(self, store["value"], days)[0])
        return places[places >= 0]

    def _digest(self, store: xr.Dataset, which: Any) -> str:
        """Hash the values at places on the first axis, and the leads unless these are 1, 2, ..., as mostly."""
        axis = store["value"].dims[0]
        text = digest_of_days(store[["digest"]].isel({axis: which}).rename({axis: "time"}))
        leads = store["lead"].values.tolist() if "lead" in store else []
        if leads != [*range(1, len(leads) + 1)]:
            text = hashlib.sha256(f"{text}\n{leads}".encode()).hexdigest()
        return text

    def compare(self, whole: bool = False) -> tuple[str, bool]:
        """Return the units of the source now, and whether the days of the splits know the same from it.

        With `whole`, compare all values instead.
        """
        store = self.open()
        with self.reading(store) as (values, _):
            both = [store, self._with_values(stored_values(values))]
            days = [slice(None) if whole else self._read_on(one, *self.data.splits.whole) for one in both]
            then, now = map(self._digest, both, days)
            return str(values.attrs["units"]), then == now

    def _shares(self, days: Days, given: xr.DataArray | None = None) -> NDArray[np.float64]:
        """Return the known share of each value that a day reads, `[day, value]`, or of all that it reads."""
        values = self._values(given)
        if values.ndim == 1:
            return self.known(days, given).notnull().all("summary").values[:, None].astype(float)
        counts = self._counts(given)
        first, *others = self.kind.places(self, counts, days)
        used, position = np.unique(first, return_inverse=True)
        of_used = counts[used].values[(position.reshape(first.shape), *others)]
        return np.where(first >= 0, of_used, 0) / max(1, int(self.open()["ocean_mask"].sum()))

    def _counts(self, given: xr.DataArray | None) -> xr.DataArray:
        """Return how many cells have each value."""
        return self.open()["cells"] if given is None else counted_cells(given)

    def coverage(self, days: Days, read: int, given: xr.DataArray | None = None) -> Shares:
        """Return which shares are known on each of consecutive `days`, by what they are shares of.

        The days of which a forecast reads values are the last `read` up to its initial date.
        """
        if self.kind.reads == "ahead":
            return {"the sea on the days ahead": self._shares(days, given).mean(1)}
        if not self.kind.reads:
            return {}
        share = self._shares(np.concatenate([days[0] - np.arange(read - 1, 0, -1) * DAY, days]), given)[:, 0]
        whole = np.convolve(share, np.ones(read) / read, "valid")
        return {"the sea on the newest day": share[read - 1 :], "the sea on the days that are read": whole}

    def missing(self, day: np.datetime64, given: xr.DataArray | None = None) -> str:
        """Return what is not known at all on a day, as the end of a sentence, or "" if something is."""
        if self._shares(np.array([day]), given).any():
            return ""
        if self.kind.reads == "ahead":
            entry = "issue with days" if self.kind.entry == "issue" else "day"
            return f"has no {entry} after {np.datetime_as_string(day, unit='D')}"
        values, counts, newest = self._values(given), self._counts(given), day - self.config.delay * DAY
        ends, last = counts[counts.dims[0]].values, np.datetime_as_string(newest, unit="D")
        if values.ndim == 1 and self.kind.places(self, values, np.array([day]))[0][0, 0] >= 0:
            return f"has too few values up to {last}"
        stop = int(newest_known(ends, np.array([day]), self.config.delay)[0]) + 1
        begin = max(0, stop - LOOKED_BACK)
        known = np.flatnonzero(counts[begin:stop].values) + begin
        first = np.datetime_as_string(min(ends[known[-1]] + DAY, newest) if known.size else newest, unit="D")
        return f"has no values for {first}{'' if first == last else f'..{last}'}"

    def given(self, values: Any) -> xr.DataArray:
        """Convert values that Python gives, and add those of the store on other days.

        Raises SSTCastError if they are of another type, or in other units than the store, if both are known.
        """
        store, where = self.open(), f"predictors: {self.name}"
        with self.reading(store, values) as (field, source):
            if (units := str(field.attrs["units"])) and self.units and units != self.units:
                raise SSTCastError(f"{where} is in {units!r}, but the run reads {self.units!r}; convert it")
            found = extremes(source.load().values)
            self.check(source, found, self._plausible(store), where, store[EXTREMES].values)
            field = field.load().assign_coords(
                {axis: store[axis] for axis in ("lat", "lon") if axis in field.dims}
            )
            field = self._with_values(xr.Dataset({"value": field, "cells": counted_cells(field)}))["value"]
            axis, stored = str(field.dims[0]), store["value"]
            others = stored.isel({axis: ~stored[axis].isin(field[axis]).values})
            joined = xr.concat([others, field], axis, join="outer").sortby(axis) if others.size else field
            return joined.assign_attrs(stored.attrs)

    def changed(self) -> str:
        """Return how the source differs from the store, as a sentence, or "" if it does not.

        It is read only if its files have changed. If it is gone, it does not count as changed.
        """
        made, path = read_recipe(self.path) or {}, self.config.path
        try:
            is_same = self.field.exists() and made.get("files") == self.source_state(self.open())
            if not self.field.exists() or (is_same and self._agrees()):
                return ""
            units, is_same = self.compare()
        except Unreachable as error:
            warn_once(f"{error}; not compared with {self.path}")
            return ""
        if units != self.units:
            return f"{path}: the predictor {self.name} is in {units!r} now, but its store in {self.units!r}"
        told = f"{path}: tells other values of the predictor {self.name} on the days of the splits"
        return "" if is_same else f"{told} than when its store was made"

    def save(
        self,
        dataset: xr.Dataset,
        path: Path,
        recipe: dict[str, Any],
        chunks: dict[str, int],
        check: Callable[[Path], None] | None = None,
    ) -> None:
        """Write a store of the predictor, unless `check` raises an error for what was written."""
        dataset = describe(
            dataset,
            title=f"A predictor besides SST: {self.config.kind} from {Path(self.config.source).name}",
            history=f"sstcast {__version__} prepare",
            recipe=as_text(recipe),
            **{name: str(text) for name, text in dataset.attrs.items()},
        )
        write(dataset, path, chunks=chunks, check=check)
        for opened in ("_opened", "_opened_statistics"):
            vars(self).pop(opened, None)


def known(kind: Kind, values: xr.DataArray, places: Places, statistics: xr.Dataset, days: Days) -> xr.DataArray:
    """Return what is known on each of `days`, `(time, ...)`, lazily, from the values at its `places`.

    Args:
        kind: the kind of the predictor.
        values: those of its store.
        places: see `Kind.places`.
        statistics: the `terms` of the climatology, and the `deviation` that divides departures from it.
        days: the days.
    """
    terms, deviation = statistics["terms"].values, float(statistics["deviation"])
    space, valid = values.shape[len(places) :], valid_days(values)

    def gather(numbers: NDArray[np.intp]) -> NDArray[np.float32]:
        at = tuple(place[numbers] for place in places)
        is_known = at[0] >= 0
        result = np.full((*is_known.shape, *space), np.nan, np.float32)
        if is_known.any():
            first, *others = (place[is_known] for place in at)
            begin = first.min()
            block = values[begin : first.max() + 1].values[(first - begin, *others)]
            climatology = np.tensordot(kind.basis(valid[(first, *others)]), terms, 1)
            result[is_known] = (block - climatology) / deviation
        return kind.of_day(result)

    count = places[0].shape[1]
    shape = kind.of_day(np.zeros((1, count, *space), np.float32)).shape[1:]
    numbers = da.arange(len(days), chunks=max(1, VALUES_AT_ONCE // (count * int(np.prod(space)))))
    data = numbers.map_blocks(
        gather,
        new_axis=[*range(1, len(kind.dims))],
        chunks=(numbers.chunks[0], *shape),
        dtype=np.float32,
        meta=np.empty((0,) * len(kind.dims), np.float32),
        name=f"known-{uuid4()}",  # without a name, dask would hash all that the function refers to
    )
    coordinates = {"time": days} | {axis: values[axis] for axis in ("lat", "lon") if axis in kind.dims}
    if AHEAD in kind.dims:
        coordinates[AHEAD] = np.arange(1, count + 1)
    return xr.DataArray(data, coordinates, kind.dims)

"""The prepared stores, and checks that a run's data have not changed.

File names do not identify data, because two files may have the same name and a file may change in place. The
recipe of a cube therefore contains the state of the source's files (`artefacts.fingerprint`), and the cube a
*digest* of each day, a hash of its values in degC. A run records the digests of its days and statistics. It
accepts new days, and changes outside its splits. Any other change is an error.
"""

import datetime as dt
import json
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import xarray as xr
from numpy.typing import NDArray
from pydantic import Field

from sstcast.config import DataConfig
from sstcast.errors import Outdated, SSTCastError, counted, reading
from sstcast.log import LOG, warn_once
from sstcast.predictors.predictor import Predictor
from sstcast.predictors.predictors import (
    changed_predictors,
    digests_of_predictors,
    stored_predictors,
    with_predictors,
)
from sstcast.reading.daily_field import source_of
from sstcast.reading.digests import digest_of_days, digests
from sstcast.reading.gaps import CUT
from sstcast.reading.grid import coarsen, ocean_cells
from sstcast.reading.reading import folder_of, open_region, source_name
from sstcast.reading.remote_stores import Unreachable, fingerprint
from sstcast.storage.artefacts import note_source, noted_source, open_intact, read_recipe
from sstcast.storage.cf import rounded
from sstcast.storage.dataset_files import cached
from sstcast.storage.scratch import in_scratch
from sstcast.storage.yaml_files import JsonRecord

LAYOUT = 9  # version of the stores' layout, part of every recipe
RECHECKED = np.timedelta64(60, "D")  # days that are read again if a remote store has changed at all
REMEDY = "run `sstcast prepare` with the run's config.yaml"
RENAMING_SECONDS = 0.1  # in which another process that prepares a store puts it in the place of the old one
SOURCE_DIGEST = "source_digest"  # variable of a cube that averages cells: digests of the days on those cells
DIGESTS = ("digest", SOURCE_DIGEST)
STATES = "source_state"  # variable of a cube that was made from a URL
T = TypeVar("T")


@dataclass(frozen=True)
class Prepared:
    """The stores of a data configuration, each of which is opened once, on first use.

    A command makes this value once and hands it down. `written` tells whether `prepare` wrote any of the stores,
    and `note` what a forecast from them must tell.
    """

    data: DataConfig
    cube: Path
    statistics: Path
    anomalies: Path
    written: bool = False
    note: str = ""

    @classmethod
    def of(cls, data: DataConfig) -> "Prepared":
        """Return the paths of the stores without reading or writing anything."""
        folder = folder_of(data)
        name = "-".join(map(str, (data.protocol, *data.splits.base)))
        return cls(data, folder / "cube.zarr", folder / f"{name}.statistics.zarr", folder / f"{name}.zarr")

    @property
    def limits(self) -> Path:
        """The file of heatwave climatology and thresholds, which is written on first use."""
        return self._beside(".heatwaves.nc")

    @property
    def terciles(self) -> Path:
        """The file of the thirds of weekly means, which is written on first use."""
        return self._beside(".terciles.nc")

    @property
    def baselines(self) -> Path:
        """The file of the last test days' scores of the baselines, which is written on first use."""
        return self._beside(".baselines.nc")

    def spread(self, system: str) -> Path:
        """Return the file of the spread of a linear system fitted to the training days, written on first use."""
        return self._beside(f".{system}.spread.nc")

    def linear_weights(self, system: str) -> Path:
        """Return the file of the weights of a linear system fitted to the days before the test."""
        return self._beside(f".{system}.fit.nc")

    def _beside(self, ending: str) -> Path:
        return self.statistics.with_name(self.statistics.name.replace(".statistics.zarr", ending))

    @cached_property
    def predictors(self) -> dict[str, Predictor]:
        """What is read besides SST, by name. Each of its stores, too, is opened once."""
        _ = self._states  # before any is opened
        return stored_predictors(self.data, self.cube.parent)

    @property
    def _stores(self) -> list[Path]:
        predictors = stored_predictors(self.data, self.cube.parent).values()
        return [self.cube, self.statistics, self.anomalies, *(path for one in predictors for path in one.stores)]

    @property
    def recipe_of_cube(self) -> dict[str, Any]:
        """What the cube is made from, without the state of the source's files."""
        return {"layout": LAYOUT, **self.data.reading, "source": source_name(self.data)}

    @property
    def recipe_of_statistics(self) -> dict[str, Any]:
        """What the statistics are made from: the days of the base period in the cube."""
        base, days = self.data.splits.base, digest_of_days(self.source_days, *self.data.splits.base)
        keys = {"protocol": self.data.protocol, "train": "{}..{}".format(*base), "base_days": days}
        return self.recipe_of_cube | keys

    @property
    def recipe_of_anomalies(self) -> dict[str, Any]:
        """What the anomalies are made from: the statistics, and all days of the cube."""
        return self.recipe_of_statistics | {"days": digest_of_days(self.source_days)}

    @property
    def is_current(self) -> bool:
        """Whether all stores exist, were made as the configuration says, and each from the one before it.

        They are not while they are prepared again, or if that was killed. Whether the files of the source have
        changed is not asked (see `changed_days`), and nothing but the stores is read. Raises SSTCastError if one
        is damaged.
        """
        if not all(path.exists() for path in self._stores):
            return False
        try:
            self.open_cube(), self.open_statistics(), self.open_anomalies()
        except Outdated:
            return False
        return True

    def open(self) -> tuple[xr.Dataset, xr.Dataset]:
        """Open the cube and the anomalies lazily.

        Raises SSTCastError if either is damaged, and Outdated if it is absent or not what `is_current` asks for.
        """
        return self.open_cube(), self.open_anomalies()

    def open_cube(self) -> xr.Dataset:
        """Open only the cube, like `open`."""
        return self._cube

    def open_anomalies(self) -> xr.Dataset:
        """Open only the anomalies, like `open`, with what is known of the predictors on each day."""
        return self._anomalies

    def open_statistics(self) -> xr.Dataset:
        """Open only the statistics, like `open`.

        Under the `paper` protocol, they are on the cells and coordinates of the source.
        """
        return self._statistics

    @cached_property
    def shared(self) -> dict[str, Any]:
        """What computations from these stores share in memory, by name."""
        return {}

    def kept(
        self,
        path: Path,
        recipe: Any,
        make: Callable[[], xr.Dataset],
        *names: str,
        last: dt.date | None = None,
        lazy: bool = False,
        compress: bool = True,
    ) -> xr.Dataset:
        """Return a table that `make` computes from the stores, and keep it in a NetCDF file (see `cached`).

        Args:
            path: the file, beside the stores, or in a run's folder if it depends on weights.
            recipe: all that the table depends on.
            make: computes the table.
            names: the variables to load, by default all.
            last: the last day that `make` reads (see `unchanged`).
            lazy: leave all variables in the file, in its chunks.
            compress: that of `dataset_files.write`.

        Raises:
            SSTCastError: the file is damaged, or the stores were prepared again from other days meanwhile.
        """
        table = cached(path, recipe, lambda: self.unchanged(make, last), compress=compress, chunked=lazy)
        if lazy:
            return table
        with reading(path, "delete it"), table:
            fields = {str(name): table[name] for name in names or table.data_vars}
            return table[[]].assign(
                {name: in_scratch(of) if of.ndim else of.load() for name, of in fields.items()}
            )

    def unchanged(self, read: Callable[[], T], last: dt.date | None = None) -> T:
        """Return what `read` reads from the stores, all of it from stores in one state.

        Another process may prepare them meanwhile. If they hold the same days up to `last`, by default all, they
        are read once more. Raises SSTCastError if they hold others.
        """
        while True:
            try:
                found = read()
            except Exception:
                if not self.replaced(last):
                    raise
            else:
                if not self.replaced(last):
                    return found

    def replaced(self, last: dt.date | None = None) -> bool:
        """Return whether stores were prepared again since they were opened, or since this was asked last.

        Raises SSTCastError unless days up to `last`, by default all, the statistics and the predictors are the
        same.
        """
        if (states := self._states_now()) == self._states:
            return False
        now, opened = replace(self), [vars(self).get(name) for name in ("_statistics", "_standardised")]
        is_one = all(store is None or self._is_of_cube(store) for store in opened)
        if not is_one or self._digests(last) != now._digests(last or self._last) or self._known != now._known:
            raise SSTCastError(
                f"{self.cube.parent}: was prepared again from other days while it was read; load the run again"
            )
        vars(self)["_states"] = states
        vars(self).pop("predictors", None)  # which may hold newer days
        return True

    @cached_property
    def _states(self) -> list[tuple[int, int]]:
        """What tells the stores from others that replace them, as they were before they were opened."""
        return self._states_now()

    def _states_now(self) -> list[tuple[int, int]]:
        states = []
        for path in self._stores:
            with suppress(OSError):  # it is just being replaced
                states.append(((state := path.stat()).st_ino, state.st_ctime_ns))
        return states

    def _digests(self, last: dt.date | None) -> tuple[str, str]:
        return digest_of_days(self._cube, None, last), str(self._statistics.attrs["digest"])

    @property
    def _last(self) -> dt.date:
        last: dt.date = self._cube["time"].values[-1].astype("M8[D]").item()
        return last

    @cached_property
    def _known(self) -> dict[str, str]:
        """Digests of what the days before the test know of the predictors."""
        splits = self.data.splits
        return digests_of_predictors(self.predictors, splits.whole[0], splits.before_test[1])

    def _is_of_cube(self, store: xr.Dataset) -> bool:
        """Return whether statistics or anomalies were made from the days of the cube, which may have more."""
        recipe = json.loads(store.attrs["recipe"])
        found = {"base_days": digest_of_days(self.source_days, *self.data.splits.base)}
        if "time" in store.dims:
            first, last = store["time"].values[[0, -1]].astype("M8[D]").tolist()
            found["days"] = digest_of_days(self.source_days, first, last)
        return all(recipe.get(key) == digest for key, digest in found.items())

    def _opened(self, path: Path, recipe: Callable[[], dict[str, Any]]) -> xr.Dataset:
        """Open a store, of which later states are told apart, again if it is replaced meanwhile.

        Raises SSTCastError if it is damaged, and Outdated if it is absent or was not made from the `recipe`.
        """
        _ = self._states
        with suppress(SSTCastError):  # `prepare` makes damaged predictors again; others find them when they read
            _ = self.data.predictors and self._known  # none is known while it is made
        while True:
            states = self._states_now()
            try:
                return open_intact(path, REMEDY, recipe())
            except SSTCastError:
                time.sleep(RENAMING_SECONDS)
                if self._states_now() == states:
                    raise

    @cached_property
    def _cube(self) -> xr.Dataset:
        cube = rounded(self._opened(self.cube, lambda: self.recipe_of_cube))
        # They are asked for again and again.
        return cube.assign({name: cube[name].load() for name in DIGESTS if name in cube})

    @property
    def source_days(self) -> xr.Dataset:
        """The cube, whose `digest` is here that of the cells which statistics and anomalies are made from."""
        is_finer = self.data.protocol == "paper" and SOURCE_DIGEST in self._cube
        return self._cube.assign(digest=self._cube[SOURCE_DIGEST]) if is_finer else self._cube

    @cached_property
    def _anomalies(self) -> xr.Dataset:
        for predictor in self.predictors.values():
            predictor.check_current(self._cube)
        return with_predictors(self._standardised, self.predictors)

    @cached_property
    def _standardised(self) -> xr.Dataset:
        return rounded(self._opened(self.anomalies, lambda: self.recipe_of_anomalies))

    @cached_property
    def _statistics(self) -> xr.Dataset:
        statistics = self._opened(self.statistics, lambda: self.recipe_of_statistics)
        return statistics if self.data.protocol == "paper" else rounded(statistics)

    def record(self, data: DataConfig | None = None) -> "Record":
        """Return a record that identifies the data in the stores. Raises SSTCastError like `open` and `unchanged`.

        With `data` of the same ocean, it identifies the days in its splits. The statistics are then "" unless the
        stores hold those of its base period.
        """
        return self._record if data is None or data.splits == self.data.splits else self._record_of(data)

    def digest_of_days(self, data: DataConfig) -> str:
        """Hash the days of the cube in the splits of `data`. Raises SSTCastError like `open`."""
        return digest_of_days(self.open_cube(), *data.splits.whole)

    @cached_property
    def _record(self) -> "Record":
        return self._record_of(self.data)

    def _digest_of_anomalies(self, data: DataConfig) -> str:
        """Hash the days that the anomalies in the splits of `data` were made from, which opening them compares."""
        self.open_anomalies()
        return digest_of_days(self.source_days, *data.splits.whole)

    def _record_of(self, data: DataConfig) -> "Record":
        def of_one_state() -> Record:
            cube, is_of_base = self.open_cube(), data.splits.base == self.data.splits.base
            is_own = is_of_base and data.predictors == self.data.predictors
            predictors = self.predictors if is_own else stored_predictors(data, self.cube.parent)
            return Record(
                source=self.data.source,
                cube=self.digest_of_days(data),
                test=digest_of_days(cube, *data.splits.test),
                statistics=str(self.open_statistics().attrs["digest"]) if is_of_base else "",
                anomalies=self._digest_of_anomalies(data) if is_of_base else "",
                predictors=digests_of_predictors(predictors, *data.splits.whole),
            )

        return self.unchanged(of_one_state, data.splits.whole[1])


class Record(JsonRecord):
    """Digests that identify the data and the weights of a run.

    `cube` covers the days from the first day used for training or statistics to the last test day, `test` the test
    days, `statistics` the statistics of the base period, and `anomalies` the days that the anomalies which were
    read were made from, "" if that is not known. `source` is `data.source` from the configuration. `weights` is
    the SHA-256 of the best checkpoint, once training has ended, and `initial_weights` that of the checkpoint that
    training began from, if any. `predictors` has a digest of what the days of the splits know of
    each predictor.
    """

    source: str
    cube: str
    test: str
    statistics: str
    anomalies: str = ""
    weights: str | None = None
    initial_weights: str | None = None
    predictors: dict[str, str] = Field(default={})

    def check(self, current_record: "Record", prepared: Prepared, statement: str, remedy: str) -> None:
        """Raise SSTCastError unless the stores, which have the `current_record`, hold the recorded data.

        Digests that are "" are not compared. The message begins with `statement`, for instance `runs/demo: was
        trained`, and ends with the remedy.
        """
        for store in ("cube", "statistics", "anomalies"):
            expected_digest, actual_digest = getattr(self, store), getattr(current_record, store)
            if expected_digest and actual_digest and expected_digest != actual_digest:
                raise SSTCastError(
                    f"{statement} on other data than {prepared.cube} holds: {store} {expected_digest[:12]} of "
                    f"{self.source}, not {actual_digest[:12]} of {current_record.source}; {remedy}"
                )
        for name, config in prepared.data.predictors.items():
            expected_digest, actual_digest = (
                record.predictors.get(name, "none") for record in (self, current_record)
            )
            if expected_digest != actual_digest:
                raise SSTCastError(
                    f"{statement} with other values of the predictor {name} than {config.source} tells: "
                    f"{expected_digest[:12]}, not {actual_digest[:12]}; {remedy}"
                )


def changed_days(prepared: Prepared) -> NDArray[np.datetime64]:
    """Return the days in the splits of the data that the source lacks, or on which it differs from the cube.

    The source is read only if its files may have changed. From a URL, only days whose chunks have changed and the
    last 60 days (`RECHECKED`) are read. If the source is gone, no days count as changed, because the stores made
    from it still exist.
    """
    data, source = prepared.data, source_of(prepared.data.source)
    cube, made_from = prepared.open_cube(), (read_recipe(prepared.cube) or {}).get("files")
    try:
        states = source.states(data)
    except Unreachable as error:
        warn_once(f"{error}; not compared with {prepared.cube}")
        return np.array([], "datetime64[ns]")
    is_same_state = made_from == (source.state() if states is None else fingerprint(states))
    if not source.exists() or (is_same_state and agrees_with_source(prepared)):
        return np.array([], "datetime64[ns]")
    period = slice(*map(str, data.splits.whole))
    with open_region(data) as native:
        days = native.sel(time=period).reset_coords(drop=True)
        if states is None or STATES not in cube:
            ocean = ocean_cells(native)
        else:
            days = days.sel(time=_perhaps_changed(days["time"].values, states, cube[STATES]))
            ocean = ocean_cells(days)
        is_finer = prepared.data.protocol == "paper" and SOURCE_DIGEST in cube
        source_digests = digests(days if is_finer else coarsen(days, ocean, data.box)).compute()
    cube_digests = cube[SOURCE_DIGEST if is_finer else "digest"].sel(time=period)
    lost_days = np.setdiff1d(cube_digests["time"].values, native["time"].values)
    source_digests, cube_digests = xr.align(source_digests, cube_digests, join="inner")
    return np.union1d(lost_days, source_digests["time"].values[source_digests.values != cube_digests.values])


def agrees_with_source(prepared: Prepared) -> bool:
    """Return whether a cube holds the days of a source whose files have the size and time that its recipe tells.

    Only if they have changed since, as in a copy, is the source read. The cube's note then keeps that it agrees.
    """
    data, cube_file = prepared.data, prepared.cube
    if (times := source_of(data.source).changes()) == noted_source(cube_file)[0]:
        return True
    cube = prepared.open_cube()
    with open_region(data) as native:
        values = native.reset_coords(drop=True)
        name = SOURCE_DIGEST if SOURCE_DIGEST in cube else "digest"
        values = values if name == SOURCE_DIGEST else coarsen(values, ocean_cells(native), data.box)
        if not digests(values).compute().equals(cube[name].reset_coords(drop=True)):
            return False
    note_source(cube_file, times)
    return True


def _perhaps_changed(days: NDArray[Any], now: xr.DataArray, then: xr.DataArray) -> NDArray[np.bool_]:
    """Return which `days` are new, are in chunks that have changed, or are among the last `RECHECKED`."""
    unchanged = now.to_series().reindex(days) == then.to_series().reindex(days)
    return ~unchanged.to_numpy() | (days > days[-1] - RECHECKED)


def check_source(prepared: Prepared, remedy: str = REMEDY, only_warn: bool = False) -> None:
    """Raise SSTCastError with the remedy if a day in the splits is lost or has changed (see `changed_days`).

    With `only_warn`, print the error as a warning, and do nothing if there is no store to compare with.
    """
    if only_warn:
        if prepared.cube.exists():
            try:
                check_source(prepared, remedy)
            except SSTCastError as error:
                LOG.warning(f"sstcast: {error}")
    elif (days := changed_days(prepared)).size:
        with open_region(prepared.data) as native:
            if CUT in native.attrs and days[0] > native["time"].values[-1]:  # it would not be prepared again
                raise SSTCastError(
                    f"{prepared.data.path}: {native.attrs[CUT]}, which {prepared.cube} was made from; restore it"
                )
        first = np.datetime_as_string(days[0], unit="D")
        raise SSTCastError(
            f"{prepared.data.path}: has changed since {prepared.cube} was made from it, on "
            f"{counted(days.size, 'day')}, the first {first}; {remedy}"
        )
    elif changed := changed_predictors(prepared.predictors):
        raise SSTCastError(f"{changed[0]}; {remedy}")

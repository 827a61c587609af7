"""What the kinds of predictors have in common: a store made from a source, and the rule of what is known."""

import datetime as dt
import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from sstcast._version import __version__
from sstcast.config import COAST_DISTANCE, DataConfig
from sstcast.errors import SSTCastError
from sstcast.log import warn_once
from sstcast.reading.daily_field import source_of
from sstcast.reading.remote_stores import Unreachable
from sstcast.storage.artefacts import (
    as_text,
    clear_leftovers,
    is_up_to_date,
    note_source,
    noted_source,
    read_recipe,
)
from sstcast.storage.cf import describe
from sstcast.storage.dataset_files import write
from sstcast.storage.stores import open_intact

LAYOUT = 1
REMEDY = "run `sstcast prepare` with the run's config.yaml"
READING_KEYS = ("kind", "variable", "units", "region", "span")  # which say how a source is read
ROUNDING = 1e-6  # a deviation of this share of the values is that of a constant in single precision

Days = NDArray[np.datetime64]
Shares = dict[str, NDArray[np.float64]]
Check = Callable[[Path], None]


def scale_of(deviation: float, size: float) -> float:
    """Return what divides a predictor: its deviation, or 1 if it is constant but for rounding.

    Args:
        deviation: the standard deviation of the predictor, or of its departures from a climatology.
        size: the largest absolute value.
    """
    return deviation if deviation > ROUNDING * size else 1.0


def newest_known(ends: Days, days: Days, delay: int) -> NDArray[np.intp]:
    """Return the position of the newest value known on each of `days`, -1 if none is known yet.

    A value is known `delay` days after `ends`, the last day of its span, on which it then counts as known all day.
    Both arrays ascend.
    """
    return np.searchsorted(ends + delay * np.timedelta64(1, "D"), days, side="right") - 1


class StoredPredictor(ABC):
    """A predictor of a run, and its store in the folder of the run's cube.

    Attributes:
        name: its name in `data.predictors`.
        config: how it is read, and when its values are known.
        path: the store. Its name tells source and keys apart.
        field: where its values come from.
    """

    def __init__(self, name: str, data: DataConfig, folder: Path) -> None:
        self.name, self.config, self.data = name, data.predictors[name], data
        self.field = source_of(self.config.source)
        keys = [getattr(self.config, key) for key in READING_KEYS]
        keys.insert(1, COAST_DISTANCE if self.config.source == COAST_DISTANCE else self.field.identity)
        self.path = folder / f"predictor-{name}-{hashlib.sha256(json.dumps(keys).encode()).hexdigest()[:8]}.zarr"

    @property
    def key(self) -> str:
        """Its key in the configuration."""
        return f"data.predictors.{self.name}"

    @property
    def stores(self) -> list[Path]:
        """All stores of the predictor."""
        return [self.path]

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
        return self._open()

    def _open(self) -> xr.Dataset:
        return open_intact(self.path, REMEDY, LAYOUT)

    def prepare(self, cube: xr.Dataset) -> bool:
        """Bring the stores up to date with the source, for the cells and days of a cube. Returns whether any was
        written, and logs it.

        Raises SSTCastError if the source cannot be read or does not serve.
        """
        recipe = {key: getattr(self.config, key) for key in READING_KEYS}
        recipe |= {"layout": LAYOUT, "files": self.source_state(cube)} | self.recipe(cube)
        clear_leftovers(self.path)
        absent = self.field.needs_python and not self.field.exists() and self.path.exists()
        times = self.field.changes()
        if absent or (is_up_to_date(self.path, recipe) and self._agrees()):
            return False
        self.write(cube, recipe)
        note_source(self.path, times)
        return True

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
        """Return a fingerprint of the source's files. Of a URL, it only tells whether the store has grown."""
        return self.field.state()

    def recipe(self, cube: xr.Dataset) -> dict[str, Any]:
        """Return what the store depends on besides the keys and files of the source."""
        return {}

    @abstractmethod
    def write(self, cube: xr.Dataset, recipe: dict[str, Any]) -> None:
        """Make the store from the source (see `prepare`)."""

    @abstractmethod
    def known(self, days: Days, given: xr.DataArray | None = None) -> xr.DataArray:
        """Return what is known on each of `days`, `(time, ...)`, from the store or the `given` values.

        It is NaN where nothing is known.
        """

    @abstractmethod
    def digest(self, first: dt.date, last: dt.date) -> str:
        """Hash the units and all that the days from `first` to `last` know."""

    @abstractmethod
    def compare(self, whole: bool = False) -> tuple[str, bool]:
        """Return the units of the source now, and whether the days of the splits know the same from it.

        With `whole`, compare all values instead.
        """

    @abstractmethod
    def missing(self, day: np.datetime64, given: xr.DataArray | None = None) -> str:
        """Return what is not known at all on a day, as the end of a sentence, or "" if something is."""

    def coverage(self, days: Days, read: int, given: xr.DataArray | None = None) -> Shares:
        """Return which shares are known on each of consecutive `days`, by what they are shares of.

        The days of which a forecast reads values are the last `read` up to its initial date.
        """
        return {}

    @abstractmethod
    def given(self, values: Any) -> xr.DataArray:
        """Convert values that Python gives, and add those of the store on other days.

        Raises SSTCastError if they are of another type.
        """

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
        check: Check | None = None,
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
        vars(self).pop("_opened", None)

    def check_units(self, units: str) -> None:
        """Raise SSTCastError unless given values have the units of the store. No units are taken for the same."""
        if units and self.units and units != self.units:
            raise SSTCastError(
                f"predictors: {self.name} is in {units!r}, but the run reads {self.units!r}; convert it"
            )

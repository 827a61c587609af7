"""Opens the stores that `prepare` makes (cube, statistics, anomalies), and compares them with their source."""

import datetime as dt
import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from sstcast.artefacts import FIRST_PROCESS
from sstcast.cf import rounded
from sstcast.config import DataConfig
from sstcast.errors import SSTCastError, reading_later, warn
from sstcast.ocean.cube import coarsen, ocean_cells
from sstcast.ocean.identity import Record, changed, digests, fingerprint
from sstcast.ocean.reading import REMEDY, open_region, source_path
from sstcast.runs import Run
from sstcast.stores import open_written

AGAIN = "run `sstcast prepare` with the run's configuration"


@dataclass(frozen=True)
class Prepared:
    """The stores of a data configuration; `written` says whether `prepare` had to write any of them."""

    data: DataConfig
    cube: Path
    statistics: Path
    anomalies: Path
    written: bool = False

    @classmethod
    def of(cls, data: DataConfig) -> "Prepared":
        """Return the paths of the stores; read and write nothing."""
        region = data.region
        if not isinstance(region, str):
            region = "box" + _short(region.model_dump_json())
        folder = data.directory / f"{source_name(data)}-{region}"
        name = "-".join(map(str, (data.protocol, *data.splits.base)))
        return cls(data, folder / "cube.zarr", folder / f"{name}.statistics.zarr", folder / f"{name}.zarr")

    @property
    def limits(self) -> Path:
        """Where climatology and thresholds of heatwaves are kept, once they have been asked for."""
        return self.statistics.with_name(self.statistics.name.replace(".statistics.zarr", ".heatwaves.nc"))

    @property
    def exist(self) -> bool:
        """Whether all of them are there; they may be damaged."""
        return all(path.exists() for path in (self.cube, self.statistics, self.anomalies))

    def open(self) -> tuple[xr.Dataset, xr.Dataset]:
        """Open cube and anomalies lazily; raise SSTCastError if they are absent or damaged."""
        return rounded(open_prepared(self.cube)), self.open_anomalies()

    def open_anomalies(self) -> xr.Dataset:
        """Open anomalies alone, as `open` does."""
        return rounded(open_prepared(self.anomalies))

    def open_statistics(self) -> tuple[xr.Dataset, xr.Dataset]:
        """Open cube and statistics lazily; raise SSTCastError as `open` does.

        Under the `paper` protocol the statistics are on the source's cells and coordinates.
        """
        statistics = open_prepared(self.statistics)
        on_source = self.data.protocol == "paper"
        return rounded(open_prepared(self.cube)), statistics if on_source else rounded(statistics)

    def record(self) -> Record:
        """Return the record that identifies the stores' data; raise SSTCastError as `open` does."""
        return Record.of(self.data, *self.open_statistics())


@dataclass(frozen=True)
class Days:
    """The days of a source: `time [T]`, and a number per day, `state [T]`, that changes if its values may have."""

    time: NDArray[np.datetime64]
    state: NDArray[np.int64]

    def digest(self, days: slice) -> str:
        """Return a hash of the dates and states of some days."""
        return hashlib.sha256(self.time[days].tobytes() + self.state[days].tobytes()).hexdigest()

    def between(self, first: dt.date, last: dt.date) -> slice:
        """Return the slice of the days from `first` to `last`, both included."""
        return slice(*np.searchsorted(self.time, np.array([first, last + dt.timedelta(1)], "datetime64[ns]")))

    def shared(self, other: "Days") -> int:
        """Return how many days at the start are the same in both."""
        count = min(len(self.time), len(other.time))
        same = (self.time[:count] == other.time[:count]) & (self.state[:count] == other.state[:count])
        return count if same.all() else int(np.argmin(same))


def check_source(data: DataConfig, native: xr.DataArray | None = None, remedy: str = AGAIN) -> None:
    """Raise SSTCastError, with the remedy, if source and cube have different values on a day in the run's splits.

    `native` is the region's cells of the source; if it is None, the source is opened here when any file has
    changed. Only days whose file has changed are read. A missing source is not an error: the stores made from it
    are still there.
    """
    path, prepared = source_path(data.source), Prepared.of(data)
    if not path.exists():
        return
    cube = open_prepared(prepared.cube)
    if cube.attrs["fingerprint"] == fingerprint(path):
        return
    if native is None:
        with open_region(data) as opened:
            return check_source(data, opened, remedy)
    days = changed(path, native, cube.sel(time=slice(*map(str, data.splits.whole))))
    if not days.size:
        return
    with reading_later(path, REMEDY):
        now = digests(coarsen(native.sel(time=days), ocean_cells(native), data.box)).compute()
    differ = days[now.values != cube["digest"].sel(time=days).values]
    if differ.size:
        raise SSTCastError(
            f"{path}: has changed since {prepared.cube} was made from it, on {differ.size} day(s), the first "
            f"{np.datetime_as_string(differ[0], unit='D')}; {remedy}"
        )


def warn_of_source(data: DataConfig, remedy: str) -> None:
    """Print a line on stderr, with the remedy, if prepared stores no longer hold what their source holds."""
    if Prepared.of(data).cube.exists():
        try:
            check_source(data, remedy=remedy)
        except SSTCastError as error:
            warn(f"sstcast: {error}")


def check_data(run: Run) -> None:
    """Raise SSTCastError unless the prepared stores hold the data that a run was trained on.

    A run without data.json passes, with a line on stderr.
    """
    prepared = Prepared.of(run.config.data)
    now = prepared.record()
    for each in run.recorded:
        if (then := Record.read(each.folder)) is not None:
            then.check(each.folder, now, prepared.cube)
        elif FIRST_PROCESS and each.best.exists():
            warn(f"{each.folder}: has no data.json to compare its data with; not checked")


def open_prepared(path: Path) -> xr.Dataset:
    """Open one of the stores lazily; raise SSTCastError if it is absent or damaged, here or when it is read."""
    return open_written(path, AGAIN)


def days_of(store: xr.Dataset) -> Days:
    """Return the days of an opened cube or anomaly store."""
    return Days(store["time"].values.astype("datetime64[ns]"), store["state"].values)


def source_name(data: DataConfig) -> str:
    """Return a name for a source: its file name, and a hash of its full path and the keys that control reading."""
    path, reading = Path(data.source), (data.variable, data.units, data.gaps)
    if data.source == "sample" and reading == (None, None, 0):
        return "sample"
    return f"{path.stem[:40]}-{_short(json.dumps([str(path.resolve()), *reading]))}"


def _short(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]

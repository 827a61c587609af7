"""Where OISST lives: one small class a source, which knows names and addresses and does no I/O.

A source's `files(day)` are the names, best first, under which `base` may hold a day. Days that share a
name (a year in one file) are fetched together.
"""

import datetime as dt
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Protocol
from urllib.parse import quote

from sstcast.errors import SSTCastError
from sstcast.files import packaged
from sstcast.ocean.grid import Grid

SAMPLE = "data/sample/tasman_oisst_daily_1982_2016.nc"
FIRST_DAY = dt.date(1981, 9, 1)
SETTLED_AFTER = dt.timedelta(days=15)  # by then NOAA has replaced a preliminary day

# Plain https, also for the bucket: no cloud profile or AWS_* variable is ever asked where to go.
AWS = "https://noaa-cdr-sea-surface-temp-optimum-interpolation-pds.s3.amazonaws.com/data/v2.1/avhrr"
NCEI = "https://www.ncei.noaa.gov/data/sea-surface-temperature-optimum-interpolation/v2.1/access/avhrr"
PSL = "https://downloads.psl.noaa.gov/Datasets/noaa.oisst.v2.highres"
COASTWATCH = "https://coastwatch.pfeg.noaa.gov/erddap/griddap"


class Source(Protocol):
    """What fetching needs to know of a source.

    `together` is how many requests it bears at once, None for as many as the user allows; `long_files` says
    whether a file holds many days. `time_limit` is in seconds a request.
    """

    together: ClassVar[int | None]
    long_files: ClassVar[bool]
    time_limit: ClassVar[float]

    @property
    def name(self) -> str:
        """What the store calls the source."""

    @property
    def base(self) -> str:
        """URL or folder that names are relative to."""

    def files(self, day: dt.date, final_only: bool = False) -> tuple[str, ...]:
        """Return the names under which a day may be found, best first."""

    def provisional(self, file: str, day: dt.date) -> bool:
        """Return whether the day is preliminary by where it was found, whatever the file says."""


@dataclass(frozen=True)
class Daily:
    """One file a day in one folder a month, as at NCEI and on AWS; a `flat` mirror may lack the folders."""

    name: str
    base: str
    flat: bool = False
    together: ClassVar[int | None] = None
    long_files: ClassVar[bool] = False
    time_limit: ClassVar[float] = 120

    def files(self, day: dt.date, final_only: bool = False) -> tuple[str, ...]:
        folders = (f"{day:%Y%m}/", "") if self.flat else (f"{day:%Y%m}/",)
        endings = ("",) if final_only else ("", "_preliminary")
        return tuple(f"{folder}oisst-avhrr-v02r01.{day:%Y%m%d}{end}.nc" for end in endings for folder in folders)

    def provisional(self, file: str, day: dt.date) -> bool:
        return False  # the file's own `id` tells, not its name


@dataclass(frozen=True)
class Yearly:
    """One file a year, as at PSL; the current one grows, and says nothing of preliminary days."""

    name: str
    base: str
    today: dt.date
    together: ClassVar[int | None] = 1
    long_files: ClassVar[bool] = True
    time_limit: ClassVar[float] = 3600

    def files(self, day: dt.date, final_only: bool = False) -> tuple[str, ...]:
        if final_only and self.provisional("", day):
            return ()
        return (f"sst.day.mean.{day:%Y}.nc",)

    def provisional(self, file: str, day: dt.date) -> bool:
        return day > self.today - SETTLED_AFTER


@dataclass(frozen=True)
class Erddap:
    """ERDDAP's griddap: the server cuts the box; clients that ask several things at once are shut out."""

    name: str
    base: str
    grid: Grid
    together: ClassVar[int | None] = 1
    long_files: ClassVar[bool] = False
    time_limit: ClassVar[float] = 300

    def __post_init__(self) -> None:
        if self.grid.lon[0] < 0:
            raise SSTCastError("--region: ERDDAP serves no box across Greenwich; choose another --source")

    def files(self, day: dt.date, final_only: bool = False) -> tuple[str, ...]:
        lat, lon = self.grid.lat, self.grid.lon
        query = f"sst[({day}T12:00:00Z)][(0.0)][({lat[0]}):({lat[-1]})][({lon[0]}):({lon[-1]})]"
        datasets = ("ncdcOisst21Agg",) if final_only else ("ncdcOisst21Agg", "ncdcOisst21NrtAgg")
        return tuple(f"{dataset}.nc?{quote(query, safe='():')}" for dataset in datasets)

    def provisional(self, file: str, day: dt.date) -> bool:
        return file.startswith("ncdcOisst21NrtAgg")


@dataclass(frozen=True)
class Sample:
    """The ocean that ships with sstcast: every day in one file."""

    name: str = "sample"
    base: str = str(packaged(SAMPLE).parent)
    together: ClassVar[int | None] = 1
    long_files: ClassVar[bool] = True
    time_limit: ClassVar[float] = 120
    grid: ClassVar[Grid] = Grid((147, 155), (-45, -37))

    def files(self, day: dt.date, final_only: bool = False) -> tuple[str, ...]:
        return (packaged(SAMPLE).name,)

    def provisional(self, file: str, day: dt.date) -> bool:
        return False


def is_folder(name: str) -> bool:
    """Return whether `--source` names a folder of this machine and no source."""
    return (
        name not in ("aws", "ncei", "psl", "erddap", "sample", "simulator") and name != "" and Path(name).is_dir()
    )


def find_sources(name: str, grid: Grid, today: dt.date) -> tuple[Source, ...]:
    """Return the sources a name or a URL stands for, in the order to try them.

    The two homes of the daily files stand in for each other. A mirror is asked for yearly files first, as
    that takes one question a year.
    """
    aws, ncei = Daily("aws", AWS), Daily("ncei", NCEI)
    named: dict[str, tuple[Source, ...]] = {
        "aws": (aws, ncei),
        "ncei": (ncei, aws),
        "psl": (Yearly("psl", PSL, today),),
        "sample": (Sample(),),
    }
    if name == "erddap":
        return (Erddap("erddap", COASTWATCH, grid),)
    if name in named:
        return named[name]
    if name.startswith("s3://"):
        bucket, _, prefix = name.removeprefix("s3://").partition("/")
        name = f"https://{bucket}.s3.amazonaws.com/{prefix}"
    if name.rstrip("/").endswith("griddap"):
        return (Erddap("erddap", name.rstrip("/"), grid),)
    return Yearly("mirror", name, today), Daily("mirror", name, flat=True)

"""The interface of a source of daily data, and the download request."""

import datetime as dt
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import ClassVar

from sstcast.config import parse_box
from sstcast.errors import SSTCastError
from sstcast.geo import Box
from sstcast.progress import Progress
from sstcast.reading.raw import FIRST_DAY, OPTIONAL, Day
from sstcast.sources import find_source

Need = dict[dt.date, bool]  # the required days; True if only a final version is accepted
Batch = dict[dt.date, Day | str]  # each day, or the reason why the source lacks it, or a `Failure`

SETTLED_AFTER = dt.timedelta(days=15)  # NOAA replaces preliminary days within this time
MOST_TOGETHER = 256


class Failure(str):
    """The reason why a day could not be read, although the source may have it."""


@dataclass(frozen=True)
class FetchRequest:
    """A request for all days from `start` to `end`, inclusive.

    `source` is a name in `sstcast.sources.SOURCES`, a URL or a folder. `region` is `global`, a name in
    `configs/regions.yaml` or `W,E,S,N`, by default the source's region. `out` is the Zarr store. `concurrency` is
    the number of parallel requests. `variables` are `sst` and those of `OPTIONAL` that every day must have.
    Invalid arguments raise SSTCastError.
    """

    start: dt.date
    end: dt.date
    source: str = "aws"
    region: str | None = None
    out: Path | None = None
    concurrency: int = 16
    variables: tuple[str, ...] = ("sst",)

    def __post_init__(self) -> None:
        if self.end < self.start:
            raise SSTCastError(f"--end {self.end}: is before --start {self.start}; swap them")
        if self.start < FIRST_DAY:
            raise SSTCastError(f"--start {self.start}: OISST begins on {FIRST_DAY}; start there or later")
        today = dt.date.today()
        if self.end > today:
            raise SSTCastError(f"--end {self.end}: is in the future, today is {today}; end earlier")
        if not 1 <= self.concurrency <= MOST_TOGETHER:
            raise SSTCastError(f"--concurrency {str(self.concurrency)[:20]}: give 1 to {MOST_TOGETHER}")
        known = find_source(self.source).variables
        if unknown := [name for name in self.variables if name not in known]:
            raise SSTCastError(
                f"--variables {','.join(self.variables)}: the source {self.source} has no {unknown[0]!r}, but "
                f"{', '.join(known)}; choose among these, or another --source"
            )

    @property
    def days(self) -> list[dt.date]:
        return [self.start + dt.timedelta(i) for i in range((self.end - self.start).days + 1)]

    @cached_property
    def box(self) -> Box:
        if self.region is not None:
            return parse_box(self.region)
        source = find_source(self.source)
        return source.box or parse_box(source.region)

    @property
    def path(self) -> Path:
        """The store: `out`, or by default a folder in `data` named after source and region."""
        if self.out:
            return self.out
        source = find_source(self.source)
        return Path("data") / f"{source.store}-{(self.region or source.region).replace(',', '_')}.zarr"


class Source(ABC):
    """A source of daily data, opened for one request.

    A subclass implements `read` and sets class attributes. `name` is recorded in the store as the origin of the
    days, and `title` becomes the title of a new store. If `grows` is True, the source gets new days every day,
    which `sstcast forecast` fetches. `variables` are `sst` and those of `OPTIONAL` that the source can have.
    """

    name: ClassVar[str]
    title: ClassVar[str] = "NOAA Daily OISST (AVHRR), 0.25 degrees"
    grows: ClassVar[bool] = False
    variables: ClassVar[tuple[str, ...]] = ("sst",)
    store: ClassVar[str] = "oisst"  # first word of the store's default name
    region: ClassVar[str] = "pacific"  # the default region
    box: ClassVar[Box | None] = None  # the box of the default region, unless configs/regions.yaml defines it
    end: ClassVar[dt.date | None] = None  # the default last day; None is yesterday

    def __init__(self, request: FetchRequest) -> None:
        """Check the request without network access. Raises SSTCastError if the source cannot serve it."""
        self.request, self.today = request, dt.date.today()
        self.unused: dict[str, str] = {}  # unused files, with reasons

    @property
    def optional(self) -> tuple[str, ...]:
        """The variables to read besides `sst`."""
        return tuple(name for name in OPTIONAL if name in self.request.variables and name in self.variables)

    @classmethod
    def accepts(cls, address: str) -> bool:
        """Return whether this source reads from the given URL or folder."""
        return False

    @classmethod
    def open(cls, request: FetchRequest) -> "Sequence[Source]":
        """Return the source and the fallbacks to try for days that it lacks."""
        return [cls(request)]

    @abstractmethod
    def read(self, need: Need, progress: Progress) -> Iterator[Batch]:
        """Yield the required days, or the reasons why they are unavailable, in whole blocks if possible.

        `progress` counts days and bytes. Raises SSTCastError if the source is unusable.
        """

    def settling(self, day: dt.date) -> bool:
        """Return whether a day is so recent that NOAA may still replace it."""
        return day > self.today - SETTLED_AFTER

"""The interface of a source of daily data."""

import datetime as dt
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, ClassVar

from sstcast.geo import Box
from sstcast.ocean.raw import Day
from sstcast.progress import Progress

if TYPE_CHECKING:
    from sstcast.sources.fetch import FetchRequest

Need = dict[dt.date, bool]  # the days needed, and whether only a final one will do
Batch = dict[dt.date, Day | str]  # each day, or why it is not available

SETTLED_AFTER = dt.timedelta(days=15)  # NOAA replaces preliminary days within this time


class Source(ABC):
    """A source of daily data, opened for one request.

    A subclass defines how its days are read, and describes itself by class attributes: `name` is the origin
    recorded for its days in a store, `title` that of a new store; a source that `grows` gets new days every day,
    and `sstcast forecast` fetches them.
    """

    name: ClassVar[str]
    title: ClassVar[str] = "NOAA Daily OISST (AVHRR), 0.25 degrees"
    grows: ClassVar[bool] = False
    store: ClassVar[str] = "oisst"  # first word of the store's default name
    region: ClassVar[str] = "pacific"  # the default region
    box: ClassVar[Box | None] = None  # of the default region, if it is not a named region
    end: ClassVar[dt.date | None] = None  # last day requested by default; None is yesterday

    def __init__(self, request: "FetchRequest") -> None:
        """Check the request without sending anything; raise SSTCastError if the source cannot serve it."""
        self.request, self.today = request, dt.date.today()
        self.unused: dict[str, str] = {}  # files that were not used, and why

    @classmethod
    def accepts(cls, address: str) -> bool:
        """Return whether this source can read from a URL or a folder."""
        return False

    @classmethod
    def open(cls, request: "FetchRequest") -> "Sequence[Source]":
        """Return the source, followed by the sources to try for days that it lacks."""
        return [cls(request)]

    @abstractmethod
    def read(self, need: Need, progress: Progress) -> Iterator[Batch]:
        """Yield the days of `need` that the source has, and reasons for the others, in whole blocks if possible.

        `progress` counts days and bytes. Raises SSTCastError if the source is unusable.
        """

    def settling(self, day: dt.date) -> bool:
        """Return whether NOAA may still replace a day, judging only by its date."""
        return day > self.today - SETTLED_AFTER

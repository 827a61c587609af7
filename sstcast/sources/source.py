"""What a source of days is."""

import datetime as dt
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, ClassVar

from sstcast.geo import Box
from sstcast.ocean.days import Day
from sstcast.ocean.progress import Progress

if TYPE_CHECKING:
    from sstcast.sources.request import FetchRequest

Need = dict[dt.date, bool]  # the days needed, and whether only a final one will do
Batch = dict[dt.date, Day | str]  # each day, or why it could not be had

SETTLED_AFTER = dt.timedelta(days=15)  # by then NOAA has replaced a preliminary day


class Source(ABC):
    """A place that days come from, asked for those of one request.

    A subclass says how its days are read. What it says of itself are class attributes: `name` is what stores call
    the origin of its days; a source that `grows` has new days every day, and `sstcast forecast` asks it for them.
    """

    name: ClassVar[str]
    grows: ClassVar[bool] = False
    store: ClassVar[str] = "oisst"  # first word of the default name of the store
    region: ClassVar[str] = "pacific"  # by default
    box: ClassVar[Box | None] = None  # of that region, where it is not the one called so
    end: ClassVar[dt.date | None] = None  # last day asked for by default; None is yesterday
    foresees: ClassVar[bool] = False  # has days that are yet to come

    def __init__(self, request: "FetchRequest") -> None:
        """Look at the request, and ask nobody for anything yet; raise SSTCastError if it cannot be met."""
        self.request, self.today = request, dt.date.today()
        self.unused: dict[str, str] = {}  # files that gave nothing, and why

    @classmethod
    def accepts(cls, address: str) -> bool:
        """Return whether this is the source behind a URL or the path of a folder."""
        return False

    @classmethod
    def open(cls, request: "FetchRequest") -> "Sequence[Source]":
        """Return the source, and those to ask after it for what it lacks."""
        return [cls(request)]

    @abstractmethod
    def read(self, need: Need, progress: Progress) -> Iterator[Batch]:
        """Yield the days of `need` that the source has and reasons for the others, whole blocks where it can.

        `progress` is told of days and bytes. Raises SSTCastError if the source is unusable.
        """

    def settling(self, day: dt.date) -> bool:
        """Return whether NOAA may still replace a day, by its date alone."""
        return day > self.today - SETTLED_AFTER

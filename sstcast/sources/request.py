"""What `sstcast fetch` is asked, and what it answers."""

import datetime as dt
from dataclasses import dataclass, field
from pathlib import Path

from sstcast.errors import SSTCastError
from sstcast.ocean.days import day_ranges
from sstcast.ocean.grid import Grid, parse_grid
from sstcast.ocean.raw import CALENDAR
from sstcast.sources.download import Patience
from sstcast.sources.sources import FIRST_DAY, Sample

LAST_DAY = FIRST_DAY + dt.timedelta(CALENDAR - 1)
MOST_TOGETHER = 256


@dataclass(frozen=True)
class FetchRequest:
    """What to fetch: every day from `start` to `end`, both included.

    `source` is aws, ncei, psl, erddap, sample, simulator, a URL or a folder; `region` is `global`, a name in
    `configs/regions.yaml` or `W,E,S,N` (by default the Pacific, or all of the sample); `out` is the Zarr
    store. `keep_raw` keeps the files as downloaded in a folder beside it. `seed` chooses the simulated ocean.
    """

    start: dt.date
    end: dt.date
    source: str = "aws"
    region: str | None = None
    out: Path | None = None
    keep_raw: bool = False
    concurrency: int = 16
    seed: int = 0
    patience: Patience = field(default_factory=Patience)

    def __post_init__(self) -> None:
        if self.end < self.start:
            raise SSTCastError(f"--end {self.end}: before --start {self.start}; swap them")
        if self.start < FIRST_DAY:
            raise SSTCastError(f"--start {self.start}: OISST begins on {FIRST_DAY}; start there or later")
        today = dt.date.today()
        if self.end > (LAST_DAY if self.source == "simulator" else today):
            held = (
                f"{LAST_DAY} is the last a store can hold" if self.source == "simulator" else f"today is {today}"
            )
            raise SSTCastError(f"--end {self.end}: is yet to come, {held}; end earlier")
        if not 1 <= self.concurrency <= MOST_TOGETHER:
            raise SSTCastError(f"--concurrency {str(self.concurrency)[:20]}: give 1 to {MOST_TOGETHER}")
        if not 0 <= self.seed < 2**63:
            raise SSTCastError(f"--seed {str(self.seed)[:20]}: give 0 or more, below 2**63")
        if self.out and "\0" in str(self.out):
            raise SSTCastError("--out: a path holds no zero bytes; name a folder")

    @property
    def days(self) -> list[dt.date]:
        """Every day wanted."""
        return [self.start + dt.timedelta(i) for i in range((self.end - self.start).days + 1)]

    @property
    def grid(self) -> Grid:
        """The cells wanted."""
        if self.region is None:
            return Sample.grid if self.source == "sample" else parse_grid("pacific")
        return parse_grid(self.region)

    @property
    def path(self) -> Path:
        """The store: `out`, or a name made of source and region in `data`."""
        if self.out:
            return self.out
        kind = self.source if self.source in ("sample", "simulator") else "oisst"
        region = self.region or ("tasman" if self.source == "sample" else "pacific")
        return Path("data") / f"{kind}-{region.replace(',', '_')}.zarr"


@dataclass(frozen=True)
class FetchReport:
    """What a fetch did: how many days were `fetched`, and how many `present` before.

    `missing` gives each day that could not be had its reason; `preliminary` are the days asked for that
    NOAA will still replace. `unused` gives each file of a folder that gave nothing its reason.
    """

    path: Path
    fetched: int
    present: int
    preliminary: tuple[dt.date, ...]
    missing: dict[dt.date, str]
    unused: dict[str, str] = field(default_factory=dict)

    @property
    def complete(self) -> bool:
        """Whether every day asked for is there."""
        return not self.missing

    def lines(self) -> list[str]:
        """Say it in words; days in a row that are missing for one reason share a line."""
        lines = [f"{self.path}: {self.fetched} days fetched, {self.present} were there"]
        if not self.fetched and self.complete:
            lines = [f"{self.path}: nothing to do, all {self.present} days are there"]
        if self.preliminary:
            lines.append(
                f"{len(self.preliminary)} days are preliminary; fetch again when NOAA has made them final"
            )
        for first, last, reason in day_ranges(self.missing):
            days = str(first) if first == last else f"{first}..{last} ({(last - first).days + 1} days)"
            lines.append(f"missing {days}: {reason}")
        return lines + [f"not used {name}: {reason}" for name, reason in sorted(self.unused.items())]

"""The maps of a record's events: mean days a year, the highest category, and the trend of the days a year."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.figure import Figure
from numpy.typing import NDArray

from sstcast.errors import SSTCastError, counted
from sstcast.extremes.above import SIDES
from sstcast.extremes.baselines import DETRENDED, MOVING
from sstcast.extremes.event_years import highest_category, trend, whole_years
from sstcast.extremes.heatwave_record import SUBJECTS
from sstcast.figures.maps import Kind, draw_hatched, select_region
from sstcast.scores.significance import FDR, adjust

FEWEST_YEARS = 10  # whole years that a trend needs
DRAWN = (
    "is nothing that can be drawn: give a run, a hindcast, the folder of a file's scores, or the .nc that "
    "`sstcast heatwaves` writes of all cells of a record (no forecast, no --dhw, no table of places)"
)
AGAIN = "make it again with `sstcast heatwaves`"
HATCHED = f"no trend by Kendall's test with a false discovery rate of {FDR:.0%}"


@dataclass(frozen=True)
class EventMap:
    """A map of a record's events.

    Attributes:
        name: the end of the name of its file.
        title: its title.
        label: the label of its colour bar, with units.
        kind: its colours.
        field: the values, `(lat, lon)`.
        hatched: the cells to hatch, `(lat, lon)`.
    """

    name: str
    title: str
    label: str
    kind: Kind
    field: xr.DataArray
    hatched: xr.DataArray | None = None

    def draw(self, region: str | None, credit: str, projection: str) -> Figure:
        """Draw the map of the cells in a region, as `maps.draw_hatched`."""
        fields = {"field": self.field} | ({} if self.hatched is None else {"hatched": self.hatched.astype(float)})
        cells = select_region(xr.Dataset(fields), region)
        masks = [] if self.hatched is None else [cells["hatched"] == 1]
        options: Any = {"title": self.title, "credit": credit, "projection": projection}
        return draw_hatched({"": cells["field"]}, masks, HATCHED, label=self.label, kind=self.kind, **options)


@dataclass(frozen=True)
class RecordMaps:
    """The maps of a record's events, lines on what is left out of them, and a credit."""

    maps: list[EventMap]
    left_out: list[str]
    credit: str

    @classmethod
    def of(cls, events: xr.Dataset, file: Path) -> "RecordMaps":
        """Compute the maps of an opened file of events.

        Raises SSTCastError, naming the `file`, if it does not hold a record's events in two rows and columns of
        cells or more, or no year is whole and there are no categories.
        """
        subject = _subject(events, file)
        baseline, definition = str(events.attrs["baseline"]), events.attrs.get("definition")
        of_limit = subject in SIDES
        limit = baseline.partition(",")[0].replace("degC", "°C")
        what = f"periods {limit}" if of_limit else SUBJECTS[subject][0].lower()
        year, whole = events["year"].values, whole_years(events)
        days = events["event_days"].sel(year=whole).load()
        days = days.isel(year=days.notnull().any(("lat", "lon")).values)
        used, maps, left_out = days["year"].values, [], []
        if partial := len(year) - len(whole):
            left_out.append(f"{counted(partial, 'incomplete year')}")
        if undefined := len(whole) - len(used):
            left_out.append(f"{counted(undefined, 'year')} in which no event is defined")
        if len(used):
            title = f"Days a year in {what}, {_span(used)}"
            maps.append(EventMap("days", title, "Days a year", "error", days.mean("year")))
        if not of_limit:
            title = f"Highest category of {what}, {_span(year)}"
            maps.append(EventMap("category", title, "Category", "category", highest_category(events)))
        if not maps:
            raise SSTCastError(
                f"{file}: has no whole year, of which maps could be; find events in a longer record"
            )
        if reason := _no_trend(baseline, len(used)):
            left_out.append(f"the trend, {reason}")
        else:
            slope, p_value = trend(days)
            title = f"Trend of the days a year in {what}, {_span(used)}"
            hatched = no_trend(slope, p_value)
            maps.append(EventMap("trend", title, "Days a year, per decade", "difference", slope, hatched))
        ways = [f"Events: {baseline if of_limit else definition}."] if of_limit or definition else []
        ways += [] if of_limit else [f"Baseline: {baseline}."]
        return cls(maps, left_out, " ".join([f"Data: {events.attrs['source']}.", *ways, "Land: Natural Earth."]))


def no_trend(slope: xr.DataArray, p_value: xr.DataArray) -> xr.DataArray:
    """Return the cells in which no trend is found, of the slopes and the p-values of all cells `(lat, lon)`.

    There, the slope is 0, or p is NaN or, adjusted for the number of cells, above the false discovery rate.
    """
    return slope.notnull() & ~((slope != 0) & (adjust(p_value.values) <= FDR))


def _no_trend(baseline: str, years: int) -> str:
    """Return why no trend is drawn, or ""."""
    if baseline.startswith(DETRENDED):
        return "which the detrended baseline has removed"
    if baseline.startswith(MOVING):
        return "because the moving baseline follows the sea"
    return f"which needs {FEWEST_YEARS} whole years, not {years}" if years < FEWEST_YEARS else ""


def _subject(events: xr.Dataset, file: Path) -> str:
    """Return which of the `SUBJECTS` a record's events are.

    Raises SSTCastError if the file holds none, or was written before it had all that maps need.
    """
    if not {"event_days", "cell_events"} <= {*events}:
        raise SSTCastError(f"{file}: {DRAWN}")
    title = str(events.attrs.get("title"))
    subjects = [subject for subject, (words, _) in SUBJECTS.items() if title.startswith(f"{words} in ")]
    if not subjects or "known_days" not in events or not {"baseline", "source"} <= {*events.attrs}:
        raise SSTCastError(f"{file}: lacks what maps need; {AGAIN}")
    if min(events.sizes["lat"], events.sizes["lon"]) < 2:
        raise SSTCastError(f"{file}: has one row or column of cells, which is no map; find events in more cells")
    return subjects[0]


def _span(year: NDArray[np.integer]) -> str:
    return str(year[0]) if len(year) == 1 else f"{year[0]}-{year[-1]}"

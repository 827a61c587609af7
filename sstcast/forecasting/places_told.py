"""What is said of the places of a forecast, in the same words and order in the terminal and on a page.

Of a point and of an area alike, that is the mean temperature of all days, then the chance of a heatwave day by
week, on a day and within all days. Of an area, these are of a heatwave in at least the smallest of its shares, and
its expected share follows. The table of places (`forecasting.places.write_table`) has the same numbers.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from sstcast.errors import counted
from sstcast.extremes.baselines import FIXED, against
from sstcast.forecasting.chances import between, chance
from sstcast.forecasting.place_periods import table_beside
from sstcast.forecasting.point_fields import NO_EVENT
from sstcast.log import show
from sstcast.places.places import OUTLINES, Places, kilometres

ENDS = (0.1, 0.9)  # quantiles of the intervals that are told
TOLD_DAYS = (7, 14, 28)  # leads that are told, the first of them in the terminal too
NO_FORECAST = "no forecast"
MOST_LINES = 10  # of places that are told one by one
FIELDS = (
    *("sst", "sst_quantile", "threshold", "heatwave_probability", "share_probability"),
    *("heatwave_share", "heatwave_share_quantile"),
    *("week_heatwave_probability", "horizon_sst", "horizon_sst_quantile", "horizon_heatwave_probability"),
)
OF_DAYS = 7  # fields, before those of weeks and of all days


class ToldPlace(NamedTuple):
    """A place of a forecast from one day.

    Attributes:
        name: the name.
        values: those of the fields `FIELDS` that the forecast has, after `place_`, the lead or the week last: of
            quantiles the `ENDS`, of shares the smallest. A forecast of less than a week has none of weeks, and
            leads cut from a forecast have none of weeks or of all days.
        leads: the leads of the forecast in days.
        share: the smallest share in per cent.
        base: which years events are measured against, as the end of a statement.
    """

    name: str
    values: dict[str, NDArray[Any]]
    leads: list[int]
    share: float
    base: str

    @property
    def statements(self) -> list[str]:
        """What is said of the place, which is that it has no forecast if it has none."""
        of, days = self.values, counted(self.leads[-1], "day")
        if np.isnan(of["sst"]).all():
            return [NO_FORECAST]
        statements = []
        if np.isfinite(of.get("horizon_sst", np.nan)):
            ends = " to ".join(f"{end:z.1f}" for end in of["horizon_sst_quantile"])
            statements.append(f"{of['horizon_sst']:z.1f} °C in the next {days} (80 % interval {ends})")
        if "heatwave_probability" not in of:
            return statements
        day, is_area = told_days(self.leads)[0], bool(np.isfinite(of["heatwave_share"]).any())
        of_days = of["share_probability" if is_area else "heatwave_probability"]
        chances = {
            f"week {week}": of_week for week, of_week in enumerate(of.get("week_heatwave_probability", []), 1)
        }
        chances |= {f"on day {day}": of_days[self.leads.index(day)]}
        if "horizon_heatwave_probability" in of:
            chances |= {f"within {days}": of["horizon_heatwave_probability"]}
        if np.isnan(list(chances.values())).all():
            return [*statements, f"{NO_EVENT}{self.base}"]
        of_area = f" of at least {self.share:g} % of it" * is_area
        texts = ", ".join(f"{when}: {_chance(share)}" for when, share in chances.items())
        statements.append(f"a heatwave day{of_area} {'in ' * texts.startswith('week')}{texts}{self.base}")
        if is_area:
            statements.append(f"its share on day {day}: {self._share(day)}{self.base}")
        return statements

    def on(self, day: int) -> str:
        """Say what is forecast on a day."""
        of, column = self.values, self.leads.index(day)
        low, high = of["sst_quantile"][:, column]
        told = f"{of['sst'][column]:z.1f} °C ({low:z.1f} to {high:z.1f})"
        if "heatwave_probability" not in of:
            return told
        probability, share = of["heatwave_probability"][column], of["heatwave_share"][column]
        event = f"its share in a heatwave: {self._share(day)}" if np.isfinite(share) else NO_EVENT
        event = f"a heatwave: {chance(probability)}" if np.isfinite(probability) else event
        return f"{told}; {event}"

    def _share(self, day: int) -> str:
        column = self.leads.index(day)
        share, ends = self.values["heatwave_share"][column], self.values["heatwave_share_quantile"][:, column]
        return f"{chance(share)} ({between(ends.tolist())})" if np.isfinite(share) else NO_EVENT


def _chance(share: float) -> str:
    return chance(share) if np.isfinite(share) else NO_EVENT


def told_days(leads: list[int]) -> list[int]:
    """Return the leads that are told, which is the last one of a forecast of less than a week."""
    return [day for day in TOLD_DAYS if day in leads] or leads[-1:]


def base_years(forecast: xr.Dataset) -> str:
    """Return which years events are measured against, as the end of a statement, or "" if a file does not tell."""
    return against(f"{FIXED}, {forecast.attrs.get('heatwave_years', '')}")


def _days_forecast(forecast: xr.Dataset) -> int:
    """Return the days that a forecast was made for, whichever of its leads are left."""
    ends = [forecast.attrs.get(f"time_coverage_{end}") for end in ("start", "end")]
    if None in ends:
        return int(forecast["lead"].max())
    first, last = np.array(ends, "datetime64[D]")
    return int((last - first).astype(int)) + 1


def told_places(forecast: xr.Dataset) -> Iterator[ToldPlace]:
    """Yield each place of a forecast from one day."""
    arrays, leads = {}, forecast["lead"].values.astype(int).tolist()
    fields = FIELDS if leads == [*range(1, _days_forecast(forecast) + 1)] else FIELDS[:OF_DAYS]
    for name in fields:
        if (field := forecast.get(f"place_{name}")) is None:
            continue
        if "quantile" in field.dims:
            field = field.sel(quantile=list(ENDS), method="nearest")
        if "share" in field.dims:
            field = field.isel(share=int(np.argmin(forecast["share"].values)))
        last = [dim for dim in ("lead", "week") if dim in field.dims]
        arrays[name] = field.transpose("place", ..., *last).values
    of_all = leads, float(forecast["share"].min()), base_years(forecast)
    for number, name in enumerate(forecast["place"].values.tolist()):
        yield ToldPlace(name, {field: values[number] for field, values in arrays.items()}, *of_all)


def print_places(forecast: xr.Dataset, path: Path) -> None:
    """Print the lines of the places of the forecast in a file."""
    show(*lines_of_places(forecast.isel(init_time=-1), table_beside(path)))


def _without_forecast(name: str, forecast: xr.Dataset) -> str:
    """Return the line of a place that has no forecast, which for a point tells how far the sea is."""
    (place,) = (each for each in Places.from_geojson(forecast.attrs[OUTLINES]).places if each.name == name)
    if not place.is_point:
        return f"{name}: {NO_FORECAST}"
    sea = forecast["sst"].isel(lead=0).stack(cell=("lat", "lon")).dropna("cell")
    distance = kilometres(place.lat, place.lon, sea["lat"].values, sea["lon"].values).min()
    return f"{name} lies {distance:.0f} km from the sea of the region: {NO_FORECAST}"


def lines_of_places(forecast: xr.Dataset, table: Path) -> list[str]:
    """Return a line for each place of a forecast from one day, and how many more are in the `table`."""
    if "place_sst" not in forecast:
        return []
    lines = []
    for place in told_places(forecast.isel(place=slice(MOST_LINES))):
        told = place.statements
        is_absent = told == [NO_FORECAST]
        lines.append(_without_forecast(place.name, forecast) if is_absent else f"{place.name}: {'; '.join(told)}")
    if (more := forecast.sizes["place"] - MOST_LINES) > 0:
        lines.append(f"and {more} more in {table}")
    return lines

"""What the events of a record or a forecast say in a few lines: how many, the longest, and those that go on."""

from collections.abc import Iterable

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from sstcast.errors import counted
from sstcast.extremes.baselines import against
from sstcast.geo import area_weights
from sstcast.places.places import Place

EVENTS_AT_ONCE = 10_000_000
MOST_PLACES = 10  # that have a line
AREAS = "areas"  # attribute of a table: the places that are areas, whose events are of their mean temperature


def areas_of(places: Iterable[Place]) -> list[str]:
    """Return the names of the places that are no points."""
    return [place.name for place in places if not place.is_point]


def lines_of_events(found: xr.Dataset | pd.DataFrame, event: str = "heatwave") -> list[str]:
    """Describe the events of cells or of places, or nothing if there are none, as of degree heating weeks.

    An event goes on if it has no rate of decline, because it ends on the last day. Events in a forecast have a
    probability. `event` is the word for one.
    """
    if isinstance(found, pd.DataFrame):
        return _of_places(found, event) if "decline_rate" in found else []
    return _of_cells(found, event) if "event_decline_rate" in found else []


def _of_places(table: pd.DataFrame, event: str) -> list[str]:
    groups = [(name, of) for name, of in table.groupby("place", sort=False) if of["duration"].notna().any()]
    lines = [f"{name}: {_of_place(of, event)}" for name, of in groups[:MOST_PLACES]]
    return [*lines, f"and {len(groups) - MOST_PLACES} more"] if len(groups) > MOST_PLACES else lines


def _of_place(table: pd.DataFrame, event: str) -> str:
    longest = table.loc[table["duration"].idxmax()]
    is_last = table["end"] == table.attrs.get(
        "last", table["end"].max()
    )  # a missing day ends an event without a rate
    running = table[table["decline_rate"].isna() & is_last]
    until = " at the end of the forecast" * ("probability" in table)
    going_on = "".join(
        f"; one goes on{until}, since {of['start']:%Y-%m-%d} ({counted(int(of['duration']), 'day')})"
        for _, of in running.iterrows()
    )
    of_mean = " of its mean" * (longest["place"] in table.attrs.get(AREAS, ()))
    days, start = counted(int(longest["duration"]), "day"), f"{longest['start']:%Y-%m-%d}"
    return (
        f"{counted(len(table), event)}{of_mean}{against(longest['baseline'])}, the longest of {days} from {start}"
        f"{going_on or f'; none goes on{until}'}"
    )


def _of_cells(found: xr.Dataset, event: str) -> list[str]:
    stops = np.cumsum(found["cell_events"].values, dtype=np.int64)
    events = np.concatenate(
        [
            start + np.flatnonzero(np.isnan(found["event_decline_rate"][start : start + EVENTS_AT_ONCE].values))
            for start in range(0, found.sizes["event"], EVENTS_AT_ONCE)
        ]
        or [np.zeros(0, np.int64)]
    )
    base = against(str(found.attrs["baseline"]))
    if not len(events):
        return [f"on the last day, no cell is in a {event}{base}"]
    cells: NDArray[np.intp] = np.searchsorted(stops, events, side="right")
    areas = area_weights(found["lat"]).sel(lat=found["cell_lat"]).values
    own = found[["event_start", "event_end", "event_duration"]].isel(event=events).load()
    longest = int(np.argmax(own["event_duration"].values))
    lat, lon = (float(found[f"cell_{axis}"][cells[longest]]) for axis in ("lat", "lon"))
    last, start = (own[f"event_{end}"].values[longest].astype("datetime64[D]") for end in ("end", "start"))
    share = areas[cells].sum() / areas.sum()
    told = f"on {last}" + ", as forecast" * ("event_probability" in found)
    return [
        f"{told}, {share:.1%} of the ocean is in a {event}{base}, the longest at {lat:g}, {lon:g} since {start} "
        f"({counted(int(own['event_duration'][longest]), 'day')})"
    ]

"""Alerts of `update`: the places whose probability of a heatwave in the newest forecast reaches what a user names.

They are computed from the issued forecasts alone, so that a repeated update finds the same. Their file is written
after they were told: what it lacks is told again.
"""

import datetime as dt
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from sstcast.errors import SSTCastError, counted
from sstcast.forecasting.chances import chance
from sstcast.forecasting.forecast_events import place_events_in_forecast
from sstcast.forecasting.heatwaves import RUNNING_DAY
from sstcast.names import MODEL
from sstcast.places.places import OUTLINES, Place, Places
from sstcast.reports.how_good import scores_of
from sstcast.reports.page import open_forecast
from sstcast.scores.decisions import PROBABILITIES
from sstcast.storage.artefacts import atomic, check_intact, is_kept
from sstcast.storage.paths import read_regular

FILE = "alerts.json"
EVENT = "place_event_probability"


class Alerts(NamedTuple):
    """What an update says of alerts: whether it changed their file, a part of its line, and lines of their own."""

    changed: bool = False
    part: str = ""
    lines: tuple[str, ...] = ()


@contextmanager
def alerts_to_tell(issued: Mapping[dt.date, Path], per_cent: int | None, remedy: str) -> Iterator[Alerts]:
    """Yield the alerts of the newest of the `issued` forecasts, by date, then write them to alerts.json beside it.

    An alert is a place whose probability of a heatwave with a day in the forecast is at least `per_cent`. It is
    new if the newest earlier forecast has none of the same name and outline. Without a number there are no alerts,
    and their file goes. Only a call that changes the file has lines, one for each alert that is new or that the
    file lacks, and one on how many such warnings were right, if the run has scores of events. After an error in
    the `with` block, the file is as before.

    Raises SSTCastError, ending in `remedy`, if one of the two forecasts is not as it was issued, or if a file of
    this name does not hold alerts.
    """
    newest, *earlier = sorted(issued, reverse=True)
    file = issued[newest].with_name(FILE)
    held = _held(file)
    if per_cent is None:
        if held is not None:
            file.unlink()
        yield Alerts()
        return
    if held is None and is_kept(file):
        raise SSTCastError(f"{file}: exists and does not hold alerts; rename it")
    before = _above(issued[earlier[0]], per_cent, remedy) if earlier else []
    check_intact(issued[newest], remedy)
    with open_forecast(issued[newest]) as opened:
        forecast = opened.isel(init_time=-1)
        places, probability = _places(forecast), _probability(forecast)
        found = _reached(places, probability, per_cent)
        events = _events(forecast, found, str(issued[newest]))
        horizon = int(forecast["lead"][-1])
    alerts = [
        {"place": place.name, "issue": str(newest), "probability": _rounded(probability[place.name])}
        | events[place.name]
        | {"new": not any(place.name == of.name and place.geometry.equals(of.geometry) for of in before)}
        for place in found
    ]
    undefined = sum(bool(np.isnan(of)) for of in probability.values())
    have = "has" if undefined == 1 else "have"
    part = f"{counted(undefined, 'place')} {have} no event defined" if undefined else ""
    if held == alerts:
        yield Alerts(part=part)
        return
    told = {alert.get("place") for alert in held or ()}  # without those of an update that was killed
    lines = [
        _line(alert, place, horizon)
        for alert, place in zip(alerts, found, strict=True)
        if alert["new"] or place.name not in told
    ]
    lines += filter(None, [_worth(issued[newest], per_cent)] if lines else [])
    yield Alerts(True, part, tuple(lines))
    with atomic(file) as temporary:
        temporary.write_text(json.dumps(alerts, indent=1) + "\n")


def _held(file: Path) -> list[dict[str, Any]] | None:
    """Return the alerts in a file, or None if it holds none, or is absent, a link or a pipe."""
    if is_kept(file):
        with suppress(OSError, ValueError, RecursionError):
            held = json.loads(read_regular(file))
            if isinstance(held, list) and all(isinstance(alert, dict) and "issue" in alert for alert in held):
                return held
    return None


def _above(file: Path, per_cent: int, remedy: str) -> list[Place]:
    """Return the places of an issued forecast that are alerts at this probability."""
    check_intact(file, remedy)
    with open_forecast(file) as opened:
        forecast = opened.isel(init_time=-1)
        return _reached(_places(forecast), _probability(forecast), per_cent)


def _places(forecast: xr.Dataset) -> tuple[Place, ...]:
    return Places.from_geojson(forecast.attrs[OUTLINES]).places if OUTLINES in forecast.attrs else ()


def _probability(forecast: xr.Dataset) -> dict[str, np.float32]:
    """Return the probability of a heatwave in the forecast by place, NaN where no event is defined."""
    names = forecast["place"].values.tolist() if "place" in forecast else []
    values = forecast[EVENT].values if EVENT in forecast else np.full(len(names), np.nan, np.float32)
    return dict(zip(names, values, strict=True))


def _reached(places: tuple[Place, ...], probability: Mapping[str, np.float32], per_cent: int) -> list[Place]:
    """Return the places whose probability is at least `per_cent`, as it is stored, in single precision."""
    return [place for place in places if probability[place.name] >= np.float32(per_cent / 100)]


def _events(forecast: xr.Dataset, found: list[Place], file: str) -> dict[str, dict[str, Any]]:
    """Return, by place, whether a heatwave runs on the initial date, and the probabilities that it still runs."""
    if not found:
        return {}
    table, init_time = place_events_in_forecast(forecast, None, file), forecast["init_time"].values
    now = {*table["place"][(table["start"] <= init_time) & (table["end"] >= init_time)]}
    later = forecast["place_running_probability"]
    return {
        place.name: {"running": place.name in now}
        | {
            f"running_{day}": _rounded(later.sel({"place": place.name, RUNNING_DAY: day}).values)
            for day in forecast[RUNNING_DAY].values
        }
        for place in found
    }


def _line(alert: dict[str, Any], place: Place, horizon: int) -> str:
    """Return the line of an alert, without the days from the last of the forecast on."""
    of = "" if place.is_point else " of its mean"
    days = [int(name.partition("_")[2]) for name in alert if name.startswith("running_")]
    later = ", ".join(f"after {day} days {chance(alert[f'running_{day}'])}" for day in days if day < horizon)
    event = f"a marine heatwave{of} within {counted(horizon, 'day')}, {chance(alert['probability'])}"
    return f"alert: {place.name}: {event}{later and f'; still running {later}'}"


def _worth(newest: Path, per_cent: int) -> str:
    """Return how many warnings from this probability on were right, by the scores of the forecast's run, or ""."""
    if (scores := scores_of(newest, open_forecast(newest))) is None:
        return ""
    curve = scores.metrics.get("events", {}).get(MODEL, {}).get("warnings", {}).get("curve")
    position = int(np.argmin(abs(PROBABILITIES - per_cent / 100)))
    if curve is None or (wrong := curve["false_alarm_ratio"][position]) is None:
        return ""
    years = "-".join(dict.fromkeys(day[:4] for day in scores.metrics["test"]))
    return f"of warnings at {per_cent} % in single cells, {chance(1 - wrong)} were followed by one ({years})"


def _rounded(value: Any) -> float:
    return round(float(value), 4)

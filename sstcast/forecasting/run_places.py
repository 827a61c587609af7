"""The places of a run: RUN/places.geojson, a copy of those that the last forecast or evaluation was asked for."""

import datetime as dt
import json
import os
from pathlib import Path
from typing import Any, NamedTuple

from sstcast.errors import SSTCastError, counted, named, printable
from sstcast.forecasting.places import SHARES
from sstcast.log import LOG
from sstcast.places.places import Places
from sstcast.runs import Run
from sstcast.storage.artefacts import is_intact, is_kept, locked, remove_noted, write_json
from sstcast.storage.paths import read_regular

MOST_NAMED = 10  # places that are told by name
ALERT, DATE = "alert", "date"  # keys of the copy
REMEDY = "rename it, and give it with --places"


class AskedPlaces(NamedTuple):
    """The places that a forecast is for, the shares of areas, and the probability of alerts, both in per cent."""

    places: Places
    shares: tuple[float, ...] = SHARES
    alert: int | None = None

    @property
    def recipe(self) -> dict[str, Any]:
        """What the forecast of the places depends on."""
        return {"places": json.loads(self.places.geojson), "shares": list(self.shares)}


def places_for(run: Run, given: Places | None = None, shares: tuple[float, ...] = ()) -> AskedPlaces | None:
    """Return the places to forecast or to score, or None if there are none.

    Args:
        run: the run, or one of its results on another ocean.
        given: the places that a command was given, if any. Without a place, there are none from then on.
        shares: the shares that it was given, if any.

    Places and shares that were not given are those of the run, and a line tells of them. The probability of alerts
    is that of the run. Raises SSTCastError if RUN/places.geojson is not the copy that was written.
    """
    content = content_of_copy(run.trained.places, REMEDY)
    are_kept = not shares and tuple(content.get("shares", SHARES)) != SHARES
    shares = shares or tuple(content.get("shares", SHARES))
    if given is not None and not len(given):
        return None
    if given is not None:
        if are_kept and not given.are_points.all():
            LOG.info(f"shares of {run.trained.folder}: {', '.join(f'{share:g}' for share in shares)} %, as before")
        return AskedPlaces(given, shares, content.get(ALERT))
    if not content:
        return None
    kept = Places.from_geojson(json.dumps(content), *map(Path, content["files"]))
    LOG.info(f"places of {run.trained.folder}: {len(kept)}, from {kept.where}, {content['date']}")
    return AskedPlaces(kept, shares, content.get(ALERT))


def keep_places(run: Run, asked: AskedPlaces | None) -> None:
    """Keep the places that a forecast or an evaluation of the run's own ocean was for, or that there are none."""
    content = None
    if asked is not None:
        files = [file.name for file in asked.places.files]
        content = json.loads(asked.places.geojson) | {"shares": list(asked.shares), "files": files}
        content |= {} if asked.alert is None else {ALERT: asked.alert}
    before = keep_copy(run.places, content, "places", REMEDY)
    if told := told_of_places(run, before, content or {}):
        LOG.info(told)


def check_alert(run: Run, alert: int | None, places: Places | None) -> None:
    """Raise SSTCastError if alerts are asked for, but the run has no places, or is given none."""
    has_places = bool(content_of_copy(run.places, REMEDY)) if places is None else len(places) > 0
    if alert and not has_places:
        raise SSTCastError(f"--alert {alert}: {run.folder} has no places; give them with --places")


def keep_alert(run: Run, alert: int | None) -> int | None:
    """Keep the probability of alerts, in per cent, if one is given, 0 for none. Return the one of the run."""
    content = content_of_copy(run.places, REMEDY)
    if alert is None or not content:
        return content.get(ALERT)
    kept = {key: value for key, value in content.items() if key not in (ALERT, DATE)}
    keep_copy(run.places, kept | ({ALERT: alert} if alert else {}), "places", REMEDY)
    return alert or None


def told_of_places(run: Run, before: dict[str, Any], now: dict[str, Any]) -> str:
    """Return the line that says which places a run keeps no longer, by its contents of places.geojson, or ""."""
    names, earlier = ([of["properties"]["name"] for of in copy.get("features", [])] for copy in (now, before))
    lost = [printable(name) for name in earlier if name not in names]
    if not earlier or not (lost or len(names) != len(earlier)):
        return ""
    without = f": without {named(lost, MOST_NAMED)}" if lost else ""
    return f"{run.folder}: {counted(len(names), 'place')} instead of {len(earlier)}{without}"


def keep_copy(path: Path, content: dict[str, Any] | None, what: str, remedy: str) -> dict[str, Any]:
    """Write what a run keeps, with the date, to a file in its folder, or delete the file if it keeps nothing.

    Returns what it replaces or deletes, if anything. Raises SSTCastError like `content_of_copy`.
    """
    if content is None and not is_kept(path):
        return {}
    if not os.access(path.parent, os.W_OK):
        LOG.info(f"{path.parent}: is read-only, so that it keeps no {what}")
        return {}
    with locked(path):
        before = content_of_copy(path, remedy)
        if content is None:
            remove_noted(path)
        elif content != {key: value for key, value in before.items() if key != DATE}:
            write_json(path, content | {DATE: str(dt.date.today())})
        else:
            return {}
        return before


def content_of_copy(path: Path, remedy: str) -> dict[str, Any]:
    """Return what a run keeps in a file, which is empty without one. A link or a pipe of its name is none.

    Raises SSTCastError, ending in `remedy`, if it is not the file that was written.
    """
    if not is_kept(path):
        return {}
    if not is_intact(path, strictly=True):
        raise SSTCastError(f"{path}: is not the copy that sstcast wrote; {remedy}")
    content: dict[str, Any] = json.loads(read_regular(path))
    return content

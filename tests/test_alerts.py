"""The alerts of update: against probabilities written by hand, and what a run keeps of them."""

import datetime as dt
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import shapely
import xarray as xr
from refusals import refused

from sstcast.places.places import OUTLINES, Place, Places
from sstcast.reports import alerts
from sstcast.reports.alerts import Alerts, alerts_to_tell

FIRST, SECOND = dt.date(2020, 1, 10), dt.date(2020, 1, 12)
PLACES = {
    "farm": shapely.Point(171.3, -10.3),
    "bay": shapely.box(170, -11, 171, -10),
    "ice": shapely.Point(172, -10.3),
}
RAN = {"farm": -4, "bay": 1}  # the first of the days above the threshold, in days from the initial date


def issue(folder: Path, day: dt.date, chances: dict[str, float], **outlines: Any) -> dict[dt.date, Path]:
    """Write a forecast of 8 days after 10, with these chances of a heatwave by place, NaN for a place without."""
    geometry = {**PLACES, **outlines}
    names, leads, past = list(geometry), np.arange(1, 9), np.arange(-9, 1)
    values = np.array([chances.get(name, np.nan) for name in names], np.float32)
    fields: dict[str, Any] = {
        "place_event_probability": (("init_time", "place"), values[None]),
        "place_running_probability": (
            ("init_time", "running_day", "place"),
            np.stack([values / 2, values / 4])[None],
        ),
    }
    for dim, days in (("lead", leads), ("past", past)):
        hot = np.stack([np.where(days >= RAN.get(name, 99), 2.0, 0.0) for name in names], 1)
        for name, field in (("sst", hot), ("climatology", 0 * hot), ("event_threshold", 0 * hot + 1)):
            fields[f"place_{name}{'_past' * (dim == 'past')}"] = (("init_time", dim, "place"), field[None])
    coords = {"lead": leads, "past": past, "place": names, "running_day": [7, 8], "lat": [0.0, 1], "lon": [0.0, 1]}
    coords["init_time"] = [np.datetime64(day, "ns")]
    fields["sst"] = (("init_time", "lead", "lat", "lon"), np.zeros((1, 8, 2, 2)))
    held = Places((), tuple(Place(name, of) for name, of in geometry.items()))
    file = folder / f"forecast-{day}.nc"
    xr.Dataset(fields, coords, {OUTLINES: held.geojson}).to_netcdf(file, engine="netcdf4")
    return {day: file}


def write_alerts(*arguments: Any) -> Alerts:
    with alerts_to_tell(*arguments) as found:
        return found


def test_alerts_are_the_places_at_or_above_the_probability(tmp_path: Path) -> None:
    issued = issue(tmp_path, FIRST, {"farm": 0.92, "bay": 0.35})
    made = write_alerts(issued, 35, "")
    assert made.changed
    assert made.part == "1 place has no event defined"
    assert made.lines == (
        "alert: farm: a marine heatwave within 8 days, 92 %; still running after 7 days 46 %",
        "alert: bay: a marine heatwave of its mean within 8 days, 35 %; still running after 7 days 18 %",
    )
    day = {"issue": "2020-01-10", "new": True}
    assert json.loads((tmp_path / "alerts.json").read_text()) == [
        {"place": "farm", "probability": 0.92, "running": True, "running_7": 0.46, "running_8": 0.23, **day},
        {"place": "bay", "probability": 0.35, "running": False, "running_7": 0.175, "running_8": 0.0875, **day},
    ]
    again = write_alerts(issued, 35, "")
    assert (again.changed, again.lines, again.part) == (False, (), made.part)
    assert [line[:12] for line in write_alerts(issued, 40, "").lines] == ["alert: farm:"]
    assert write_alerts(issued, 95, "") == (True, "1 place has no event defined", ())
    assert (tmp_path / "alerts.json").read_text() == "[]\n"


def test_new_is_what_the_newest_earlier_forecast_did_not_have(tmp_path: Path) -> None:
    moved = shapely.box(170, -11, 171, -10.5)
    oldest = issue(tmp_path, dt.date(2020, 1, 8), {"farm": 0.1, "bay": 0.1})
    earlier = issue(tmp_path, FIRST, {"farm": 0.6, "bay": 0.6, "ice": 0.45})
    later = issue(tmp_path, SECOND, {"farm": 0.7, "bay": 0.7, "ice": 0.5}, bay=moved)

    def new() -> dict[str, bool]:
        return {alert["place"]: alert["new"] for alert in json.loads((tmp_path / "alerts.json").read_text())}

    write_alerts(oldest | earlier, 50, "")
    before = (tmp_path / "alerts.json").read_text()
    with pytest.raises(KeyboardInterrupt), alerts_to_tell(oldest | earlier | later, 50, "") as made:
        raise KeyboardInterrupt  # before they were told
    assert (tmp_path / "alerts.json").read_text() == before
    assert write_alerts(oldest | earlier | later, 50, "") == made
    assert new() == {"farm": False, "bay": True, "ice": True}
    assert [line.split(":")[1] for line in made.lines] == [" bay", " ice"]
    for content in ("[]", None):  # as if the update had been killed that was to tell of the earlier forecast
        (tmp_path / "alerts.json").unlink()
        if content:
            (tmp_path / "alerts.json").write_text(content)
        told = write_alerts(oldest | earlier | later, 50, "").lines
        assert [line.split(":")[1] for line in told] == [" farm", " bay", " ice"]
        assert new() == {"farm": False, "bay": True, "ice": True}
    write_alerts(oldest | later, 50, "")
    assert new() == {"farm": True, "bay": True, "ice": True}
    write_alerts(oldest | earlier | later, 45, "")
    assert new() == {"farm": False, "bay": True, "ice": False}


def test_a_file_of_others_is_left_alone_and_ones_own_goes(tmp_path: Path) -> None:
    issued, file = issue(tmp_path, FIRST, {"farm": 0.9}), tmp_path / "alerts.json"
    file.write_text('{"mine": 1}')
    with refused(file, "does not hold alerts"):
        write_alerts(issued, 50, "")
    write_alerts(issued, None, "")
    assert file.read_text() == '{"mine": 1}'
    file.unlink()
    write_alerts(issued, 50, "")
    write_alerts(issued, None, "")
    assert not file.exists()


def test_the_scores_say_how_many_warnings_were_right(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    curve = {"false_alarm_ratio": [None, *np.linspace(0.9, 0.05, 18).round(2).tolist()]}
    metrics = {"test": ["2015-01-01", "2016-12-31"], "events": {"model": {"warnings": {"curve": curve}}}}
    monkeypatch.setattr(alerts, "scores_of", lambda *_: SimpleNamespace(metrics=metrics))
    issued = issue(tmp_path, FIRST, {"farm": 0.96})
    right = {10: 0.1, 50: 0.5, 95: 0.95}
    for per_cent, share in right.items():
        words = f"of warnings at {per_cent} % in single cells, {share:.0%}".replace("%", " %").replace("  ", " ")
        assert write_alerts(issued, per_cent, "").lines[1] == f"{words} were followed by one (2015-2016)"
        (tmp_path / "alerts.json").unlink()
    assert len(write_alerts(issued, 5, "").lines) == 1  # no such warning was scored

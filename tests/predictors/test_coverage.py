"""How well a predictor is known on a day, compared with training days, and what is not known at all."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from logged import logged
from refusals import refused
from test_implausible_fields import folder, read  # noqa: F401 - fixtures
from test_known_forecasts import forecasts
from test_known_grids import DAYS, wind

from sstcast.predictors.predictors import check_known, count_lacking

READ, DAY, MAY = 10, np.datetime64("2004-07-10", "ns"), {"missing": "climatology"}
Read = Callable[..., Any]


def known(stored: Any, day: np.datetime64 = DAY, **given: Any) -> tuple[dict[str, str], str]:
    return check_known(day, READ, {stored.name: stored}, given)


def gappy(data: xr.Dataset, day: str, cells: int) -> xr.Dataset:
    """Return a field of which only the last cells are known on a day."""
    copy = data.copy(deep=True)
    copy["u10"].values.reshape(len(DAYS), 96)[DAYS.get_loc(day), : 96 - cells] = np.nan
    return copy


@pytest.mark.parametrize("delay", [0, 2])
def test_one_cell_is_not_a_known_field(read: Read, delay: int) -> None:  # noqa: F811
    newest = str(DAYS[DAYS.get_loc("2004-07-10") - delay].date())
    stored = read(gappy(wind(), newest, 1), "grid", delay=delay)
    with refused(
        "data.predictors.wind", "tells 1.1% of the sea on the newest day", "(100.0%)", "missing: climatology"
    ):
        known(stored)
    absent, text = known(read(gappy(wind(), newest, 1), "grid", delay=delay, **MAY))
    assert "1.1% of the sea on the newest day" in absent["wind"]
    assert text.endswith(f"newest day; wind: {(9 + 1 / 90) / 10:.1%} of the sea on the days that are read")
    whole = known(read(wind(), "grid", delay=delay))
    assert whole == (
        {},
        "wind: 100.0% of the sea on the newest day; wind: 100.0% of the sea on the days that are read",
    )


def test_unknown_days_of_the_history_are_missing(read: Read) -> None:  # noqa: F811
    data = wind()
    unknown = (DAYS < "2004-07-08") & (DAYS > "2004-06-28")
    stored = read(data.isel(time=~unknown), "grid")
    with refused(
        "data.predictors.wind", "tells 10.0% of the sea on the days that are read", "a forecast from 2004-07-10"
    ):
        known(stored)
    assert not known(stored, np.datetime64("2004-06-30", "ns"))[0]
    assert not known(stored, np.datetime64("2004-07-20", "ns"))[0]
    counts = count_lacking(DAYS[DAYS.year == 2004].values, READ, {stored.name: stored})
    assert counts == {"wind": 9 + READ - 1}


def test_a_single_lead_of_the_newest_issue_is_not_enough(read: Read) -> None:  # noqa: F811
    data = forecasts()
    data["u10"] = data["u10"].where((data["init_time"] != np.datetime64("2004-07-07")) | (data["lead"] == 4))
    stored = read(data, "forecast")
    with refused("data.predictors.wind", "tells 12.5% of the sea on the days ahead", "(75.0%)"):
        known(stored)
    last = data["u10"].where(data["init_time"] != np.datetime64("2004-07-07"))
    with refused("tells 25.0% of the sea on the days ahead"):  # the issue before it, which is known, ends earlier
        known(read(last.to_dataset(), "forecast"))


def test_what_has_gaps_serves_as_in_training(read: Read) -> None:  # noqa: F811
    random, data = np.random.default_rng(0), wind()
    swath = data.where(random.random(data["u10"].shape) < 0.6)
    stored = read(swath, "grid")
    days = DAYS[DAYS.year >= 2003].values
    lacking = count_lacking(days, READ, {stored.name: stored})["wind"]
    assert 0.08 < lacking / len(days) < 0.3  # each of two shares is below its tenth percentile on a tenth of days
    tolerant = read(swath, "grid", **MAY)
    with logged() as lines:
        told = [known(tolerant, day)[1] for day in days[:12]]
    assert sum("less than on half of the training days" in line for line in lines) > 3
    assert len(set(told)) > 6
    far = read(data.where(data["lon"] > 171), "grid")  # without the coast
    assert known(far) == known(far, DAY - np.timedelta64(30, "D"))
    assert not known(far)[0]
    short = read(forecasts().isel(lead=slice(0, 5)), "forecast")  # five days ahead of eight, every five days
    assert all(not known(short, day)[0] for day in days[100:105])
    late = data.where(data["time"] > np.datetime64("2001-12-01"))  # days before a product begins do not count
    with refused("tells 1.1% of the sea"):
        known(read(gappy(late, "2004-07-08", 1), "grid"))


def test_given_days_are_added_to_those_of_the_store(read: Read) -> None:  # noqa: F811
    data, days = wind(), np.array([DAY])
    until = read(data.sel(time=slice(None, "2004-07-04")), "grid")
    whole = read(data, "grid")
    with refused("has no values for 2004-07-05..2004-07-08"):
        known(until)
    given = until.given(data.sel(time=slice("2004-07-03", None)))
    assert known(until, wind=given) == known(whole)
    span = pd.date_range("2004-06-20", "2004-07-12").as_unit("ns").values
    np.testing.assert_array_equal(until.known(span, given).values, whole.known(span).values)
    other = until.given(
        data.sel(time=slice("2004-07-03", None)) + 1
    )  # of two values of a day, the given one is read
    shift = (until.known(span, other) - whole.known(span)).max(("lat", "lon")).values
    np.testing.assert_allclose(shift[:15], 0, atol=1e-6)
    np.testing.assert_allclose(shift[15:], 1 / float(whole.open_statistics()["deviation"]), rtol=1e-4)
    hole = until.given(data.sel(time=slice("2004-07-08", None)))
    with refused("tells 70.0% of the sea on the days that are read"):
        known(until, wind=hole)
    issues = forecasts()
    early, every = read(issues.sel(init_time=slice(None, "2004-07-04")), "forecast"), read(issues, "forecast")
    newest = early.given(issues.sel(init_time=slice("2004-07-05", None)).isel(lead=slice(0, 9)))
    expected = every.known(days, every.given(issues.isel(lead=slice(0, 9)))).values
    np.testing.assert_array_equal(early.known(days, newest).values, expected)


def test_a_given_index_is_standardised_as_the_stored_one(read: Read, tmp_path: Path) -> None:  # noqa: F811
    months = pd.period_range("2001-01", "2004-12", freq="M")
    values = pd.Series(np.random.default_rng(0).standard_normal(48).round(2), months)
    paths = tmp_path / "short.csv", tmp_path / "long.csv"
    for path, part in zip(paths, (values[:40], values), strict=True):
        pd.DataFrame({"date": part.index.astype(str), "value": part.to_numpy()}).to_csv(path, index=False)
    short, long = (read(str(path), "index") for path in paths)
    days = DAYS[-60:].as_unit("ns").values
    given = short.given(values[38:])  # too short for a climatology of its own
    np.testing.assert_array_equal(short.known(days, given).values, long.known(days).values)
    raised = long.known(days, long.given(values + 1)) - long.known(days)
    assert float(raised.min()) == pytest.approx(float(raised.max()), rel=1e-5)
    assert float(raised.min()) > 0.5  # in the statistics of the store, not in its own
    assert short.missing(DAYS[-1].to_datetime64()) == "has no values for 2004-05-01..2004-12-31"
    holes = read(str(paths[1]), "index").open()["value"].load().drop_isel(time=[-2])
    assert long.missing(DAYS[-1].to_datetime64(), holes) == "has too few values up to 2004-12-31"


def test_a_record_that_begins_too_late_tells_when_it_would_serve(read: Read) -> None:  # noqa: F811
    with refused(
        "data.predictors.wind", "0 days in 2001-01-01..2002-12-31", "begins on 2003-02-01", "2004-02-02 or later"
    ):
        read(wind().sel(time=slice("2003-02-01", None)), "grid")
    with refused("data.predictors.wind", "60 days", "begins on 2002-11-01", "2003-11-01 or later"):
        read(wind().sel(time=slice("2002-11-01", None)), "grid", delay=1)
    with refused("data.predictors.wind", "0 days", "begins on 2003-02-03", "end on 2004-02-02 or later"):
        read(forecasts().sel(init_time=slice("2003-02-01", None)), "forecast")
    for issue in (0, -1):
        with refused("data.predictors.wind", "give more"):
            read(forecasts().isel(init_time=[issue]), "forecast")


def test_other_leads_are_another_predictor(read: Read) -> None:  # noqa: F811
    data, span = forecasts(), (DAYS[0].date(), DAYS[900].date())
    stored = read(data, "forecast")
    first = stored.digest(*span)
    assert read(data, "forecast").digest(*span) == first
    assert read(data.assign_coords(lead=data["lead"] + 1), "forecast").digest(*span) != first


def test_exchanged_chunks_of_a_store_are_noticed(read: Read) -> None:  # noqa: F811
    stored = read(wind(5), "grid")
    first, second = (stored.path / "value" / name for name in ("0.0.0", "3.0.0"))
    contents = first.read_bytes(), second.read_bytes()
    second.write_bytes(contents[0])
    first.write_bytes(contents[1])
    again = type(stored)(stored.name, stored.kind, stored.data, stored.path.parent)
    with refused(stored.path, "has changed since it was written", "sstcast prepare"):
        again.known(DAYS[:1].values)
    read(wind(5), "grid")
    assert (first.read_bytes(), second.read_bytes()) == contents


def test_issues_to_come_do_not_hide_the_newest_one(read: Read) -> None:  # noqa: F811
    data = forecasts()
    until = data.sel(init_time=slice(None, "2004-07-02"))
    ahead = read(until.reindex(init_time=data["init_time"]), "forecast")  # an axis that is allocated ahead
    assert ahead.open()["init_time"].values[-1] == np.datetime64("2004-07-02")
    np.testing.assert_array_equal(ahead.known(np.array([DAY])), read(until, "forecast").known(np.array([DAY])))

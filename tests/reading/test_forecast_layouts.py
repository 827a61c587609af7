"""Perfect forecasts in layouts of others: each value is the truth of its day, so the error is 0, or it is refused.

Only what a file states tells its days: bounds, attributes, valid times, calendars, the dates of reforecasts.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from refusals import refused
from small_files import folder_of, netcdf
from small_ocean import make_sst

from sstcast.config import FieldSource
from sstcast.reading.forecast_files import Forecasts, read_forecasts
from sstcast.scores.score import score

DAY, HOUR = np.timedelta64(1, "D"), np.timedelta64(1, "h")
TRUTH = make_sst(4)["sst"].astype("float32")
STARTS = np.arange("2004-01-05", "2004-11-01", 14, "datetime64[D]").astype("datetime64[ns]")
LEADS = np.arange(1, 15)
DEGREES = {"units": "degC"}


def values_on(days: np.ndarray) -> np.ndarray:
    """Return the truth on days `[...]`, NaN where it has none."""
    shape, days = days.shape, pd.DatetimeIndex(days.astype("datetime64[ns]").ravel()).normalize()
    return TRUTH.reindex(time=days.where(days.notna(), pd.Timestamp("1900-01-01"))).values.reshape(*shape, 8, 12)


def dataset(
    days: np.ndarray,
    lead: Any,
    init: Any = STARTS,
    attributes: dict[str, str] | None = None,
    **lead_attributes: Any,
) -> xr.Dataset:
    """Return forecasts of `days [init, lead]` with these labels."""
    data = {"sst": (("init_time", "lead", "lat", "lon"), values_on(days), DEGREES | (attributes or {}))}
    coordinates = {
        "init_time": init,
        "lead": ("lead", lead, lead_attributes),
        "lat": TRUTH["lat"],
        "lon": TRUTH["lon"],
    }
    return xr.Dataset(data, coordinates)


def ahead(days: int = 0, starts: np.ndarray = STARTS, leads: np.ndarray = LEADS) -> np.ndarray:
    """Return the days `leads` after each start, and so many `days` more."""
    return starts[:, None] + (leads + days) * DAY


def perfect(path: Path) -> xr.DataArray:
    """Read forecasts, and return them if all that are not missing equal the truth on the days found."""
    return perfect_of(read_forecasts(path))


def perfect_of(forecasts: Forecasts) -> xr.DataArray:
    """Return forecasts that were read, if all that are not missing equal the truth on the days found."""
    found = forecasts.sst
    valid = found["init_time"].values[:, None] + found["lead"].values * DAY
    error = found.values[0] - values_on(valid)
    assert np.isfinite(error).any((2, 3)).sum() > 0.5 * valid.size
    np.testing.assert_allclose(error[np.isfinite(error)], 0, atol=1e-4)
    return found


def with_valid_times(shift: Any, data: xr.Dataset) -> xr.Dataset:
    times = data["init_time"] + data["lead"] * DAY + shift
    return data.assign_coords(valid_time=times.drop_attrs().assign_attrs(standard_name="time"))


def bounded(data: xr.Dataset, first: np.ndarray, last: np.ndarray) -> xr.Dataset:
    data["lead"].attrs["bounds"] = "lead_bnds"
    return data.assign(lead_bnds=(("lead", "bnds"), np.stack([first, last], 1)))


MEANS = {"cell_methods": "area: mean time: mean"}
DAYS = {"units": "days"}
WEEKS = np.array([7, 14, 21, 28])
LAYOUTS: dict[str, tuple[Callable[[], xr.Dataset], str]] = {
    "labels at the end, valid times of the day itself": (
        lambda: with_valid_times(-DAY, dataset(ahead(-1), LEADS, **DAYS)),
        "contradict its valid times",
    ),
    "valid times at noon of the day before": (
        lambda: with_valid_times(-12 * HOUR, dataset(ahead(-1), LEADS, attributes=MEANS, **DAYS)),
        "contradict its valid times",
    ),
    "valid times that agree": (lambda: with_valid_times(0 * DAY, dataset(ahead(), LEADS, **DAYS)), ""),
    "valid times at noon of the same day": (
        lambda: with_valid_times(12 * HOUR, dataset(ahead(), LEADS, **DAYS)),
        "",
    ),
    "valid times a moment before midnight, as stored in float32": (
        lambda: with_valid_times(np.timedelta64(-100, "ms"), dataset(ahead(), LEADS, **DAYS)),
        "",
    ),
    "forecasts from noon, whose valid times are the midnight after the days of their leads": (
        lambda: with_valid_times(12 * HOUR, dataset(ahead(1), LEADS, STARTS + 12 * HOUR, **DAYS)),
        "contradict its valid times",
    ),
    "means in hours from 24": (
        lambda: dataset(ahead(-1), 24 * LEADS, attributes={"cell_methods": "step: mean"}, units="hours"),
        "of the 24 hours before it (cell_methods 'step: mean', hours from 24)",
    ),
    "the same, with valid times as cfgrib adds them": (
        lambda: with_valid_times(0 * DAY, dataset(ahead(-1), LEADS, attributes=MEANS, **DAYS)).assign_coords(
            lead=("lead", 24 * LEADS, {"units": "hours"})
        ),
        "of the 24 hours before it",
    ),
    "means in hours from 0": (
        lambda: dataset(ahead(-1), 24 * LEADS - 24, attributes=MEANS, units="hours"),
        "means are of the day of initial time + lead",
    ),
    "means in hours from 24 after noon": (
        lambda: dataset(ahead(), 24 * LEADS, STARTS + 12 * HOUR, MEANS, units="hours"),
        "if yours are of the day before, subtract 1 day",
    ),
    "instants in hours from 24": (
        lambda: dataset(ahead(), 24 * LEADS, attributes={"cell_methods": "area: mean time: point"}, units="hours"),
        "",
    ),
    "means in whole days": (
        lambda: dataset(ahead(), LEADS, attributes=MEANS, **DAYS),
        "subtract 1 day from its leads",
    ),
    "bounds decide before attributes": (
        lambda: bounded(dataset(ahead(), LEADS, attributes=MEANS, **DAYS), LEADS, LEADS + 1),
        "days are those of the bounds",
    ),
    "single days of each week": (
        lambda: dataset(ahead(leads=WEEKS), WEEKS, **DAYS),
        "leads 7, 14, 21, 28 are read as single days, not as means",
    ),
    "half days, as SubX labels daily means": (
        lambda: dataset(ahead(-1), LEADS - 0.5, **DAYS),
        "lead 0 is the day of",
    ),
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_perfect_forecasts_have_no_error(name: str, tmp_path: Path) -> None:
    make, note = LAYOUTS[name]
    forecasts = read_forecasts(netcdf(make())(tmp_path))
    perfect_of(forecasts)
    told = forecasts.note
    assert note in told
    assert ("contradict" in told, "24 hours before" in told) == ("contradict" in note, "24 hours before" in note)


def in_calendar(calendar: str, starts: list[tuple[int, int, int]], lead: Any = LEADS) -> xr.Dataset:
    """Return forecasts whose leads count days of the calendar, missing on days that the standard one lacks."""
    init = xr.date_range("2000-01-01", periods=1, calendar=calendar, use_cftime=True).values[0]
    dates = np.array([init.replace(year=year, month=month, day=day) for year, month, day in starts])
    steps = np.array([pd.Timedelta(days=float(step)).to_pytimedelta() for step in lead], object)
    valid = [pd.to_datetime(day.isoformat(), errors="coerce") for day in np.add.outer(dates, steps).ravel()]
    return dataset(pd.DatetimeIndex(valid).values.reshape(len(dates), -1), lead, dates, **DAYS)


def test_a_lead_beyond_ten_years_is_refused(tmp_path: Path) -> None:
    path = netcdf(dataset(ahead(), LEADS, **DAYS).assign_coords(lead=("lead", LEADS * 1000, DAYS)))(tmp_path)
    with refused("reaches", "days ahead; correct its units"):
        read_forecasts(path)


@pytest.mark.parametrize("first", [0, 1])
def test_leads_count_days_of_the_calendar(tmp_path: Path, first: int) -> None:
    """In a leap year: 1 March follows 28 February in noleap, and 30 days of February precede it in 360_day."""
    starts = [(2004, 1, 5), (2004, 2, 16), (2004, 2, 20), (2004, 2, 28), (2004, 3, 1), (2003, 2, 20)]
    noleap = perfect(netcdf(in_calendar("noleap", starts, LEADS - 1 + first), "a.nc")(tmp_path))
    known = noleap.notnull().any(("member", "lat", "lon"))
    assert known.all("lead").sel(init_time=["2004-01-05", "2004-03-01"], method="nearest").all()
    assert known.all("lead").sum() == 3
    lacking = known["init_time"] + known["lead"] * DAY
    assert set(lacking.values[~known.values]) == {np.datetime64("2004-02-29")}
    months = perfect(netcdf(in_calendar("360_day", [*starts, (2004, 4, 6)], LEADS), "b.nc")(tmp_path))
    complete = months.notnull().any(("member", "lat", "lon")).all("lead")
    assert complete["init_time"][complete.values].dt.strftime("%m-%d").values.tolist() == [
        "01-05",
        "03-01",
        "04-06",
    ]
    assert "calendar, 360_day" in read_forecasts(tmp_path / "b.nc").note


@pytest.mark.parametrize(("calendar", "day"), [("noleap", "2004-02-29"), ("360_day", "2004-02-30")])
def test_forecasts_that_all_cross_a_day_that_a_calendar_lacks_are_refused_with_its_name(
    tmp_path: Path, calendar: str, day: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    TRUTH.to_netcdf("truth.nc")
    path = netcdf(in_calendar(calendar, [(2004, 2, 20), (2004, 2, 25)]))(tmp_path)
    with refused("none of its 2 forecasts", f"they cross {day}, which a calendar lacks", "fewer --leads"):
        score(path, FieldSource(source="truth.nc"))


def test_valid_days_in_place_of_leads_follow_their_calendar(tmp_path: Path) -> None:
    data = in_calendar("noleap", [(2004, 2, 20)])
    time = data["init_time"].values[0] + np.array(
        [pd.Timedelta(days=int(n)).to_pytimedelta() for n in LEADS], object
    )
    path = netcdf(data.isel(init_time=0).drop_vars("lead").rename(lead="time").assign_coords(time=time))(tmp_path)
    assert perfect(path).sizes["lead"] == len(LEADS)


def test_valid_days_of_another_calendar_than_the_initial_time_are_days(tmp_path: Path) -> None:
    """The days themselves are given, so none is lost: those after 28 February are one more day ahead."""
    data = in_calendar("noleap", [(2004, 2, 20)])
    time = data["init_time"].values[0] + np.array(
        [pd.Timedelta(days=int(n)).to_pytimedelta() for n in LEADS], object
    )
    data = data.isel(init_time=0).drop_vars("lead").rename(lead="time")
    data = data.assign_coords(time=time, init_time=np.datetime64("2004-02-20", "ns"))
    found = perfect(netcdf(data)(tmp_path))
    assert found["lead"].values.tolist() == [*range(1, 9), *range(10, 16)]


def of_iri(first: Any, units: str, calendar: str, lead_units: str) -> xr.Dataset:
    """Return daily means with the names and units of NMME and SubX in the library of IRI."""
    start = {
        "units": f"{units} since 1960-01-01",
        "calendar": calendar,
        "standard_name": "forecast_reference_time",
    }
    data = dataset(ahead(-1), LEADS - 0.5, units=lead_units, standard_name="forecast_period")
    data["sst"].attrs["units"] = "Celsius_scale"
    data = data.assign_coords(init_time=("init_time", first, start))
    names = {"init_time": "S", "lead": "L", "lat": "Y", "lon": "X"}
    data = data.rename(names).expand_dims(M=[1.0], axis=1)
    for axis, name in (("M", "realization"), ("Y", "latitude"), ("X", "longitude")):
        data[axis].attrs["standard_name"] = name
    return data


def test_daily_means_of_subx_are_read_and_months_of_nmme_refused(tmp_path: Path) -> None:
    days = (STARTS - np.datetime64("1960-01-01", "ns")) / DAY
    perfect(netcdf(of_iri(days, "days", "standard", "days"), "subx.nc")(tmp_path))
    months = np.arange(len(STARTS)) + 528.0
    with refused("nmme.nc: counts months", "give daily data, not monthly means"):
        perfect(netcdf(of_iri(months, "months", "360", "months"), "nmme.nc")(tmp_path))
    with refused("cf.nc: holds means over more than a day", "(units 'months' of L)"):
        perfect(netcdf(of_iri(months, "months", "360_day", "months"), "cf.nc")(tmp_path))
    with refused("days.nc: cannot decode its time", "360_day for 360"):
        perfect(netcdf(of_iri(days, "days", "360", "days"), "days.nc")(tmp_path))


def reforecasts(dates: Any) -> xr.Dataset:
    """Return reforecasts of 5 January to 5 March 2004 with a model version of 2020, as of the S2S archive."""
    starts = np.array(["2004-01-05", "2004-02-05", "2004-03-05"], "datetime64[ns]")
    data = dataset(ahead(starts=starts), LEADS, starts, **DAYS).rename(init_time="hdate")
    version = xr.DataArray(np.datetime64("2020-01-05", "ns"), attrs={"standard_name": "forecast_reference_time"})
    data = data.assign_coords(hdate=dates(starts), time=version)
    return data.assign_coords(valid_time=("lead", data["time"].values + LEADS * DAY, {"standard_name": "time"}))


@pytest.mark.parametrize(
    "dates",
    [
        lambda starts: starts,
        lambda starts: [int(day.replace("-", "")) for day in starts.astype("M8[D]").astype(str)],
        lambda starts: starts.astype("M8[D]").astype(str).tolist(),
    ],
    ids=["dates", "numbers", "texts"],
)
def test_the_initial_time_of_a_reforecast_is_its_hdate(tmp_path: Path, dates: Callable[..., Any]) -> None:
    data = reforecasts(dates)
    starts = perfect(netcdf(data, "all.nc")(tmp_path))["init_time"]
    assert starts.dt.year.values.tolist() == [2004] * 3
    perfect(netcdf(data.isel(hdate=1), "one.nc")(tmp_path))  # its hdate is a scalar, beside the time
    two = xr.concat([data, data.assign_coords(time=data["time"] + 7 * DAY)], "time")
    with refused("two.nc", "has an extra dimension time of 2; select one index and save it"):
        perfect(netcdf(two, "two.nc")(tmp_path))
    perfect(netcdf(two.isel(time=1), "second.nc")(tmp_path))


def test_remedies_for_split_layouts_work(tmp_path: Path) -> None:
    """Initial times by year and day of the year, two hours, control and perturbed members in two files."""
    years, days = [2002, 2003, 2004], [5, 50]
    starts = np.array([np.datetime64(f"{year}-01-01", "ns") + (day - 1) * DAY for year in years for day in days])
    flat = dataset(ahead(starts=starts), LEADS, starts, **DAYS)
    split = flat.drop_vars("init_time").coarsen(init_time=2).construct(init_time=("year", "dayofyear"))
    split = split.assign_coords(year=years, dayofyear=days)
    with refused("split.nc", "years of initial times on a dimension, year", "ds.stack(init_time=('year', ...)"):
        perfect(netcdf(split, "split.nc")(tmp_path))
    joined = split.stack(init_time=("year", "dayofyear"), create_index=False).assign_coords(init_time=starts)
    perfect(netcdf(joined, "joined.nc")(tmp_path))

    hours = xr.concat([flat, flat.assign_coords(init_time=starts + 12 * HOUR)], "init_time").sortby("init_time")
    with refused("hours.nc", "two forecasts begin on 2002-01-05; select those from one hour"):
        perfect(netcdf(hours, "hours.nc")(tmp_path))
    perfect(netcdf(hours.sel(init_time=hours["init_time"].dt.hour == 12), "noon.nc")(tmp_path))

    control = flat.assign_coords(number=0)
    perturbed = xr.concat([flat.assign_coords(number=n) for n in (1, 2)], "number")
    folder = folder_of(netcdf(control, "control.nc"), netcdf(perturbed, "perturbed.nc"))(tmp_path)
    with refused("control.nc and", "perturbed.nc: both hold 2002-01-05", "join their members: xr.concat"):
        read_forecasts(folder)
    files = [xr.open_dataset(folder / f"{name}.nc", engine="netcdf4") for name in ("control", "perturbed")]
    assert perfect(netcdf(xr.concat(files, "number"), "members.nc")(tmp_path)).sizes["member"] == 3


def weeks_of_valid_times() -> xr.Dataset:
    data = with_valid_times(0 * DAY, dataset(ahead(leads=WEEKS), WEEKS, **DAYS))
    data["valid_time"].attrs["bounds"] = "valid_bnds"
    data["valid_time"].encoding["units"] = "days since 2004-01-01"
    ends = data["valid_time"].values
    return data.assign(valid_bnds=(("init_time", "lead", "bnds"), np.stack([ends - 7 * DAY, ends], 2)))


LONGER: dict[str, Callable[[], xr.Dataset]] = {
    "bounds of lead over 7 days": lambda: bounded(dataset(ahead(leads=WEEKS), WEEKS, **DAYS), WEEKS - 7, WEEKS),
    "bounds of valid_time over 7 days": weeks_of_valid_times,
    "bounds of lead over 2 days": lambda: bounded(dataset(ahead(), LEADS, **DAYS), LEADS - 1, LEADS + 1),
    "cell_methods 'lead: mean (interval: 7 days)'": lambda: dataset(
        ahead(leads=WEEKS), WEEKS, attributes={"cell_methods": "lead: mean (interval: 7 days)"}, **DAYS
    ),
    "cell_methods 'time: mean (interval: 120 hours)'": lambda: dataset(
        ahead(leads=WEEKS), WEEKS, attributes={"cell_methods": "time: mean (interval: 120 hours)"}, **DAYS
    ),
    "long_name 'weekly mean sea surface temperature'": lambda: dataset(
        ahead(leads=WEEKS), WEEKS, attributes={"long_name": "weekly mean sea surface temperature"}, **DAYS
    ),
    "lead 'week'": lambda: dataset(ahead(leads=LEADS[:4]), LEADS[:4], long_name="week"),
    "lead 'Pentads ahead'": lambda: dataset(ahead(leads=LEADS[:4]), LEADS[:4], long_name="Pentads ahead"),
    "units 'weeks' of lead": lambda: dataset(ahead(leads=LEADS[:4]), LEADS[:4], units="weeks"),
    "units 'months' of L": lambda: dataset(
        ahead(leads=LEADS[:4]), LEADS[:4] - 0.5, units="months", standard_name="forecast_period"
    ).rename(lead="L"),
    "aggregate 'first day of a biweekly aggregate' of lead": lambda: dataset(
        ahead(leads=WEEKS), WEEKS, aggregate="first day of a biweekly aggregate", **DAYS
    ),
    "GRIB_stepType avg, steps 7 days apart": lambda: dataset(
        ahead(leads=WEEKS), WEEKS, attributes={"GRIB_stepType": "avg"}, **DAYS
    ),
    "GRIB_stepType avg, steps 168 hours apart": lambda: dataset(
        ahead(leads=WEEKS), 24 * WEEKS, attributes={"GRIB_stepType": "avg"}, units="hours"
    ),
    "GRIB_stepRange of 168 hours": lambda: dataset(
        ahead(leads=WEEKS[:1]), WEEKS[:1], attributes={"GRIB_stepType": "avg", "GRIB_stepRange": "0-168"}, **DAYS
    ),
    "frequency 'mon'": lambda: dataset(ahead(), LEADS, **DAYS).assign_attrs(frequency="mon"),
}


@pytest.mark.parametrize("found", LONGER)
def test_means_over_more_than_a_day_are_refused(found: str, tmp_path: Path) -> None:
    with refused("a.nc: holds means over more than a day", f"({found})"):
        read_forecasts(netcdf(LONGER[found]())(tmp_path))


@pytest.mark.parametrize(
    "attributes",
    [
        {"cell_methods": "time: mean (interval: 1 hour)", "long_name": "mean sea surface temperature"},
        {"cell_methods": "lead: mean (interval: 24 hours)", "long_name": "SST of the month ahead"},
        {"long_name": "daily mean of a monthly forecast", "GRIB_stepType": "instant"},
    ],
)
def test_means_of_a_day_are_read(attributes: dict[str, str], tmp_path: Path) -> None:
    data = dataset(ahead(), LEADS, attributes=attributes, long_name="days ahead", **DAYS)
    perfect(netcdf(data.assign_attrs(frequency="day"))(tmp_path))

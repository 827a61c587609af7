"""Series with several values a day, the exports of HOBOware, and ranges of valid values."""

import gzip
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from refusals import refused

from sstcast.api.arguments import from_pandas
from sstcast.config import FieldSource
from sstcast.places.point_files import read_columns
from sstcast.places.series import series_of
from sstcast.reading.hours import ahead_of_utc
from sstcast.reading.xarray_objects import name_of

HOURS = pd.date_range("2004-02-20", "2004-03-09 23:40", freq="20min")
VALUES = np.random.default_rng(0).normal(15, 1, len(HOURS)).round(3)
LATER = HOURS + pd.Timedelta("10h")
ZONES = (
    "US/Pacific",
    "Etc/GMT-10",
    "EST5EDT",
    "HKT",
    "MST",
    "MEZ",
    "Brisbane",
    "UTC+9.5",
    "UTC+93",
    "YYYY-MM-DD MST",
)
HEADER = '"#","Date Time, GMT+10:00","Temp, °C (LGR S/N: 1, SEN S/N: 1)","Host Connected (LGR S/N: 1)"'


def of(source: object) -> xr.DataArray:
    found = series_of(FieldSource(source=str(source)))
    assert found is not None
    return found


def hobo(times: list[str], values: Sequence[object], title: str = '"Plot Title: pier"') -> str:
    rows = [f"{number},{time},{value}," for number, (time, value) in enumerate(zip(times, values, strict=True), 1)]
    return "\n".join(["\ufeff" + title, HEADER, *rows, f"{len(rows) + 1},{times[-1]},,Logged", ""])


def test_hours_are_averaged_to_days_of_utc_in_every_form(tmp_path: Path) -> None:
    expected = pd.Series(VALUES, HOURS).resample("1D").mean()
    files = {
        "utc.csv": pd.DataFrame({"time": HOURS, "temp": VALUES}),
        "offset.csv": pd.DataFrame({"t": LATER.strftime("%Y-%m-%dT%H:%M:%S+10:00"), "temp": VALUES}),
        "named.csv": pd.DataFrame({"time (UTC+10:00)": LATER, "temp": VALUES}),
        "short.csv": pd.DataFrame({"t (GMT+10)": LATER, "temp": VALUES}),
    }
    for name, table in files.items():
        table.to_csv(tmp_path / name, index=False)
    (tmp_path / "zipped.csv.gz").write_bytes(gzip.compress((tmp_path / "offset.csv").read_bytes()))
    texts = [f"{time:%m/%d/%y %I:%M:%S %p}" for time in LATER]
    (tmp_path / "hobo.csv").write_text(hobo(texts, list(VALUES)), encoding="utf-8")
    rows = [
        f"{time:%d.%m.%Y %H:%M:%S};{value}".replace(".", ",") for time, value in zip(LATER, VALUES, strict=True)
    ]
    rows = [row.replace(",", ".", 2) for row in rows]
    (tmp_path / "hobo2.csv").write_text("\n".join(['"Date Time, GMT+10:00";"Temp, °C"', *rows]), encoding="utf-8")
    data = xr.Dataset({"sst": ("time", VALUES, {"units": "degC"})}, {"time": HOURS})
    data.to_netcdf(tmp_path / "utc.nc")
    data.to_netcdf(tmp_path / "zone.nc", encoding={"time": {"units": "minutes since 2004-01-01 00:00 +10:00"}})
    ends = HOURS + pd.Timedelta("20min")
    bounds = {
        "time": ("time", ends, {"bounds": "b"}, {"units": "minutes since 2004-01-01"}),
        "b": (("time", "n"), np.stack([HOURS, ends], 1)),
    }
    data.assign(bounds).to_netcdf(tmp_path / "bounds.nc")
    pandas = from_pandas(pd.Series(VALUES, HOURS.tz_localize("UTC").tz_convert("Australia/Hobart"), name="sst"))
    sources = [*tmp_path.iterdir(), name_of(pandas)]
    assert len(sources) == 11
    for source in sources:
        found = of(source)
        np.testing.assert_array_equal(found["time"], expected.index, err_msg=str(source))
        np.testing.assert_allclose(found[:, 0], expected, atol=2e-6, err_msg=str(source))
    assert of(tmp_path / "zipped.csv.gz")["place"].item() == "zipped"


def test_equal_rows_count_once_and_a_clock_that_stops_leaves_a_day_out(tmp_path: Path) -> None:
    table = pd.DataFrame({"time": HOURS, "temp": VALUES})
    path = tmp_path / "a.csv"
    pd.concat([table, table[3:5], table[9:10].assign(temp=np.nan)]).to_csv(path, index=False)
    expected = table.set_index("time")["temp"].resample("1D").mean()
    np.testing.assert_allclose(of(path)[:, 0], expected, atol=2e-6)
    stopped = table["time"].between("2004-03-01 10:00", "2004-03-02 05:00")
    table[~stopped][40:].to_csv(path, index=False)
    found = of(path)
    assert found["time"].values[0] == np.datetime64("2004-02-21")
    missing = found["time"].values[np.isnan(found[:, 0])]
    np.testing.assert_array_equal(missing, np.array(["2004-03-01"], "M8[ns]"))
    pd.concat([table, table[3:5].assign(temp=99.0 - 60)]).to_csv(path, index=False)
    with refused(f"{path}: a has different values at 2004-02-20 01:00", "local time? give an offset"):
        of(path)


@pytest.mark.parametrize(
    ("words", "time", "form"),
    [
        ("its times are in 'local time'", "time (local time)", "%Y-%m-%d %H:%M"),
        ("its times are in 'AEST'", "time (AEST)", "%Y-%m-%d %H:%M"),
        ("its times are in 'Australia/Hobart'", "time (Australia/Hobart)", "%Y-%m-%d %H:%M"),
        *((f"its times are in {zone!r}", f"time ({zone})", "%Y-%m-%d %H:%M") for zone in ZONES),
        ("some of its times have an offset from UTC and others none", "time", "mixed"),
    ],
)
def test_hours_of_local_time_are_refused_and_days_are_not(
    words: str, time: str, form: str, tmp_path: Path
) -> None:
    texts = LATER.strftime("%Y-%m-%dT%H:%M:%S" if form == "mixed" else form).to_series()
    texts[::7] += "+10:00" if form == "mixed" else ""
    path = tmp_path / "a.csv"
    pd.DataFrame({time: texts.to_numpy(), "temp": VALUES}).to_csv(path, index=False)
    with refused(path, words):
        of(path)
    pd.DataFrame({time: texts.to_numpy()[::72], "temp": VALUES[::72]}).to_csv(path, index=False)
    np.testing.assert_array_equal(of(path)["time"], LATER[::72].normalize())


def test_days_of_hobo_are_those_that_are_written(tmp_path: Path) -> None:
    path = tmp_path / "pier.csv"
    days = pd.date_range("2020-01-25", "2020-02-06")
    values = list(range(1, 14))
    for form in ("%m/%d/%y 02:00:00 AM", "%d/%m/%y 02:00", "%y/%m/%d 02:00:00", "%Y-%m-%d 02:00:00"):
        path.write_text(hobo([day.strftime(form) for day in days], values), encoding="utf-8")
        found = of(path)
        np.testing.assert_array_equal(found["time"], days)
        assert found[:, 0].values.tolist() == values
        assert found["place"].values.tolist() == ["pier"]
    two = hobo([f"{day:%m/%d/%y}" for day in days], [f"{value},{value + 40}" for value in values])
    second = '°C (LGR S/N: 1, SEN S/N: 1)","Temp, °F (LGR S/N: 1, SEN S/N: 2, LBL: deep)"'
    two = two.replace(",,Logged", ",,,Logged")
    path.write_text(two.replace('°C (LGR S/N: 1, SEN S/N: 1)"', second), encoding="utf-8")
    found = of(path)
    assert len(set(found["place"].values)) == 2
    deep = found[:, [("deep" in name) for name in found["place"].values]]
    np.testing.assert_allclose(deep[:, 0], (np.array(values) + 40 - 32) / 1.8, rtol=1e-5)


@pytest.mark.parametrize(
    ("words", "times"),
    [
        ("are read as month, day, year as well as day, month, year", ["01/02/20", "01/03/20", "01/04/20"]),
        ("do not ascend as any order", ["01/20/20", "01/19/20", "01/18/20"]),
        ("the time '20 Jan' is not read", ["20 Jan"]),
        ("the time of day 'noon' is not read", ["01/20/20 noon"]),
    ],
)
def test_dates_of_hobo_are_never_guessed(words: str, times: list[str], tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(hobo(times, [1.0] * len(times)), encoding="utf-8")
    with refused(tmp_path / "a.csv", words, "export it from HOBOware again"):
        of(tmp_path / "a.csv")


def test_values_outside_the_valid_range_are_missing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    days = pd.date_range("2004-03-01", periods=4)
    sst = ("time", [15.0, 5.0, 36.0, 16.0], {"units": "degC", "valid_range": [10.0, 35.0]})
    data = xr.Dataset({"sst": sst}, {"time": days, "lat": -42.0, "lon": 148.0})
    data.to_netcdf(path := tmp_path / "a.nc")
    with caplog.at_level("INFO", "sstcast"):
        np.testing.assert_array_equal(of(path)[:, 0], [15, np.nan, np.nan, 16])
    assert "sst has 2 values outside its valid_range (10..35), taken as missing" in caplog.text
    np.testing.assert_array_equal(read_columns(path).table["sst"], [15, np.nan, np.nan, 16])
    data["sst"].attrs = {"units": "degC", "valid_min": 10.0}
    data.to_netcdf(tmp_path / "b.nc")
    np.testing.assert_array_equal(of(tmp_path / "b.nc")[:, 0], [15, np.nan, 36, 16])


def hours_file(path: Path, units: str = "", has_bounds: bool = False, **stated: str) -> Path:
    """Write the values at times ten hours ahead, which the units or attributes of the times may tell."""
    minutes = ((LATER - pd.Timestamp("2004-01-01")) // pd.Timedelta("1min")).to_numpy()
    attributes = {"units": f"minutes since 2004-01-01 00:00:00{units}", **stated}
    data = xr.Dataset({"sst": ("time", VALUES, {"units": "degC"})})
    if has_bounds:
        data["b"] = ("time", "n"), np.stack([minutes, minutes + 20], 1)
        attributes["bounds"] = "b"
    data.assign_coords(time=("time", minutes, attributes)).to_netcdf(path)
    return path


@pytest.mark.parametrize("has_bounds", [False, True])
@pytest.mark.parametrize(
    ("units", "stated", "offset"),
    [
        (" +10:00", {}, 10),
        (" +10:00", {"time_zone": "UTC+10:00"}, 10),
        (" -08:00", {"timezone": "GMT-8"}, -8),
        ("", {"time_zone": "UTC+10:00"}, 10),
        ("", {"time_zone": "UTC-05:00"}, -5),
        ("", {"long_name": "time (-05:00)"}, -5),
        ("", {"time_zone": "utc", "long_name": "time of LAST sample of SST, TEST buoy"}, 0),
    ],
)
def test_an_offset_is_applied_once_to_labels_and_bounds(
    has_bounds: bool, units: str, stated: dict[str, str], offset: int, tmp_path: Path
) -> None:
    found = of(hours_file(tmp_path / "a.nc", units, has_bounds, **stated))
    by_day = pd.Series(VALUES, LATER - pd.Timedelta(offset, "h")).resample("1D")
    expected = by_day.mean()[by_day.count() == 72]
    np.testing.assert_allclose(found.sel(time=expected.index)[:, 0], expected, atol=2e-6)


@pytest.mark.parametrize(
    ("units", "zone", "words"),
    [
        (" +10:00", "UTC", "'+10:00' as well as 'UTC'"),
        ("", "US/Pacific", "in 'US/Pacific'"),
        ("", "10", "in '10'"),
    ],
)
def test_zones_that_differ_or_are_no_offset_are_refused(units: str, zone: str, words: str, tmp_path: Path) -> None:
    with refused(path := hours_file(tmp_path / "a.nc", units, time_zone=zone), words):
        of(path)


@pytest.mark.parametrize(
    "form", ["YYYY-MM-DD hh:mm", "yyyy-MM-dd'T'HH:mm:ssZ", "%Y-%m-%d %H:%M", "ISO 8601", "UTC", "utc time"]
)
def test_the_form_of_dates_is_no_zone(form: str) -> None:
    assert ahead_of_utc(None, [form]) == pd.Timedelta(0)


def test_hours_without_any_value_are_missing_or_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    pd.DataFrame({"time": HOURS, "temp": VALUES, "temperature": np.nan}).to_csv(path, index=False)
    found = of(path)
    assert np.isfinite(found.sel(place="temp")).all()
    assert np.isnan(found.sel(place="temperature")).all()
    pd.DataFrame({"time": HOURS, "temp": np.nan}).to_csv(path, index=False)
    with refused(path, "holds no temperature"):
        of(path)
    for text in (HEADER, f"{HEADER}\n1,2004-02-20 00:00:00,,Logged", "time,temp"):
        path.write_text(f"{text}\n", encoding="utf-8")
        with refused(path, "holds no temperature"):
            of(path)


def test_decimal_commas_of_hobo_are_read_or_refused(tmp_path: Path) -> None:
    texts = [f"{time:%Y-%m-%d %H:%M:%S}" for time in LATER]
    quoted, bare = ([f"{mark}{value}{mark}".replace(".", ",") for value in VALUES] for mark in ('"', ""))
    path = tmp_path / "pier.csv"
    path.write_text(hobo(texts, quoted), encoding="utf-8")
    np.testing.assert_allclose(of(path)[:, 0], pd.Series(VALUES, HOURS).resample("1D").mean(), atol=2e-6)
    for rows in (
        hobo(texts, bare),
        hobo(texts, bare).replace(",\n", "\n"),
    ):  # without a last cell, as many as names
        path.write_text(rows, encoding="utf-8")
        with refused(path, "has more cells than names of columns", "decimal points"):
            of(path)


def test_another_column_of_dates_makes_no_hobo_and_a_place_without_name_is_refused(tmp_path: Path) -> None:
    days = pd.date_range("2004-03-01", periods=4)
    table = pd.DataFrame({"time": days, "temp (degC)": [1.0, 2, 3, 4], "Date Time local": days, "id": "a"})
    table.to_csv(path := tmp_path / "a.csv", index=False)
    assert of(path)[:, 0].values.tolist() == [1, 2, 3, 4]
    table["id"] = ["a", "a", None, "a"]
    table.to_csv(path, index=False)
    with refused(path, "no name of a place for 1 value of temp, the first of 2004-03-03"):
        of(path)

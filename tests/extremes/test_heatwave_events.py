"""Events against `heatwave3` and loops over days, baselines, and what a record and its file hold."""

import datetime as dt
from pathlib import Path
from typing import Any

import heatwave3
import numpy as np
import pandas as pd
import pytest
import xarray as xr
from scipy.ndimage import label
from scipy.sparse import csr_array
from small_ocean import make_sst

import sstcast
from sstcast.errors import SSTCastError
from sstcast.extremes import heatwave_record
from sstcast.extremes.baselines import Baseline
from sstcast.extremes.events_told import lines_of_events
from sstcast.extremes.heatwave_events import CATEGORY_DAYS, DATES, MEASURES, find_events
from sstcast.extremes.heatwave_record import events_of_cells, series_of_places
from sstcast.extremes.heatwaves import events, limits
from sstcast.geo import NORTH, SOUTH
from sstcast.places.places import Places
from sstcast.reading.days_of_year import on_days
from sstcast.storage.paths import packaged

PERIOD = ("1982-01-01", "2011-12-31")
THEIR_NAMES = {"variability": "var", "_threshold": "_relThresh", "_absolute": "_abs"}
THEIR_RATES = {"onset_rate": "rate_onset", "decline_rate": "rate_decline"}
SAMPLE = packaged("data/sample/tasman_oisst_daily_1982_2016.nc")


@pytest.fixture(scope="module")
def grid(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every eighth row and sixth column of the ocean that ships with sstcast, in a file."""
    path = tmp_path_factory.mktemp("grid") / "grid.nc"
    with xr.open_dataset(SAMPLE) as sample:
        sst = sample["sst"][:, 3::8, 1::6].astype("float32").load().drop_encoding()
    sst.attrs["units"] = "degC"
    sst.to_dataset(name="sst").to_netcdf(path, engine="netcdf4")
    return path


@pytest.fixture(scope="module")
def sst(grid: Path) -> xr.DataArray:
    with xr.open_dataset(grid) as opened:
        return opened["sst"].load()


def theirs(grid: Path, folder: Path, found: xr.Dataset, cold: bool) -> pd.DataFrame:
    """Return the events that heatwave3 finds with the limits in `found`."""
    made = heatwave3.ts2clm3(grid, folder / "its", PERIOD, roundClm=False, quiet=True)
    name = "cold_spell_threshold" if cold else "heatwave_threshold"
    with xr.open_dataset(made) as opened:
        climatology = opened.load()
    for own, of in (("seas", "climatology"), ("thresh", name)):
        values = found[of].rename(day_of_leap_year="doy").transpose(*climatology[own].dims).values
        climatology[own] = climatology[own].copy(data=values.astype(climatology[own].dtype))
    climatology.to_netcdf(folder / "ours_clim.nc", engine="netcdf4")
    written = heatwave3.detect_event3(
        grid, folder / "ours", coldSpells=cold, category=True, roundRes=8, quiet=True
    )
    with xr.open_dataset(written["events"]) as opened:
        return opened.to_dataframe().sort_values(["lat", "lon", "event_no"])


@pytest.mark.parametrize("cold", [False, True])
def test_events_of_a_grid_are_those_of_heatwave3(
    grid: Path, sst: xr.DataArray, tmp_path: Path, cold: bool
) -> None:
    path = tmp_path / "events.nc"
    made = sstcast.heatwaves(grid, cold=cold, out=path).value
    expected = theirs(grid, tmp_path, limits(sst.sel(time=slice(*PERIOD))), cold)
    assert made.sizes["event"] == len(expected) > 500
    assert made.sizes["cell"] == int(sst[0].notnull().sum())
    assert made.attrs["baseline"] == "fixed, 1982-01-01..2011-12-31"
    for own, its in (("cell_lat", "lat"), ("cell_lon", "lon")):
        np.testing.assert_array_equal(np.repeat(made[own], made["cell_events"]), expected[its])
    for name in DATES:
        np.testing.assert_array_equal(made[f"event_{name}"], expected[f"date_{name}"])
    for name in ("duration", "category"):
        np.testing.assert_array_equal(made[f"event_{name}"], expected[name])
    for name in (*MEASURES, *THEIR_RATES):
        its = THEIR_RATES.get(name, name)
        for word, its_word in THEIR_NAMES.items():
            its = its.replace(word, its_word)
        np.testing.assert_allclose(made[f"event_{name}"], expected[its], atol=1e-4, rtol=0)
    for name in CATEGORY_DAYS:
        share = 100 * made[f"event_{name}"].values / made["event_duration"].values
        its = expected[name.replace("days", "p")].values
        tied = abs(share - its) > 0.51  # heatwave3 rounds temperatures and limits to four digits
        assert tied.mean() < 0.005
    assert (made["event_intensity_mean"] * (-1 if cold else 1) > 0).all()
    by_year = expected.groupby([expected["date_start"].dt.year, "lat", "lon"]).size().to_xarray()
    counts = made["event_count"].stack(every=("year", "lat", "lon"))
    np.testing.assert_array_equal(counts[counts > 0], by_year.stack(every=by_year.dims).dropna("every"))
    assert float(made["event_days"].sum()) == expected["duration"].sum()
    total = float(made["event_intensity"].sum())
    assert total == pytest.approx(expected["intensity_cumulative"].sum(), rel=1e-5)


def test_events_of_six_series_are_those_of_a_loop_over_days(sst: xr.DataArray) -> None:
    baseline = Baseline("fixed", pd.Timestamp(PERIOD[0]).date(), pd.Timestamp(PERIOD[1]).date())
    six = sst[:, 1].rename(lon="place").drop_vars("lat")
    climatology, threshold = baseline.daily(six)
    _, table = find_events(six.values, climatology, threshold)
    found, row = pd.DataFrame(table), 0
    for number in range(six.sizes["place"]):
        value, normal, limit = (field[:, number].astype(float) for field in (six.values, climatology, threshold))
        runs, count = label(events(six.values[:, number] > threshold[:, number]))
        for run in range(1, count + 1):
            (day,) = np.nonzero(runs == run)
            departure, above, event = value[day] - normal[day], value[day] - limit[day], found.iloc[row]
            assert event[["series", "start", "end"]].tolist() == [number, day[0], day[-1]]
            assert event["peak"] == day[departure.argmax()]
            for suffix, values in (("", departure), ("_threshold", above), ("_absolute", value[day])):
                expected = [values.mean(), values.max(), values.std(ddof=1), values.sum()]
                names = [f"intensity_{name}{suffix}" for name in ("mean", "max", "variability", "cumulative")]
                np.testing.assert_allclose(event[names].astype(float), expected, atol=1e-9)
            multiple = departure / (limit - normal)[day]
            degree = np.minimum(np.floor(multiple), 4)
            assert event["category"] == degree.max()
            assert [event[name] for name in CATEGORY_DAYS] == [(degree == one).sum() for one in (1, 2, 3, 4)]
            before = (departure[0] + value[day[0] - 1] - normal[day[0] - 1]) / 2
            rate = (departure.max() - before) / (departure.argmax() + 0.5)
            assert event["onset_rate"] == pytest.approx(rate)
            row += 1
    assert row == len(found) > 300


def record(first: str, last: str, hot: list[tuple[str, str]]) -> tuple[np.ndarray, pd.DatetimeIndex]:
    """Return a series of 10 degC, 12.5 on the `hot` days, and its days."""
    time = pd.date_range(first, last)
    values = pd.Series(10.0, time)
    for begin, end in hot:
        values[begin:end] = 12.5
    return values.to_numpy()[:, None], time


def test_events_that_the_record_cuts_and_a_leap_day() -> None:
    hot = [("2004-01-01", "2004-01-06"), ("2004-02-26", "2004-03-03"), ("2004-12-25", "2004-12-31")]
    values, time = record("2004-01-01", "2004-12-31", hot)
    _, table = find_events(values, np.full_like(values, 10), np.full_like(values, 11))
    assert [str(time[day].date()) for day in table["start"]] == [begin for begin, _ in hot]
    assert [str(time[day].date()) for day in table["end"]] == [end for _, end in hot]
    assert table["duration"].tolist() == [6, 7, 7]  # with 29 February
    assert np.isnan(table["onset_rate"]).tolist() == [True, False, False]
    assert np.isnan(table["decline_rate"]).tolist() == [False, False, True]
    assert table["onset_rate"][1] == pytest.approx((2.5 - 1.25) / 0.5)
    assert table["category"].tolist() == [2, 2, 2]
    none = find_events(values, np.full_like(values, 10), np.full_like(values, np.nan))[1]
    assert len(none["start"]) == 0
    values = record("2004-01-01", "2004-12-31", [])[0].copy()
    values[1:6] = 12
    _, table = find_events(values, np.full_like(values, 10), np.full_like(values, 11))
    assert table["onset_rate"][0] == pytest.approx((2 - 1) / 0.5)  # the first day is beside the event
    assert table["category"][0] == 1  # twice the departure of the threshold is not more than twice


def test_a_day_without_a_threshold_inside_an_event_counts_where_its_value_is_known() -> None:
    random = np.random.default_rng(0)
    values, normal, limit = 12 + random.random((20, 1)), np.full((20, 1), 10.0), np.full((20, 1), 11.0)
    values[[0, 1, 14, 15, 16, 17, 18, 19]], limit[8] = 10, np.nan
    days, table = find_events(values, normal, limit)
    assert days.day.tolist() == list(range(2, 14))
    above = (values - limit)[2:14, 0]
    for suffix, of in (("", values[2:14, 0] - 10), ("_threshold", above[np.isfinite(above)])):
        found = [table[f"intensity_{name}{suffix}"][0] for name in ("mean", "max", "variability", "cumulative")]
        np.testing.assert_allclose(found, [of.mean(), of.max(), of.std(ddof=1), of.sum()])
    assert sum(table[name][0] for name in CATEGORY_DAYS) == 11


def test_blocks_of_cells_change_nothing_and_a_year_needs_one_day_with_a_threshold(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    time = pd.date_range("2001-01-01", "2002-12-31")
    values = np.random.default_rng(0).normal(0, 1, (len(time), 3, 4)).cumsum(0).astype(np.float32)
    values[:, 1, 1] = np.nan
    sst = xr.DataArray(
        values, {"time": time, "lat": np.arange(3.0), "lon": np.arange(4.0)}, ("time", "lat", "lon")
    )

    def daily(block: xr.DataArray) -> tuple[np.ndarray, np.ndarray]:
        threshold = np.where((time < "2001-03-01")[:, None], np.nan, 1.0 + block["cell"].values)
        return np.zeros(block.shape), threshold

    whole = events_of_cells(sst, daily)
    assert whole["event_days"].notnull().sum().item() == 2 * 11
    assert whole["event_days"].sum() == whole["event_duration"].sum() > 100
    monkeypatch.setattr(heatwave_record, "VALUES_AT_ONCE", 1)
    monkeypatch.setattr(heatwave_record, "CELLS_AT_ONCE", 2)
    xr.testing.assert_identical(events_of_cells(sst, daily), whole)


def test_land_and_ice_have_no_events(sst: xr.DataArray) -> None:
    few = sst.sel(time=slice("2001", "2006"))[:, 1:2, :3].copy()
    few[:, 0, 0] = np.nan
    few[:, 0, 1] = (few[:, 0, 1] - 40).clip(min=-1.8)  # always frozen
    baseline = Baseline("fixed", few.indexes["time"][0].date(), few.indexes["time"][-1].date())
    found = events_of_cells(few, baseline.daily)
    assert found["cell_lon"].values.tolist() == few["lon"].values[1:].tolist()
    assert found["cell_events"].values[0] == 0 < found["cell_events"].values[1]
    assert found["event_days"].isnull().all("year").values.tolist() == [[True, True, False]]


def test_a_moving_baseline_is_the_thirty_years_before(sst: xr.DataArray) -> None:
    one = sst[:, 2, 2:3].rename(lon="place").drop_vars("lat")
    baseline = Baseline.of("moving", None, *(one.indexes["time"][day].date() for day in (0, -1)), SAMPLE)
    normal, limit = baseline.daily(one)
    year = one["time"].dt.year.values
    assert np.isnan(limit[year < 2012]).all()
    own = year == 2014
    before = limits(one.sel(time=slice("1984", "2013")))
    np.testing.assert_array_equal(limit[own], on_days(before["heatwave_threshold"], one["time"][own]))
    np.testing.assert_array_equal(normal[own], on_days(before["climatology"], one["time"][own]))
    assert np.isfinite(limit[year == 2016]).all()  # the last year of the record
    cold = baseline.daily(one, cold=True)[1][own]
    np.testing.assert_array_equal(cold, on_days(before["cold_spell_threshold"], one["time"][own]))


def test_the_years_of_a_baseline_are_complete_years_of_the_record() -> None:
    first, last = dt.date(1982, 1, 1), dt.date(2012, 1, 10)
    assert Baseline.of("moving", None, first, last, SAMPLE).last == dt.date(2011, 12, 31)
    with pytest.raises(SSTCastError, match="needs 30 before each year"):
        Baseline.of("moving", None, first, dt.date(2011, 12, 31), SAMPLE)
    for years, until, expected in (
        (None, dt.date(2005, 6, 1), "1982-01-01..2004-12-31"),
        (None, last, "1982-01-01..2011-12-31"),
        ("1990:1990", last, "1990-01-01..1990-12-31"),
    ):
        assert str(Baseline.of("fixed", years, first, until, SAMPLE)) == f"fixed, {expected}"


def test_a_detrended_baseline_goes_on_and_later_days_have_no_part(sst: xr.DataArray) -> None:
    one = sst[:, 2, 2:3].rename(lon="place").drop_vars("lat")
    day = np.arange(one.sizes["time"])
    level = np.random.default_rng(0).normal(15, 1, one.shape).astype(np.float32)
    steady = one.copy(data=level)
    period = [pd.Timestamp(date).date() for date in PERIOD]
    base = day[: steady.sel(time=slice(*PERIOD)).sizes["time"]]
    rising = steady + (0.002 * (day - base.mean()))[:, None].astype(np.float32)
    detrended = Baseline("detrended", *period)
    _, limit = detrended.daily(rising)
    by_hand = steady.sel(time=slice(*PERIOD)).values[:, 0].astype(float) + 0.002 * (base - base.mean())
    climatology = on_days(limits(rising.sel(time=slice(*PERIOD)))["climatology"], one["time"][base]).values[:, 0]
    slope = np.polyfit(base, by_hand - climatology, 1)[0]
    expected = on_days(
        limits((rising - (slope * (day - base.mean()))[:, None].astype(np.float32)).sel(time=slice(*PERIOD)))[
            "heatwave_threshold"
        ],
        one["time"],
    ).values[:, 0] + slope * (day - base.mean())
    np.testing.assert_allclose(limit[:, 0], expected, atol=1e-3)
    later = rising.copy()
    later[one.sizes["time"] - 900 :] += 5
    np.testing.assert_array_equal(detrended.daily(later)[1], limit)
    assert str(detrended) == "detrended, 1982-01-01..2011-12-31"


def test_a_short_record_is_told(
    sst: xr.DataArray, tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    five = sst.sel(time=slice("2003-07-01", "2008-12-31"))[:, 1:3]
    with caplog.at_level("INFO", "sstcast"):
        found = sstcast.heatwaves(five, out=tmp_path / "five.nc").value
    assert found.attrs["baseline"] == "fixed, 2004-01-01..2008-12-31"
    assert "a base period of only 5 years, 2004-01-01..2008-12-31" in caplog.text
    (tmp_path / "parts").mkdir()
    for year in (2003, 2006):
        part = five.sel(time=slice(f"{year}-07-01", f"{year + 3}-06-30"))
        part.rename("sst").to_netcdf(tmp_path / f"parts/{year}.nc", engine="netcdf4")
    of_folder = sstcast.heatwaves(tmp_path / "parts", out=tmp_path / "folder.nc").value
    assert of_folder.attrs["source"] == "parts, 2 files"
    np.testing.assert_array_equal(of_folder["event_start"], found["event_start"])
    for words, options in (
        ("5 complete years, but a moving baseline needs 30", {"baseline": "moving"}),
        ("complete years 2004 to 2008", {"years": "1991:2020"}),
        ("give fixed, moving or detrended", {"baseline": "warm"}),
        ("name a file that ends in .nc", {"out": tmp_path / "five.csv"}),
    ):
        with pytest.raises(SSTCastError, match=words):
            sstcast.heatwaves(five, **{"out": tmp_path / "other.nc", **options})
    assert not (tmp_path / "other.nc").exists()
    with pytest.raises(SSTCastError, match="no complete year"):
        sstcast.heatwaves(sst.sel(time=slice("2003-07-01", "2004-06-30")), out=tmp_path / "short.nc")


def test_events_of_places_are_those_of_their_series(grid: Path, sst: xr.DataArray, tmp_path: Path) -> None:
    lat, lon = sst["lat"].values, sst["lon"].values
    west, east, south, north = lon[2] - 0.1, lon[4] + 0.1, lat[1] - 0.1, lat[2] + 0.1
    outline = f"[[{west},{south}],[{east},{south}],[{east},{north}],[{west},{north}],[{west},{south}]]"
    places = tmp_path / "places.geojson"
    places.write_text(
        '{"type":"FeatureCollection","features":['
        f'{{"type":"Feature","properties":{{"name":"box"}},"geometry":{{"type":"Polygon","coordinates":[{outline}]}}}},'
        f'{{"type":"Feature","properties":{{"name":"site"}},"geometry":{{"type":"Point","coordinates":'
        f"[{lon[3]},{lat[1]}]}}}}]}}"
    )
    result = sstcast.heatwaves(grid, places, out=tmp_path / "places.csv")
    table = pd.read_csv(result.path, parse_dates=[*DATES])
    pd.testing.assert_frame_equal(
        table[[*DATES]], result.value[[*DATES]], check_dtype=False, check_index_type=False
    )
    assert set(table["baseline"]) == {"fixed, 1982-01-01..2011-12-31"}
    cold = sstcast.heatwaves(grid, places, cold=True, out=tmp_path / "cold.csv").value
    of_site = sst[:, [1], 3].rename(lat="place").drop_vars("lon")
    in_base = Baseline("fixed", *(pd.Timestamp(date).date() for date in PERIOD))
    _, spells = find_events(of_site.values, *in_base.daily(of_site, cold=True), cold=True)
    np.testing.assert_array_equal(cold.loc[cold["place"] == "site", "start"], sst["time"][spells["start"]])
    site = table[table["place"] == "site"].reset_index(drop=True)
    cells = sstcast.heatwaves(grid, out=tmp_path / "cells.nc").value
    here = (np.repeat(cells["cell_lat"], cells["cell_events"]) == lat[1]).values
    here &= (np.repeat(cells["cell_lon"], cells["cell_events"]) == lon[3]).values
    np.testing.assert_array_equal(site["peak"], cells["event_peak"][here])
    np.testing.assert_allclose(site["intensity_cumulative"], cells["event_intensity_cumulative"][here], atol=1e-4)
    weights = Places.read(places).weights(sst[0].notnull().astype(float), sst[0].notnull().values)
    weights = weights[[0]].toarray().reshape(sst.shape[1:])
    mean = (sst.fillna(0) * weights).sum(("lat", "lon")) / weights.sum()
    series = mean.expand_dims(place=["box"], axis=1).astype("float32")
    baseline = Baseline("fixed", *(pd.Timestamp(date).date() for date in PERIOD))
    _, expected = find_events(series.values, *baseline.daily(series))
    box = table[table["place"] == "box"]
    assert abs(len(box) - len(expected["start"])) <= 1  # rounding of the mean may move a day across the threshold
    assert box["duration"].sum() == pytest.approx(expected["duration"].sum(), rel=0.02)


def test_what_events_say(grid: Path, sst: xr.DataArray, tmp_path: Path, command: Any) -> None:
    """Against the table of all events, with days as hot as never before at the end of some cells."""
    hot = sst.copy(deep=True)
    hot[-9:, 1, 2:4] = float(sst.max()) + 2
    hot[-30:, 2, 2] = float(sst.max()) + 2
    (tmp_path / "sites.csv").write_text(
        "name,lat,lon\n"
        + "".join(
            f"site-{row}{col},{float(sst.lat[row])},{float(sst.lon[col])}\n" for row, col in ((1, 3), (0, 4))
        )
    )
    hot.to_netcdf(tmp_path / "hot.nc", engine="netcdf4")
    code, said, _ = command("heatwaves", tmp_path / "hot.nc", "--out", tmp_path / "cells.nc")
    assert code == 0
    with xr.open_dataset(tmp_path / "cells.nc", engine="netcdf4") as cells:
        last = hot["time"].values[-1]
        lat = np.repeat(cells["cell_lat"].values, cells["cell_events"].values)
        running = cells["event_end"].values == last
        share = np.cos(np.deg2rad(lat[running])).sum() / np.cos(np.deg2rad(cells["cell_lat"].values)).sum()
        longest = int(cells["event_duration"].values[running].max())
    told = f"on {str(last)[:10]}, {share:.1%} of the ocean is in a heatwave, against 1982-2011, the longest at "
    assert said.startswith(told)
    assert f"({longest} days)" in said
    assert longest >= 30
    code, said, _ = command(
        "heatwaves", tmp_path / "hot.nc", "--places", tmp_path / "sites.csv", "--out", tmp_path / "out.csv"
    )
    table = pd.read_csv(tmp_path / "out.csv")
    assert code == 0
    for line, name in zip(said.splitlines(), ("site-13", "site-04"), strict=False):
        own = table[table["place"] == name]
        worst = own.loc[own["duration"].idxmax()]
        words = (
            f"{name}: {len(own)} heatwaves, against 1982-2011, the longest of {worst['duration']} days from "
            f"{worst['start'][:10]}; "
        )
        assert line.startswith(words)
        assert ("one goes on, since" in line) is bool((pd.to_datetime(own["end"]) == last).any())
    assert "site-13" in said
    assert "one goes on" in said
    made = command("heatwaves", tmp_path / "hot.nc", "--dhw", "--out", tmp_path / "dhw.nc")[1]
    assert made == f"{tmp_path / 'dhw.nc'}: written\n"
    many = pd.concat([table.assign(place=f"p{number}") for number in range(12)])
    many[["start", "end"]] = many[["start", "end"]].apply(pd.to_datetime)
    assert lines_of_events(many)[10:] == ["and 2 more"]


@pytest.mark.parametrize("has_bounds", [True, False])
def test_the_share_of_the_ocean_is_of_its_area(has_bounds: bool) -> None:
    """Of three rows of uneven height, the one in a heatwave has the difference of the sines of its edges."""
    edges = np.array([0.0, 10, 14, 60])
    rows = (edges[1:] + edges[:-1]) / 2
    bounds = {SOUTH: ("lat", edges[:-1]), NORTH: ("lat", edges[1:])} if has_bounds else {}
    inner = edges if has_bounds else np.array([1.5, 8.5, 24.5, 49.5])  # halfway between the rows
    sines = np.diff(np.sin(np.radians(inner)))
    day = np.array(["2020-01-01"], "datetime64[ns]")
    found = xr.Dataset(
        {
            "cell_events": ("cell", [0, 0, 1]),
            "event_decline_rate": ("event", [np.nan]),
            **{f"event_{end}": ("event", day) for end in ("start", "end")},
            "event_duration": ("event", [5]),
        },
        {"lat": rows, "cell_lat": ("cell", rows), "cell_lon": ("cell", np.zeros(3)), **bounds},
        {"baseline": "moving, the 30 complete years before each year"},
    )
    (line,) = lines_of_events(found)
    assert line.startswith(f"on 2020-01-01, {sines[2] / sines.sum():.1%} of the ocean")
    assert "heatwave, against the 30 complete years before each year, the longest" in line


def test_places_without_a_cell_leave_the_names_of_the_others(tmp_path: Path) -> None:
    (file := tmp_path / "places.csv").write_text("name,lat,lon\nland,0,0\nsite,0,1\nbay,1,1\n")
    sst = xr.DataArray(
        np.arange(8.0).reshape(2, 2, 2), {"time": pd.date_range("2001-01-01", periods=2)}, ("time", "lat", "lon")
    )
    weights = np.zeros((3, 2, 2), np.float32)
    weights[1, 0, 1], weights[2] = 1, [[1, 0], [1, 2]]
    series = series_of_places(sst, Places.read(file), csr_array(weights.reshape(3, -1)))
    assert series["place"].values.tolist() == ["site", "bay"]
    np.testing.assert_array_equal(series, [[1, (0 + 2 + 2 * 3) / 4], [5, (4 + 6 + 2 * 7) / 4]])


def test_a_file_of_other_days_or_another_baseline_is_not_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for folder in "ab":
        Path(folder).mkdir()
        make_sst().to_netcdf(f"{folder}/x.nc", engine="netcdf4")
    places = Path("places.csv")
    places.write_text("name,lat,lon\npier,-10.5,172\n")
    for options in ({}, {"places": places}):
        made = sstcast.heatwaves("a/x.nc", **options)
        before = made.path.read_bytes()
        for source, other in (("b/x.nc", {}), ("a/x.nc", {"baseline": "detrended"}), ("a/x.nc", {"gaps": 3})):
            words = rf"{made.path}: holds source \S+a/x.nc, fixed, 2001-01-01..2004-12-31; name another .* --out"
            with pytest.raises(SSTCastError, match=words):
                sstcast.heatwaves(source, **options, **other)
        assert made.path.read_bytes() == before
        sstcast.heatwaves(tmp_path / "a/x.nc", **options)  # by another path
        sstcast.heatwaves("b/x.nc", **options, out=made.path)

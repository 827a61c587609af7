"""What is known of an index on a day, against a plain loop, and the files that an index is read from."""

import datetime as dt
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from known_indices import known_index
from logged import logged
from refusals import refused
from scored_runs import configure
from small_ocean import make_sst

from sstcast.config import PredictorConfig
from sstcast.geo import Box
from sstcast.ocean.prepare import prepare
from sstcast.ocean.prepared import Prepared
from sstcast.predictors.index_series import read_index
from sstcast.predictors.newest import newest_known
from sstcast.predictors.predictors import stored_predictors
from sstcast.storage.yaml_files import validate, written

BASE = dt.date(2001, 1, 1), dt.date(2004, 12, 31)
DAYS = pd.date_range("2001-01-01", "2006-12-31").as_unit("ns").values


def index(path: Path, **keys: object) -> PredictorConfig:
    return validate(PredictorConfig, {"kind": "index", "source": str(path), **keys}, "test")


def write_months(path: Path, values: np.ndarray, first: str = "2000-01") -> Path:
    labels = pd.period_range(first, periods=len(values), freq="M").strftime("%Y-%m")
    pd.DataFrame({"date": labels, "value": values}).to_csv(path, index=False)
    return path


def write_days(path: Path, values: np.ndarray, first: str = "2000-01-01") -> Path:
    pd.DataFrame({"date": pd.date_range(first, periods=len(values)), "value": values}).to_csv(path, index=False)
    return path


def naive(
    values: pd.Series, ends: list[dt.date], day: dt.date, delay: int, counts: tuple[int, int]
) -> list[float]:
    """Average the newest values known on a day, after their climatology and scale, all by plain loops."""
    known = [end + dt.timedelta(delay) <= day for end in ends]
    base = [BASE[0] <= end and end + dt.timedelta(delay) <= BASE[1] for end in ends]
    means = {
        month: np.mean([v for v, e, b in zip(values, ends, base, strict=True) if b and e.month == month])
        for month in range(1, 13)
    }
    anomalies = [v - means[e.month] for v, e in zip(values, ends, strict=True)]
    deviation = np.std([a for a, b in zip(anomalies, base, strict=True) if b])
    newest = [a / deviation for a, k in zip(anomalies, known, strict=True) if k]
    return [float(np.mean(newest[-count:])) for count in counts]


@pytest.mark.parametrize(("span", "delay"), [(1, 0), (1, 10), ("3 months", 10), (3, 40)])
def test_months_are_known_when_their_span_has_ended(tmp_path: Path, span: int | str, delay: int) -> None:
    values = np.random.default_rng(0).normal(3, 2, 84) + np.tile(np.arange(12), 7)
    config = index(write_months(tmp_path / "index.csv", values), span=span, delay=delay)
    read = read_index(config, "index")
    ends = [day.astype("M8[D]").item() for day in read["time"].values]
    first_end = pd.Period("2000-01", "M") + (config.span - 1)
    assert ends[0] == first_end.end_time.date()
    known = known_index(read, DAYS, config, BASE, "index")
    for number in (0, 40, 400, 769, 770, 1200, 2190):
        day = DAYS[number].astype("M8[D]").item()
        expected = naive(pd.Series(values), ends, day, delay, (1, 3))
        np.testing.assert_allclose(known.values[number], expected, rtol=2e-5, atol=2e-6)


def test_days_are_means_of_a_month_and_a_season(tmp_path: Path) -> None:
    values = np.random.default_rng(1).normal(0, 1, 2600)
    config = index(write_days(tmp_path / "index.csv", values), delay=4)
    read = read_index(config, "index")
    ends = [day.astype("M8[D]").item() for day in read["time"].values]
    known = known_index(read, DAYS, config, BASE, "index")
    for number in (0, 30, 900, 2000):  # 30 has most of a January, whose first day the base period begins with
        expected = naive(pd.Series(values), ends, DAYS[number].astype("M8[D]").item(), 4, (30, 90))
        np.testing.assert_allclose(known.values[number], expected, rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("every", ["month", "day"])
@pytest.mark.parametrize("delay", [0, 10])
@pytest.mark.parametrize("span", [1, 3])
def test_what_is_not_yet_known_changes_no_bit(tmp_path: Path, every: str, delay: int, span: int) -> None:
    if every == "day" and span > 1:
        return
    values = np.random.default_rng(2).normal(0, 1, 90 if every == "month" else 2700)
    write = write_months if every == "month" else write_days
    config = index(write(tmp_path / "index.csv", values), delay=delay, span=span)
    read = read_index(config, "index")
    known = known_index(read, DAYS, config, BASE, "index")
    for number in (1461, 1500, 1900, 1931, 1940, 2100):
        day = DAYS[number]
        unknown = read["time"].values + delay * np.timedelta64(1, "D") > day
        assert unknown.any()
        assert not unknown.all()
        other = known_index(read.where(~unknown, 7.0), DAYS[: number + 1], config, BASE, "index")
        assert other.values.tobytes() == known.values[: number + 1].tobytes()
        newest = np.flatnonzero(~unknown)[-1]  # the rule gives away no day: the newest known value does matter
        changed = known_index(read.where(np.arange(read.size) != newest, 7.0), DAYS, config, BASE, "index")
        assert (changed.values[number] != known.values[number]).any()


def test_newest_known_is_the_last_that_has_ended() -> None:
    ends = np.array(["2001-01-31", "2001-02-28"], "M8[ns]")
    days = np.array(["2001-02-09", "2001-02-10", "2001-03-09", "2001-03-10", "2009-01-01"], "M8[ns]")
    assert newest_known(ends, days, 10).tolist() == [-1, 0, 0, 1, 1]


def test_a_late_series_is_unknown_and_not_its_last_value(tmp_path: Path) -> None:
    config = index(write_months(tmp_path / "index.csv", np.random.default_rng(3).normal(0, 1, 60)), delay=10)
    known = known_index(read_index(config, "index"), DAYS, config, BASE, "index")
    last = np.searchsorted(DAYS, np.datetime64("2005-02-10"))  # January 2005 would be known from here on
    assert np.isfinite(known.values[:last]).all()
    assert np.isnan(known.values[last:]).all()


def test_before_the_first_value_nothing_is_known(tmp_path: Path) -> None:
    values = np.random.default_rng(3).normal(0, 1, 90)  # up to June 2007, after all days
    config = index(write_months(tmp_path / "index.csv", values), delay=10)
    days = pd.date_range("1999-12-01", "2006-12-31").as_unit("ns")
    known = known_index(read_index(config, "index"), days.values, config, BASE, "index").values
    for column, first in enumerate(("2000-02-10", "2000-04-10")):  # a mean of three months needs three
        assert np.isnan(known[days < first, column]).all()
        assert np.isfinite(known[days >= first, column]).all()


@pytest.mark.parametrize("value", [3.0, 0.1])  # the mean of many 0.1 is not 0.1
def test_an_index_that_never_changes_tells_nothing(tmp_path: Path, value: float) -> None:
    config = index(write_months(tmp_path / "index.csv", np.full(84, value)))
    known = known_index(read_index(config, "index"), DAYS, config, BASE, "index")
    np.testing.assert_allclose(known.values, 0, atol=1e-9)


def test_a_mean_of_days_needs_the_newest_day_and_most_others(tmp_path: Path) -> None:
    values = np.random.default_rng(6).normal(0, 1, 2600)
    values[2200] = np.nan
    values[2300:2310] = np.nan  # of thirty, 20 are known ten days later, and of ninety 80
    config = index(write_days(tmp_path / "index.csv", values), delay=4)
    known = known_index(read_index(config, "index"), DAYS, config, BASE, "index")
    place = {day: number for number, day in enumerate((DAYS - DAYS[0]) // np.timedelta64(1, "D") + 366 - 4)}
    month, season = ({day: column[number] for day, number in place.items()} for column in known.values.T)
    for day in (2200, *range(2300, 2310)):
        assert np.isnan([month[day], season[day]]).all()
    assert np.isfinite([month[2199], month[2201], season[2201], season[2310]]).all()
    assert np.isnan(month[2310])
    assert np.isnan(month[2331])  # 22 of 30 are less than three quarters
    assert np.isfinite(month[2332])


def test_tables_of_centres_are_read(tmp_path: Path) -> None:
    values = np.random.default_rng(4).normal(0, 1, (4, 12)).round(2)
    psl = ["2001 2004", *(f"{2001 + y} " + " ".join(f"{v:8.2f}" for v in row) for y, row in enumerate(values))]
    psl[-1] = psl[-1][:-8] + "  -99.99"
    (tmp_path / "psl.data").write_text("\n".join([*psl, "  -99.99", "  Nino 3.4 from PSL"]))
    cpc = [" YR   MON  TOTAL ClimAdjust ANOM"]
    cpc += [f"{2001 + y}  {m + 1}  26.1  26.0  {values[y, m]:.2f}" for y in range(4) for m in range(12)]
    (tmp_path / "cpc.txt").write_text("\n".join(cpc[:-1]))
    time = pd.date_range("2001-01-01", periods=47, freq="MS")
    xr.Dataset({"soi": ("time", values.ravel()[:47], {"units": "hPa"})}, {"time": time}).to_netcdf(
        tmp_path / "index.nc"
    )
    joined = ["2001" + "".join(f"{v:6.1f}" for v in [-999.9, -999.9, *values[0, 2:]])]
    (tmp_path / "soi.txt").write_text("\n".join(["YEAR  JAN  FEB ...", *joined]))
    for name in ("psl.data", "cpc.txt", "index.nc"):
        read = read_index(index(tmp_path / name), "index")
        np.testing.assert_allclose(read.values, values.ravel()[:47])
        assert read["time"].values[0] == np.datetime64("2001-01-31")
    assert read.attrs["units"] == "hPa"
    np.testing.assert_allclose(read_index(index(tmp_path / "soi.txt"), "i").values, values[0, 2:], atol=0.051)
    assert read_index(index(tmp_path / "cpc.txt", variable="TOTAL"), "index").values[0] == 26.1


def test_a_box_of_daily_sst_is_an_index(sst_file: Path) -> None:
    read = read_index(index(sst_file, region="170.5,172,-12,-11"), "box")
    sst = make_sst()["sst"]
    cells = sst.where(Box(170.5, 172, -12, -11).contains(sst["lat"], sst["lon"]))
    weights = np.cos(np.deg2rad(sst["lat"])) * cells[0].notnull()
    expected = (cells * weights).sum(("lat", "lon")) / weights.sum()
    np.testing.assert_allclose(read.values, expected.values, rtol=1e-5)
    assert read.attrs == {"units": "degC", "every": "day"}


def box_file(path: Path, lon: np.ndarray, lat: np.ndarray, days: int = 400) -> xr.DataArray:
    """Write SST of a sea with land in one corner."""
    time = pd.date_range("2001-01-01", periods=days)
    values = 20 + np.random.default_rng(8).normal(0, 1, (days, lat.size, lon.size))
    values[:, :2, :2] = np.nan
    sst = xr.DataArray(
        values, {"time": time, "lat": lat, "lon": lon}, ("time", "lat", "lon"), "sst", {"units": "degC"}
    )
    sst.to_dataset().to_netcdf(path)
    return sst


@pytest.mark.parametrize("shift", [0, -360])
def test_a_source_reaches_a_box_to_half_a_cell_or_is_refused(tmp_path: Path, shift: float) -> None:
    rows, path = np.arange(-6, 7.0), tmp_path / "sst.nc"
    for west, east, south, enough in (
        *((189, 241, -6, True), (190, 240, -5, True), (191, 239, -4, True), (225, 260, -6, False)),
        *((192, 241, -6, False), (189, 238, -6, False), (189, 241, -3, False)),
    ):
        box_file(path, np.arange(west, east + 1.0) + shift, rows[rows >= south], 3)
        if enough:
            assert read_index(index(path, region="nino34"), "x").size == 3
        else:
            with refused("data.predictors.x.region", "sst.nc", "covers", "not all of nino34"):
                read_index(index(path, region="nino34"), "x")
    globe = np.arange(0.5, 360) - 180 * (shift < 0)
    box_file(path, globe, rows, 3)
    assert read_index(index(path, region="350,10,-5,5"), "x").size == 3


def test_a_day_without_most_of_the_sea_of_a_box_is_missing(tmp_path: Path) -> None:
    path = tmp_path / "sst.nc"
    sst = box_file(path, np.arange(170.5, 176), np.arange(40.5, 46))
    area = np.cos(np.deg2rad(sst["lat"])) * sst[0].notnull()  # 32 of 36 cells are sea
    share = {}
    for day, cells in ((100, 8), (200, 9), (300, 32)):
        lost = np.zeros(36, bool)
        lost[np.flatnonzero(area.values)[-cells:]] = True  # in the north, where cells are smaller
        share[day] = float((area.values.ravel() * ~lost).sum() / area.sum())
        sst[day] = sst[day].where(~lost.reshape(6, 6))
    sst.to_dataset().to_netcdf(path)
    assert share[100] > 0.75 > share[300]
    read = read_index(index(path, region="170,176,40,46"), "x")
    expected = sst.weighted(area).mean(("lat", "lon")).drop_isel(time=[day for day in share if share[day] < 0.75])
    np.testing.assert_allclose(read.values, expected.values, rtol=1e-6)
    assert (read["time"].values == expected["time"].values).all()


def test_an_implausible_value_is_named_with_its_line_and_the_key_that_allows_it(tmp_path: Path) -> None:
    values = np.random.default_rng(9).normal(0, 1, 84).round(2)
    values[[30, 80]] = 5.5, 7.5  # an El Nino and an SOI
    path = write_months(tmp_path / "index.csv", values)
    assert np.isfinite(known_index(read_index(index(path), "x"), DAYS, index(path), BASE, "x").values).all()
    for month, day in ((40, "2003-05-31"), (82, "2006-11-30")):  # in the base period and after it
        far = values.copy()
        far[month] = -5780
        write_months(path, far)
        with refused(
            "index.csv: -5780 at time", day, f"line {month + 2} is far", "data.predictors.x.implausible: keep"
        ):
            known_index(read_index(index(path), "x"), DAYS, index(path), BASE, "x")
        kept = index(path, implausible="keep")
        assert np.nanmin(known_index(read_index(kept, "x"), DAYS, kept, BASE, "x").values) < -5
        far[month] = 99.99
        with logged() as lines_told:
            assert not (read_index(index(write_months(path, far)), "x") == 99.99).any()
        assert [line for line in lines_told if line.endswith("index.csv: takes 99.99 as missing")]
    pressure = 1010 + 10 * values
    pressure[50] = 999.9
    assert 999.9 in read_index(index(write_months(path, pressure)), "x").values


@pytest.mark.parametrize("mark", [-99, 99, -9.9, -88.8, -127, 255])
@pytest.mark.parametrize(("month", "day"), [(40, "2003-05-31"), (83, "2006-12-31")])
def test_a_mark_that_nothing_declares_is_refused(tmp_path: Path, mark: float, month: int, day: str) -> None:
    values = np.random.default_rng(9).normal(0, 1, 84).round(2)
    values[month] = mark
    path = write_months(tmp_path / "index.csv", values)
    with refused(
        f"index.csv: {mark:g} at time {day} line {month + 2} is far", "data.predictors.x.implausible: keep"
    ):
        known_index(read_index(index(path), "x"), DAYS, index(path), BASE, "x")


@pytest.mark.parametrize("name", ["soi", "nino34"])
@pytest.mark.parametrize("base", [(1951, 1980), (1982, 2003), (2001, 2003)])
def test_no_month_of_published_indices_is_refused(name: str, base: tuple[int, int]) -> None:
    path = Path(f"../shared/data/ocean/{name}.csv")
    if not path.exists():
        pytest.skip(f"{path} is not here")
    years = dt.date(base[0], 1, 1), dt.date(base[1], 12, 31)
    known_index(read_index(index(path), "x"), DAYS, index(path), years, "x")


def test_what_is_no_index_is_refused_in_a_line(tmp_path: Path, sst_file: Path) -> None:
    (tmp_path / "weekly.csv").write_text("date,value\n" + "\n".join(f"2001-01-{d:02},1" for d in (1, 8, 15, 22)))
    with refused("weekly.csv", "every 7 days"):
        read_index(index(tmp_path / "weekly.csv"), "x")
    with refused("none.csv", "cannot be read"):
        read_index(index(tmp_path / "none.csv"), "x")
    (tmp_path / "text.csv").write_text("date,value\n2001-01,cold\n")
    with refused("text.csv", "CSV of dates"):
        read_index(index(tmp_path / "text.csv"), "x")
    (tmp_path / "twice.csv").write_text("date,value\n2001-01,1\n2001-02,1\n2001-02,2\n2001-03,2\n")
    with refused("twice.csv", "2001-02 twice"):
        read_index(index(tmp_path / "twice.csv"), "x")
    with refused("data.predictors.x.region", "no cell"):
        read_index(index(sst_file, region="nino34"), "x")
    config = index(write_months(tmp_path / "short.csv", np.arange(12.0), "2001-01"))
    with refused("data.predictors.x", "2 of each calendar month"):
        known_index(read_index(config, "x"), DAYS, config, BASE, "x")
    for julys in (0, 1):
        months = np.arange(48.0)
        months[6 + 12 * julys :: 12] = np.nan
        config = index(write_months(tmp_path / f"{julys}.csv", months, "2001-01"))
        with refused("data.predictors.x", "2 of each calendar month"):
            known_index(read_index(config, "x"), DAYS, config, BASE, "x")
    config = index(write_days(tmp_path / "one.csv", np.arange(1000.0), "2004-01-01"))
    with refused("data.predictors.x", "366 values", "2 of each calendar month"):
        known_index(read_index(config, "x"), DAYS, config, BASE, "x")


def test_keys_are_checked(tmp_path: Path, sst_file: Path) -> None:
    source = str(tmp_path / "index.csv")
    with refused("data.predictors.soi.kind"):
        configure(tmp_path, sst_file, predictors={"soi": {"kind": "indx", "source": source}})
    with refused("data.predictors.soi.source: is missing"):
        configure(tmp_path, sst_file, predictors={"soi": {"kind": "index"}})
    with refused("gaps", "leave it out"):
        configure(tmp_path, sst_file, predictors={"soi": {"kind": "index", "source": source, "gaps": 2}})
    config = configure(tmp_path, sst_file, predictors={"soi": {"kind": "index", "source": source, "delay": 10}})
    moved = configure(tmp_path, sst_file, predictors={"soi": {"kind": "index", "source": "a.csv", "delay": 10}})
    slower = configure(tmp_path, sst_file, predictors={"soi": {"kind": "index", "source": source, "delay": 11}})
    assert config.difference(moved, moved=True) == ""
    assert config.difference(moved) == "data.predictors.soi.source"
    assert config.difference(slower, moved=True) == "data.predictors.soi.delay"
    assert "predictors" not in written(configure(tmp_path, sst_file))["data"]
    assert written(config)["data"]["predictors"]["soi"].keys().isdisjoint({"region", "span", "missing", "grid"})
    assert config.experiment(moved=False)["data"]["predictors"]["soi"]["span"] == 1


@pytest.mark.parametrize("label", ["9999-01-31", "2262-01-31"])
def test_a_year_beyond_all_records_is_named(tmp_path: Path, label: str) -> None:
    table = pd.DataFrame({"date": pd.date_range("2001-01-31", periods=24, freq="ME").astype(str), "value": 1.0})
    path = tmp_path / "index.csv"
    path.write_text(table.to_csv(index=False) + f"{label},2.0\n")
    with refused("index.csv", "line 26", label):
        read_index(index(path), "x")


def test_a_change_of_units_is_named(tmp_path: Path, sst_file: Path) -> None:
    time, path = pd.date_range("2001-01-01", periods=48, freq="MS"), tmp_path / "index.nc"
    values = np.random.default_rng(5).normal(0, 1, 48)
    written = xr.Dataset({"soi": ("time", values, {"units": "hPa"})}, {"time": time})
    written.to_netcdf(path)
    data = configure(tmp_path, sst_file, predictors={"soi": {"kind": "index", "source": str(path)}}).data
    prepare(data)
    stored = stored_predictors(data, Prepared.of(data).cube.parent)["soi"]
    written["soi"].attrs["units"] = "mbar"
    written.to_netcdf(path)
    assert "the predictor soi is in 'mbar' now, but its store in 'hPa'" in stored.changed()
    with refused("soi is in 'mbar'", "'hPa'"):
        stored.given(written["soi"])
    with refused("predictors: soi has a value a day", "the run reads one a month"):
        stored.given(pd.Series(np.arange(1200.0), pd.date_range("2001-01-01", periods=1200)))
    written["soi"].attrs["units"] = "hPa"
    written.to_netcdf(path)
    assert not stored.changed()

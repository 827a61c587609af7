"""Indices in the layouts in which their owners publish them: each value against the one that was written."""

import calendar
import datetime as dt
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from known_indices import known_index
from logged import logged
from refusals import refused
from test_known_indices import index

from sstcast.predictors.index_series import read_index
from sstcast.predictors.index_texts import THREE_MONTHS, read_text

MONTHS = pd.date_range("1999-01-01", "2006-11-01", freq="MS")
DAYS = pd.date_range("1999-01-01", "2000-04-20")
VALUES = np.random.default_rng(6).normal(0, 0.9, len(DAYS)).round(2)
OTHERS = np.random.default_rng(7).normal(0, 0.9, len(DAYS)).round(2)
NAMES = " ".join(calendar.month_abbr[1:])


def lines(head: str, row: Callable[..., str], labels: pd.DatetimeIndex = MONTHS) -> str:
    """Write a line for each date, with its value and that of another series, below a head."""
    return head + "".join(row(*parts) + "\n" for parts in zip(labels, VALUES, OTHERS, strict=False))


def by_year(head: str, number: str, fill: str = "", year: str = "{}", foot: str = "") -> str:
    """Write a line for each year, whose last month, which is not known, is `fill`."""
    texts = [number.format(value) for value in VALUES[: len(MONTHS)]] + [fill]
    rows = (year.format(1999 + y) + "".join(texts[12 * y : 12 * y + 12]) for y in range(8))
    return head + "\n".join(rows) + "\n" + foot


MONTHLY = {
    "oni": lines(
        " SEAS  YR   TOTAL   ANOM\n",
        lambda m, v, w: f"  {THREE_MONTHS[m.month - 1]} {m.year}  {26 + w:5.2f} {v:6.2f}",
    ),
    "roni": lines("SEAS   YR  ANOM\n", lambda m, v, _: f"{THREE_MONTHS[m.month - 1]}  {m.year} {v:5.2f}"),
    "amo": lines(
        " ERSST AMO (0-60N) Index:\nYear  month      SSTA\n", lambda m, v, _: f"{m.year} {m.month:6} {v:9.2f}"
    ),
    "ao": lines("", lambda m, v, _: f"  {m.year} {m.month:4}  {v:12.5E}"),
    "sstoi": lines(" YR   MON  NINO3.4   ANOM\n", lambda m, v, w: f"{m.year} {m.month:3} {w:6.2f} {v:6.2f}"),
    "soi of BoM": lines("", lambda m, v, _: f"{m:%Y%m},{v:.2f}"),
    "pdo of NCEI": lines("Pacific Decadal Oscillation (PDO)\nDate,Value\n", lambda m, v, _: f"{m:%Y%m},{v:.2f}"),
    "csv": lines("date,value\n", lambda m, v, _: f"{m:%Y-%m},{v:.2f}"),
    "csv of several": lines("date,value,other\n", lambda m, v, w: f"{m:%Y-%m-15},{v:.2f},{w:.2f}"),
    "csv of ERDDAP": lines("time,x\nUTC,degC\n", lambda m, v, _: f"{m:%Y-%m-16T00:00:00Z},{v:.2f}"),
    "csv of PSL": lines(
        "Date,  Nino 3.4  missing value -7 https://x.org\n", lambda m, v, _: f"{m:%Y-%m-%d}, {v:.2f}"
    )
    + "2006-12-01, -7.00\n",
    "csv of columns": lines("Value,Month,Year\n", lambda m, v, _: f"{v:.2f},{m:%b},{m.year}"),
    "no header": lines("", lambda m, v, _: f"{m:%Y-%m},{v:.2f}"),
    "quoted": lines('\ufeff"date";"x; K"\n', lambda m, v, _: f'"{m:%Y-%m-%d}";"{v:.2f}"') + ";\n",
    "named months": lines("month,x\n", lambda m, v, _: f"{m:%b %Y},{v:.2f}"),
    "tabs": lines("date\tx\n", lambda m, v, _: f"{m:%Y/%m}\t{v:.2f}"),
    "last days": lines("date;x\n", lambda m, v, _: f"{m + pd.offsets.MonthEnd():%d.%m.%Y};{v:.2f}"),
    "middle of months": lines("year,x\n", lambda m, v, _: f"{m.year + (m.month - 0.5) / 12:.2f},{v:.2f}"),
    "first of months": lines("", lambda m, v, _: f"{m.year + (m.month - 1) / 12:g} {v:.2f}"),
    "years and months": lines("", lambda m, v, _: f"{m:%Y.%m} {v:.2f}"),
    "pdo": by_year(f" ERSST PDO Index:\nYear {NAMES}\n", "{:6.2f}", " 99.99"),
    "pdo of JISAO": by_year(
        f"PDO\n\nYEAR {NAMES.upper()}\n", " {:6.2f}", "", "{}**", "** from OISST since 2002\n"
    ),
    "psl": by_year(" 1999 2006\n", "{:8.2f}", "  -99.99", foot="  -99.99\n AMO\n 1971-2000 mean removed\n"),
    "psl with another mark": by_year(" 1999 2006\n", "{:9.3f}", "   -9.990", foot="   -9.99\n 5N-5S\n"),
    "knmi": by_year("# an index [K]\n# missing values are -7\n", " {:12.5g}", " -7"),
    "ao in columns": by_year(f"     {NAMES}\n", "{:8.3f}"),
    "soi of CPC": by_year(f"STANDARDIZED  DATA\nYEAR {NAMES}\n", "{:6.2f}", "-999.9"),
    "stars": by_year(f"Year {NAMES}\n", " {:.2f}", " ***"),
    "months and commas": by_year(f"Year,{NAMES.replace(' ', ',')}\n", ",{:.2f}", ","),
}
DAILY = {
    "ao": lines("year,month,day,ao_index_cdas\n", lambda d, v, _: f"{d.year},{d.month},{d.day},{v:.2f}", DAYS),
    "ao without names": lines("", lambda d, v, _: f"{d.year}{d.month:4}{d.day:4} {v:9.5f}", DAYS),
    "knmi": lines("# daily\n", lambda d, v, _: f"{d:%Y%m%d} {v:12.5g}", DAYS),
    "rmm": lines(
        "RMM values from the present day. Missing Value= 1.E36 or 999\n year, month, day, RMM1, RMM2, phase, "
        "amplitude.  Missing Value= 1.E36 or 999\n",
        lambda d, v, w: (
            f"{d.year:12}{d.month:12}{d.day:12}{w:16.7f}{v:16.7f}{3:12}{1:16.7f}  Final_value:__OLR_&_winds"
        ),
        DAYS,
    )
    + "        2000           4          21         1.E36         1.E36       999         1.E36  Missing_value\n",
    "european": lines("date,x\n", lambda d, v, _: f"{d:%d/%m/%Y},{v:.2f}", DAYS),
    "american": lines("date,x\n", lambda d, v, _: f"{d.month}/{d.day}/{d.year},{v:.2f}", DAYS),
    "hours": lines("time,x\n", lambda d, v, _: f"{d:%Y-%m-%d} 12:00,{v:.2f}", DAYS),
}


@pytest.mark.parametrize("name", MONTHLY)
def test_each_month_has_the_value_that_was_published(tmp_path: Path, name: str) -> None:
    (tmp_path / "index.txt").write_text(MONTHLY[name])
    read = read_index(index(tmp_path / "index.txt"), "index")
    np.testing.assert_allclose(read.values, VALUES[: len(MONTHS)], atol=1e-9)
    late = 1 if "SEAS" in MONTHLY[name][:10] else 0  # NDJ ends in the January after its year
    ends = MONTHS + pd.offsets.MonthEnd(1 + late)
    assert (read["time"].values == ends.values).all()


@pytest.mark.parametrize("name", DAILY)
def test_each_day_has_the_value_that_was_published(tmp_path: Path, name: str) -> None:
    (tmp_path / "index.txt").write_text(DAILY[name])
    config = index(tmp_path / "index.txt", **({"variable": "rmm2"} if name == "rmm" else {}))
    read = read_index(config, "index")
    np.testing.assert_allclose(read.values, VALUES, atol=1e-9)
    assert (read["time"].values == DAYS.values).all()


@pytest.mark.parametrize("mark", ["P{}", "*{}", "* {}", "{}**"])
def test_a_mark_of_preliminary_values_is_no_remark(tmp_path: Path, mark: str) -> None:
    """In tables of years and of dates, at the top and at the end."""
    last = mark.format(2002)
    (tmp_path / "table.txt").write_text(f"{TABLE}\n{last}  0.1 -0.2\n")
    read = read_index(index(tmp_path / "table.txt"), "x")
    assert (read.size, read.values[-2:].tolist()) == (38, [0.1, -0.2])
    (tmp_path / "down.txt").write_text("\n".join([f"{last} {12 * ' 0.1'}", *TABLE.split("\n")[::-1]]))
    assert read_index(index(tmp_path / "down.txt"), "x").values.tolist() == [0.5] * 36 + [0.1] * 12
    if not mark.startswith("{"):
        (tmp_path / "dates.csv").write_text(f"1999-01,0.5\n1999-02,0.6\n{mark.format('1999-03')},0.7\n")
        assert read_index(index(tmp_path / "dates.csv"), "x").values.tolist() == [0.5, 0.6, 0.7]


@pytest.mark.parametrize(
    "count", ["Number of missing values: 0", "count of missing values = 0", "No. of missing values: 1"]
)
def test_a_count_of_missing_values_declares_none(tmp_path: Path, count: str) -> None:
    (tmp_path / "a.csv").write_text(f"# {count}\ndate,x\n1999-01,0.0\n1999-02,1.0\n1999-03,2.0\n")
    assert read_index(index(tmp_path / "a.csv"), "x").values.tolist() == [0, 1, 2]


def test_a_number_alone_is_a_mark_only_below_rows_of_years(tmp_path: Path) -> None:
    """Whatever the number is."""
    (tmp_path / "psl.txt").write_text(f" 1999 2001\n{TABLE.replace('0.5', '-7.5', 1)}\n -7.5\n")
    assert read_index(index(tmp_path / "psl.txt"), "x").size == 35
    (tmp_path / "dates.txt").write_text("1999-01 0.5\n1999-02 0.5\n1999-03 -99.99\n -99.99\n")
    with refused("dates.txt: line 4 has 1 columns"):
        read_index(index(tmp_path / "dates.txt"), "x")


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ([1, 0, 2, 3, 0, 0], "its last 2 values, from 1999-05 on, are 0"),
        ([1, 0, 0, 3, 0, 0], ""),  # zeros occur in a row
        ([1, 0, 2, 3, 4, 0], ""),
        ([1, 0, 2, 0, 0, 3], ""),
    ],
)
def test_zeros_at_the_end_are_told(tmp_path: Path, values: list[float], told: str) -> None:
    (tmp_path / "a.csv").write_text(
        "date,x\n" + "".join(f"1999-{month:02},{value:.2f}\n" for month, value in enumerate(values, 1))
    )
    with logged() as found:
        assert read_index(index(tmp_path / "a.csv"), "x").size == 6
    assert [line for line in found if "are 0; leave them out" in line] == [
        f"{tmp_path}/a.csv: {told}; leave them out if they are missing"
    ] * bool(told)


@pytest.mark.parametrize("span", [{}, {"span": "3 months"}, {"span": 3}])
def test_a_season_is_known_after_its_last_month(tmp_path: Path, span: dict[str, object]) -> None:
    text = lines(
        " SEAS  YR   TOTAL   ANOM\n", lambda m, v, w: f"{THREE_MONTHS[m.month - 1]} {m.year} {w:.2f} {v:.2f}"
    )
    days, row = pd.date_range("2004-01-01", "2004-12-31").as_unit("ns").values, f"DJF 2004 {OTHERS[60]:.2f} "
    assert row in text
    known = []
    for number, value in enumerate((f"{VALUES[60]:.2f}", "5.00")):
        path = tmp_path / f"{number}.txt"
        path.write_text(text.replace(f"{row}{VALUES[60]:.2f}", row + value))
        config = index(path, delay=9, **span)
        known.append(
            known_index(
                read_index(config, "oni"), days, config, (dt.date(2000, 1, 1), dt.date(2003, 12, 31)), "oni"
            )
        )
    differ = (known[0] != known[1]).values
    assert str(days[differ[:, 0]][0])[:10] == "2004-03-09"  # nine days after 29 February 2004
    assert str(days[differ[:, 0]][-1])[:10] == "2004-04-08"
    with refused("oni.txt", "span: 3 months"):
        (tmp_path / "oni.txt").write_text(text)
        read_index(index(tmp_path / "oni.txt", span=2), "oni")


TABLE = "\n".join(f"{year}" + 12 * " 0.5" for year in (1999, 2000, 2001))
NO_INDEX = {
    "date,value\n1999-01,1\n1999-02,1,234\n": ("line 3 has 3 columns", "line 2 has 2"),
    "date;value\n1999-01;0,5\n": ("line 2 has '0,5'", "not a number"),
    "date,value\n1999-01,1\nn.d.,3\n": ("line 3 begins with 'n.d.'", "no date"),
    "1999-13,1\n1999-02,1\n": ("line 1 begins with '1999-13'",),
    "200601,1\n200602,1\n2006": ("line 3 has 1 columns",),
    "date,value\n01/01/1999,1\n01/02/1999,1\n": ("line 3 begins with '01/02/1999'", "day and month", "YYYY-MM-DD"),
    "date,value\n13/01/1999,1\n01/14/1999,1\n": ("line 3 begins with '01/14/1999'",),
    "date,value\n13/01/99,1\n": ("line 2 begins with '13/01/99'",),
    "date,value\nJan-99,1\n": ("no line begins with a date",),
    "SEAS YR ANOM\nDJF 1999 1\nJMF 1999 2\n": ("line 3 has '1999-JMF'", "no season"),
    TABLE.replace("2000 0.5", "2000"): ("line 2 has 12 columns", "twelve months"),
    TABLE + " 0.5": ("line 3 has 14 columns", "twelve months"),
    TABLE.replace("2001 0.5", "1998"): ("line 3 has 12 columns",),  # the first year of a record that descends
    TABLE.replace("2000 0.5", "2000 n.d."): ("line 2 has 'n.d.'",),
    TABLE + "\n -99.99\n" + TABLE: ("holds 1999-01 twice",),
    "20th century\ndate,value\n1999-01,1\n": ("line 2 begins with 'date'",),
    "1999.0014 1\n1999.0041 1\n1999.0068 1\n1999.0260 1\n": ("line 1 begins with '1999.0014'",),  # days
    "".join(f"1999.{month:02}".rstrip("0") + " 1\n" for month in range(1, 13)): (
        "line 10 begins with '1999.1'",
    ),  # October or January
    f"{TABLE}\nx2002 {12 * ' 0.5'}\n": ("line 4 begins with 'x2002'",),
    f"{TABLE}\n(2002) 0.5\n": ("line 4 begins with '(2002)'",),
    f"{TABLE}\nr0 {12 * ' 0.5'}\n": ("line 4 begins with 'r0'",),
    f"x2002 {12 * ' 0.5'}\n{TABLE}": ("line 1 begins with 'x2002'",),
    f"YEAR JUL AUG SEP OCT NOV DEC {NAMES[:23]}\n{TABLE}": ("run from JUL to Jun", "January"),
    f"YEAR 12 1 2 3 4 5 6 7 8 9 10 11\n{TABLE}": ("run from 12 to 11",),
    "year,value\n1999,1\n2000,2\n": ("line 2 begins with '1999'",),
    "1999-01,1,2\n1999-02,3,4\n": ("columns have no names",),
    "year month a b\n1999 1 1 2\n1999 2 1 2\n": ("set variable to one among a, b",),
    "Year Day Tahiti SOI\n1999 1 1009 3\n1999 2 1009 3\n": ("line 2 begins with '1999'",),
    "<html>503 Service Unavailable</html>": ("no line begins with a date",),
    "": ("no line begins with a date",),
}


@pytest.mark.parametrize("text", NO_INDEX)
def test_a_line_that_begins_like_data_is_read_or_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "x.csv").write_text(text)
    with refused("x.csv", *NO_INDEX[text]):
        read_index(index(tmp_path / "x.csv"), "x")


def test_a_variable_is_found_by_its_name_alone(tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_text(MONTHLY["sstoi"])
    np.testing.assert_allclose(read_text(tmp_path / "x.txt", "nino3.4")["value"], OTHERS[: len(MONTHS)])
    with refused("x.txt", "no single column 'NINO4' among NINO3.4, ANOM"):
        read_text(tmp_path / "x.txt", "NINO4")
    (tmp_path / "x.txt").write_text(MONTHLY["sstoi"].replace("NINO3.4", "ANOM"))
    with refused("x.txt", "no single column 'ANOM' among ANOM, ANOM"):
        read_text(tmp_path / "x.txt", "ANOM")


@pytest.mark.parametrize(("names", "variable"), [("date,HH", None), ("date,HR", "HR"), ("date,x,HOUR", "HOUR")])
def test_a_column_of_hours_may_be_the_values(names: str, variable: str | None, tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    others = ",7" * (names.count(",") - 1)
    path.write_text(names + "".join(f"\n2004-02-{day}{others},{day / 2}" for day in range(10, 20)))
    np.testing.assert_array_equal(read_text(path, variable)["value"], np.arange(10, 20) / 2)


HOUR_TEXTS = {
    "iso": ("time,x\n", lambda t, v: f"{t:%Y-%m-%d %H:%M:%S},{v}"),
    "blanks": ("", lambda t, v: f"{t:%Y-%m-%d} {t:%H:%M} {v}"),
    "offset": ("time,x\n", lambda t, v: f"{t + pd.Timedelta('10h'):%Y-%m-%dT%H:%M:%S}+10:00,{v}"),
    "named offset": ("time (UTC-5),x\n", lambda t, v: f"{t - pd.Timedelta('5h'):%d/%m/%Y %H:%M},{v}"),
    "columns": ("year,month,day,hour,x\n", lambda t, v: f"{t.year},{t.month},{t.day},{t.hour},{v}"),
    "date and hour": ("date hour x\n", lambda t, v: f"{t:%Y-%m-%d} {t.hour} {v}"),
}


@pytest.mark.parametrize("name", HOUR_TEXTS)
def test_hours_of_a_text_are_averaged_to_days_of_utc(name: str, tmp_path: Path) -> None:
    time = pd.date_range("2004-02-20", "2004-03-10 23:00", freq="3h")
    values = np.random.default_rng(0).normal(size=len(time)).round(3)
    head, row = HOUR_TEXTS[name]
    lines = [row(t, v) for t, v in zip(time, [*values[:20], -999, *values[21:]], strict=True)]
    (tmp_path / "index.txt").write_text(head + "\n".join(lines))
    read = read_index(index(tmp_path / "index.txt"), "index")
    known = pd.Series(values, time).drop(time[20])
    expected = known.resample("1D").mean()
    np.testing.assert_allclose(read.values, expected, atol=1e-12)
    assert (read["time"].values == expected.index.values).all()
    if name == "iso":
        text = (tmp_path / "index.txt").read_text()
        for words in ("local time", "HKT"):
            (tmp_path / "index.txt").write_text(text.replace("time", f"time ({words})"))
            with refused(tmp_path / "index.txt", f"its times are in {words!r}"):
                read_index(index(tmp_path / "index.txt"), "index")
        (tmp_path / "index.txt").write_text(f"{text}\n{time[3]:%Y-%m-%d %H:%M:%S},7.5\n")
        with refused(tmp_path / "index.txt", "different values at 2004-02-20 09:00", "local time?"):
            read_index(index(tmp_path / "index.txt"), "index")

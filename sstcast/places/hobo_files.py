"""Reads the exports of HOBOware, the program of Onset's loggers, as tables with times in ISO 8601.

    "Plot Title: pier"
    "#","Date Time, GMT+10:00","Temp, °C (LGR S/N: 1, SEN S/N: 1)","Host Connected (LGR S/N: 1)"
    1,01/31/20 02:00:00 PM,15.2,

The user chooses the order of day, month and year, which the file does not state. It is that in which all dates
can be read and ascend.
"""

import csv
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from sstcast.errors import SSTCastError, reading
from sstcast.reading.units import is_temperature
from sstcast.storage.csv_files import MAX_HEADER, opened

TITLE = "Plot Title"  # begins the first line, if the user keeps it
TIME = re.compile(r"Date Time(?:, GMT([+-]\d\d:\d\d))?")
HEADER = re.compile(rf'\ufeff?(?:"?#"?[,;\t])?"?{TIME.pattern}"?\s*[,;\t]')  # if the user keeps no title
COLUMN = re.compile(r"([^,]+), ([^(]+?)\s*(?:\((.*)\))?", re.DOTALL)  # name, unit and serial numbers
LABEL = re.compile(r"LBL: ([^,]+)")  # a sensor's name, beside serial numbers
DATE = r"(\d+)[/.-](\d+)[/.-](\d+)(?: (.*))?"
ORDERS = ("month", "day", "year"), ("day", "month", "year"), ("year", "month", "day")
CLOCKS = ("%I:%M:%S %p", "%H:%M:%S", "%I:%M %p", "%H:%M")
CENTURY = 100  # years with two digits are below
SAVE = "export it from HOBOware again with dates as YYYY-MM-DD"


def is_hobo(path: Path) -> bool:
    """Return whether a table is an export of HOBOware. Raises OSError if it cannot be read."""
    if not path.is_file():
        return False
    with opened(path) as lines:
        first = lines.readline(MAX_HEADER)
    return TITLE in first or HEADER.match(first) is not None


def hobo_columns(path: Path) -> tuple[pd.DataFrame, dict[Any, Mapping[str, Any]]]:
    """Return the temperatures of an export with their `time`, and the attributes `units` of each.

    Raises SSTCastError if it cannot be read, or several orders of day, month and year fit its dates.
    """
    with reading(path, SAVE), opened(path) as lines:
        text = [line for line in lines if line.strip() and TITLE not in line]
        separator = next((mark for mark in ";\t" if f'"{mark}"' in text[0]), ",") if text else ","
        rows = [row for row in csv.reader(text, delimiter=separator) if any(row)]
    header = rows[0] if rows else []
    of_time = next((number for number, cell in enumerate(header) if TIME.fullmatch(cell.strip())), None)
    if of_time is None:
        raise SSTCastError(f"{path}: is an export of HOBOware without a column Date Time; {SAVE}")
    if len(rows) == 1:
        raise SSTCastError(f"{path}: holds no temperature, only names of columns; export its values from HOBOware")
    count = len(header)
    marks = [
        n for n, cell in enumerate(header) if n != of_time and not re.match("#|[^,]+, ", cell.strip())
    ]  # no unit
    if (
        shifted := next((row for row in rows[1:] if len(row) > count or _has_number(row, marks)), None)
    ) is not None:
        raise SSTCastError(
            f"{path}: the row {separator.join(shifted)!r} has more cells than names of columns, or a number where "
            "an event is marked; export it from HOBOware again with decimal points, or another separator than the "
            "comma"
        )
    table = pd.DataFrame([[*row, *[""] * count][:count] for row in rows[1:]], columns=range(count), dtype=str)
    zone = TIME.fullmatch(header[of_time].strip())[1]  # type: ignore[index]
    columns = {"time": _in_iso(table[of_time], path) + (zone or "")}
    attributes: dict[Any, Mapping[str, Any]] = {} if zone else {"time": {"units": "local time"}}
    found = [(number, match) for number, cell in enumerate(header) if (match := COLUMN.fullmatch(cell.strip()))]
    found = [(number, match) for number, match in found if is_temperature(match[2].replace("\ufffd", "°"))]
    for number, match in found:
        label = LABEL.search(match[3] or "")
        name = label[1].strip() if label else match[1] if len(found) == 1 else f"{match[1]} {number}"
        columns[name] = table[number].str.replace(",", ".")
        attributes[name] = {"units": match[2].replace("\ufffd", "°")}
    measured = pd.DataFrame(columns)
    is_event = (measured.drop(columns="time") == "").all(axis=1)  # such as the end of the file
    return measured[~is_event].reset_index(drop=True), attributes


def _has_number(row: list[str], columns: list[int]) -> bool:
    """Return whether a row has a number in one of some columns. A row may end before them."""
    return any(row[column].strip().isdigit() for column in columns if column < len(row))


def _in_iso(texts: "pd.Series[str]", path: Path) -> "pd.Series[str]":
    """Return times in ISO 8601. Raises SSTCastError if they cannot be read, or in several orders."""
    parts = texts.str.strip().str.extract(f"^{DATE}$")
    if (unread := parts[0].isna()).any():
        raise SSTCastError(f"{path}: the time {texts[unread].iloc[0]!r} is not read; {SAVE}")
    clock = parts[3].fillna("00:00")
    clocks = (pd.to_datetime(clock, format=form, errors="coerce") for form in CLOCKS)
    times = next((read for read in clocks if read.notna().all()), None)
    if times is None:
        raise SSTCastError(f"{path}: the time of day {clock.iloc[0]!r} is not read; {SAVE}")
    numbers, read = parts[[0, 1, 2]].astype(int), []
    for order in ORDERS:
        of = numbers.set_axis(order, axis=1)
        of["year"] = of["year"].where(of["year"] >= CENTURY, of["year"] + 2000)
        dates = pd.to_datetime(of, errors="coerce") + (times - times.dt.normalize())
        if dates.notna().all() and dates.is_monotonic_increasing:
            read.append((order, dates))
    if len(read) != 1:
        orders = " as well as ".join(", ".join(order) for order, _ in read)
        fault = f"are read as {orders}" if read else "do not ascend as any order of day, month and year"
        raise SSTCastError(f"{path}: its dates, such as {texts.iloc[0]!r}, {fault}; {SAVE}")
    return read[0][1].dt.strftime("%Y-%m-%dT%H:%M:%S")

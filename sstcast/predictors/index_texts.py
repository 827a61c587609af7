"""Reads an index from a text, in the layouts in which the owners of indices publish them.

    1999-01,0.5    199901 0.5     15/01/1999;0.5    1999.042,0.5    a date, and values
    1999 1 0.5     1999 1 15 0.5     DJF 1999 0.5                   year, month or season, perhaps day, and values
    1999 0.5 -0.1 0.3 0.7 ...                                       a year, and the values of its months

A line that begins like data is read, or the text is refused. So is one that has as many numbers. Others are
titles, names of columns or remarks.
"""

import calendar
import csv
import re
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from sstcast.errors import SSTCastError
from sstcast.log import LOG
from sstcast.predictors.values import without_marks
from sstcast.reading.fields import steps_a_day
from sstcast.reading.hours import ZONE, ahead_of_utc, days_of_series
from sstcast.reading.valid_days import Periods

GIVE = "correct it, or give a CSV of dates and values (docs/predictors.md)"
NUMBER = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?"
DATA = re.compile(r"[+-]?\.?\d|[a-z]{3,9}[- ]\d{4}( |$)", re.I)  # a number, or a month or season and a year
PARTS = [re.compile(part) for part in (r"[12]\d{3}", r"0?[1-9]|1[0-2]", r"0?[1-9]|[12]\d|3[01]")]  # of dates
YEAR_PATTERN = PARTS[0]
FUSED = re.compile(r"(?<=[\d.])(?=[+-]\d*\.)")  # CPC writes -999.9-999.9 without a blank
MARKED_YEAR = re.compile(r"^(\s*\d{4})\*+")  # a year whose values are preliminary
PRELIMINARY = re.compile(r"^\s*[P*]+\s*(?=[12]\d{3})", re.I)  # another mark of these
YEAR_IN_FIRST = re.compile(r"\W*\w?\W*[12]\d{3}\W*")  # the first cell of a line of data with another mark
HOW_MANY = re.compile(r"(number|count|no\.?) of (missing|fill)", re.I)  # which declares none
DECLARED = re.compile(
    rf"(?:missing|fill)(?:[ _]?values?|\s*[=:])\s*(?:[=:]|is|are)?\s*({NUMBER}(?:\s*(?:,|or)\s*{NUMBER})*)(?!\w)"
    rf"|(?<!\w)({NUMBER})\s*(?:[=:]|is|means|denotes|marks)\s*missing",
    re.I,
)
NO_VALUE = re.compile(r"|-+|\*+|na|nan|n/a|null|none", re.I)
THREE_MONTHS = ("DJF", "JFM", "FMA", "MAM", "AMJ", "MJJ", "JJA", "JAS", "ASO", "SON", "OND", "NDJ")
MONTH_NUMBER = {name.upper(): number for number, name in enumerate(calendar.month_abbr)}
MONTH_NUMBER |= {name: number for number, name in enumerate(THREE_MONTHS, 1)}
MONTH_NUMBER |= {str(number): number for number in range(1, 13)}
YEARS, DAYS = {"YR", "YEAR", "YYYY"}, {"DAY", "DY", "DD"}  # names of columns
MONTHS = {"MON", "MONTH", "MTH", "MN", "MO", "MM", "SEAS", "SEASON"}
HOURS = {"HR", "HOUR", "HH"}
TIME_OF_DAY = re.compile(r"\d\d?:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:?\d\d)?")
CLOCK = r"[T ](\d\d?):(\d\d)(?::(\d\d))?"  # a time of day after a date
DATE_FORMS = ("%Y-%m-%d", "%Y-%m", "%d-%m-%Y", "%m-%d-%Y", "%m-%Y", "%d-%b-%Y", "%b-%Y", "%B-%Y", "%Y-%b", "%Y-%B")
NEAR = 0.15  # of a month, between a decimal year and the middle or the beginning of a month

Row = tuple[int, list[str]]  # the number of a line, and its cells


def read_text(path: Path, variable: str | None = None, span: int = 1) -> pd.DataFrame:
    """Return the values of a text by date, in the columns `value`, NaN where missing, and `line`, its number.

    A mean of a season is dated by its first month if `span` is 3, and by its last month if `span` is 1.

    Of several values a day, it returns the means of days of UTC, without lines (see `hours.days_of_series`).

    Raises SSTCastError if a line that begins like data cannot be read, which it names, or `variable` is not found.
    """
    rows, names, missing = _rows(path)
    if not rows:
        raise SSTCastError(f"{path}: no line begins with a date; {GIVE}")
    if sum(len(cells) > 12 and bool(YEAR_PATTERN.fullmatch(cells[0])) for _, cells in rows) >= len(rows) / 2:
        found = _months_in_columns(rows, names, path)
    else:
        dates = _date_columns(rows, names)
        hour = _clock_column(rows, names, dates, variable)
        column = _value_column(rows, names, dates, hour, variable, path)
        found = [(number, _label(cells, dates, hour), cells[column]) for number, cells in rows]
    table = pd.DataFrame(found, columns=["line", "label", "text"]).set_index("line")
    value = pd.to_numeric(table["text"], errors="coerce")
    if (wrong := table["text"][value.isna() & ~table["text"].str.fullmatch(NO_VALUE)]).size:
        raise _fault(path, wrong.index[0], f"has {wrong.iloc[0]!r}, which is not a number")
    days = _dates(table["label"], span, path)
    value = value.mask(value.isin(missing))
    if (instants := _instants(table["label"], days)) is not None:
        return _days_of_hours(value.to_numpy(float), instants, table["label"], names, path)
    series = pd.DataFrame({"value": value.to_numpy(float), "line": table.index}, days)
    _tell_last_zeros(series["value"].sort_index().dropna(), path)
    return series


def _label(cells: list[str], dates: list[int], hour: int | None) -> str:
    """Return the date of a row, and the time of day that has a column of its own."""
    date = "-".join(cells[c] for c in dates)
    if hour is None:
        return date
    return f"{date} {cells[hour]}" if ":" in cells[hour] else f"{date} {cells[hour]:0>2}:00"


def _clock_column(rows: list[Row], names: list[str], dates: list[int], variable: str | None) -> int | None:
    """Return the column of hours by its name, or that after the date if it holds times of day, or None.

    The column of the `variable` is none, nor is the only one besides the date, such as `HH`.
    """
    after = dates[-1] + 1
    is_clock = all(len(cells) > after and TIME_OF_DAY.fullmatch(cells[after]) for _, cells in rows)
    if is_clock:
        return after
    return _position(names, HOURS - {(variable or "").upper()}) if len(rows[0][1]) > len(dates) + 1 else None


def _instants(labels: pd.Series, days: pd.DatetimeIndex) -> pd.DatetimeIndex | None:
    """Return the times of labels as they are written, or None unless there are several a day."""
    hour, minute, second = (pd.to_numeric(part).fillna(0) for _, part in labels.str.extract(CLOCK).items())
    instants = days + pd.to_timedelta((hour * 3600 + minute * 60 + second).to_numpy(), unit="s")
    return instants if steps_a_day(instants.values) > 1 else None


def _days_of_hours(
    values: NDArray[np.float64], instants: pd.DatetimeIndex, labels: pd.Series, names: list[str], path: Path
) -> pd.DataFrame:
    """Return the means of days of UTC of values at `instants`, which are ahead of it by `labels` or `names`."""
    zones = [text for name in names[:1] for text in re.findall(r"\((.*)\)", name)]
    if isinstance(ahead := ahead_of_utc(labels, zones, names[:1]), str):
        raise SSTCastError(f"{path}: {ahead}")
    written = (
        pd.Series(instants.strftime("%Y-%m-%dT%H:%M:%S"), labels.index)
        + labels.str.extract(f"({ZONE.pattern})")[0].fillna("").str.strip()
    )
    in_utc = pd.to_datetime(written, utc=True, format="ISO8601").dt.tz_localize(None) - ahead
    found = Periods.at(in_utc.to_numpy("M8[s]"))
    means, note = days_of_series(without_marks(values, str(path)), found, {}, str(path))
    LOG.warning(f"{path}: is read {note}")
    return means.to_frame("value")


def _tell_last_zeros(values: pd.Series, path: Path) -> None:
    """Log zeros at the end of the newest year, which may stand for months to come, unless others are in a row."""
    is_zero = (values == 0).to_numpy()
    last = int(np.argmin(np.append(is_zero, False)[::-1][1:])) if is_zero.any() else 0
    others = is_zero[: len(is_zero) - last]
    is_of_one_year = 2 <= last < len(is_zero) and values.index[-last].year == values.index[-1].year
    if is_of_one_year and not (others[1:] & others[:-1]).any():
        since = f"{values.index[-last]:%Y-%m}"
        LOG.warning(f"{path}: its last {last} values, from {since} on, are 0; leave them out if they are missing")


def _fault(path: Path, line: int, fault: str) -> SSTCastError:
    return SSTCastError(f"{path}: line {line} {fault}; {GIVE}")


def _rows(path: Path) -> tuple[list[Row], list[str], set[float]]:
    """Return the rows of data, the names of their columns, if any, and the numbers that mark missing values.

    A remark calls them so, or they stand alone below rows of a year and twelve months, as in the tables of PSL.
    """
    rows: list[Row] = []
    head: list[str] = []
    missing: set[float] = set()
    has_ended = False
    for number, line in enumerate(path.read_text(encoding="utf-8-sig", errors="replace").splitlines(), 1):
        cells = _cells(line)
        if len(marked := _cells(PRELIMINARY.sub("", line))) > 1 and all(map(_is_value, marked[1:])):
            cells = marked
        is_data = bool(DATA.match(" ".join(cells[:2])))
        is_numeric = all(re.fullmatch(NUMBER, cell, re.I) for cell in cells)
        if is_data and is_numeric and len(cells) == 1 and _is_table_of_years(rows):
            missing.add(float(cells[0]))
            has_ended = True
        elif is_data and (is_numeric or not has_ended):
            rows.append((number, cells))
        else:
            declared = " ".join(text for pair in DECLARED.findall(HOW_MANY.sub("", line)) for text in pair)
            missing |= {float(text) for text in re.findall(NUMBER, declared, re.I)}
            if cells and not rows:
                head = [DECLARED.sub("", cell).strip(" .:") for cell in cells]
            elif cells and ((not has_ended and re.search("[,;]", line)) or _is_like(cells, rows[0][1])):
                raise _fault(path, number, f"begins with {cells[0]!r}, which is no date")
    rows = _without_first_and_last_year(rows)
    if rows and _is_like(head, rows[0][1]):
        raise _fault(path, rows[0][0] - 1, f"begins with {head[0]!r}, which is no date")
    is_named = rows and (len(head) == len(rows[0][1]) or _position(head, YEARS) is not None)
    return rows, head if is_named else [], missing


def _is_value(cell: str) -> bool:
    return bool(re.fullmatch(NUMBER, cell, re.I) or NO_VALUE.fullmatch(cell))


def _is_like(cells: list[str], row: list[str]) -> bool:
    """Return whether a line that does not begin like data has a year and numbers, or as many as a row."""
    is_as_long = len(cells) == len(row) > 2 and re.search(r"\d", cells[0])
    return (
        len(cells) > 1 and all(map(_is_value, cells[1:])) and bool(YEAR_IN_FIRST.fullmatch(cells[0]) or is_as_long)
    )


def _without_first_and_last_year(rows: list[Row]) -> list[Row]:
    """Return rows of data without the first line of PSL, which holds the first and the last year."""
    return rows[1:] if rows and len(rows[0][1]) == 2 and all(map(YEAR_PATTERN.fullmatch, rows[0][1])) else rows


def _is_table_of_years(rows: list[Row]) -> bool:
    """Return whether all rows have a year and twelve months."""
    rows = _without_first_and_last_year(rows)
    return bool(rows) and all(len(cells) == 13 and YEAR_PATTERN.fullmatch(cells[0]) for _, cells in rows)


def _cells(line: str) -> list[str]:
    """Split a line at its commas, semicolons or blanks, without a comment. A line of empty cells has none."""
    line = line.split("#")[0]
    if mark := re.search("[,;]", line):
        cells = [cell.strip() for cell in next(csv.reader([line], delimiter=mark[0], skipinitialspace=True))]
        return cells if any(cells) else []
    return FUSED.sub(" ", MARKED_YEAR.sub(r"\1", line.replace('"', ""))).split()


def _position(names: list[str], known: set[str]) -> int | None:
    """Return the position of the first of `names` that is among the `known` ones, or None."""
    return next((place for place, name in enumerate(names) if name.upper() in known), None)


def _months_in_columns(rows: list[Row], names: list[str], path: Path) -> list[tuple[int, str, str]]:
    """Return line, month and text of values in rows of a year and twelve months. The newest year may lack some.

    Raises SSTCastError unless the months are in the order of a year.
    """
    months = [MONTH_NUMBER.get(name.upper().lstrip("0")[:3], 0) for name in names[1:13]]
    if sorted(months) == [*range(1, 13)] != months:
        raise SSTCastError(f"{path}: its years run from {names[1]} to {names[12]}; give them from January on")
    newest = max(rows, key=lambda row: row[1][0])
    for number, cells in rows:
        is_whole = len(cells) == 13 or ((number, cells) == newest == rows[-1] and 1 < len(cells) < 13)
        if not (is_whole and YEAR_PATTERN.fullmatch(cells[0])):
            raise _fault(path, number, f"has {len(cells)} columns, not a year and twelve months")
    return [(n, f"{cells[0]}-{month}", text) for n, cells in rows for month, text in enumerate(cells[1:], 1)]


def _date_columns(rows: list[Row], names: list[str]) -> list[int]:
    """Return the columns of year, month or season, and perhaps day, or the first one, of the date.

    Without a column `year`, numbers that may be those of years, months and days are taken for these.
    """
    year, month, day = (_position(names, known) for known in (YEARS, MONTHS, DAYS))
    if year is not None and month is not None:
        return [year, month] if day is None else [year, month, day]
    for count in (3, 2) if year is None else ():
        if all(len(c) > count and all(map(re.Pattern.fullmatch, PARTS[:count], c)) for _, c in rows):
            return list(range(count))
    return [0]


def _value_column(
    rows: list[Row], names: list[str], dates: list[int], hour: int | None, variable: str | None, path: Path
) -> int:
    """Return the column of `variable`. By default it is the only one, `ANOM`, or that after the date."""
    width = len(rows[0][1])
    for number, cells in rows:
        if len(cells) != width:
            raise _fault(path, number, f"has {len(cells)} columns, but line {rows[0][0]} has {width}")
    others = [c for c in range(width) if c not in (*dates, hour)]
    named = [c for c in others if names[c : c + 1] and names[c].upper() == (variable or "ANOM").upper()]
    if len(named) == 1:
        return named[0]
    if variable is None and others and (len(others) == 1 or (names and dates == [0])):
        return others[0]
    if not names:
        raise SSTCastError(f"{path}: its columns have no names; put a line of names above them")
    wanted = "set variable to one" if variable is None else f"no single column {variable!r}"
    raise SSTCastError(f"{path}: {wanted} among {', '.join(names[c] for c in others if c < len(names))}")


def _dates(labels: pd.Series, span: int, path: Path) -> pd.DatetimeIndex:
    """Return the dates of labels by line. The first day stands for a month.

    Decimal years mark the middle of a month or its beginning. The end of one counts as the beginning of the next,
    which is not too early. Raises SSTCastError if labels are no dates, or do not prove the order of day and month.
    """
    seasons = labels.str.upper().str.extract(r"(\d{4})-([A-Z]{3})$")
    if (is_season := seasons[1].isin(THREE_MONTHS)).any():
        if not is_season.all():
            raise _fault(
                path, is_season.idxmin(), f"has {labels[is_season.idxmin()]!r}, which is no season and year"
            )
        if span not in (1, 3):
            raise SSTCastError(f"{path}: holds means of three months; set span: 3 months, or leave it out")
        centres = seasons[1].map(lambda name: f"{THREE_MONTHS.index(name) + 1:02}")
        return (pd.PeriodIndex(seasons[0] + "-" + centres, freq="M") + (1 if span == 1 else -1)).to_timestamp()
    text = labels.str.replace(r"[T ]\d\d?:.*", "", regex=True)
    if labels.str.fullmatch(r"\d{4}(\.\d*)?").all() and labels.str.contains(".", regex=False).any():
        months = labels.astype(float) * 12
        for number, centre in ((months // 1, months // 1 + 0.5), (months.round(), months.round())):
            if (abs(months - centre) <= NEAR).all():
                year, month = (part.astype(int).astype(str) for part in (number // 12, number % 12 + 1))
                text = year + "-" + month
                break
        else:  # 1999.10 may be a year and a month
            text = text.where(text.str.fullmatch(r"\d{4}\.\d\d"), "")
    text = text.str.replace(r"^(\d{4})(\d\d)(\d\d)?$", r"\1-\2-\3", regex=True)
    text = text.str.replace(r"[-/. ]+", "-", regex=True).str.rstrip("-")
    read = [pd.to_datetime(text, format=form, errors="coerce") for form in DATE_FORMS]
    read = [dates.where(dates.dt.year.between(1600, 2200)) for dates in read]
    whole = [dates for dates in read if dates.notna().all()]
    if not whole:
        line = max(read, key=lambda dates: dates.count()).isna().idxmax()
        raise _fault(path, line, f"begins with {labels[line]!r}, which is no date of the same form as the others")
    for dates in whole[1:]:
        if (differ := dates != whole[0]).any():
            fault = f"begins with {labels[differ.idxmax()]!r}, in which day and month may be exchanged"
            raise _fault(path, differ.idxmax(), f"{fault}: write YYYY-MM-DD")
    return pd.DatetimeIndex(whole[0])

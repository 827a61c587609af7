"""The command `update`: every day new days, a forecast, its page, and how earlier forecasts have come true."""

import datetime as dt
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from sstcast.artefacts import atomic, locked
from sstcast.errors import reading_later
from sstcast.forecasting.forecast import LATEST, forecast, read_date
from sstcast.forecasting.history import Normals
from sstcast.forecasting.source import bring_up_to_date
from sstcast.ocean.reading import REMEDY, open_region, source_path
from sstcast.operations.verification import verify
from sstcast.pages.page import LARGEST, write_forecast_page
from sstcast.runs import Run

MADE, NOTHING_NEW, SOURCE_DOWN = 0, 3, 4
LOOKED_BACK = 60  # days: forecasts issued since are verified
ABSENT = ("not there", " holds ")  # how a source that works says that it has no such day
DAY = dt.timedelta(days=1)


@dataclass(frozen=True)
class Update:
    """What an update did: its exit code, a line for the log, and the newest forecast."""

    code: int
    line: str
    forecast: Path


def update(folder: Path, date: str = LATEST, largest: float = LARGEST, today: dt.date | None = None) -> Update:
    """Fetch new days, forecast from the last one (or from `date`), write the page and the verification.

    All is in `RUN/forecasts`: one `forecast-DATE.nc` per initial date, kept as it was issued; `latest.html`, the
    page of the newest; `verification.csv`, the scores by lead of those issued in the last 60 days. What is there
    is not made again, so a killed or repeated update only does the rest.

    Raises SSTCastError if the run, the date, or the source's store is unusable, or the page would be larger than
    `largest` MB.
    """
    run, day = Run.open(folder), read_date(date)
    place = run.folder / "forecasts"
    with locked(place):
        report = bring_up_to_date(run.config.data, day, today or dt.date.today())
        with open_region(run.config.data) as sst:
            last: dt.date = sst["time"].values[-1].astype("datetime64[D]").item()
        issued = place / f"forecast-{day or last}.nc"
        new = not issued.exists()
        if new:
            forecast(run.folder, str(day or last), issued, say=_silent)
        verified, scores = _verify(run, place, last)
        page = place / "latest.html"
        newest = max(_issued(place).items())[1]
        _, shown = write_forecast_page(newest, page, largest=largest, say=_silent)
    reasons = report.missing.values() if report else ()
    down = next((reason for reason in reasons if not any(words in reason for words in ABSENT)), "")
    made = [issued.name] * new + [page.name] * shown + ["verification.csv"] * verified
    code = SOURCE_DOWN if down else MADE if made else NOTHING_NEW
    parts = [
        f"made {', '.join(made)}" if made else "nothing new",
        *([f"{report.fetched} days fetched"] if report and report.fetched else []),
        *([f"source down ({down}), made from days up to {last}"] if down else []),
        "" if scores.empty else _in_words(scores),
    ]
    now = dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%MZ")
    return Update(code, f"{now} {run.folder}: {'; '.join(filter(None, parts))}", newest)


def _issued(place: Path) -> dict[dt.date, Path]:
    """Return the forecasts in a folder by initial date; files of other names are not forecasts of `update`."""
    found = {}
    for file in place.glob("forecast-????-??-??.nc"):
        with suppress(ValueError):
            found[dt.date.fromisoformat(file.stem.removeprefix("forecast-"))] = file
    return found


def _verify(run: Run, place: Path, last: dt.date) -> tuple[bool, pd.DataFrame]:
    """Score the forecasts of the last days; return whether there were new scores to write, and the scores."""
    begin = last - LOOKED_BACK * DAY
    files = [file for day, file in sorted(_issued(place).items()) if begin <= day < last]
    if not files:
        return False, pd.DataFrame()
    data = run.config.data
    with reading_later(source_path(data.source), REMEDY), open_region(data) as sst:
        days = sst.sel(time=slice(np.datetime64(begin), np.datetime64(last))).load()
        scores = verify(files, Normals(data).on_grid(days).compute())
    if scores.empty:
        return False, scores
    file, text = place / "verification.csv", scores.to_csv(float_format="%.4f")
    if file.exists() and file.read_text() == text:
        return False, scores
    with atomic(file) as temporary:
        temporary.write_text(text)
    return True, scores


def _in_words(scores: pd.DataFrame) -> str:
    lead = min(scores.index, key=lambda lead: abs(lead - 7))
    row = scores.loc[lead]
    return (
        f"day {lead:g} of {row['forecasts']:g} forecasts: RMSE {row['rmse']:.2f} °C "
        f"(persistence {row['rmse_persistence']:.2f}, climatology {row['rmse_climatology']:.2f})"
    )


_silent: Callable[[str], object] = lambda line: None  # noqa: E731

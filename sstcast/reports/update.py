"""The command `update`: fetches new days, forecasts, writes the page, and verifies earlier forecasts."""

import datetime as dt
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import xarray as xr

from sstcast.errors import counted, reading
from sstcast.extremes.heatwaves import FREEZING
from sstcast.forecasting.fields import FILLED
from sstcast.forecasting.forecast import LATEST, check_made_from, forecast, read_date
from sstcast.forecasting.freezing import freezing_point_of
from sstcast.forecasting.history import RegionStatistics, bring_up_to_date, told_of_cut
from sstcast.forecasting.place_periods import table_beside
from sstcast.forecasting.places_told import lines_of_places
from sstcast.forecasting.run_gaps import gaps_for, keep_gaps, told_of_stores
from sstcast.forecasting.run_places import REMEDY as PLACES_REMEDY
from sstcast.forecasting.run_places import (
    check_alert,
    content_of_copy,
    keep_alert,
    keep_places,
    places_for,
    told_of_places,
)
from sstcast.forecasting.run_temperatures import keep_temperatures, temperatures_for
from sstcast.forecasting.stores import stores_for
from sstcast.forecasting.transfer import OWN
from sstcast.geo import area_weights
from sstcast.log import silent
from sstcast.names import ONE_DAY
from sstcast.ocean.filled_days import may_begin
from sstcast.places.places import Places
from sstcast.reading.gaps import CUT, GapRule
from sstcast.reading.plausible import check_days
from sstcast.reading.reading import open_region
from sstcast.reports.alerts import FILE as ALERTS_FILE
from sstcast.reports.alerts import alerts_to_tell
from sstcast.reports.how_good import scores_of
from sstcast.reports.page import MAX_PAGE_MB, forecasts_in, open_forecast, write_forecast_page
from sstcast.reports.page import REMEDY as REMAKE
from sstcast.runs import Run
from sstcast.scores.evaluate import tell_weights
from sstcast.scores.metrics import bias, mae, rmse, statistics_of
from sstcast.storage.artefacts import atomic, check_intact, locked, read_recipe

MADE, NOTHING_NEW, SOURCE_DOWN = 0, 3, 4
AS_ISSUED = "restore it as it was issued, or delete it"
VERIFIED_DAYS = 60  # forecasts issued in these last days are verified
SYSTEMS = ("", "_persistence", "_climatology")  # suffixes of columns; the forecast's columns have none
MEASURED = {metric.name: metric for metric in (rmse, mae, bias)}


@dataclass(frozen=True)
class Update:
    """The result of an update: its exit code, a line for the log, the newest forecast, and more lines.

    `lines` are those that `forecast` has of the places of a forecast that was made, of those that the run keeps no
    longer, of the days that its stores lack, and of new alerts.
    """

    code: int
    line: str
    forecast: Path
    lines: tuple[str, ...] = ()


@silent()
def update(
    folder: Path,
    date: str = LATEST,
    largest: float = MAX_PAGE_MB,
    today: dt.date | None = None,
    above: tuple[float, ...] | None = None,
    places: Places | None = None,
    below: tuple[float, ...] | None = None,
    gaps: int | None = None,
    alert: int | None = None,
    tell: Callable[[Update], object] | None = None,
) -> Update:
    """Fetch new days, forecast from the last day (or from `date`), and write the page and the verification.

    All files are in `RUN/forecasts`. There is one `forecast-DATE.nc` per initial date, which is never changed
    after it is issued. `latest.html` is the page of the newest forecast. `verification.csv` has the scores by lead
    of the forecasts issued in the last 60 days. Existing files are kept, so an update that is repeated after an
    interruption does only what is left. `places`, the temperatures `above` and `below`, and the `gaps` that are
    filled are those of the next forecasts (see `run_places`, `run_temperatures` and `run_gaps`). `alert` is the
    probability, in per cent, from which a place of the newest forecast is an alert from now on, 0 for none (see
    `alerts`). `tell` is called with the result before it counts as told: an update that is killed or fails earlier
    tells of its forecast and alerts when it is repeated.

    If the source lacks days that cannot be filled, the last day is the one before them, and the code is 4 as long
    as later days wait.

    Raises SSTCastError if the run, the date, a place or the source's store is unusable, if alerts are asked for
    without places, or if the page would be larger than `largest` MB.
    """
    run, day = Run.open(folder), read_date(date)
    forecast_folder = run.folder / "forecasts"
    check_alert(run, alert, places)
    with locked(forecast_folder):
        report = bring_up_to_date(run.config.data, day, today or dt.date.today())
        rule = GapRule(most=gaps_for(run, gaps))
        with open_region(run.config.data, rule=rule) as sst:
            last: dt.date = sst["time"].values[-1].astype("datetime64[D]").item()
            cut = "" if day is not None and day > last else sst.attrs.get(CUT, "")
        issued = forecast_folder / f"forecast-{day or last}.nc"
        untold = issued.with_name(f".{issued.name}.untold")  # is there until a new forecast was told of
        places_before = content_of_copy(run.places, PLACES_REMEDY)
        later = []  # what was given and begins with the next forecast
        if not issued.exists():
            with atomic(untold) as temporary:
                temporary.touch()
            forecast(run.folder, str(day or last), issued, above=above, below=below, places=places, gaps=gaps)
        else:
            check_made_from(issued, run.config.data, AS_ISSUED, own=run)
            held = read_recipe(issued) or {}
            if places is not None:
                asked = places_for(run, places)
                if asked is not None:
                    tell_weights(asked.places, stores_for(run, OWN, last))
                keep_places(run, asked)
                later += ["places"] if (asked and asked.recipe) != held.get("asked") else []
            if (above, below) != (None, None):
                keep_temperatures(run, temperatures := temperatures_for(run, above, below))
                differ = any(list(of) != held.get(side, []) for side, of in temperatures._asdict().items())
                later += ["temperatures"] if differ else []
            keep_gaps(run, rule.most)
        new = untold.exists()
        verified, scores = _verify(run, forecast_folder, last, rule)
        page = forecast_folder / "latest.html"
        newest = max((files := forecasts_in(forecast_folder)).items())[1]
        check_intact(newest, AS_ISSUED)
        is_first = not page.exists()
        _, page_is_new = write_forecast_page(newest, page, largest=largest, verified=scores)
        with alerts_to_tell(files, keep_alert(run, alert), AS_ISSUED) as alerts:
            down = report.down if report else ""
            file_names = [issued.name] * new + [page.name] * page_is_new + ["verification.csv"] * verified
            file_names += [ALERTS_FILE] * alerts.changed
            code = SOURCE_DOWN if down or cut else MADE if file_names else NOTHING_NEW
            parts = [
                f"made {', '.join(file_names)}" if file_names else "nothing new",
                *([f"{filled} filled"] if new and (filled := open_forecast(issued).attrs.get(FILLED)) else []),
                *([f"{counted(report.fetched, 'day')} fetched"] if report and report.fetched else []),
                *(f"its {what} begin with the next forecast" for what in later),
                *([f"source down ({down}), made from days up to {last}"] if down else []),
                *([told_of_cut(last, cut)] if cut else []),
                alerts.part,
                "" if scores.empty else _in_words(scores),
            ]
            if is_first and scores_of(newest, open_forecast(newest)) is None:
                parts.append(
                    f"`sstcast evaluate {run.folder}`, run once, lets the page say how good its forecasts are"
                )
            lines = [told_of_places(run, places_before, content_of_copy(run.places, PLACES_REMEDY))]
            if new:
                lines += [told_of_stores(run, rule.most)] if rule.most > run.config.data.gaps else []
                lines += lines_of_places(open_forecast(issued).isel(init_time=-1), table_beside(issued))
            lines += alerts.lines
            now = dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%MZ")
            line = f"{now} {run.folder}: {'; '.join(filter(None, parts))}"
            done = Update(code, line, newest, tuple(filter(None, lines)))
            if tell is not None:
                tell(done)
        untold.unlink(missing_ok=True)
    return done


def _verify(run: Run, folder: Path, last: dt.date, rule: GapRule) -> tuple[bool, pd.DataFrame]:
    """Verify the recent forecasts. Return whether new scores were written, and the scores."""
    begin = last - VERIFIED_DAYS * ONE_DAY
    files = [file for day, file in sorted(forecasts_in(folder).items()) if begin <= day < last]
    if not files:
        return False, pd.DataFrame()
    prepared = stores_for(run, OWN, last)
    with open_region(prepared.data, rule=rule) as sst:
        days = sst.sel(time=slice(np.datetime64(begin), np.datetime64(last))).load()
        check_days(days, prepared.data.path)
        if rule.most > prepared.data.gaps:  # days that a forecast alone fills are no observations
            days = days[may_begin((days["filled"] / days["sea"]).values)]
        scores = verify_issued(files, RegionStatistics(prepared).on_grid(days).compute())
    if scores.empty:
        return False, scores
    file, text = folder / "verification.csv", scores.to_csv(float_format="%.4f")
    if file.is_file() and file.read_text() == text:
        return False, scores
    with atomic(file) as temporary:
        temporary.write_text(text)
    return True, scores


def verify_issued(files: Sequence[Path], truth: xr.DataArray) -> pd.DataFrame:
    """Score issued forecasts by lead against `truth(time, lat, lon)` in degC on their grid.

    Returns a table with a row for each lead that has observations. `forecasts` is the number of forecasts. `rmse`,
    `mae` and `bias` are in degC over all dates and cells, with cells weighted by area. Columns with the suffixes
    `_persistence` (of the anomaly on the last day of history) and `_climatology` hold the scores of these
    references. `coverage_80` is the share of cells and days within the 80 % interval.

    Raises SSTCastError if a file is damaged or is not a forecast.
    """
    by_date = xr.concat([_area_means(file, truth) for file in files], "init_time").dropna("lead", how="all")
    means = by_date.mean("init_time")
    table = {"forecasts": by_date["covered"].notnull().sum("init_time")}
    for system in SYSTEMS:
        system_means = {name: means[name].sel(system=system, drop=True) for name in statistics_of(MEASURED)}
        table |= {f"{name}{system}": metric.from_means(system_means) for name, metric in MEASURED.items()}
    return xr.Dataset(table | {"coverage_80": means["covered"]}).to_dataframe()


def _area_means(file: Path, truth: xr.DataArray) -> xr.Dataset:
    """Return area-mean statistics of the forecast in a file by `system` and `lead`, NaN without observations."""
    from sstcast.scores.distributions import Gaussian  # imported late, as it imports PyTorch

    check_intact(file, AS_ISSUED)
    with open_forecast(file) as opened, reading(file, REMAKE):
        newest = opened.isel(init_time=-1)
        fields = newest[["sst", "sst_anomaly", "sst_spread", "climatology_past"]]
        fields[FREEZING] = freezing_point_of(newest)
        forecast, init_time = fields.sel(past=0).load().reset_coords(drop=True), newest["init_time"].values
    sst, lead = forecast["sst"], forecast["lead"].values.astype("timedelta64[D]")
    observed = truth.reindex(time=init_time + lead).rename(time="lead").assign_coords(lead=sst["lead"])
    last_anomaly = truth.reindex(time=[init_time]).isel(time=0, drop=True) - forecast["climatology_past"]
    climatology = sst - forecast["sst_anomaly"]
    forecasts = xr.concat([sst, climatology + last_anomaly, climatology], pd.Index(SYSTEMS, name="system"))
    means = {name: statistic.function(forecasts, observed) for name, statistic in statistics_of(MEASURED).items()}
    lowest = forecast[FREEZING].fillna(-np.inf).broadcast_like(sst).transpose(*sst.dims).values
    distribution = Gaussian(sst.values, forecast["sst_spread"].values, lowest=lowest)
    inside = distribution.covers(observed.transpose(*sst.dims).values, 80)
    means["covered"] = sst.copy(data=inside).where(observed.notnull() & sst.notnull())
    return xr.Dataset(means).weighted(area_weights(forecast["lat"])).mean(("lat", "lon"))


def _in_words(scores: pd.DataFrame) -> str:
    lead = min(scores.index, key=lambda lead: abs(lead - 7))
    row = scores.loc[lead]
    count = int(row["forecasts"])
    forecasts = counted(count, "forecast") + " alone" * (count == 1)
    return (
        f"day {lead:g} of {forecasts}: RMSE {row['rmse']:.2f} °C "
        f"(persistence {row['rmse_persistence']:.2f}, climatology {row['rmse_climatology']:.2f})"
    )

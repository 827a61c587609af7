"""The command `page`: finds a forecast, and writes it to an interactive page (see `page_contents`)."""

import datetime as dt
from contextlib import suppress
from pathlib import Path

import numpy as np
import pandas as pd
import xarray as xr

from sstcast._version import __version__
from sstcast.errors import SSTCastError
from sstcast.forecasting.fields import FILLED
from sstcast.reading.daily_field import short_hash
from sstcast.reading.grid import eastward
from sstcast.reports.how_good import drawing_of_errors, how_good, scores_of
from sstcast.runs import Run
from sstcast.storage.artefacts import (
    RECIPE,
    changed_after,
    check_intact,
    digest,
    fingerprint,
    followed,
    is_intact,
    is_up_to_date,
    locked,
    read_recipe,
    unlinked,
)
from sstcast.storage.stores import open_netcdf, open_zarr

MAX_PAGE_MB = 20.0  # default limit of the size of a page in MB
REMEDY = "make it again with `sstcast forecast`"
FORECAST_AXES = ("init_time", "lead", "lat", "lon")
OF_ONE_DATE = (  # attributes; the last three tell the years before it that its statistics are from
    *("title", "history", "date_created", "data", FILLED, "predictors", "predictors_known", RECIPE),
    *("maximum_monthly_mean_years", "heatwave_years", "heatwave_base_period"),
)


def write_forecast_page(
    source: Path,
    out: Path | None = None,
    region: str | None = None,
    largest: float = MAX_PAGE_MB,
    verified: pd.DataFrame | None = None,
) -> tuple[Path, bool]:
    """Write the page of a forecast file, or of the newest forecast of a run.

    If a file has several initial dates, the page shows the last one.

    Args:
        source: a forecast file, or the folder of a run.
        out: the page. By default, it is beside the forecast, with the ending `.html`.
        region: a name or `W,E,S,N`, to show only this region.
        largest: the limit of the size in MB.
        verified: the scores of issued forecasts, to draw (see `how_good.drawing_of_errors`).

    Returns:
        The page, and False if it already existed.

    Raises:
        SSTCastError: the file is not a forecast, `out` is not a page, the forecast does not cover the region, or
            the page would be larger than `largest` MB.
    """
    file = source if source.suffix in (".nc", ".zarr") else newest_forecast(Run.open(source))
    page = out or file.with_suffix(".html")
    if page.suffix != ".html":
        raise SSTCastError(f"--out {page}: name a file that ends in .html")
    page = unlinked(page) if out is None else followed(page)
    forecast = open_forecast(file)
    recipe = {"forecast": fingerprint(file), "region": region, "sstcast": __version__}
    if (scores := scores_of(file, forecast)) is not None:
        recipe |= {"scores": digest(scores.files.metrics)}
    if verified is not None and not verified.empty:
        recipe |= {"verified": short_hash(verified.to_csv(float_format="%.4f"))}
    with locked(page):
        if is_up_to_date(page, recipe) and (is_intact(file, strictly=True) or not changed_after(file, page)):
            return page, False
        if page.exists() and "forecast" not in (read_recipe(page) or ()):
            raise SSTCastError(f"--out {page}: exists and is not a forecast page; delete it or name another file")
        from sstcast.reports.page_contents import write_contents  # imported late: drawing takes a second to import

        good = "" if scores is None else how_good(scores.metrics)
        drawing = drawing_of_errors(verified) if "verified" in recipe and verified is not None else ""
        write_contents(page, recipe, file, forecast.isel(init_time=-1), region, largest, good, drawing)
    return page, True


def newest_forecast(run: Run) -> Path:
    """Return the newest forecast file of a run. Raises SSTCastError if there is none, or it
    has changed since it was made.
    """
    files = forecasts_in(run.folder / "forecasts") | forecasts_in(run.folder)
    if not files:
        raise SSTCastError(f"{run.folder}: no forecast yet; run `sstcast forecast {run.folder}` first")
    check_intact(newest := files[max(files)], "restore it as it was made, or delete it")
    return newest


def forecasts_in(folder: Path) -> dict[dt.date, Path]:
    """Return the files `forecast-DATE.nc` in a folder by initial date."""
    files = {}
    for file in folder.glob("forecast-????-??-??.nc"):
        with suppress(ValueError):
            files[dt.date.fromisoformat(file.stem.removeprefix("forecast-"))] = file
    return files


def open_forecast(file: Path) -> xr.Dataset:
    """Open a forecast file, with its axes in order: initial dates, leads, and cells northward and eastward.

    With several initial dates, as when files were joined, its attributes are those of one of them. Those that
    belong to a date are left out. Raises SSTCastError if it is not a forecast.
    """
    dataset = (open_zarr if file.suffix == ".zarr" else open_netcdf)(file, REMEDY)
    if "sst" not in dataset or not set(FORECAST_AXES) <= set(dataset["sst"].dims) & set(dataset.coords):
        raise SSTCastError(f"{file}: is not a forecast, has no sst(init_time, lead, lat, lon); name another file")
    for axis in FORECAST_AXES[:-1]:
        if not dataset.indexes[axis].is_monotonic_increasing:
            dataset = dataset.sortby(axis)
    columns, lon = eastward(dataset["lon"].values)
    if not np.array_equal(columns, np.arange(len(lon))):
        dataset = dataset.isel(lon=columns).assign_coords(lon=("lon", lon))
    if dataset.sizes["init_time"] > 1:
        model = str(dataset.attrs.get("source", "")).partition(", trained on")[0]
        attributes = {name: text for name, text in dataset.attrs.items() if name not in OF_ONE_DATE}
        dataset.attrs = attributes | ({"source": model} if model else {})
    return dataset

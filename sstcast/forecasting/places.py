"""The forecast of places: fields by place in a forecast's file, and the same as a table.

The numbers of a point are those of its cell. The numbers of an area come from joint samples. Events of an area are
detected from the climatology and the threshold of its mean temperature in the base period, as observed events are.
This threshold differs from `place_threshold`, the mean of the thresholds of its cells.
"""

import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from sstcast.errors import SSTCastError
from sstcast.extremes.above import SIDES
from sstcast.extremes.heatwaves import MARGIN_DAYS, events, limits, where_defined
from sstcast.forecasting.above import days_of_places
from sstcast.forecasting.areas import area_means, cells_of, heatwave_shares
from sstcast.forecasting.fields import on_cells
from sstcast.forecasting.heatwaves import Trajectories, first_event, running_event
from sstcast.forecasting.place_periods import (
    OF_PERIOD,
    chances_of_areas,
    chances_of_cells,
    means_of_areas,
    means_of_cells,
    periods_of,
    quantiles,
)
from sstcast.forecasting.point_fields import POINT_FIELDS
from sstcast.forecasting.samples import ErrorsOfCells
from sstcast.forecasting.spread import QUANTILES
from sstcast.places.places import Places
from sstcast.reading.days_of_year import on_days
from sstcast.storage.artefacts import atomic
from sstcast.types import Array

SHARES = (10.0, 25.0, 50.0)  # per cent of an area in a heatwave
SHARE = "share"  # dimension of the shares
OF_ONE_VALUE = {f"place_{field.place}": field for field in POINT_FIELDS if field.place}
# Field by place: the field of the cell that it repeats for a point.
OF_CELL = {name: field.name for name, field in OF_ONE_VALUE.items()} | {"place_sst_quantile": "sst_quantile"}
OF_LIMITS = {"place_climatology": "climatology", "place_event_threshold": "heatwave_threshold"}
EVENTS_OF_CELL = {  # the same for what events are detected from, and their probabilities
    "place_sst_past": "sst_past",
    "place_climatology": "heatwave_climatology",
    "place_climatology_past": "heatwave_climatology_past",
    "place_event_threshold": "heatwave_threshold",
    "place_event_threshold_past": "heatwave_threshold_past",
    "place_event_probability": "heatwave_event_probability",
    "place_running_probability": "heatwave_running_probability",
}
BY_LEAD = (*OF_ONE_VALUE, "place_heatwave_share")
BY_QUANTILE = ("place_sst_quantile", "place_heatwave_share_quantile")
BY_SHARE = "place_share_probability"
COLUMNS = {name: field.place for name, field in OF_ONE_VALUE.items()}  # of the table
COLUMNS |= {  # levels are added to the last three
    "place_heatwave_share": "heatwave_share",
    "place_sst_quantile": "sst_q",
    "place_heatwave_share_quantile": "heatwave_share_q",
    "place_share_probability": "probability_of_share_",
}
PLACE_CONTRIBUTION, PART = "place_contribution", "part"  # of what is read to the anomaly (see `why`)
ROUNDING_SHARE = 1e-6
HEADER = "place,kind,lat,lon,init_time,lead,period,"  # the first columns of the table
TABLE_DECIMALS = 4  # of numbers in the table
PLACES_AT_ONCE = 2000  # whose rows are in memory


def parse_shares(text: str | float | Sequence[float]) -> tuple[float, ...]:
    """Read shares in per cent, separated by commas; in Python also numbers.

    Raises SSTCastError if they are not between 0 and 100.
    """
    try:
        shares = sorted({float(part) for part in (text.split(",") if isinstance(text, str) else np.ravel(text))})
        if not all(0 < share <= 100 for share in shares):
            raise ValueError
    except (TypeError, ValueError):
        raise SSTCastError(f"--share {text}: give per cent of an area, for instance 10,25,50") from None
    return tuple(shares)


def with_places(
    fields: xr.Dataset,
    places: Places,
    weights: Any,
    shares: Sequence[float],
    errors: Array | ErrorsOfCells | None,
    lowest: Array,
    trajectories: Trajectories,
) -> xr.Dataset:
    """Add the forecast of places to a forecast from one initial date.

    Args:
        fields: a forecast with the fields of `heatwaves.with_heatwaves`.
        places: the places.
        weights: their weights in the cells, `[place, lat * lon]` (see `Places.weights`).
        shares: shares of an area in per cent, for the probability that at least so much of it is in a heatwave.
        errors: standardised errors `[lead + MARGIN_DAYS, cell, sample]`, which areas need, and points for the
            means of their periods.
        lowest: the freezing point `[cell]` in degC, NaN where there is none.
        trajectories: those that the probabilities of heatwaves are from.

    Returns:
        `fields` with the variables of `OF_CELL` and three more by `(init_time, lead, place)`. For an area,
        `place_sst` is the mean over the area, `place_threshold` the mean of the thresholds of its cells, NaN where
        one is not defined, and `place_exceedance_probability` the probability that the mean exceeds it. Only areas
        have `place_heatwave_share`, the expected share in a heatwave, its quantiles, and
        `place_share_probability(init_time, lead, share, place)`. The same by period (see `place_periods`) are the
        fields of `OF_PERIOD` after `place_week_`, `(init_time, week, place)`, and `place_horizon_`, `(init_time,
        place)`. With temperatures, those of `days_of_places` are added. Values of places without weights are NaN.
    """
    points, cells, areas, weights_of_areas = points_and_areas(fields, places, weights)
    sizes = fields.sizes["lead"], len(places.places)
    of_places = {name: np.full(sizes, np.nan, np.float32) for name in BY_LEAD}
    of_places |= {name: np.full((sizes[0], len(QUANTILES), sizes[1]), np.nan, np.float32) for name in BY_QUANTILE}
    of_places[BY_SHARE] = np.full((sizes[0], len(shares), sizes[1]), np.nan, np.float32)
    count = len(periods_of(sizes[0]))
    of_periods = {name: np.full((count, sizes[1]), np.nan, np.float32) for name in OF_PERIOD}
    of_periods["sst_quantile"] = np.full((count, len(QUANTILES), sizes[1]), np.nan, np.float32)
    for name, of_cell in OF_CELL.items():
        of_places[name][..., points] = on_cells(fields, of_cell)[..., cells]
    if points.size:
        used, position = np.unique(cells, return_inverse=True)
        found = {"heatwave_probability": chances_of_cells(fields, used, trajectories)}
        if errors is not None:
            found |= _of_means(means_of_cells(fields, used, errors, lowest))
        for name, values in found.items():
            of_periods[name][..., points] = values[..., position]
    means = None
    if areas.size:
        assert errors is not None
        means = area_means(
            on_cells(fields, "sst"), on_cells(fields, "sst_spread"), errors, weights_of_areas, lowest
        )
        inside = heatwave_shares(*cells_of(fields), errors, weights_of_areas)[1:]
        for name, values in _of_areas(fields, weights_of_areas, shares, means, inside).items():
            of_places[name][..., areas] = values
        found = {"heatwave_probability": chances_of_areas(inside, least_fraction(min(shares)))}
        for name, values in (found | _of_means(means_of_areas(means))).items():
            of_periods[name][..., areas] = values
    dims = dict.fromkeys(BY_LEAD, ()) | dict.fromkeys(BY_QUANTILE, ("quantile",)) | {BY_SHARE: (SHARE,)}
    variables: dict[str, Any] = {
        name: (("init_time", "lead", *dims[name], "place"), values[None]) for name, values in of_places.items()
    }
    for name, values in of_periods.items():
        of_each = ("quantile",) * (name == "sst_quantile")
        variables[f"place_horizon_{name}"] = (("init_time", *of_each, "place"), values[None, -1])
        if count > 1:
            variables[f"place_week_{name}"] = (("init_time", "week", *of_each, "place"), values[None, :-1])
    variables |= days_of_places(fields, sizes[1], points, cells, areas, means)
    weeks = {"week": np.arange(1, count, dtype=np.int32)} if count > 1 else {}
    return fields.assign(variables).assign_coords(
        weeks
        | {
            "place": places.names,
            "place_lat": ("place", [place.lat for place in places.places]),
            "place_lon": ("place", [place.lon for place in places.places]),
            SHARE: np.array(shares),
        }
    )


def with_place_events(
    fields: xr.Dataset,
    base: xr.DataArray | None,
    places: Places,
    weights: Any,
    errors: Array | ErrorsOfCells | None,
    lowest: Array,
) -> xr.Dataset:
    """Add what events of places are detected from, and their probabilities, to a forecast from one initial date.

    Args:
        fields: a forecast with the fields of `heatwaves.with_heatwaves` and `with_places`.
        base: the temperatures of the areas in the base period, `(time, place)` in degC; None without areas.
        places: the places.
        weights: their weights in the cells, `[place, lat * lon]` (see `Places.weights`).
        errors, lowest: as in `with_places`.

    Returns:
        `fields` with `place_sst_past(init_time, past, place)`, `place_climatology` and `place_event_threshold` by
        lead and, with `_past`, by day of history, `place_event_probability(init_time, place)` and
        `place_running_probability(init_time, running_day, place)`. Those of a point are of its cell, and those of
        an area are of its mean temperature, from joint samples. Places without weights are NaN.
    """
    points, cells, areas, weights_of_areas = points_and_areas(fields, places, weights)
    of_places = {}
    for name, of_cell in EVENTS_OF_CELL.items():
        values = on_cells(fields, of_cell)
        of_places[name] = np.full((*values.shape[:-1], len(places.places)), np.nan, np.float32)
        of_places[name][..., points] = values[..., cells]
    if areas.size:
        assert errors is not None
        assert base is not None
        of_base = where_defined(limits(base.sel(place=fields["place"].values[areas])))
        past_days = fields["init_time"] + fields["past"] * np.timedelta64(1, "D")
        for suffix, days in (("", fields["valid_time"]), ("_past", past_days)):
            for name, of in OF_LIMITS.items():
                of_places[f"{name}{suffix}"][:, areas] = on_days(of_base[of], days).values[0]
        shares = weights_of_areas / weights_of_areas.sum(1)[:, None]
        past = of_places["place_sst_past"][:, areas] = on_cells(fields, "sst_past") @ shares.T
        mean, spread = on_cells(fields, "sst"), on_cells(fields, "sst_spread")
        leads = len(mean)
        after = np.minimum(np.arange(leads + MARGIN_DAYS), leads - 1)  # beyond the last lead, its margin stays
        means = area_means(mean[after], spread[after], errors, weights_of_areas, lowest)
        limit = of_places["place_event_threshold"][:, areas]
        hot = past > of_places["place_event_threshold_past"][:, areas]
        before = np.broadcast_to(hot[..., None], (*hot.shape, means.shape[-1]))
        ahead = events(np.concatenate([before, means > limit[after][..., None]]))[len(before) :]
        undefined = np.isnan(limit).all(0)
        event, running = first_event(ahead, leads)[0][-1], running_event(ahead, leads)
        of_places["place_event_probability"][areas] = np.where(undefined, np.nan, event.mean(-1))
        of_places["place_running_probability"][:, areas] = np.where(undefined, np.nan, running.mean(-1))
    dims = {name: fields[of_cell].isel(lat=0, lon=0).dims for name, of_cell in EVENTS_OF_CELL.items()}
    return fields.assign({name: ((*dims[name], "place"), values[None]) for name, values in of_places.items()})


def points_and_areas(
    fields: xr.Dataset, places: Places, weights: Any
) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.intp], Array]:
    """Return the numbers of the points that have a cell and their cells, and the numbers of the areas that have
    cells and their weights `[area, cell]`. Cells are counted as in `on_cells`.
    """
    ocean = fields["sst"].notnull().isel(init_time=0, lead=0).values
    on_ocean = weights[:, ocean.ravel()]
    has_cells = np.diff(on_ocean.indptr) > 0
    points, areas = (np.flatnonzero(has_cells & of_kind) for of_kind in (places.are_points, ~places.are_points))
    return points, on_ocean[points].indices, areas, on_ocean[areas].toarray()


def _of_areas(
    fields: xr.Dataset, weights: Array, shares: Sequence[float], means: Array, inside: Array
) -> dict[str, Array]:
    """Return the fields `[lead, ..., area]` of areas with `weights [area, cell]`.

    `means` and `inside` are samples `[lead, area, sample]` of the mean and of the share in a heatwave.
    """
    limits = on_cells(fields, "heatwave_threshold")
    undefined = np.isnan(limits) @ weights.T > 0
    threshold = np.where(undefined, np.nan, np.nan_to_num(limits) @ weights.T / weights.sum(1))
    beyond = (means > threshold[..., None]).mean(-1)
    reached = np.stack([(inside >= least_fraction(share)).mean(-1) for share in shares], axis=1)
    none = np.isnan(inside[..., 0])
    return {
        "place_sst": means.mean(-1),
        "place_sst_quantile": quantiles(means),
        "place_threshold": threshold,
        "place_exceedance_probability": np.where(undefined, np.nan, beyond),
        "place_heatwave_share": inside.mean(-1),
        "place_heatwave_share_quantile": quantiles(inside),
        BY_SHARE: np.where(none[:, None], np.nan, reached),
    }


def _of_means(samples: Array) -> dict[str, Array]:
    return {"sst": samples.mean(-1), "sst_quantile": quantiles(samples)}


def least_fraction(share: float) -> np.float32:
    """Return the fraction from which samples of a share count as at least `share` per cent."""
    return np.float32(share / 100 - ROUNDING_SHARE)


def table_of_places(forecast: xr.Dataset, kinds: Mapping[str, str]) -> pd.DataFrame:
    """Return the forecast of places as a table, with a row for each place and lead, week and the whole horizon.

    `first_day` is the first day of a row's period, and lead and `valid_time` are of its last. A place without a
    forecast has one row, whose numbers are missing. Temperatures are in degC. `kinds` holds point or area by name.
    """
    fields = forecast.isel(init_time=-1)
    columns = {COLUMNS[name]: fields[name] for name in BY_LEAD}
    for name in (*BY_QUANTILE, BY_SHARE):
        dim = SHARE if name == BY_SHARE else "quantile"
        for value in fields[dim].values:
            number = f"{value:g}" if dim == SHARE else f"{value * 100:02.0f}"
            columns[f"{COLUMNS[name]}{number}"] = fields[name].sel({dim: value}, drop=True)
    for side, level in _levels(fields):
        columns[f"{side}_{level:g}"] = fields[f"place_{side}_probability"].sel({side: level}, drop=True)
    days = [f"days_{side}_{level:g}" for side, level in _levels(fields)]
    why = {_why(part): fields[PLACE_CONTRIBUTION].sel({PART: part}, drop=True) for part in _parts(fields)}
    single = xr.Dataset(columns)
    rows = (
        single.assign(why)
        .reset_coords(["place_lat", "place_lon", "valid_time"])
        .to_dataframe(["place", "lead"])
        .reset_index()
    )
    rows["period"], rows["first_day"] = "day", rows["valid_time"]
    absent = rows["sst"].isna()
    rows["lead"] = rows["lead"].astype(object).where(~absent, None)
    rows[["valid_time", "first_day"]] = rows[["valid_time", "first_day"]].where(~absent)
    rows["period"] = rows["period"].where(~absent, None)
    rows = pd.concat([rows[~absent | ~rows["place"].duplicated()], *_rows_of_periods(fields)])
    rows["init_time"] = pd.Timestamp(fields["init_time"].values)
    rows["kind"] = rows["place"].map(kinds)
    rows = rows.rename(columns={"place_lat": "lat", "place_lon": "lon"})
    first = [*HEADER.strip(",").split(","), "first_day", "valid_time"]
    order = {name: number for number, name in enumerate(fields["place"].values.tolist())}
    rows = rows.sort_values("place", key=lambda names: names.map(order), kind="stable")
    return rows[
        [*first, *(name for name in (*single.data_vars, *days, *why) if name in rows and name not in first)]
    ]


def _levels(fields: xr.Dataset) -> list[tuple[str, float]]:
    """Return the temperatures in degC of days above and below of places, each after its side."""
    sides = [side for side in SIDES if f"place_{side}_probability" in fields]
    return [(side, level) for side in sides for level in fields[side].values.tolist()]


def _parts(fields: xr.Dataset) -> list[str]:
    """Return the parts of the contributions, if a forecast of places has them."""
    return fields[PART].values.tolist() if PLACE_CONTRIBUTION in fields else []


def _why(part: str) -> str:
    """Return the column of a part."""
    return f"why_{part.replace(' ', '_')}"


def _rows_of_periods(fields: xr.Dataset) -> Iterator[pd.DataFrame]:
    """Yield the rows of each week and of the whole horizon, of the places that have a forecast."""
    *weeks, horizon = periods_of(fields.sizes["lead"])
    places = fields[["place", "place_lat", "place_lon"]].to_dataframe().reset_index()
    for period, days, at in [
        *(("week", days, fields.isel(week=number)) for number, days in enumerate(weeks)),
        ("horizon", horizon, fields),
    ]:
        named = {name: at[f"place_{period}_{name}"] for name in OF_PERIOD}
        quantile = named.pop("sst_quantile")
        named |= {f"sst_q{level * 100:02.0f}": quantile.sel(quantile=level) for level in at["quantile"].values}
        for side, level in _levels(fields):
            named[f"days_{side}_{level:g}"] = at[f"place_{period}_days_{side}"].sel({side: level}, drop=True)
        for part in _parts(fields):
            named[_why(part)] = at[f"place_{period}_contribution"].sel({PART: part}, drop=True)
        rows = places.assign(**{name: field.values for name, field in named.items()}, period=period)
        first, last = fields["valid_time"].values[[days.start, days.stop - 1]]
        rows = rows.assign(first_day=first, valid_time=last, lead=int(fields["lead"][days.stop - 1]))
        yield rows[rows[[*named]].notna().any(axis=1)].astype({"lead": object})


def write_table(forecast: xr.Dataset, places: Places, path: Path) -> None:
    """Write the table of the places of a forecast to a CSV file, some thousand places at a time."""
    kinds = {place.name: "point" if place.is_point else "area" for place in places.places}
    with atomic(path) as temporary, temporary.open("w", encoding="utf-8", newline="") as file:
        for start in range(0, forecast.sizes["place"], PLACES_AT_ONCE):
            table = table_of_places(forecast.isel(place=slice(start, start + PLACES_AT_ONCE)), kinds)
            if not start:
                file.write(",".join(table.columns) + "\n")
            rows = zip(*(_as_text(table[name]) for name in table), strict=True)
            file.writelines(f"{','.join(row)}\n" for row in rows)


def _as_text(column: "pd.Series[Any]") -> NDArray[np.object_]:
    """Return the cells of a column of the CSV. Each value is formatted once, because points share cells."""
    position, values = pd.factorize(column)
    texts: Iterable[str]
    if pd.api.types.is_float_dtype(column):
        texts = map(repr, (values.astype(float).round(TABLE_DECIMALS) + 0.0).tolist())  # + 0.0 writes no -0.0
    elif pd.api.types.is_datetime64_dtype(column):
        texts = values.strftime("%Y-%m-%d")
    else:
        texts = (_quoted(str(value)) for value in values)
    return np.array([*texts, ""], object)[position]


def _quoted(text: str) -> str:
    csv.writer(cell := io.StringIO(), lineterminator="\n").writerow([text])
    return cell.getvalue()[:-1]

"""Events of places in a forecast: what they are detected from, and their probabilities.

The climatology and the threshold of an area are those of its mean temperature in the base period, as for observed
events. They differ from `place_threshold`, the mean of the thresholds of its cells.
"""

from typing import Any

import numpy as np
import xarray as xr

from sstcast.forecasting.areas import area_means, on_cells
from sstcast.forecasting.heatwaves import first_event, running_event
from sstcast.forecasting.places import points_and_areas
from sstcast.forecasting.samples import Array
from sstcast.ocean.days_of_year import on_days
from sstcast.ocean.heatwaves import MARGIN_DAYS, events, limits, where_defined
from sstcast.ocean.places import Places

OF_LIMITS = {"place_climatology": "climatology", "place_event_threshold": "heatwave_threshold"}
OF_CELL = {  # field by place: the field of the cell that it repeats for a point
    "place_sst_past": "sst_past",
    "place_climatology": "heatwave_climatology",
    "place_climatology_past": "heatwave_climatology_past",
    "place_event_threshold": "heatwave_threshold",
    "place_event_threshold_past": "heatwave_threshold_past",
    "place_event_probability": "heatwave_event_probability",
    "place_running_probability": "heatwave_running_probability",
}


def with_place_events(
    fields: xr.Dataset,
    base: xr.DataArray | None,
    places: Places,
    weights: Any,
    errors: Array | None,
    lowest: Array,
) -> xr.Dataset:
    """Add what events of places are detected from, and their probabilities, to a forecast from one initial date.

    Args:
        fields: a forecast with the fields of `heatwaves.with_heatwaves` and `places.with_places`.
        base: the temperatures of the areas in the base period, `(time, place)` in degC; None without areas.
        places: the places.
        weights: their weights in the cells, `[place, lat * lon]` (see `Places.weights`).
        errors, lowest: as in `places.with_places`.

    Returns:
        `fields` with `place_sst_past(init_time, past, place)`, `place_climatology` and `place_event_threshold` by
        lead and, with `_past`, by day of history, `place_event_probability(init_time, place)` and
        `place_running_probability(init_time, running_day, place)`. Those of a point are of its cell, and those of
        an area are of its mean temperature, from joint samples. Places without weights are NaN.
    """
    points, cells, areas, weights_of_areas = points_and_areas(fields, places, weights)
    of_places = {}
    for name, of_cell in OF_CELL.items():
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
    dims = {name: fields[of_cell].isel(lat=0, lon=0).dims for name, of_cell in OF_CELL.items()}
    return fields.assign({name: ((*dims[name], "place"), values[None]) for name, values in of_places.items()})

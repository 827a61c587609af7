"""Events of places in a forecast: what they are detected from, and their probabilities.

The climatology and the threshold of an area are those of its mean temperature in the base period, as for observed
events. They differ from `place_threshold`, the mean of the thresholds of its cells.
"""

import numpy as np
import xarray as xr

from sstcast.forecasting.areas import area_means, on_cells
from sstcast.forecasting.heatwaves import RUNNING_DAY, first_event, running_event
from sstcast.forecasting.samples import Array
from sstcast.ocean.anomalies import on_days
from sstcast.ocean.heatwaves import MARGIN_DAYS, events, limits, where_defined
from sstcast.ocean.places import Places

OF_LIMITS = {"place_climatology": "climatology", "place_event_threshold": "heatwave_threshold"}


def with_place_events(
    fields: xr.Dataset, base: xr.DataArray, places: Places, weights: Array, errors: Array | None, lowest: Array
) -> xr.Dataset:
    """Add what events of places are detected from, and their probabilities, to a forecast from one initial date.

    Args:
        fields: a forecast with the fields of `heatwaves.with_heatwaves` and `places.with_places`.
        base: the temperatures of the places in the base period, `(time, place)` in degC.
        places: the places.
        weights: their weights in the cells, `[place, lat, lon]` (see `Places.weights`).
        errors, lowest: as in `places.with_places`.

    Returns:
        `fields` with `place_sst_past(init_time, past, place)`, `place_climatology` and `place_event_threshold` by
        lead and, with `_past`, by day of history, `place_event_probability(init_time, place)` and
        `place_running_probability(init_time, running_day, place)`. Those of a point are of its cell, and those of
        an area are of its mean temperature, from joint samples. Places without weights are NaN.
    """
    base = base.reindex(place=fields["place"])
    of_base = where_defined(limits(base))
    days, past_days = fields["valid_time"], fields["init_time"] + fields["past"] * np.timedelta64(1, "D")
    result = fields.copy()
    for name, of in OF_LIMITS.items():
        result[name] = on_days(of_base[of], days)
        result[f"{name}_past"] = on_days(of_base[of], past_days)
    ocean = fields["sst"].notnull().isel(init_time=0, lead=0).values
    on_ocean, is_point = weights[:, ocean], np.array([place.is_point for place in places.places])
    known = on_ocean.any(1)
    share = on_ocean / np.where(known, on_ocean.sum(1), np.nan)[:, None]
    past = (on_cells(fields, "sst_past") @ share.T).astype(np.float32)
    result["place_sst_past"] = (("init_time", "past", "place"), past[None])
    points, areas = np.flatnonzero(known & is_point), np.flatnonzero(known & ~is_point)
    event = np.full(len(weights), np.nan, np.float32)
    running = np.full((fields.sizes[RUNNING_DAY], len(weights)), np.nan, np.float32)
    probabilities = {"event_probability": event, "running_probability": running}
    for name, values in probabilities.items():
        values[..., points] = on_cells(fields, f"heatwave_{name}")[..., on_ocean[points].argmax(1)]
    if areas.size:
        assert errors is not None
        mean, spread = on_cells(fields, "sst"), on_cells(fields, "sst_spread")
        leads = len(mean)
        after = np.minimum(np.arange(leads + MARGIN_DAYS), leads - 1)  # beyond the last lead, its margin stays
        means = area_means(mean[after], spread[after], errors, on_ocean[areas], lowest)
        limit = result["place_event_threshold"].values[0][:, areas]
        hot = past[:, areas] > result["place_event_threshold_past"].values[0][:, areas]
        before = np.broadcast_to(hot[..., None], (*hot.shape, means.shape[-1]))
        ahead = events(np.concatenate([before, means > limit[after][..., None]]))[len(before) :]
        undefined = np.isnan(limit).all(0)
        event[areas] = np.where(undefined, np.nan, first_event(ahead, leads)[0][-1].mean(-1))
        running[:, areas] = np.where(undefined, np.nan, running_event(ahead, leads).mean(-1))
    return result.assign(
        place_event_probability=(("init_time", "place"), event[None]),
        place_running_probability=(("init_time", RUNNING_DAY, "place"), running[None]),
    )

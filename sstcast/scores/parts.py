"""Averages tables over leads, weeks, seasons, folds and thirds of an index, and computes scores as plain numbers.

The keys `by_lead`, `by_week`, `by_season`, `by_fold` and `by_index` hold scores of subsets (see docs/runs.md).
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr

from sstcast.names import DEGREES, INIT_TIME
from sstcast.ocean.lead_weeks import week_starts
from sstcast.scores.comparisons import groups, json_numbers
from sstcast.scores.metrics import Metric
from sstcast.types import Array, Scores

Arrays = Mapping[str, xr.DataArray]


def in_degrees(tables: xr.Dataset, name: str) -> xr.DataArray:
    """Return a statistic of errors in degC by date."""
    return tables[f"{name}_by_date"].sel(units=DEGREES, drop=True).astype(float)


def by_date(tables: xr.Dataset, prefix: str) -> dict[str, xr.DataArray]:
    """Return the statistics by date whose names begin with a prefix, by the rest of their names."""
    return {
        str(name).removeprefix(prefix).removesuffix("_by_date"): tables[name].astype(float)
        for name in tables.data_vars
        if str(name).startswith(prefix) and str(name).endswith("_by_date")
    }


def by_system(by_date: Arrays, metrics: Mapping[str, Metric], names: list[str]) -> Scores:
    """Return the scores of each of some systems, from statistics that include `crps`."""
    if not names:
        return {}
    parts, systems = in_parts(by_date, metrics), by_date["crps"]["system"].values.tolist()
    return {name: numbers(parts, systems.index(name)) for name in names}


def in_parts(by_date: Arrays, metrics: Mapping[str, Metric]) -> Scores:
    """Compute metrics `[...]` from statistics `(..., init_time, lead)`, of all dates and leads and of each part.

    The arrays in `by_lead` and `by_week` have another axis. For other parts, there is one array for each label.
    """
    first = next(iter(by_date.values()))
    weeks = np.split(np.arange(first.sizes["lead"]), week_starts(first["lead"].values)[1:])
    fields = {
        name: field.transpose(..., INIT_TIME, "lead").values.astype(float) for name, field in by_date.items()
    }
    with np.errstate(divide="ignore", invalid="ignore"):
        by_lead = {name: _mean(field, -2) for name, field in fields.items()}
        by_week = {
            name: np.stack([_mean(field[..., week], -1) for week in weeks], -1) for name, field in by_lead.items()
        }
        parts: Scores = _of(metrics, {name: _mean(field) for name, field in fields.items()})
        parts |= {"by_lead": _of(metrics, by_lead), "by_week": _of(metrics, by_week)}
        for part, masks in groups(first).items():
            by_label = {
                label: _of(metrics, {name: _mean(np.where(mask, field, np.nan)) for name, field in fields.items()})
                for label, mask in masks.items()
            }
            parts[part] = {name: {label: scores[name] for label, scores in by_label.items()} for name in metrics}
    return parts


def _mean(values: Array, axis: int | tuple[int, int] = (-2, -1)) -> Array:
    """Return the mean of the values that are not NaN, or NaN if there are none."""
    known = ~np.isnan(values)
    mean: Array = np.where(known, values, 0).sum(axis) / known.sum(axis)
    return mean


def _of(metrics: Mapping[str, Metric], means: Mapping[str, Array]) -> dict[str, Array]:
    return {name: metric.from_means(means) for name, metric in metrics.items()}


def numbers(scores: Mapping[str, Any], *at: int) -> Scores:
    """Return the scores at a position of the first axes, as numbers for JSON. Dictionaries may be nested."""
    return {
        name: numbers(values, *at) if isinstance(values, Mapping) else json_numbers(values[at])
        for name, values in scores.items()
    }

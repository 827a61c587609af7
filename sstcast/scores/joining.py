"""Joins the tables of systems and of folds along the dimensions that they have."""

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
import xarray as xr

from sstcast.names import INIT_TIME, INIT_YEAR
from sstcast.scores.kinds.kind import BLOCK

CONCAT_OPTIONS: Any = {"join": "exact", "compat": "override", "coords": "minimal", "combine_attrs": "override"}
OF_SYSTEMS = ("system", "forecaster")  # dimensions along which the tables of systems are concatenated
OF_FOLDS = (INIT_TIME, BLOCK, INIT_YEAR)  # and those of folds


def join_systems(tables: Sequence[xr.Dataset]) -> xr.Dataset:
    """Join the tables of different systems from the same initial dates, in memory or of files."""
    tables = [_with_plain_names(table) for table in tables]
    # Anomalies are from the climatology of each system's own training days, which may be the same for all.
    box_means = [table["observed_index"] for table in tables]
    if not all(means.equals(box_means[0]) for means in box_means):
        tables = [
            table.assign(observed_index=means.expand_dims(system=table["system"]))
            for table, means in zip(tables, box_means, strict=True)
        ]
    options = CONCAT_OPTIONS | {"join": "outer"}
    parts = [
        xr.concat([_with(table, dim) for table in tables], dim, data_vars="minimal", **options)
        for dim in OF_SYSTEMS
    ]
    return xr.merge([*parts, _without(tables[0], OF_SYSTEMS)], join="exact", compat="override")


def _with(table: xr.Dataset, dim: str) -> xr.Dataset:
    return table[[name for name, field in table.data_vars.items() if dim in field.dims]]


def _without(table: xr.Dataset, dims: Sequence[str]) -> xr.Dataset:
    return table[[name for name, field in table.data_vars.items() if not {*dims} & {*field.dims}]]


def _with_plain_names(table: xr.Dataset) -> xr.Dataset:
    """Return a table whose names are strings of NumPy. Those of pandas do not join those of files."""
    names = [name for name, index in table.indexes.items() if index.dtype.kind == "O"]
    return table.assign_coords({name: np.array(table[name].values.tolist(), str) for name in names})


def join_folds(folds: Sequence[xr.Dataset]) -> xr.Dataset:
    """Join the tables of folds. A dimension that one fold lacks is dropped from all.

    Tables by initial date, block of dates or year are concatenated. Of the others, maps are averaged, with the
    numbers of dates as weights, and the rest is added. Maps by date may be larger than memory, so they are lazy.

    A fold with too few training days for joint samples has no areas, for instance.
    """
    common = set.intersection(*({*fold.dims} for fold in folds))
    folds = [fold.drop_dims({*fold.dims} - common) for fold in folds]
    joined = xr.merge(
        [
            xr.concat([_with(fold, dim) for fold in folds], dim, data_vars="minimal", **CONCAT_OPTIONS)
            for dim in OF_FOLDS
            if dim in common
        ],
        join="exact",
        compat="override",
    )
    lazy = [name for name, field in joined.data_vars.items() if "lat" in field.dims]
    joined = joined.drop_vars(lazy).load().assign({name: joined[name] for name in lazy})
    dates = np.array([fold.sizes[INIT_TIME] for fold in folds])
    shares = xr.DataArray(dates / dates.sum(), dims="fold_of_table")
    over_dates = [_without(fold, OF_FOLDS) for fold in folds]
    stacked = xr.concat(over_dates, "fold_of_table", data_vars="all", **CONCAT_OPTIONS).load()
    of_all: dict[Hashable, xr.DataArray] = {}
    for name, field in stacked.data_vars.items():
        is_map = "lat" in field.dims
        total = (field * shares).sum(shares.dims, skipna=False) if is_map else field.sum(shares.dims, min_count=1)
        of_all[name] = total.astype(field.dtype)
    return joined.assign(of_all)

"""Joins the tables of systems and of folds, as their kinds declare."""

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
import xarray as xr

from sstcast.names import INIT_TIME
from sstcast.scores.kinds import KINDS
from sstcast.scores.kinds.kind import BLOCK, FOLD, INIT_YEAR, Joined

CONCAT_OPTIONS: Any = {"join": "exact", "compat": "override", "coords": "minimal", "combine_attrs": "override"}


def declared() -> dict[str, Joined]:
    """Return how each table of all kinds is joined, by name."""
    return {name: joined for kind in KINDS for name, joined in kind.tables().items()}


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
    kinds, options = declared(), CONCAT_OPTIONS | {"join": "outer"}

    def of(table: xr.Dataset, dim: str) -> xr.Dataset:
        systems = {name: kinds[name].systems for name in map(str, table.data_vars) if name in kinds}
        systems |= {"observed_index": "system" if "system" in table["observed_index"].dims else ""}
        return table[[name for name, of_name in systems.items() if of_name == dim]]

    parts = [
        xr.concat([of(table, dim) for table in tables], dim, data_vars="minimal", **options)
        for dim in ("system", "warning")
    ]
    return xr.merge([*parts, of(tables[0], "")], join="exact", compat="override")


def _with_plain_names(table: xr.Dataset) -> xr.Dataset:
    """Return a table whose names are strings of NumPy. Those of pandas do not join those of files."""
    names = [name for name, index in table.indexes.items() if index.dtype.kind == "O"]
    return table.assign_coords({name: np.array(table[name].values.tolist(), str) for name in names})


def join_folds(folds: Sequence[xr.Dataset]) -> xr.Dataset:
    """Join the tables of folds. A dimension that one fold lacks is dropped from all.

    A fold with too few training days for joint samples has no areas, for instance. A sum that is also kept by fold
    keeps the dimension `test_fold`.
    """
    common = set.intersection(*({*fold.dims} for fold in folds))
    folds = [fold.drop_dims({*fold.dims} - common) for fold in folds]
    kinds = declared()

    def of(fold: xr.Dataset, *over: str) -> xr.Dataset:
        return fold[[name for name in fold.data_vars if name in kinds and kinds[str(name)].over in over]]

    by_date = [of(fold, "dates") for fold in folds]
    tables = xr.concat(by_date, INIT_TIME, data_vars="minimal", **CONCAT_OPTIONS)
    lazy = [name for name in tables.data_vars if kinds[str(name)].lazy]
    tables = tables.drop_vars(lazy).load().assign({name: tables[name] for name in lazy})
    dates = np.array([fold.sizes[INIT_TIME] for fold in folds])
    shares = xr.DataArray(dates / dates.sum(), dims=FOLD)
    names = list(of(folds[0], "mean", "sum").data_vars)
    over_dates = xr.concat([fold[names] for fold in folds], FOLD, data_vars="minimal", **CONCAT_OPTIONS).load()
    joined: dict[Hashable, xr.DataArray] = {}
    for name, field in over_dates.data_vars.items():
        how = kinds[str(name)]
        of_all = (field * shares).sum(FOLD, skipna=False) if how.over == "mean" else field.sum(FOLD, min_count=1)
        joined[name] = of_all.astype(field.dtype)
        if how.by_fold:
            joined[f"{name}_by_fold"] = field
    for over, dim in (("blocks", BLOCK), ("years", INIT_YEAR)):
        blocks = [of(fold, over) for fold in folds]
        if all(blocks):
            joined |= dict(xr.concat(blocks, dim, **CONCAT_OPTIONS).load().data_vars)
    return tables.assign(joined)

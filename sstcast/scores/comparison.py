"""Two forecasts of the same days: how much error one saves, and whether that may be chance."""

from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Any

import numpy as np
import xarray as xr

from sstcast.errors import SSTCastError
from sstcast.names import DATES, DEGREES, MODEL, SEASONS
from sstcast.ocean.identity import Record
from sstcast.runs import Run
from sstcast.scores.significance import (
    FDR,
    Lengths,
    adjust,
    diebold_mariano,
    means,
    p_values,
    ratio,
    spacing,
)
from sstcast.scratch import in_scratch

DATES_AT_ONCE = 64  # of errors on the map


def plain(values: Any) -> Any:
    """Return numbers JSON knows: floats of six decimals in nested lists, None where undefined."""
    if np.ndim(values):
        return [plain(value) for value in values]
    return round(float(values), 6) if np.isfinite(values) else None


def compare_errors(error: xr.DataArray, reference: xr.DataArray) -> dict[str, Any]:
    """Compare two squared errors `(init_time, lead)` that carry `season(init_time, lead)`.

    Returns the `overall` skill, `by_lead` and `by_season` (None for one without days), each with its
    `interval` of 95 %, and the Diebold-Mariano `p_value` overall and by lead. Intervals and p-values are None
    where the dates are not two blocks of the bootstrap.
    """
    block, lags = Lengths.of(error.sizes["lead"], spacing(error[DATES].values))
    enough = error.sizes[DATES] >= 2 * block

    def scores(error: xr.DataArray, reference: xr.DataArray) -> tuple[Any, Any]:
        ours, theirs = (part.transpose(DATES, ...).values.astype(float) for part in (error, reference))
        of_sums, ends = ratio(ours, theirs, block)
        return plain(1 - of_sums), plain(1 - ends[..., ::-1])

    def p_value(difference: Any) -> Any:
        found = diebold_mariano(difference, lags)
        return plain(found if enough else np.full_like(found, np.nan))

    overall, interval = scores(error.mean("lead"), reference.mean("lead"))
    by_lead, by_lead_interval = scores(error, reference)
    in_season = {s: (error["season"] == s) for s in SEASONS}
    by_season = {s: scores(*(e.where(m, 0).sum("lead") for e in (error, reference))) for s, m in in_season.items()}
    difference = (error - reference).transpose(DATES, "lead").values.astype(float)
    return {
        "overall": overall,
        "interval": interval,
        "p_value": p_value(difference.mean(1)),
        "by_lead": by_lead,
        "by_lead_interval": by_lead_interval,
        "by_lead_p_value": p_value(difference),
        "by_season": {s: skill for s, (skill, _) in by_season.items()},
        "by_season_interval": {s: interval for s, (_, interval) in by_season.items()},
    }


def shares(p_fdr: xr.DataArray, difference: xr.DataArray) -> dict[str, Any]:
    """Return the shares of ocean cells, by week, where the model is significantly `better` and `worse`.

    They are None where no cell has a p-value, as there are too few dates.

    `difference` is the model's mean squared error less the reference's, `p_fdr` its adjusted p-value, both
    `(week, lat, lon)`.
    """
    cells = ["lat", "lon"]
    ocean = difference.notnull().sum(cells).where(p_fdr.notnull().any(cells))
    told = p_fdr <= FDR
    return {
        "better": plain(((told & (difference < 0)).sum(cells) / ocean).values),
        "worse": plain(((told & (difference > 0)).sum(cells) / ocean).values),
    }


def compare_tables(tables: xr.Dataset, other: xr.Dataset) -> dict[str, Any]:
    """Compare the models of two tables in degC over the dates both have, like a baseline in `metrics.json`."""
    errors = (t["mse_by_date"].sel(units=DEGREES, forecast=MODEL) for t in (tables, other))
    error, reference = xr.align(*errors, join="inner", exclude={"lead"})
    lags = Lengths.of(error.sizes["lead"], spacing(error[DATES].values)).lags
    weekly = xr.align(*(t["squared_error_by_week"] for t in (tables, other)), join="inner")  # the same dates
    difference = weekly[0][0].astype(float).copy()
    p_fdr = difference.copy()
    for week in range(len(difference)):
        ours, theirs = (in_scratch(of[:, week].chunk({DATES: DATES_AT_ONCE})).values for of in weekly)
        difference[week] = means(ours) - means(theirs)
        p_fdr[week] = adjust(p_values(ours, theirs, np.isfinite(ours[0]), lags))
    return compare_errors(error, reference) | shares(p_fdr, difference)


def check_comparable(run: Run, other: Run) -> None:
    """Raise SSTCastError unless two runs forecast the same days of the same ocean."""
    keys, digests = ("source", "region", "horizon", "splits.test"), {"test": "test days hold other values"}
    check_same(run, other, keys, digests, "compare runs that forecast the same days of the same ocean")


def check_same(run: Run, other: Run, keys: Sequence[str], digests: Mapping[str, str], remedy: str) -> None:
    """Raise SSTCastError, with the remedy, where two runs differ.

    They may in no key of `data` in `keys`, and in no digest of `digests`, of which each is called by its words.
    """
    ours, theirs = run.config.data, other.config.data
    for key in keys:
        here, there = (_text(attrgetter(key)(data)) for data in (ours, theirs))
        if here != there:
            raise SSTCastError(f"{other.folder}: its data.{key} is {there}, but {run.folder} has {here}; {remedy}")
    mine, its = (Record.read(one.recorded[0].folder) for one in (run, other))
    for name, words in digests.items() if mine is not None and its is not None else ():
        here, there = getattr(mine, name), getattr(its, name)
        if here != there:
            raise SSTCastError(
                f"{other.folder}: its {words} (digest {there[:12]}) than those of {run.folder} ({here[:12]}); "
                f"{remedy}"
            )


def _text(value: Any) -> str:
    return "..".join(map(str, value)) if isinstance(value, tuple) else str(value)

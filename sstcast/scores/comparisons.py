"""Compares losses of systems over the same dates: ratios, intervals and tests, overall and in parts."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import xarray as xr
from numpy.typing import NDArray
from scipy.special import stdtr, stdtrit  # Student's t; scipy.stats would take a second to import

from sstcast.names import INIT_TIME, SEASONS, THIRDS
from sstcast.ocean.lead_weeks import week_starts
from sstcast.scores.significance import (
    CONFIDENCE,
    FDR,
    Bootstrap,
    DateBlocks,
    compare_cells,
    diebold_mariano,
    sentence,
    spacing,
)
from sstcast.types import Array, Scores

MEAN_SQUARED_ERROR = "mean squared error"


def json_numbers(values: Any) -> Any:
    """Convert numbers for JSON: floats rounded to six decimals, in nested lists, and None if not finite."""
    if isinstance(values, list):
        return [json_numbers(value) for value in values]
    if isinstance(values, float):  # NumPy's are floats too
        return round(float(values), 6) if math.isfinite(values) else None
    return json_numbers(np.asarray(values, float).tolist())


def known_systems(field: xr.DataArray | None) -> list[str]:
    """Return the systems for which `field` has values."""
    if field is None:
        return []
    return [str(name) for name in field["system"].values[field.notnull().any((INIT_TIME, "lead")).values]]


def on_common_dates(field: xr.DataArray) -> xr.DataArray:
    """Return a loss on the dates that all systems have which are compared, on the leads that any has."""
    field = field.sel(system=known_systems(field)).transpose("system", INIT_TIME, "lead")
    scored = field.notnull().any(("system", INIT_TIME))
    return field[:, field[:, :, scored.values].notnull().all(("system", "lead")).values]


class Loss(NamedTuple):
    """A loss by which systems are compared.

    Attributes:
        values: the loss of each system, `(system, init_time, lead)`, not negative.
        words: its name in a sentence.
        fair: the systems whose values are those of a fair score.
    """

    values: xr.DataArray
    words: str
    fair: Sequence[str] = ()

    @classmethod
    def of(cls, words: str, scores: xr.DataArray, fair: xr.DataArray | None = None) -> "Loss":
        """Replace scores by the `fair` scores of the systems that have them."""
        names = known_systems(fair)
        values = scores if fair is None else scores.where(~scores["system"].isin(names), fair)
        return cls(values, words, names)

    def words_of(self, system: str) -> str:
        """Return the name of the loss of a system."""
        return f"fair {self.words}" if system in self.fair else self.words


class LossComparison:
    """Compares losses over the same initial dates and leads, overall and by lead, lead week, season and fold."""

    def __init__(self, losses: xr.DataArray) -> None:
        """Take the dates, leads and parts of `losses(..., init_time, lead)`.

        They have the coordinates `season` and `fold`.
        """
        self.block, self.lags, self.segments = date_blocks(losses)
        self.weeks = np.split(np.arange(losses.sizes["lead"]), week_starts(losses["lead"].values)[1:])
        self.parts = groups(losses)
        folds = (losses.isel({INIT_TIME: mask[:, 0]}) for mask in self.parts["by_fold"].values())
        self.segments_of_folds = [date_blocks(fold).segments for fold in folds]

    def loss(self, values: Array, fair: bool = False) -> "PreparedLoss":
        """Prepare a loss `[dates, leads]` for all its comparisons. Only a `fair` one may be negative."""
        scored = np.asarray(np.isfinite(values).any(0))  # a file may omit some leads
        masked = np.ma.masked_invalid(values)
        by_week = [masked[:, week].mean(1).filled(np.nan) for week in self.weeks]
        columns = {"all": values[:, scored].mean(1)[:, None], "by_lead": values, "by_week": np.stack(by_week, 1)}
        for part, masks in self.parts.items():
            if part != "by_fold":
                columns[part] = np.stack([np.where(mask & scored, values, 0).sum(1) for mask in masks.values()], 1)
        of_folds = zip(self.parts["by_fold"].values(), self.segments_of_folds, strict=True)
        everything = np.concatenate([*columns.values()], axis=1)
        sums = [
            Bootstrap.of(everything, self.block, self.segments),
            *(Bootstrap.of(columns["all"][mask[:, 0], 0], self.block, of_fold) for mask, of_fold in of_folds),
        ]
        by_fold = np.stack([everything[mask[:, 0]].sum(0) for mask in self.parts["by_fold"].values()])
        if fair:  # no ratio of a score that is not positive, as by chance of few members
            sums = [of._replace(total=np.where(of.total > 0, of.total, np.nan)) for of in sums]
            by_fold = np.where(by_fold > 0, by_fold, np.nan)
        return PreparedLoss(columns, sums[0], sums[1:], by_fold)

    def compare(self, loss: "PreparedLoss", reference: "PreparedLoss", names: tuple[str, str, str]) -> Scores:
        """Compare two losses.

        Args:
            loss: the loss of a system.
            reference: the loss of the system that it is compared with.
            names: the names of both systems and of the loss, for the sentence.

        Returns:
            The `ratio` of the losses, its 95 % `interval`, and the `p_value` of the Diebold-Mariano test, overall,
            `by_lead` and `by_week`. Ratio and interval for each part of `groups`. The interval and p-value
            `over_folds`, with several folds also of the parts that each fold has, and the comparison as a
            `sentence`. Intervals and p-values are None if there are fewer dates than two bootstrap blocks, and the
            ratio if one of the losses is fair and its mean not positive.
        """
        ends = np.cumsum([values.shape[1] for values in loss.columns.values()])[:-1]
        difference = np.concatenate(
            [loss.columns[part] - reference.columns[part] for part in loss.columns], axis=1
        )
        p_values = diebold_mariano(difference, self.lags, self.segments)
        if loss.bootstrap.blocks < 2:
            p_values = np.full_like(p_values, np.nan)
        ratios_of_folds = loss.by_fold / np.where(reference.by_fold > 0, reference.by_fold, np.nan)
        folds = np.split(np.round(ratios_of_folds, 6), ends, axis=1)
        compared = (np.split(values, ends) for values in (*loss.bootstrap.ratio(reference.bootstrap), p_values))
        estimates: Scores = {}
        for part, ratios, intervals, p_value, of_folds in zip(loss.columns, *compared, folds, strict=True):
            scores = {"ratio": json_numbers(ratios), "interval": json_numbers(intervals)}
            if part == "all" or len(of_folds) > 1:
                scores["over_folds"] = [_over_folds_or_none(column) for column in of_folds.T]
            if part in self.parts:
                estimates[part] = {key: dict(zip(self.parts[part], of, strict=True)) for key, of in scores.items()}
                continue
            scores["p_value"] = json_numbers(p_value)
            estimates |= {key: of[0] for key, of in scores.items()} if part == "all" else {part: scores}
        by_fold = [fold.ratio(base) for fold, base in zip(loss.of_folds, reference.of_folds, strict=True)]
        estimates["by_fold"] = {
            key: dict(zip(self.parts["by_fold"], json_numbers(values), strict=True))
            for key, values in zip(("ratio", "interval"), zip(*by_fold, strict=True), strict=True)
        }
        reasons = [
            f"the score of {name} is not positive"
            for name, of in zip(names, (loss, reference), strict=False)
            if np.isnan(of.bootstrap.total[0]) and np.isfinite(of.columns["all"]).all()
        ]
        return estimates | {"sentence": sentence(estimates, *names, reason=" and ".join(reasons))}


class PreparedLoss(NamedTuple):
    """The loss of a system, prepared for comparisons.

    Attributes:
        columns: `[dates, column]` over all leads, by lead, by lead week, and in parts of `groups` but the folds.
        bootstrap: that of all columns.
        of_folds: the bootstrap of each fold over all leads.
        by_fold: the sums of each fold, `[fold, column]`.
    """

    columns: dict[str, Array]
    bootstrap: Bootstrap
    of_folds: list[Bootstrap]
    by_fold: Array


def groups(tables: xr.Dataset | xr.DataArray) -> dict[str, dict[str, NDArray[np.bool_]]]:
    """Return the subsets that are scored separately, as masks `[dates, leads]`, or `[dates, 1]` for whole dates.

    The masks are keyed by the kind of subset (`by_season`, `by_fold`, `by_index`) and by its name.
    """
    season, fold = tables["season"].transpose(INIT_TIME, "lead").values, tables["fold"].values[:, None]
    masks = {
        "by_season": {name: season == name for name in SEASONS},
        "by_fold": {str(name): fold == name for name in np.unique(fold)},
    }
    if "third" in tables.coords:
        third = tables["third"].values[:, None]
        masks["by_index"] = {name: third == name for name in THIRDS}
    return masks


def over_folds(ratios: Array) -> dict[str, Array]:
    """Return the 95 % `interval [..., 2]` of the mean of ratios `[folds, ...]`, and the `p_value` of a mean of 1.

    Both are by Student's t. Each fold is trained separately, so this interval includes the randomness of training,
    which the bootstrap over dates ignores. NaN where there is only one fold, or a ratio is undefined.
    """
    count = len(ratios)
    freedom, mean = max(1, count - 1), ratios.mean(0)
    with np.errstate(divide="ignore", invalid="ignore"):
        standard_error = (((ratios - mean) ** 2).sum(0) / np.where(count > 1, freedom * count, np.nan)) ** 0.5
        p_value = 2 * stdtr(freedom, -np.abs(mean - 1) / np.where(standard_error > 0, standard_error, np.nan))
    half_width = stdtrit(freedom, (1 + CONFIDENCE) / 2) * standard_error
    return {"interval": np.stack([mean - half_width, mean + half_width], axis=-1), "p_value": p_value}


def _over_folds_or_none(ratios: Array) -> Scores | None:
    """Return `over_folds` of ratios `[folds]` for JSON, or None if the interval is undefined."""
    if len(ratios) < 2:
        return None
    found = {key: json_numbers(values) for key, values in over_folds(ratios).items()}
    return None if None in found["interval"] else found


def date_blocks(tables: xr.Dataset | xr.DataArray, days: int | None = None) -> DateBlocks:
    """Return the blocks of the initial dates of some tables, which have `days`, by default as long as needed."""
    dates, folds = tables[INIT_TIME].values, tables["fold"].values
    horizon = tables.sizes["lead"] if days is None else days  # sums over leads have none
    return DateBlocks.of(horizon, spacing(dates), dates, folds, days)


def shares(p_fdr: xr.DataArray, difference: xr.DataArray) -> Scores:
    """Return the shares of ocean cells in which a system is significantly `better` and `worse`, by lead week.

    A share is None if no cell has a p-value, because there are too few dates. `difference` is the system's mean
    squared error minus the reference's, and `p_fdr` is the adjusted p-value, both `(week, lat, lon)`.
    """
    cells = ["lat", "lon"]
    ocean = difference.notnull().sum(cells).where(p_fdr.notnull().any(cells))
    significant = p_fdr <= FDR
    return {
        "better": json_numbers(((significant & (difference < 0)).sum(cells) / ocean).values),
        "worse": json_numbers(((significant & (difference > 0)).sum(cells) / ocean).values),
    }


def tests_by_cell(
    errors: Sequence[xr.DataArray], pairs: Sequence[tuple[int, int]], tables: xr.Dataset | xr.DataArray
) -> tuple[Array, Array]:
    """Return p-values and adjusted p-values by cell. All are NaN if there are fewer dates than two blocks.

    See `compare_cells` for the arguments. `tables` have the initial dates, leads and folds.
    """
    block, lags, segments = date_blocks(tables)
    p_value, p_fdr = compare_cells(errors, pairs, lags, segments)
    enough = tables.sizes[INIT_TIME] >= 2 * block
    return (p_value, p_fdr) if enough else (p_value * np.nan, p_fdr * np.nan)

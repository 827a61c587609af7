"""How good the probability of an event is, whatever the event: tables of scores, and what follows from them.

The forecasters of these tables are systems and references. Brier scores are kept by date, and cases by the step of
their probability (see `cases`), from which ROC area, SEDI, reliability and the worth of warnings follow.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from sstcast.names import DAY, INIT_TIME, INIT_YEAR, SCORED_YEARS, SEASONS
from sstcast.scores.cases import STEPS, Cases, count, diagram, scores_of, steps_of
from sstcast.scores.comparisons import Loss
from sstcast.scores.decisions import warnings_by_system
from sstcast.scores.distributions import Quotient, sampling_error
from sstcast.scores.parts import in_parts, numbers
from sstcast.types import Array, Mask, Scores

SEASON = "season_of_day"  # dimension of the season of the day forecast
AXES = ("cost_loss",)  # keys in `warnings` that are no scores
ROUNDING = 1e-6  # as a share
BRIER = {"brier": Quotient("brier", "defined"), "brier_fair": Quotient("brier_fair", "defined")}
Label = tuple[str | int | float, ...]
Positions = NDArray[np.intp]


class Probabilities:
    """Accumulates the Brier scores and the cases of the probabilities of some events.

    Events, outcomes and probabilities are arrays `[starts, lead, ...]`, for initial dates at some positions.
    """

    def __init__(
        self,
        prefix: str,
        labels: Mapping[str, Sequence[str | int | float]],
        forecasters: Sequence[str],
        init_times: NDArray[np.datetime64],
        days: NDArray[np.integer],
        lead: Mapping[str, Sequence[int]],
        parts: Sequence[str] = ("lead", SEASON, INIT_YEAR),
    ) -> None:
        """Prepare empty tables.

        Args:
            prefix: begins the names of the tables.
            labels: the dimensions that tell the events apart, with their labels.
            forecasters: the systems and references.
            init_times: the initial dates.
            days: the days from an initial date to the day, or the middle of the days, of each lead.
            lead: the dimension of leads with its labels. If empty, the single lead is no dimension.
            parts: the dimensions by which cases are kept: the lead, the season, the year of the initial date or,
                in single precision, the initial date.
        """
        self.prefix, self.labels, self.forecasters, self.lead = prefix, labels, list(forecasters), lead
        years, year = np.unique(init_times.astype("datetime64[Y]"), return_inverse=True)
        valid = init_times[:, None] + np.asarray(days) * DAY
        shape, number = valid.shape, np.arange(len(init_times))[:, None]
        (lead_dim,) = lead or ("lead",)
        known = {
            lead_dim: (lead.get(lead_dim, [0]), np.arange(len(days))),
            SEASON: (SEASONS, (valid.astype("datetime64[M]").astype(int) + 1) % 12 // 3),
            INIT_YEAR: (years.astype(int) + 1970, year[:, None]),
            INIT_TIME: (init_times, number),
        }
        dims = [lead_dim if part == "lead" else part for part in parts]
        self.parts = {
            dim: (labels, np.broadcast_to(at, shape)) for dim, (labels, at) in known.items() if dim in dims
        }
        events = tuple(map(len, labels.values()))
        self.came, self.defined = (np.full((*events, *shape), np.nan) for _ in range(2))
        self.brier, self.fair = (
            np.full((*events, len(self.forecasters), *shape), np.nan, np.float32) for _ in range(2)
        )
        self.cases = {
            dim: np.zeros(
                (*events, len(self.forecasters), len(of), STEPS + 1, 3), np.float32 if dim == INIT_TIME else float
            )
            for dim, (of, _) in self.parts.items()
        }
        self.observed: dict[Label, tuple[Mask, Array]] = {}
        self.positions: Positions = np.arange(0)

    def _at(self, label: Label) -> tuple[Any, ...]:
        return tuple(list(of).index(name) for of, name in zip(self.labels.values(), label, strict=True))

    def observe(self, label: Label, positions: Positions, came: Mask, weights: Array) -> None:
        """Take whether an event came, and the weights of cases, 0 where it is not defined, for a block of dates.

        Forecasts of all events are added before the next block.
        """
        if not np.array_equal(positions, self.positions):
            self.observed, self.positions = {}, positions
            self.group = np.zeros((len(positions), self.came.shape[-1]), np.intp)
            for _, number in self.parts.values():  # dates and leads that are counted together
                pairs = self.group * (number.max() + 1) + number[positions]
                _, first, inverse = np.unique(pairs, return_index=True, return_inverse=True)
                self.group, self.first = inverse.reshape(pairs.shape), first
        self.observed[label] = came, weights
        at = (*self._at(label), positions)
        self.defined[at], self.came[at] = _over_cells(weights), _over_cells(weights * came)

    def add(self, forecaster: str, label: Label, positions: Positions, chance: Array, members: int = 1) -> None:
        """Add the probabilities of an event by a system or reference for some dates of the block.

        `chance` broadcasts against what was observed. With several `members`, it is a share of them.
        """
        first, last = np.searchsorted(self.positions, positions[[0, -1]])
        rows = slice(first, last + 1)
        of_block = self.observed[label]
        came, weights = of_block[0][rows], of_block[1][rows]
        chance = np.where(weights > 0, chance, np.float32(0))
        at = (*self._at(label), self.forecasters.index(forecaster))
        self.brier[at][positions] = score = _over_cells(np.square(chance - came) * weights)
        if members > 1:
            self.fair[at][positions] = score - _over_cells(sampling_error(chance, members) * weights)
        if not self.parts:
            return
        group = self.group[rows].reshape(*chance.shape[:2], *(1,) * (chance.ndim - 2))
        sums = count(group, len(self.first), steps_of(chance, members), came, chance, weights)
        for dim, (_, number) in self.parts.items():
            np.add.at(self.cases[dim][at], number[self.positions].ravel()[self.first], sums)

    def dataset(self) -> xr.Dataset:
        """Return the tables, whose names begin with the prefix.

        `brier_by_date` is the sum of squared errors over the cases of a date, by their weights, and
        `brier_fair_by_date` that of fair ones, if there are shares of members. `came_by_date` and
        `defined_by_date` are the weights of cases with the event, and of all. `cases_by_*` are the weights of
        cases by the step of the probability and by whether the event came, and `probability_by_*` the sums of
        their probabilities.
        """
        events = tuple(self.labels)
        dims, date = (*events, "forecaster"), (INIT_TIME, *self.lead)
        tables = {"brier_by_date": (dims, self.brier), "brier_fair_by_date": (dims, self.fair)}
        if not np.isfinite(self.fair).any():
            del tables["brier_fair_by_date"]
        tables |= {"came_by_date": (events, self.came), "defined_by_date": (events, self.defined)}
        found = {
            name: ((*of, *date), values.reshape(*values.shape[: len(of) + 1], *map(len, self.lead.values())))
            for name, (of, values) in tables.items()
        }
        for dim, sums in self.cases.items():
            part = {INIT_YEAR: "year", SEASON: "season", INIT_TIME: "date"}.get(dim, "lead")
            if dim == INIT_TIME:
                sums[np.isnan(self.brier).all(-1)] = np.nan
            found[f"cases_by_{part}"] = (*dims, dim, "probability", "occurred"), sums[..., :2]
            found[f"probability_by_{part}"] = (*dims, dim, "probability"), sums[..., 2]
        coordinates: dict[str, Any] = {name: list(of) for name, of in self.labels.items()} | {
            "forecaster": self.forecasters
        }
        coordinates |= {dim: list(of) for dim, (of, _) in self.parts.items() if dim not in (INIT_TIME, "lead")}
        if self.parts:
            coordinates |= {"probability": np.arange(STEPS + 1) / STEPS, "occurred": [0, 1]}
        return xr.Dataset({f"{self.prefix}_{name}": of for name, of in found.items()}, coordinates)


def _over_cells(values: Array) -> Array:
    """Return the sums `[starts, lead]` of values `[starts, lead, ...]`."""
    for _ in values.shape[2:]:
        values = values.sum(-1)
    return values


def brier_of(tables: xr.Dataset, prefix: str) -> dict[str, xr.DataArray]:
    """Return `brier`, with members `brier_fair`, and `defined`, the weights of the cases of each forecaster.

    All are `(..., forecaster, init_time, lead)`, NaN where nothing is forecast.
    """
    names = [name for name in BRIER if f"{prefix}_{name}_by_date" in tables]
    fields = {name: tables[f"{prefix}_{name}_by_date"].astype(float) for name in names}
    defined = tables[f"{prefix}_defined_by_date"].astype(float)
    return fields | {"defined": defined.where(fields["brier"].notnull()).transpose(*fields["brier"].dims)}


def with_scored_years(
    fields: Mapping[str, xr.DataArray], came: xr.DataArray, defined: xr.DataArray, dims: Sequence[str]
) -> dict[str, xr.DataArray]:
    """Return the `fields` of `brier_of` with another forecaster, which nobody could be: how often the event came.

    It is the sum of `came` divided by that of `defined`, over all scored dates, and leads if they are in `dims`.
    """
    rate = came.sum(dims) / defined.sum(dims)
    # Of observations that are 0 or 1, the mean square of p - o is p^2 - 2 p mean(o) + mean(o).
    brier = defined * rate**2 + (1 - 2 * rate) * came
    own = xr.Dataset({"brier": brier, "defined": defined}).expand_dims(forecaster=[SCORED_YEARS])
    both = xr.concat([xr.Dataset(fields), own], "forecaster", coords="minimal", compat="override", join="exact")
    return {str(name): field for name, field in both.data_vars.items()}


def loss_of(fields: Mapping[str, xr.DataArray], words: str) -> Loss:
    """Return the Brier score in `brier_of` as a loss, of shares of members the fair one."""
    briers = [fields[name].rename(forecaster="system") for name in BRIER if name in fields]
    return Loss.of(words, *briers)


def cases_by(tables: xr.Dataset, prefix: str, part: str) -> tuple[Cases, list[str]]:
    """Return the cases `[forecaster, part, step]` of an event by a part such as `lead`, and names of the parts."""
    cases = tables[f"{prefix}_cases_by_{part}"].astype(float)
    dim = next(str(dim) for dim in cases.dims if dim not in ("forecaster", "probability", "occurred"))
    calm, came = cases.transpose("occurred", "forecaster", dim, "probability").values
    chance = tables[f"{prefix}_probability_by_{part}"].astype(float).transpose("forecaster", dim, "probability")
    return Cases(calm, came, chance.values), [str(name) for name in cases[dim].values]


def forecasters_of(tables: xr.Dataset, prefix: str) -> list[str]:
    """Return the systems and references that forecast the event of some tables."""
    brier = tables[f"{prefix}_brier_by_date"]
    known = brier.notnull().any([dim for dim in brier.dims if dim != "forecaster"])
    return [str(name) for name in brier["forecaster"].values[known.values]]


def scores(tables: xr.Dataset, prefix: str, reference: str) -> Scores:
    """Return the scores of an event by forecaster, from the tables of this event alone.

    `brier`, with members also `brier_fair`, the share of cases that are `defined`, and `scores_of` cases, also by
    lead, season and fold; `reliability` (see `diagram`) and `warnings` (see `warnings_by_system`), compared with
    those of the `reference`.
    """
    names = forecasters_of(tables, prefix)
    own = [name for name in tables.data_vars if str(name).startswith(f"{prefix}_")]
    tables = tables[own].sel(forecaster=names)
    fields = brier_of(tables, prefix)
    scored = fields["brier"].dropna(INIT_TIME, how="all")[INIT_TIME]
    metrics = {name: BRIER[name] for name in fields if name in BRIER} | {"defined": Quotient("defined")}
    found = in_parts(
        {name: of.sel(init_time=scored).transpose("forecaster", ...) for name, of in fields.items()}, metrics
    )
    found.pop("by_week")
    by_lead, _ = cases_by(tables, prefix, "lead")
    by_season, seasons = cases_by(tables, prefix, "season")
    of_years, _ = cases_by(tables, prefix, "year")
    of_folds, folds = _by_fold(of_years, tables)
    found["by_lead"] |= scores_of(by_lead)
    for part, cases, labels in (("season", by_season, seasons), ("fold", of_folds, folds)):
        for name, values in scores_of(cases).items():
            found[f"by_{part}"][name] = dict(zip(labels, values.T, strict=True))
    found |= scores_of(of_years.sum(1))
    by_name = {name: of_years.at(index) for index, name in enumerate(names)}
    worth = warnings_by_system(by_name, reference)
    return {
        name: numbers(found, index) | {"reliability": diagram(by_name[name]), "warnings": worth[name]}
        for index, name in enumerate(names)
    }


def scores_or_none(tables: xr.Dataset, prefix: str, reference: str) -> Scores:
    """Return the `scores` of an event. Of one that came never or always, all but the Brier scores are None."""
    came, defined = (float(tables[f"{prefix}_{name}_by_date"].sum()) for name in ("came", "defined"))
    found = scores(tables, prefix, reference)
    return found if 0 < came < defined * (1 - ROUNDING) else _none_but_brier(found)


def _none_but_brier(value: Any, key: str = "") -> Any:
    if key in (*BRIER, "defined", *AXES):
        return value
    if isinstance(value, dict):
        return {name: _none_but_brier(of, name) for name, of in value.items()}
    return [None] * len(value) if isinstance(value, list) else None


def _by_fold(cases: Cases, tables: xr.Dataset) -> tuple[Cases, list[str]]:
    """Return the cases `[forecaster, fold, step]` of those of years, of which each is in one fold."""
    _, first = np.unique(pd.DatetimeIndex(tables[INIT_TIME]).year, return_index=True)
    folds, starts = np.unique(tables["fold"].values[first], return_index=True)
    return Cases(*(np.add.reduceat(of, starts, axis=1) for of in cases)), list(map(str, folds))

"""Scores of heatwave probabilities: of a day above the threshold (exceedance), and of a day in an event.

Observed heatwaves are detected in the whole record, including the days before and after a forecast. ROC area, SEDI
and reliability are computed from a histogram of probabilities in steps of 1/64, kept separately for days on which
the event occurred and days on which it did not. Cells and days on which no event is defined (see
`sstcast.extremes.heatwaves.where_defined`) have no weight.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from sstcast.extremes.heatwaves import MARGIN_DAYS, events
from sstcast.forecasting.heatwaves import probability
from sstcast.names import BASE_RATE, DAY, EVENT, EXCEEDANCE, HEATWAVE_KINDS, INIT_TIME, SEASONS, STATE
from sstcast.ocean.tiles import to_tiles
from sstcast.reading.days_of_year import DAYS_OF_YEAR, day_of_leap_year
from sstcast.scores.analysis import Observed
from sstcast.scores.decisions import diagram, in_bins, warnings_by_system
from sstcast.scores.distributions import Mean, sampling_error
from sstcast.scores.kinds.kind import FOLD, INIT_YEAR, Joined, Kind, Loss
from sstcast.scores.metrics import Metric, Statistic
from sstcast.scores.parts import Scores, arrays, in_parts, numbers
from sstcast.scores.scene import STEPS, Block, Scene
from sstcast.storage.scratch import scratch_array
from sstcast.types import Array

SMALLEST_RATE = 1e-9  # smallest hit or false alarm rate, so that its logarithm is finite
CASES_BY_YEAR = "heatwave_cases_by_year"

_BRIER = Statistic("brier", lambda probability, occurred: (probability - occurred) ** 2)
_DEFINED = Statistic("defined", lambda probability, occurred: 1 + 0 * (probability + occurred))


class BrierScore(Metric):
    """Mean squared error of probabilities over the cells and days on which an event is defined."""

    name = "brier"
    statistics = (_BRIER, _DEFINED)

    def value(self, *means: Any) -> Any:
        """Return the score, given the mean of squared errors, 0 if no event is defined, and the share defined."""
        error, defined = means
        return error / (defined * xr.where(defined > 0, 1.0, np.nan))


class FairBrierScore(BrierScore):
    """The score less the `sampling_error` of the share of members."""

    name = "brier_fair"
    statistics = (
        Statistic(
            name, lambda hot, came: _BRIER.function(hot.mean(0), came) - sampling_error(hot.mean(0), len(hot))
        ),
        Statistic("fair_defined", lambda hot, came: _DEFINED.function(hot.mean(0), came)),
    )


BRIER, BRIER_FAIR, DEFINED = BrierScore(), FairBrierScore(), Mean(_DEFINED)


class Heatwaves(Kind):
    """Accumulates Brier scores and histograms of the heatwave probabilities of systems and of two references.

    Initial dates are about three days apart. The base rate of a cell is its frequency in the base period.
    Persistence of state repeats the state of the initial date on every day ahead: above the threshold or not, and
    in an event if at least the last five days were above it.
    """

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        data = self.truth
        assert scene.heatwaves is not None
        self.observed = scene.heatwaves
        self.init_times, self.horizon = data.windows.init_times, scene.horizon
        self.rates = {kind: data.on_tiles(data.limits[f"{kind}_frequency"]) for kind in HEATWAVE_KINDS}
        valid_times = self.init_times[:, None] + np.arange(1, self.horizon + 1) * DAY
        self.season = (valid_times.astype("datetime64[M]").astype(int) + 1) % 12 // 3
        self.day = day_of_leap_year(xr.DataArray(valid_times, dims=("init_time", "lead"))).values - 1
        self.defined = scratch_array((len(DAYS_OF_YEAR), *data.index.shape), bool)
        for day, threshold in enumerate(data.limits["heatwave_threshold"].values):
            self.defined[day] = to_tiles(np.isfinite(threshold), data.index) & data.ocean
        shape = (len(HEATWAVE_KINDS), len(scene.warnings))
        self.brier, self.brier_fair = (np.full((*shape, *valid_times.shape), np.nan, np.float32) for _ in range(2))
        self.years, self.year = np.unique(self.init_times.astype("datetime64[Y]"), return_inverse=True)
        sizes = {"lead": self.horizon, "season": len(SEASONS), INIT_YEAR: len(self.years)}
        self.counts = {dim: np.zeros((*shape, size, STEPS + 1, 2)) for dim, size in sizes.items()}

    @classmethod
    def of(cls, scene: Scene) -> Self | None:
        """Return empty tables if every day up to the horizon is verified."""
        return None if scene.heatwaves is None else cls(scene)

    @classmethod
    def tables(cls) -> Mapping[str, Joined]:
        """Return how each table is joined."""
        return {
            "heatwave_brier_by_date": Joined("dates", systems="warning"),
            "heatwave_brier_fair_by_date": Joined("dates", systems="warning"),
            "heatwave_defined_by_date": Joined("dates", systems=""),
            "heatwave_cases_by_lead": Joined("sum", systems="warning", by_fold=True),
            "heatwave_cases_by_season": Joined("sum", systems="warning"),
            CASES_BY_YEAR: Joined("years", systems="warning"),
        }

    def add(self, block: Block) -> None:
        """Add the forecasts of a system. Without a spread, probabilities are shares of its members."""
        method, dates, spread, observed = block.system, block.dates, block.spread, self.observed
        positions = observed.chosen(dates)
        if not len(positions) or method not in self.scene.warnings:
            return
        rows = positions - dates.start
        margin = block.members[:, rows] - block.observed.limit[rows]  # degC above the threshold
        past = [observed.hot[day - MARGIN_DAYS + 1 : day + 1] for day in observed.last[positions]]
        if spread is None:
            padding = np.repeat(margin[:, :, -1:], MARGIN_DAYS, axis=2)
            above = np.moveaxis(np.concatenate([margin, padding], axis=2) > 0, 2, 0)  # [day, member, starts, ...]
            past_hot = np.broadcast_to(np.stack(past, axis=1)[:, None], (MARGIN_DAYS, *above.shape[1:]))
            inside = events(np.concatenate([past_hot, above]))[MARGIN_DAYS:-MARGIN_DAYS]
            exceedance, event = (np.moveaxis(days.mean(1), 0, 1) for days in (above[:-MARGIN_DAYS], inside))
        else:
            exceedance = probability(margin.mean(0), spread[rows])
            cells = exceedance.reshape(*exceedance.shape[:2], -1)
            trajectories = self.scene.trajectories[method]
            probabilities = [
                trajectories.probability(daily, hot.reshape(MARGIN_DAYS, -1))
                for daily, hot in zip(cells, past, strict=True)
            ]
            event = np.reshape(probabilities, exceedance.shape)
        members = len(margin) if spread is None else 1
        self._count(method, EXCEEDANCE, positions, exceedance, members)
        self._count(method, EVENT, positions, event, members)

    def begin(self, observed: Observed) -> None:
        """Add the forecasts of the references, if they are scored."""
        dates, of = observed.dates, self.observed
        positions = of.chosen(dates)
        if not self.scene.references or not len(positions):
            return
        shape = (len(positions), self.horizon, *of.hot.shape[1:])
        in_event = of.state(dates)[positions - dates.start]
        for kind, state in ((EXCEEDANCE, of.hot[of.last[positions], None]), (EVENT, in_event)):
            self._count(STATE, kind, positions, np.broadcast_to(state.astype(np.float32), shape))
            self._count(BASE_RATE, kind, positions, np.broadcast_to(self.rates[kind], shape))

    def _count(
        self, method: str, kind: str, positions: NDArray[np.intp], probability: Array, members: int = 1
    ) -> None:
        """Add the Brier scores and the histograms of `probability [starts, lead, tile, N]`, a share of `members`.

        The histograms count cases by area, in one bin for each step of the probability and each outcome. Cells and
        days on which no event is defined count 0.
        """
        index = HEATWAVE_KINDS.index(kind), self.scene.warnings.index(method)
        truth, last = self.observed.truth[kind], self.observed.last[positions]
        occurred = np.stack([truth[day + 1 : day + 1 + self.horizon] for day in last])
        weights = self.truth.area * self.defined[self.day[positions]]
        probability = np.where(weights > 0, probability, np.float32(0))
        shape, bins = probability.shape[:2], 2 * (STEPS + 1)
        case = 2 * (probability * np.float32(STEPS) + np.float32(0.5)).astype(np.intp) + occurred
        case += (bins * np.arange(np.prod(shape))).reshape(*shape, 1, 1)
        counts = np.bincount(case.ravel(), weights.ravel(), bins * np.prod(shape)).reshape(*shape, STEPS + 1, 2)
        self.brier[index][positions] = (np.square(probability - occurred) * weights).sum(-1).sum(-1)
        if members > 1:
            excess = (sampling_error(probability, members) * weights).sum((-2, -1))
            self.brier_fair[index][positions] = self.brier[index][positions] - excess
        self.counts["lead"][index] += counts.sum(0)
        for season, total in enumerate(self.counts["season"][index]):
            total += counts[self.season[positions] == season].sum(0)
        np.add.at(self.counts[INIT_YEAR][index], self.year[positions], counts.sum(1))

    def dataset(self) -> xr.Dataset:
        """Return squared errors by date and lead, and histograms of cases by lead and by season.

        `heatwave_brier_by_date` is the sum over the cells on which an event is defined, weighted by their share of
        the area, and `heatwave_defined_by_date` is the sum of these shares. `heatwave_brier_fair_by_date` is there
        if shares of members are scored, NaN on dates of a single member.
        """
        defined = (self.defined * self.truth.area).sum((1, 2), dtype=float)[self.day]
        dims = ("kind", "warning")
        counts = {
            CASES_BY_YEAR if dim == INIT_YEAR else f"heatwave_cases_by_{dim}": (
                (*dims, dim, "probability", "occurred"),
                cases,
            )
            for dim, cases in self.counts.items()
        }
        tables = xr.Dataset(
            counts,
            {
                "kind": list(HEATWAVE_KINDS),
                "warning": self.scene.warnings,
                "season": list(SEASONS),
                INIT_YEAR: self.years.astype(int) + 1970,
                "probability": np.arange(STEPS + 1) / STEPS,
                "occurred": [0, 1],
            },
        )
        if np.isfinite(self.brier_fair).any():
            tables["heatwave_brier_fair_by_date"] = (*dims, "init_time", "lead"), self.brier_fair
        return tables.rename(season="season_of_day").assign(
            heatwave_brier_by_date=((*dims, "init_time", "lead"), self.brier),
            heatwave_defined_by_date=(("init_time", "lead"), defined),
        )

    @staticmethod
    def finish(tables: xr.Dataset, compared: Sequence[str], references: Sequence[str]) -> xr.Dataset:
        """Keep the cases of each fold at all leads."""
        name = "heatwave_cases_by_lead_by_fold"
        if name not in tables:
            return tables
        return tables.assign(heatwave_cases_by_fold=tables[name].sum("lead")).drop_vars(name)

    @staticmethod
    def losses(tables: xr.Dataset) -> dict[str, Loss]:
        """Return the Brier score of each kind of heatwave, of shares of members the fair one."""
        if "kind" not in tables.dims:
            return {}
        tested = ("heatwave_brier_by_date", "heatwave_brier_fair_by_date")
        briers = [tables[name].astype(float).rename(warning="system") for name in tested if name in tables]
        return {
            kind: Loss.of(f"Brier score ({kind})", *(brier.sel(kind=kind, drop=True) for brier in briers))
            for kind in HEATWAVE_KINDS
        }

    @staticmethod
    def section(tables: xr.Dataset, reference: str) -> Scores:
        """Return `heatwaves`, the scores of the probabilities of each kind."""
        kinds = HEATWAVE_KINDS if "kind" in tables.dims else ()
        return {"heatwaves": {kind: _warnings(tables.sel(kind=kind), reference) for kind in kinds}}


def _warnings(tables: xr.Dataset, reference: str) -> Scores:
    """Return the scores of probabilities of one kind of heatwave, for each system and reference."""
    brier = tables["heatwave_brier_by_date"].dropna(INIT_TIME, how="all").transpose("warning", ...)
    defined = tables["heatwave_defined_by_date"].sel({INIT_TIME: brier[INIT_TIME]}).broadcast_like(brier)
    fields: dict[str, xr.DataArray] = {"brier": brier, "defined": defined}
    metrics: dict[str, Metric] = {"brier": BRIER, "defined": DEFINED}
    if "heatwave_brier_fair_by_date" in tables:
        fair = tables["heatwave_brier_fair_by_date"].sel({INIT_TIME: brier[INIT_TIME]}).transpose(*brier.dims)
        fields |= {"brier_fair": fair, "fair_defined": defined.where(fair.notnull())}
        metrics["brier_fair"] = BRIER_FAIR
    found = in_parts(fields, metrics)
    found.pop("by_week")
    cases = tables["heatwave_cases_by_lead"].transpose("warning", "lead", ...)
    found["by_lead"] |= arrays(scores(cases))
    for part, label in (("season", "season_of_day"), ("fold", FOLD)):
        counts = tables[f"heatwave_cases_by_{part}"].transpose("warning", label, ...)
        labels = [str(value) for value in counts[label].values]
        for name, values in arrays(scores(counts)).items():
            found[f"by_{part}"][name] = dict(zip(labels, values.T, strict=True))
    cases = cases.sum("lead")
    found |= arrays(scores(cases)) | {"reliability": arrays(reliability(cases))}
    by_system = {str(name): numbers(found, index) for index, name in enumerate(tables["warning"].values)}
    by_year = tables[CASES_BY_YEAR].astype(float).transpose("warning", INIT_YEAR, ...)
    of_years = {name: by_year.sel(warning=name).values for name in by_system}
    for name, worth in warnings_by_system(of_years, reference).items():
        by_system[name]["reliability"]["interval"] = diagram(of_years[name])["interval"]
        by_system[name]["warnings"] = worth
    return by_system


def scores(cases: xr.DataArray) -> dict[str, xr.DataArray]:
    """Compute scores from weighted counts of cases `(..., probability, occurred)`.

    Returns:
        observed: the observed frequency of the event.
        probability: the mean forecast probability.
        roc_area: the probability that a random day with the event had a higher forecast probability than a random
            day without it. Ties count half. 0.5 means no skill.
        sedi: the symmetric extremal dependence index of warnings that are as frequent as the event (Ferro and
            Stephenson 2011, Weather and Forecasting 26). 0 means no skill, 1 is perfect.
    """
    cases = cases.transpose(..., "probability", "occurred")
    non_event_cases, event_cases = cases.sel(occurred=0, drop=True), cases.sel(occurred=1, drop=True)
    dim = "probability"
    non_event_count, event_count = non_event_cases.sum(dim), event_cases.sum(dim)
    total, level = non_event_count + event_count, cases[dim]
    return {
        "observed": event_count / total,
        "probability": ((non_event_cases + event_cases) * level).sum(dim) / total,
        "roc_area": roc_area(non_event_cases, event_cases),
        "sedi": _sedi(non_event_cases, event_cases),
    }


def roc_area(non_event_cases: xr.DataArray, event_cases: xr.DataArray) -> xr.DataArray:
    """Compute the area under the ROC curve from histograms `(..., probability)` without and with the event.

    It is the share of pairs of a case with and a case without the event in which the former had the higher
    probability; ties count half (Mason and Graham 2002, QJRMS 128).

    >>> without, with_event = (xr.DataArray(cases, dims="probability") for cases in ([3.0, 1.0], [1.0, 3.0]))
    >>> float(roc_area(without, with_event))  # (3 * 3 + (3 * 1 + 1 * 3) / 2) / 16
    0.75
    """
    dim = "probability"
    pairs = non_event_cases.sum(dim) * event_cases.sum(dim)
    ordered = (event_cases * (non_event_cases.cumsum(dim) - non_event_cases / 2)).sum(dim)
    return ordered / pairs.where(pairs > 0)


def _sedi(non_event_cases: xr.DataArray, event_cases: xr.DataArray) -> xr.DataArray:
    """Compute SEDI from histograms of probabilities on days without and with the event.

    `(ln F - ln H - ln(1 - F) + ln(1 - H)) / (ln F + ln H + ln(1 - F) + ln(1 - H))` of hit rate H and false alarm
    rate F (Ferro and Stephenson 2011, Weather and Forecasting 26).

    >>> without, with_event = (xr.DataArray(cases, dims="probability") for cases in ([9.0, 1.0], [1.0, 9.0]))
    >>> round(float(_sedi(without, with_event)), 3)  # H = 0.9 and F = 0.1: -4 ln 9 / (2 ln 0.09)
    0.912

    Warnings are issued from the highest probability downwards until they are as frequent as the event. Within the
    last step of the probability, hits and false alarms are interpolated.
    """
    shape = non_event_cases.shape[:-1]
    sedi = np.full(int(np.prod(shape)), np.nan)
    rows = (field.values[..., ::-1].reshape(len(sedi), -1).cumsum(1) for field in (non_event_cases, event_cases))
    for row, (false_alarms, hits) in enumerate(zip(*rows, strict=True)):
        event_count, non_event_count = hits[-1], false_alarms[-1]
        if event_count > 0 and non_event_count > 0:
            warned = np.concatenate([[0], false_alarms + hits])
            hit = np.interp(event_count, warned, np.concatenate([[0], hits]))
            rates = np.clip(
                [(event_count - hit) / non_event_count, hit / event_count], SMALLEST_RATE, 1 - SMALLEST_RATE
            )
            (f, h), (not_f, not_h) = np.log(rates), np.log1p(-rates)
            sedi[row] = (f - h - not_f + not_h) / (f + h + not_f + not_h)
    return non_event_cases.isel(probability=0, drop=True).copy(data=sedi.reshape(shape))


def reliability(cases: xr.DataArray) -> dict[str, xr.DataArray]:
    """Return the reliability diagram: mean probability, observed frequency and share of cases of each bin.

    Of a reliable forecast, the first two are equal (Wilks 2019, ch. 9). `cases(..., probability, occurred)` is a
    histogram of the area of the cases.

    >>> cases = xr.DataArray(np.zeros((STEPS + 1, 2)), dims=("probability", "occurred"))
    >>> cases[STEPS // 2] = [3, 1]  # of four forecasts of 50 %, one came true
    >>> [float(diagram.max()) for diagram in reliability(cases).values()]
    [0.5, 0.25, 1.0]
    """
    cases = cases.transpose(..., "probability", "occurred")
    occurred, total, levels = cases.values[..., 1], cases.values.sum(-1), np.arange(STEPS + 1) / STEPS
    occurred, weighted, total = (in_bins(part) for part in (occurred, total * levels, total))
    denominator = np.where(total > 0, total, np.nan)
    fields = {
        "probability": weighted / denominator,
        "observed": occurred / denominator,
        "share": total / total.sum(-1, keepdims=True),
    }
    template = cases.isel(probability=0, occurred=0, drop=True).expand_dims(bin=total.shape[-1], axis=-1)
    return {name: template.copy(data=values) for name, values in fields.items()}

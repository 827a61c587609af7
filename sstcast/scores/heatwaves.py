"""Scores of heatwave probabilities: of a day above the threshold (exceedance), and of a day in an event.

Observed heatwaves are detected in the whole record, including the days before and after a forecast. ROC area, SEDI
and reliability are computed from a histogram of probabilities in steps of 1/64, kept separately for days on which
the event occurred and days on which it did not. Cells and days on which no event is defined (see
`sstcast.ocean.heatwaves.where_defined`) have no weight.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from sstcast.forecasting.heatwaves import WORD, Trajectories, probability
from sstcast.names import BASE_RATE, EVENT, EXCEEDANCE, HEATWAVE_KINDS, REFERENCES, SEASONS, STATE
from sstcast.ocean.anomalies import DAYS_OF_YEAR, day_of_leap_year, on_days
from sstcast.ocean.heatwaves import MARGIN_DAYS, SHORTEST, events
from sstcast.ocean.tiles import to_tiles
from sstcast.scores.analysis import Analysis
from sstcast.scores.distributions import Mean, sampling_error
from sstcast.scores.metrics import Metric, Statistic
from sstcast.scores.significance import spacing
from sstcast.storage.scratch import release, scratch_array

STEPS = WORD  # steps of a probability: scores use as many trajectories as one word has bits
DAYS_AT_ONCE = 64  # days of a field on the map that are in memory
EVERY = 3  # days from one scored initial date to the next
RELIABILITY_BINS = 10  # in the reliability diagram
SMALLEST_RATE = 1e-9  # smallest hit or false alarm rate, so that its logarithm is finite
DAY = np.timedelta64(1, "D")

Array = NDArray[np.floating]
Mask = NDArray[np.bool_]

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


class HeatwaveTables:
    """Accumulates Brier scores and histograms of the heatwave probabilities of systems and of two references.

    Initial dates are about three days apart. The base rate of a cell is its frequency in the base period.
    Persistence of state repeats the state of the initial date on every day ahead: above the threshold or not, and
    in an event if at least the last five days were above it.
    """

    def __init__(
        self,
        data: Analysis,
        limits: xr.Dataset,
        methods: Sequence[str],
        correlations: Mapping[str, Array],
        references: bool = True,
    ) -> None:
        """Prepare empty tables.

        Args:
            data: the days to verify.
            limits: thresholds and frequencies from `limits_of`.
            methods: the names of the systems.
            correlations: the correlation `[lead, lead]` of errors, for each system with a distribution.
            references: whether to score the base rate and persistence of state.
        """
        windows = data.windows
        self.data, self.horizon, self.init_times = data, windows.horizon, windows.init_times
        self.step = max(1, EVERY // spacing(self.init_times))
        self.trajectories = {name: Trajectories(correlation, STEPS) for name, correlation in correlations.items()}
        self.rates = {kind: data.on_tiles(limits[f"{kind}_frequency"]) for kind in HEATWAVE_KINDS}
        # The positions of the initial dates in `hot`.
        self.last = MARGIN_DAYS + ((self.init_times - self.init_times[0]) // DAY).astype(int)
        self.hot = self._hot(limits["heatwave_threshold"])
        self.truth = {EXCEEDANCE: self.hot, EVENT: self._inside()}
        valid_times = self.init_times[:, None] + np.arange(1, self.horizon + 1) * DAY
        self.season = (valid_times.astype("datetime64[M]").astype(int) + 1) % 12 // 3
        self.day = day_of_leap_year(xr.DataArray(valid_times, dims=("init_time", "lead"))).values - 1
        self.defined = scratch_array((len(DAYS_OF_YEAR), *data.index.shape), bool)
        for day, threshold in enumerate(limits["heatwave_threshold"].values):
            self.defined[day] = to_tiles(np.isfinite(threshold), data.index) & data.ocean
        self.references = references
        self.methods = [*methods, *(REFERENCES if references else ())]
        shape = (len(HEATWAVE_KINDS), len(self.methods))
        self.brier, self.brier_fair = (np.full((*shape, *valid_times.shape), np.nan, np.float32) for _ in range(2))
        sizes = {"lead": self.horizon, "season": len(SEASONS)}
        self.counts = {dim: np.zeros((*shape, size, STEPS + 1, 2)) for dim, size in sizes.items()}

    def _hot(self, threshold: xr.DataArray) -> Mask:
        """Return which days are above the threshold, `[day, tile, N]`. Missing days are not.

        They run from `MARGIN_DAYS` before the first initial date to `MARGIN_DAYS` after the last day forecast.
        """
        first, last = (
            self.init_times[0] - MARGIN_DAYS * DAY,
            self.init_times[-1] + (self.horizon + MARGIN_DAYS) * DAY,
        )
        sst = self.data.cube["sst"].sel(time=slice(first, last))
        hot = scratch_array(((last - first) // DAY + 1, *self.data.index.shape), bool)
        hot[:] = False
        for start in range(0, sst.sizes["time"], DAYS_AT_ONCE):
            days = sst.isel(time=slice(start, start + DAYS_AT_ONCE))
            above = self.data.on_tiles(days > on_days(threshold, days["time"])) > 0
            hot[(days["time"].values - first) // DAY] = above
            release()
        return hot

    def _inside(self) -> Mask:
        """Return which days of `hot` lie in an event."""
        inside = scratch_array(self.hot.shape, bool)
        for start in range(0, len(inside), DAYS_AT_ONCE):
            days_before = min(start, MARGIN_DAYS)
            in_event = events(self.hot[start - days_before : start + DAYS_AT_ONCE + MARGIN_DAYS])
            inside[start : start + DAYS_AT_ONCE] = in_event[days_before:][:DAYS_AT_ONCE]
            release()
        return inside

    def add(self, method: str, dates: slice, margin: Array, spread: Array | None) -> None:
        """Add the forecasts from the initial dates `dates`.

        Args:
            method: the name of the system.
            dates: the positions of the initial dates.
            margin: degC by which each member exceeds the threshold, `[member, starts, lead, tile, N]`.
            spread: standard deviation in degC of the Gaussian about the ensemble mean, `[starts, lead, tile, N]`.
                If None, probabilities are shares of the members.
        """
        positions = self.chosen(dates)
        if not len(positions):
            return
        margin = margin[:, positions - dates.start]
        past = [self.hot[day - MARGIN_DAYS + 1 : day + 1] for day in self.last[positions]]
        if spread is None:
            padding = np.repeat(margin[:, :, -1:], MARGIN_DAYS, axis=2)
            above = np.moveaxis(np.concatenate([margin, padding], axis=2) > 0, 2, 0)  # [day, member, starts, ...]
            past_hot = np.broadcast_to(np.stack(past, axis=1)[:, None], (MARGIN_DAYS, *above.shape[1:]))
            inside = events(np.concatenate([past_hot, above]))[MARGIN_DAYS:-MARGIN_DAYS]
            exceedance, event = (np.moveaxis(days.mean(1), 0, 1) for days in (above[:-MARGIN_DAYS], inside))
        else:
            exceedance = probability(margin.mean(0), spread[positions - dates.start])
            cells = exceedance.reshape(*exceedance.shape[:2], -1)
            trajectories = self.trajectories[method]
            probabilities = [
                trajectories.probability(daily, hot.reshape(MARGIN_DAYS, -1))
                for daily, hot in zip(cells, past, strict=True)
            ]
            event = np.reshape(probabilities, exceedance.shape)
        members = len(margin) if spread is None else 1
        self._count(method, EXCEEDANCE, positions, exceedance, members)
        self._count(method, EVENT, positions, event, members)

    def add_references(self, dates: slice) -> None:
        """Add the forecasts of the references, if they are scored."""
        positions = self.chosen(dates)
        if not self.references or not len(positions):
            return
        shape = (len(positions), self.horizon, *self.hot.shape[1:])
        in_event = self.state(dates)[positions - dates.start]
        for kind, state in ((EXCEEDANCE, self.hot[self.last[positions], None]), (EVENT, in_event)):
            self._count(STATE, kind, positions, np.broadcast_to(state.astype(np.float32), shape))
            self._count(BASE_RATE, kind, positions, np.broadcast_to(self.rates[kind], shape))

    def state(self, dates: slice) -> Mask:
        """Return which cells are in a heatwave on the initial dates, `[starts, 1, tile, N]`.

        Only the days up to the initial date count.
        """
        row = [self.hot[day - SHORTEST + 1 : day + 1].all(0) for day in self.last[dates]]
        return np.stack(row)[:, None]

    def chosen(self, dates: slice) -> NDArray[np.intp]:
        """Return the positions of those dates that are scored."""
        positions = np.arange(dates.start, min(dates.stop, len(self.init_times)))
        return positions[positions % self.step == 0]

    def _count(
        self, method: str, kind: str, positions: NDArray[np.intp], probability: Array, members: int = 1
    ) -> None:
        """Add the Brier scores and the histograms of `probability [starts, lead, tile, N]`, a share of `members`.

        The histograms count cases by area, in one bin for each step of the probability and each outcome. Cells and
        days on which no event is defined count 0.
        """
        index = HEATWAVE_KINDS.index(kind), self.methods.index(method)
        occurred = np.stack([self.truth[kind][day + 1 : day + 1 + self.horizon] for day in self.last[positions]])
        weights = self.data.area * self.defined[self.day[positions]]
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

    def dataset(self) -> xr.Dataset:
        """Return squared errors by date and lead, and histograms of cases by lead and by season.

        `heatwave_brier_by_date` is the sum over the cells on which an event is defined, weighted by their share of
        the area, and `heatwave_defined_by_date` is the sum of these shares. `heatwave_brier_fair_by_date` is there
        if shares of members are scored, NaN on dates of a single member.
        """
        defined = (self.defined * self.data.area).sum((1, 2), dtype=float)[self.day]
        dims = ("kind", "warning")
        counts = {
            f"heatwave_cases_by_{dim}": ((*dims, dim, "probability", "occurred"), cases)
            for dim, cases in self.counts.items()
        }
        tables = xr.Dataset(
            counts,
            {
                "kind": list(HEATWAVE_KINDS),
                "warning": self.methods,
                "season": list(SEASONS),
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
    """Compute the area under the ROC curve from histograms `(..., probability)` without and with the event."""
    dim = "probability"
    pairs = non_event_cases.sum(dim) * event_cases.sum(dim)
    ordered = (event_cases * (non_event_cases.cumsum(dim) - non_event_cases / 2)).sum(dim)
    return ordered / pairs.where(pairs > 0)


def _sedi(non_event_cases: xr.DataArray, event_cases: xr.DataArray) -> xr.DataArray:
    """Compute SEDI from histograms of probabilities on days without and with the event.

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
    """Return the reliability diagram: mean probability, observed frequency and share of cases of each bin."""
    levels = np.arange(STEPS + 1) / STEPS
    first_level = np.searchsorted(
        np.minimum((levels * RELIABILITY_BINS).astype(int), RELIABILITY_BINS - 1), np.arange(RELIABILITY_BINS)
    )
    cases = cases.transpose(..., "probability", "occurred")
    occurred, total = cases.values[..., 1], cases.values.sum(-1)
    sums = (np.add.reduceat(part, first_level, axis=-1) for part in (occurred, total * levels, total))
    occurred, weighted, total = sums
    denominator = np.where(total > 0, total, np.nan)
    diagram = {
        "probability": weighted / denominator,
        "observed": occurred / denominator,
        "share": total / total.sum(-1, keepdims=True),
    }
    template = cases.isel(probability=0, occurred=0, drop=True).expand_dims(bin=RELIABILITY_BINS, axis=-1)
    return {name: template.copy(data=values) for name, values in diagram.items()}

"""Scores of warnings of heatwaves: whether the event came within the horizon, and when it began and ended.

A system warns of a heatwave in a cell if the probability of one with a day in the forecast, as in the CF file, is
at least one half. A hit is a warning after which a day of the forecast lies in an observed event. Events of
neighbouring cells and dates are the same, so intervals come from a bootstrap over blocks of 60 days, in which the
cells of a date stay together. Cases by probability tell what warnings from another probability on would be worth.
"""

from typing import Any, Self

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from sstcast.extremes.heatwaves import CATEGORIES, MARGIN_DAYS
from sstcast.forecasting.heatwaves import first_event, probability
from sstcast.names import DEGREES, EVENT, INIT_TIME, STATE
from sstcast.scores.analysis import Observed
from sstcast.scores.cases import cases_by_year, diagram
from sstcast.scores.comparisons import date_blocks
from sstcast.scores.decisions import Blocks, estimate, warnings_by_system
from sstcast.scores.kinds.kind import Kind
from sstcast.scores.probabilities import Probabilities, cases_by
from sstcast.scores.scene import Block, Scene
from sstcast.types import Array, Mask, Scores

WARNING = 0.5  # probability from which on a system warns
BLOCK_DAYS = 60
ERRORS = ("onset_error", "end_error")  # scores in days; all others are shares
BY_SEVERITY = ("event_hits_by_date", "event_misses_by_date")
BY_DATE = (  # sums of areas and, of errors, of area times days
    "event_false_alarms_by_date",
    "event_onset_error_by_date",
    "event_onsets_by_date",
    "event_end_error_by_date",
    "event_ends_by_date",
)
PREFIX = "event"

Days = NDArray[np.intp]


class Events(Kind):
    """Accumulates hits, misses, false alarms and errors of days of the systems that have a spread model."""

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        heatwaves, limits, self.names = scene.heatwaves, self.truth.limits, scene.forecasters
        assert heatwaves is not None
        self.heatwaves, names = heatwaves, self.names
        self.departure = limits["heatwave_threshold"] - limits["climatology"]
        dates = len(heatwaves.init_times)
        self.by_severity = {
            name: np.full((len(names), len(CATEGORIES) - 1, dates), np.nan, np.float32) for name in BY_SEVERITY
        }
        self.by_date = {name: np.full((len(names), dates), np.nan, np.float32) for name in BY_DATE}
        end = np.array([scene.horizon])
        self.probabilities = Probabilities(PREFIX, {}, names, heatwaves.init_times, end, {}, (INIT_TIME,))
        self.observed: dict[int, tuple[Mask, Days, Days, NDArray[np.int8], Array]] = {}

    @classmethod
    def of(cls, scene: Scene) -> Self | None:
        """Return empty tables if events were asked for and a system has a spread model."""
        return cls(scene) if scene.asked.events and scene.heatwaves and scene.correlations else None

    def begin(self, observed: Observed) -> None:
        """Find the first event observed after each initial date, and verify the persistence of state."""
        dates, anomaly, limit = observed.dates, observed.anomaly[DEGREES], observed.limit
        horizon, truth = self.heatwaves.horizon, self.heatwaves.truth[EVENT]
        self.observed = {}
        positions = self.heatwaves.chosen(dates).tolist()
        if not positions:
            return
        departure, defined = self.truth.ahead(self.departure, dates), observed.defined
        state = self.heatwaves.state(dates)
        for date in positions:
            last, row = self.heatwaves.last[date], date - dates.start
            inside = truth[last + 1 : last + 2 + horizon]
            begun, ended = first_event(inside, horizon)
            own = inside[:horizon] & ~np.concatenate([np.zeros_like(ended[:1]), ended[:-1]])
            with np.errstate(invalid="ignore", divide="ignore"):
                multiple = 1 + (anomaly[row] - limit[row]) / departure[row]
            severity = np.where(own, np.clip(np.nan_to_num(multiple), 1, len(CATEGORIES) - 1), 0).max(0)
            running = truth[last] & inside[0]
            onset = np.where(running, 0, begun.argmax(0) + 1)
            weights = self.truth.area * defined[row].any(0)
            end = _end(ended)
            self.observed[date] = begun[-1], onset, end, severity.astype(np.int8), weights
        came = np.stack([of[0] for of in self.observed.values()])[:, None]
        weights = np.stack([of[-1] for of in self.observed.values()])[:, None]
        self.probabilities.observe((), np.array(positions), came, weights)
        for date, (_, onset, end, *_) in self.observed.items() if STATE in self.names else ():
            never, now = np.full(end.shape, horizon + 1), state[date - dates.start, 0].astype(np.float32)
            self._count(STATE, date, now, np.zeros_like(onset), never)

    def add(self, block: Block) -> None:
        """Add the forecasts of a system that has a spread model."""
        if block.spread is None:
            return
        name, dates, spread = block.system, block.dates, block.spread
        margin, trajectories = block.mean - block.observed.limit, self.scene.trajectories[name]
        for date in (date for date in self.observed if dates.start <= date < dates.stop):
            last, row = self.heatwaves.last[date], date - dates.start
            shape = margin.shape[2:]
            beyond = probability(margin[row], spread[row]).reshape(len(margin[row]), -1)
            hot = self.heatwaves.hot[last - MARGIN_DAYS + 1 : last + 1].reshape(MARGIN_DAYS, -1)
            in_event = trajectories.in_event(beyond, hot)
            begun, ended = (
                trajectories.share(of) for of in first_event(in_event[MARGIN_DAYS:], self.heatwaves.horizon)
            )
            running = trajectories.share(in_event[MARGIN_DAYS - 1] & in_event[MARGIN_DAYS])
            half = begun[-1] / 2
            onset = np.where(running >= half, 0, (begun >= half).argmax(0) + 1)
            end = _end(ended >= half)
            self._count(name, date, begun[-1].reshape(shape), onset.reshape(shape), end.reshape(shape))

    def _count(self, name: str, date: int, chance: Array, onset: Days, end: Days) -> None:
        """Count the outcomes of the warnings of an initial date, of the cells `[tile, N]`.

        `chance` is the probability of an event. `onset` and `end` are days ahead. An onset of 0 is that of an
        event that is already running, and an end after the horizon is not known.
        """
        place, horizon = self.names.index(name), self.heatwaves.horizon
        came, own_onset, own_end, severity, weights = self.observed[date]
        warned = (chance >= WARNING) & (chance > 0)
        self.probabilities.add(name, (), np.array([date]), chance[None, None])
        hit = warned & came
        for table, mask in zip(BY_SEVERITY, (hit, came & ~warned), strict=True):
            counts = np.bincount(severity[mask], weights[mask], len(CATEGORIES))
            self.by_severity[table][place, :, date] = counts[1:]
        begins = hit & (own_onset > 0)
        ends = hit & (own_end <= horizon) & (end <= horizon)
        sums = (
            weights[warned & ~came].sum(),
            (abs(onset - own_onset) * weights)[begins].sum(),
            weights[begins].sum(),
            (abs(end - own_end) * weights)[ends].sum(),
            weights[ends].sum(),
        )
        for table, value in zip(BY_DATE, sums, strict=True):
            self.by_date[table][place, date] = value

    def dataset(self) -> xr.Dataset:
        """Return the sums by date, NaN on dates that are not scored and for systems without a spread model."""
        tables: dict[str, Any] = {
            name: (("forecaster", INIT_TIME), values) for name, values in self.by_date.items()
        }
        by_severity = ("forecaster", "severity", INIT_TIME)
        tables |= {name: (by_severity, values) for name, values in self.by_severity.items()}
        return self.probabilities.dataset().assign(tables).assign_coords(severity=list(CATEGORIES[1:]))

    @staticmethod
    def section(tables: xr.Dataset, reference: str) -> Scores:
        """Return `events`, the scores of warnings."""
        return {"events": warning_scores(tables, reference)} if "severity" in tables.dims else {}


def _end(ended: Mask) -> Days:
    """Return the last day of an event from whether it has ended by each lead, or one after the horizon."""
    return np.where(ended[-1], ended.argmax(0) + 1, len(ended) + 1)


def warning_scores(tables: xr.Dataset, reference: str = "") -> dict[str, Any]:
    """Compute the scores of warnings of each system from the sums of `Events.dataset`.

    Returns, by system, numbers with their 95 % intervals, None where undefined:
        hit_rate: the share of observed events of which it warned, also `by_category` of the event.
        false_alarm_ratio: the share of warnings after which no event came.
        success_index: hits divided by hits, misses and false alarms (critical success index).
        onset_error: mean absolute error of the onset in days, over hits whose event began after the initial date.
        end_error: that of the end, over hits whose observed and forecast event both end within the horizon.
        reliability: of ten bins of the probability, see `diagram`.
        warnings: see `sstcast.scores.decisions.warnings_by_system`, compared with the `reference`.
    """
    tables = tables[[name for name in tables.data_vars if str(name).startswith("event_")]].load()
    tables = tables.dropna(INIT_TIME, how="all").astype(float)
    block, _, segments = date_blocks(tables, BLOCK_DAYS)

    def quotient(part: Array, whole: Array, largest: float | None = 1) -> Scores:
        return estimate(Blocks.of(whole, block, segments).quotient(part, whole), largest=largest)

    found: Scores = {}
    for name in map(str, tables["forecaster"].values):
        own = tables.sel(forecaster=name)
        if own["event_false_alarms_by_date"].isnull().any():
            continue
        false, onset_error, onsets, end_error, ends = (own[table].values for table in BY_DATE)
        hits, misses = (own[table].transpose(INIT_TIME, "severity").values for table in BY_SEVERITY)
        hit, came = hits.sum(1), (hits + misses).sum(1)
        pairs = {
            "hit_rate": (hit, came),
            "false_alarm_ratio": (false, hit + false),
            "success_index": (hit, came + false),
            "onset_error": (onset_error, onsets),
            "end_error": (end_error, ends),
        }
        found[name] = {key: quotient(*pair, largest=None if key in ERRORS else 1) for key, pair in pairs.items()}
        found[name]["by_category"] = {
            str(severity): quotient(hits[:, number], hits[:, number] + misses[:, number])
            for number, severity in enumerate(tables["severity"].values)
        }
    cases, _ = cases_by(tables.sel(forecaster=list(found)), PREFIX, "date")
    years = cases_by_year(cases, tables[INIT_TIME].values)
    by_name = {name: cases.at(index) for index, name in enumerate(found)}
    for index, (name, worth) in enumerate(warnings_by_system(by_name, reference, block, segments).items()):
        found[name] |= {"reliability": diagram(years.at(index)), "warnings": worth}
    return found

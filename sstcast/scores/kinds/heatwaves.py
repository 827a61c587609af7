"""Scores of heatwave probabilities: of a day above the threshold (exceedance), and of a day in an event.

Observed heatwaves are detected in the whole record, including the days before and after a forecast. Cells and days
on which no event is defined (see `sstcast.extremes.heatwaves.where_defined`) have no weight.
"""

from typing import Self

import numpy as np
import xarray as xr

from sstcast.extremes.heatwaves import MARGIN_DAYS, events
from sstcast.forecasting.heatwaves import probability
from sstcast.names import BASE_RATE, EVENT, EXCEEDANCE, HEATWAVE_KINDS, STATE
from sstcast.scores.analysis import Observed
from sstcast.scores.comparisons import Loss
from sstcast.scores.distributions import Members
from sstcast.scores.kinds.kind import Kind
from sstcast.scores.probabilities import Probabilities, brier_of, loss_of, scores
from sstcast.scores.scene import Block, Scene
from sstcast.types import Scores

PREFIX = "heatwave"


class Heatwaves(Kind):
    """Accumulates the scores of the heatwave probabilities of systems and of two references.

    Initial dates are about three days apart. The base rate of a cell is its frequency in the base period.
    Persistence of state repeats the state of the initial date on every day ahead: above the threshold or not, and
    in an event if at least the last five days were above it.
    """

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        data, days = self.truth, 1 + np.arange(scene.horizon)
        assert scene.heatwaves is not None
        self.observed, init_times = scene.heatwaves, data.windows.init_times
        self.rates = {kind: data.on_tiles(data.limits[f"{kind}_frequency"]) for kind in HEATWAVE_KINDS}
        labels, lead = {"kind": HEATWAVE_KINDS}, {"lead": days.tolist()}
        self.probabilities = Probabilities(PREFIX, labels, scene.forecasters, init_times, days, lead)

    @classmethod
    def of(cls, scene: Scene) -> Self | None:
        """Return empty tables if every day up to the horizon is verified."""
        return None if scene.heatwaves is None else cls(scene)

    def begin(self, observed: Observed) -> None:
        """Take the heatwaves that came, and add the forecasts of the references, if they are scored."""
        dates, of, horizon = observed.dates, self.observed, self.scene.horizon
        positions = of.chosen(dates)
        if not len(positions):
            return
        weights = self.truth.area * observed.defined[positions - dates.start]
        in_event = of.state(dates)[positions - dates.start]
        states = {EXCEEDANCE: of.hot[of.last[positions], None], EVENT: in_event}
        for kind, state in states.items():
            came = np.stack([of.truth[kind][day + 1 : day + 1 + horizon] for day in of.last[positions]])
            self.probabilities.observe((kind,), positions, came, weights)
            if self.scene.references:
                self.probabilities.add(STATE, (kind,), positions, state.astype(np.float32))
                self.probabilities.add(BASE_RATE, (kind,), positions, self.rates[kind])

    def add(self, block: Block) -> None:
        """Add the probabilities of a system, if it forecasts a distribution."""
        method, dates, observed = block.system, block.dates, self.observed
        positions, distribution = observed.chosen(dates), self.scene.distribution(block)
        if not len(positions) or distribution is None:
            return
        rows = positions - dates.start
        margin = block.members[:, rows] - block.observed.limit[rows]  # degC above the threshold
        past = [observed.hot[day - MARGIN_DAYS + 1 : day + 1] for day in observed.last[positions]]
        if isinstance(distribution, Members):
            padding = np.repeat(margin[:, :, -1:], MARGIN_DAYS, axis=2)
            above = np.moveaxis(np.concatenate([margin, padding], axis=2) > 0, 2, 0)  # [day, member, starts, ...]
            past_hot = np.broadcast_to(np.stack(past, axis=1)[:, None], (MARGIN_DAYS, *above.shape[1:]))
            inside = events(np.concatenate([past_hot, above]))[MARGIN_DAYS:-MARGIN_DAYS]
            exceedance, event = (np.moveaxis(days.mean(1), 0, 1) for days in (above[:-MARGIN_DAYS], inside))
        else:
            exceedance = probability(margin.mean(0), distribution.spread[rows])
            cells = exceedance.reshape(*exceedance.shape[:2], -1)
            trajectories = self.scene.trajectories[method]
            probabilities = [
                trajectories.probability(daily, hot.reshape(MARGIN_DAYS, -1))
                for daily, hot in zip(cells, past, strict=True)
            ]
            event = np.reshape(probabilities, exceedance.shape)
        for kind, chance in ((EXCEEDANCE, exceedance), (EVENT, event)):
            self.probabilities.add(method, (kind,), positions, chance, distribution.shares)

    def dataset(self) -> xr.Dataset:
        """Return Brier scores by date and lead, and cases by lead, by season and by year of the initial date."""
        return self.probabilities.dataset()

    @staticmethod
    def losses(tables: xr.Dataset) -> dict[str, Loss]:
        """Return the Brier score of each kind of heatwave, of shares of members the fair one."""
        kinds = HEATWAVE_KINDS if "kind" in tables.dims else ()
        fields = {kind: brier_of(tables.sel(kind=kind, drop=True), PREFIX) for kind in kinds}
        return {kind: loss_of(of, f"Brier score ({kind})") for kind, of in fields.items()}

    @staticmethod
    def section(tables: xr.Dataset, reference: str) -> Scores:
        """Return `heatwaves`, the scores of the probabilities of each kind."""
        kinds = HEATWAVE_KINDS if "kind" in tables.dims else ()
        return {"heatwaves": {kind: scores(tables.sel(kind=kind, drop=True), PREFIX, reference) for kind in kinds}}

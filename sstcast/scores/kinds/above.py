"""Scores of the probability of a day above a temperature. docs/extending.md builds it."""

from typing import Self

import numpy as np
import xarray as xr

from sstcast.extremes.above import exceeds
from sstcast.log import LOG
from sstcast.names import DEGREES, STATE
from sstcast.scores.analysis import Observed
from sstcast.scores.comparisons import Loss
from sstcast.scores.kinds.kind import Kind
from sstcast.scores.probabilities import Probabilities, brier_of, loss_of, scores_or_none
from sstcast.scores.scene import Block, Scene
from sstcast.types import Scores

PREFIX = "above"


class Above(Kind):
    """Accumulates the scores of days above some temperatures, of systems and of the persistence of state."""

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        days, labels = 1 + np.arange(scene.horizon), {PREFIX: scene.asked.above}
        lead, init_times = {"lead": days.tolist()}, self.truth.windows.init_times
        self.probabilities = Probabilities(PREFIX, labels, scene.forecasters, init_times, days, lead)

    @classmethod
    def of(cls, scene: Scene) -> Self | None:
        """Return empty tables if temperatures were asked for, and every day up to the horizon is verified."""
        if not (scene.asked.above and scene.truth.daily):
            return None
        if scene.asked.places is not None or scene.asked.observations is not None:
            LOG.info("days above a temperature are scored for cells, not for places or points")
        return cls(scene)

    def begin(self, observed: Observed) -> None:
        """Take the days on which each temperature was exceeded, and add the persistence of state."""
        truth, dates, self.first = self.truth, observed.dates, observed.dates.start
        sst, last = truth.ahead(truth.sst, dates), truth.windows.at[dates] + truth.windows.history - 1
        self.climatology = sst - observed.anomaly[DEGREES]
        self.positions, weights = self.first + np.arange(len(sst)), np.broadcast_to(truth.area, sst.shape)
        for level in self.scene.asked.above:
            self.probabilities.observe((level,), self.positions, exceeds(sst, np.float32(level)), weights)
            if self.scene.references:
                state = exceeds(truth.sst[last, None], np.float32(level))
                self.probabilities.add(STATE, (level,), self.positions, state.astype(np.float32))

    def add(self, block: Block) -> None:
        """Add the probabilities of a system, if it forecasts a distribution."""
        distribution = self.scene.distribution(block)
        if distribution is None:
            return
        rows = slice(block.dates.start - self.first, block.dates.stop - self.first)
        for level in self.scene.asked.above:
            chance = distribution.chance_above(np.float32(level) - self.climatology[rows])
            self.probabilities.add(block.system, (level,), self.positions[rows], chance, distribution.shares)

    def dataset(self) -> xr.Dataset:
        """Return Brier scores by date and lead, and cases by lead, by season and by year of the initial date."""
        return self.probabilities.dataset()

    @staticmethod
    def losses(tables: xr.Dataset) -> dict[str, Loss]:
        """Return the Brier score of each temperature, of shares of members the fair one."""
        of_levels = {f"{PREFIX} {level}": brier_of(of, PREFIX) for level, of in _levels(tables).items()}
        return {name: loss_of(of, f"Brier score ({name} degC)") for name, of in of_levels.items()}

    @staticmethod
    def section(tables: xr.Dataset, reference: str) -> Scores:
        """Return `above`, the scores of the probability of each temperature."""
        found = {level: scores_or_none(of, PREFIX, reference) for level, of in _levels(tables).items()}
        return {PREFIX: found} if found else {}


def _levels(tables: xr.Dataset) -> dict[str, xr.Dataset]:
    """Return the tables of each temperature by its number in degC, if there are some."""
    levels = tables[PREFIX].values if PREFIX in tables.dims else ()
    return {f"{level:g}": tables.sel({PREFIX: level}, drop=True) for level in levels}

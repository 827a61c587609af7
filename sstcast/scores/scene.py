"""What is verified on which days, and what several kinds of scores need of it."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from sstcast.extremes.definition import HOBDAY
from sstcast.extremes.heatwaves import MARGIN_DAYS, events
from sstcast.forecasting.heatwaves import WORD, Trajectories
from sstcast.names import DAY, EVENT, EXCEEDANCE, REFERENCES
from sstcast.reading.days_of_year import on_days
from sstcast.scores.analysis import Analysis, Observed
from sstcast.scores.asked import NOTHING, Asked
from sstcast.scores.distributions import Gaussian, Members
from sstcast.scores.scored_days import with_margin
from sstcast.scores.significance import spacing
from sstcast.scores.system_records import RUN
from sstcast.storage.scratch import release, scratch_array
from sstcast.types import Array, Mask

if TYPE_CHECKING:
    from sstcast.scores.systems import ScoredSystem

TRAJECTORIES = WORD  # scores use as many as one word has bits
EVERY = 3  # days from one initial date to the next whose forecasts of heatwaves are scored
DAYS_AT_ONCE = 64  # days of a field on the map that are in memory


def ensemble_mean(members: Array) -> Array:
    """Return the mean of `members [M, ...]`. That of one member is the member itself, which is not copied."""
    mean: Array = members[0] if len(members) == 1 else members.mean(0)
    return mean


@dataclass(frozen=True)
class Block:
    """A system's forecasts from a run of initial dates that have the same members.

    Attributes:
        system: the name of the system.
        observed: the observations on the days forecast.
        standardised: the anomalies of the members in standardised units, `[member, starts, lead, tile, N]`.
        members: the same in degC.
        mean: the mean of `members`, `[starts, lead, tile, N]`.
        spread: standard deviation of the Gaussian about the mean in degC, of the same shape, 1 on land. None
            without a spread model.
        present: the numbers of the members among all members of the system.
    """

    system: str
    observed: Observed
    standardised: Array
    members: Array
    mean: Array
    spread: Array | None
    present: slice | NDArray[np.intp]

    @property
    def dates(self) -> slice:
        """The positions of the initial dates."""
        return self.observed.dates


@dataclass(frozen=True)
class Scene:
    """What is verified on which days. What several kinds of scores share is made once, on first use.

    Attributes:
        truth: the initial dates and the observations.
        systems: the systems to verify, by name.
        asked: what is verified besides the forecasts of every cell.
        references: whether the `REFERENCES` are also verified, as forecasts of events.
    """

    truth: Analysis
    systems: Mapping[str, "ScoredSystem"]
    asked: Asked = NOTHING
    references: bool = True

    @property
    def horizon(self) -> int:
        """The days from an initial date to the last day forecast."""
        return self.truth.windows.horizon

    @cached_property
    def correlations(self) -> dict[str, NDArray[np.floating]]:
        """The correlation `[lead, lead]` of errors of each system that has a spread model."""
        return {
            name: system.spread.correlation[: self.horizon, : self.horizon]
            for name, system in self.systems.items()
            if system.spread is not None
        }

    @cached_property
    def trajectories(self) -> dict[str, Trajectories]:
        """The error trajectories of each system that has a spread model."""
        return {name: Trajectories(correlation, TRAJECTORIES) for name, correlation in self.correlations.items()}

    @property
    def runs(self) -> list[str]:
        """The names of the systems that are runs, whose forecasts `sstcast forecast` may refuse."""
        return [name for name, system in self.systems.items() if system.role == RUN]

    @property
    def probabilistic(self) -> list[str]:
        """The names of the systems whose forecasts are distributions, of a spread or of members."""
        return [name for name, system in self.systems.items() if system.has_probabilities]

    @property
    def forecasters(self) -> list[str]:
        """The names of the systems and references that give probabilities of events."""
        return [*self.probabilistic, *(REFERENCES if self.references else ())]

    def distribution(self, block: Block) -> Gaussian | Members | None:
        """Return the distribution that a system forecasts in a block, or None if it forecasts none.

        It is a Gaussian in degC above the climatology, clipped at the freezing point, or without a spread model
        the members. The only member of a file gives probabilities of 0 and 1. A single member of several, on a
        date that lacks the others, gives none.
        """
        system = self.systems[block.system]
        if not system.has_probabilities:
            return None
        if block.spread is not None:
            return Gaussian(block.mean, block.spread, lowest=block.observed.lowest)
        return None if len(block.members) == 1 < system.members else Members(block.members)

    @cached_property
    def heatwaves(self) -> "ObservedHeatwaves | None":
        """The heatwaves observed, or None if they are not verified, because days between the leads are not."""
        return ObservedHeatwaves(self.truth) if self.truth.daily else None


class ObservedHeatwaves:
    """The heatwaves of the days from `MARGIN_DAYS` before the first initial date to as many after the last day.

    Attributes:
        last: the position of each initial date among these days.
        hot: whether a cell is above its threshold, `[day, tile, N]`. Missing days are not.
        inside: whether it is in an event.
        truth: both, by the kind of heatwave.
        step: initial dates are scored if their positions are multiples of it, so that they are `EVERY` days apart.
    """

    def __init__(self, data: Analysis) -> None:
        self.data, self.init_times, self.horizon = data, data.windows.init_times, data.windows.horizon
        self.step = max(1, EVERY // spacing(self.init_times))
        self.last = MARGIN_DAYS + ((self.init_times - self.init_times[0]) // DAY).astype(int)
        self.hot = self._hot(data.limits["heatwave_threshold"])
        self.truth = {EXCEEDANCE: self.hot, EVENT: self._inside()}

    def _hot(self, threshold: xr.DataArray) -> Mask:
        first, last = with_margin(self.init_times[0], self.init_times[-1] + self.horizon * DAY)
        sst = self.data.cube["sst"].sel(time=slice(first, last))
        hot = scratch_array((int((last - first) // DAY) + 1, *self.data.index.shape), bool)
        hot[:] = False
        for start in range(0, sst.sizes["time"], DAYS_AT_ONCE):
            days = sst.isel(time=slice(start, start + DAYS_AT_ONCE))
            above = self.data.on_tiles(days > on_days(threshold, days["time"])) > 0
            hot[(days["time"].values - first) // DAY] = above
            release()
        return hot

    def _inside(self) -> Mask:
        inside = scratch_array(self.hot.shape, bool)
        for start in range(0, len(inside), DAYS_AT_ONCE):
            days_before = min(start, MARGIN_DAYS)
            in_event = events(self.hot[start - days_before : start + DAYS_AT_ONCE + MARGIN_DAYS])
            inside[start : start + DAYS_AT_ONCE] = in_event[days_before:][:DAYS_AT_ONCE]
            release()
        return inside

    def state(self, dates: slice) -> Mask:
        """Return which cells are in a heatwave on the initial dates, `[starts, 1, tile, N]`.

        Only the days up to the initial date count.
        """
        row = [self.hot[day - HOBDAY.shortest + 1 : day + 1].all(0) for day in self.last[dates]]
        return np.stack(row)[:, None]

    def chosen(self, dates: slice) -> NDArray[np.intp]:
        """Return the positions of those dates that are scored."""
        positions = np.arange(dates.start, min(dates.stop, len(self.init_times)))
        return positions[positions % self.step == 0]

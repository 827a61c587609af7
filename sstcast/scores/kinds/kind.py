"""The interface of a kind of score. docs/extending.md builds one."""

from collections.abc import Sequence
from typing import Self

import xarray as xr

from sstcast.scores.analysis import Observed
from sstcast.scores.comparisons import Loss
from sstcast.scores.scene import Block, Scene
from sstcast.types import Scores

BLOCK = "date_block"  # dimension of blocks of initial dates
DATE, CELL = ("init_time", "lead"), ("week", "lat", "lon")


class Kind:
    """Base class of the kinds of scores in `KINDS`. It accumulates tables, block by block of initial dates.

    `joining` joins the tables of systems and folds along their dimensions. So a table with none of `init_time`,
    `date_block` and `init_year` must be a sum over dates, or a mean if it is a map, with the dimension `lat`.

    What follows `dataset` sees joined tables alone, because a hindcast joins those of many folds. Each of these
    functions is given the tables of all kinds, and returns nothing of its own if its tables are absent.
    """

    def __init__(self, scene: Scene) -> None:
        """Prepare empty tables."""
        self.scene, self.truth = scene, scene.truth

    @classmethod
    def of(cls, scene: Scene) -> Self | None:
        """Return empty tables, or None if the scores were not asked for or are not defined for these forecasts."""
        return cls(scene)

    def begin(self, observed: Observed) -> None:
        """Take the observations on the days forecast from a block of initial dates, before the forecasts."""

    def add(self, block: Block) -> None:
        """Add a system's forecasts from some of these dates. Kinds run in threads, each with tables of its own."""
        raise NotImplementedError

    def dataset(self) -> xr.Dataset:
        """Return the tables, with the names of systems as coordinates."""
        raise NotImplementedError

    @staticmethod
    def finish(tables: xr.Dataset, compared: Sequence[str], references: Sequence[str]) -> xr.Dataset:
        """Return the tables as `scores.nc` holds them.

        Args:
            tables: the joined tables.
            compared: the systems whose errors are tested cell by cell.
            references: the systems against which each of `compared` is tested.
        """
        return tables

    @staticmethod
    def losses(tables: xr.Dataset) -> dict[str, Loss]:
        """Return the losses by which systems are compared in `ratios`, by name."""
        return {}

    @staticmethod
    def section(tables: xr.Dataset, reference: str) -> Scores:
        """Return the entries of `metrics.json`, given the tables from `finish` and the reference of the ratios."""
        return {}

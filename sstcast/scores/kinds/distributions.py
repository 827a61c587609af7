"""Scores of distributions: of Gaussians about the mean, and of the members of ensembles."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from sstcast.names import DEGREES
from sstcast.scores.accumulated_means import AccumulatedMeans
from sstcast.scores.comparisons import Loss, json_numbers, known_systems
from sstcast.scores.distributions import ENSEMBLE, GAUSSIAN, PIT_BINS, Gaussian, at_lowest
from sstcast.scores.kinds.kind import DATE, Kind
from sstcast.scores.metrics import statistics_of
from sstcast.scores.parts import by_date, by_system
from sstcast.scores.scene import Block, Scene
from sstcast.types import Array, Scores


class Distributions(Kind):
    """Accumulates the statistics of Gaussians and ensembles in degC, and their histograms."""

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        shape, area = (self.truth.windows.starts, self.truth.leads), self.truth.area
        self.gaussian, self.ensemble, self.by_member = (
            {name: AccumulatedMeans(*shape, area) for name in scene.systems} for _ in range(3)
        )
        self.members = {name: system.members for name, system in scene.systems.items()}
        self.pit = {name: np.zeros(PIT_BINS) for name in scene.systems}
        self.ranks = {name: np.zeros(members + 1) for name, members in self.members.items()}

    def add(self, block: Block) -> None:
        """Add the Gaussian, if there is one, and the members, if there are several."""
        name, dates, members, area = block.system, block.dates, block.members, self.truth.area
        truth, size = block.observed.anomaly[DEGREES], self.members[block.system]
        gaussian = self.scene.distribution(block)
        if isinstance(gaussian, Gaussian) and self.truth.daily:
            gaussian.state = False if self.scene.heatwaves is None else self.scene.heatwaves.state(dates)
            self.gaussian[name].add(
                dates, ((s.name, s.function(gaussian, truth)) for s in statistics_of(GAUSSIAN).values())
            )
            self.pit[name] += gaussian.pit(truth, area)
        if len(members) > 1:
            self.ensemble[name].add(
                dates, ((s.name, s.function(members, truth)) for s in statistics_of(ENSEMBLE).values())
            )
            numbers = np.arange(size)[block.present]
            squares = ((f"{i}", np.square(member - truth)) for i, member in zip(numbers, members, strict=True))
            self.by_member[name].add(dates, squares)
        if len(members) == size > 1:  # ranks among fewer members have other frequencies
            self.ranks[name] += rank_histogram(members, truth, area, block.observed.lowest)

    def dataset(self) -> xr.Dataset:
        """Return means by date, and the histograms of ranks and of probability integral transforms."""
        names = pd.Index(list(self.members), name="system")
        by_system = [self._of_system(name) for name in names]
        # Some systems have members, whose numbers differ. All statistics have the new dimension.
        return xr.concat(by_system, names, join="outer", coords="minimal", compat="equals")

    def _of_system(self, name: str) -> xr.Dataset:
        size, variables = self.members[name], dict[str, Any]()
        for kind, means in (("gaussian", self.gaussian[name]), ("ensemble", self.ensemble[name])):
            variables |= {f"{kind}_{of}_by_date": (DATE, values) for of, values in means.by_date.items()}
        if self.gaussian[name].by_date:
            variables["pit"] = ("pit_bin", self.pit[name])
        if size < 2:
            return xr.Dataset(variables)
        variables["rank_histogram"] = ("rank", self.ranks[name])
        by_member = self.by_member[name]
        absent = np.full(by_member.shape, np.nan, np.float32)
        of_members = [by_member.by_date.get(f"{i}", absent) for i in range(size)]
        variables["member_mse_by_date"] = (("member", *DATE), np.stack(of_members))
        return xr.Dataset(variables, {"member": np.arange(size), "rank": np.arange(size + 1)})

    @staticmethod
    def finish(tables: xr.Dataset, compared: Sequence[str], references: Sequence[str]) -> xr.Dataset:
        """Divide the histograms by the number of cases."""
        for histogram in {"pit", "rank_histogram"} & set(tables.data_vars):
            (dim,) = set(tables[histogram].dims) - {"system"}
            total = tables[histogram].sum(str(dim))
            tables = tables.assign({histogram: tables[histogram] / total.where(total > 0)})
        return tables

    @staticmethod
    def losses(tables: xr.Dataset) -> dict[str, Loss]:
        """Return the CRPS of Gaussians."""
        name = "gaussian_crps_by_date"
        return {"crps": Loss(tables[name].astype(float), "CRPS")} if name in tables else {}

    @staticmethod
    def section(tables: xr.Dataset, reference: str) -> Scores:
        """Return `probabilities`, the scores of Gaussians, and `ensemble`, those of members."""
        gaussian, ensemble = (by_date(tables, f"{kind}_") for kind in ("gaussian", "ensemble"))
        probabilities = by_system(gaussian, GAUSSIAN, known_systems(gaussian.get("crps")))
        for name, scores in probabilities.items():
            scores["pit"] = json_numbers(tables["pit"].sel(system=name).values)
        members = by_system(ensemble, ENSEMBLE, known_systems(ensemble.get("crps")))
        for name, scores in members.items():
            ranks = tables["rank_histogram"].sel(system=name)
            scores["rank_histogram"] = json_numbers(ranks.dropna("rank").values)
        return {"probabilities": probabilities, "ensemble": members}


def rank_histogram(members: Array, truth: Array, area: Array, lowest: Array | None) -> Array:
    """Return the area in which the truth has each rank among `members [M, ...]`, `[M + 1]`.

    A truth that equals k of the members is spread evenly over the k + 1 ranks that it may take, as where the sea
    freezes at `lowest`, which observations are rounded to.
    """
    if lowest is not None:
        truth = np.where(at_lowest(truth, lowest), lowest, truth)
    ranks = len(members) + 1
    below, ties = (members < truth).sum(0).ravel(), (members == truth).sum(0).ravel()
    weights = np.broadcast_to(area, truth.shape).ravel() / (1 + ties)
    histogram = np.bincount(below, weights, ranks).astype(float)
    for above in range(1, 1 + ties.max(initial=0)):
        tied = ties >= above
        histogram += np.bincount(below[tied] + above, weights[tied], ranks)
    return histogram

"""Squared errors of a run, and of the forecasts of SST that it reads, on the same dates, leads and cells."""

from typing import Any, Self

import numpy as np
import pandas as pd
import xarray as xr

from sstcast.extremes.heatwaves import FREEZING
from sstcast.names import DEGREES, INIT_TIME
from sstcast.scores.analysis import Observed
from sstcast.scores.comparisons import MEAN_SQUARED_ERROR, LossComparison, json_numbers
from sstcast.scores.kinds.kind import DATE, Kind
from sstcast.scores.rivals import rivals_in, squared_errors
from sstcast.scores.scene import Block, Scene
from sstcast.types import Scores

DIMS = ("system", "rival", *DATE)
OF_RUN, OF_RIVAL, LEFT_OUT = "rival_mse_of_run", "rival_mse", "rival_dates_left_out"


class Rivals(Kind):
    """Accumulates the squared errors of runs, and of the forecasts of SST among their predictors (see `Rival`).

    Other systems have none.
    """

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self.rivals = rivals_in(self.truth)
        self.names = list(scene.systems)
        shape = len(self.names), len(self.rivals), self.truth.windows.starts, len(self.truth.leads)
        self.of_run, self.of_rival = np.full(shape, np.nan), np.full(shape, np.nan)
        freezing = self.truth.on_tiles(self.truth.limits[FREEZING])
        self.freezing = np.where(np.isnan(freezing), np.float32(-np.inf), freezing)

    @classmethod
    def of(cls, scene: Scene) -> Self | None:
        """Return empty tables if a run is verified that reads forecasts of SST."""
        if not scene.runs:
            return None
        tables = cls(scene)
        return tables if tables.rivals else None

    def begin(self, observed: Observed) -> None:
        """Compute the errors of the rivals."""
        truth, self.first = self.truth, observed.dates.start
        sst, grid = truth.ahead(truth.sst, observed.dates), truth.anomalies
        axes = {"lat": grid["lat"], "lon": grid["lon"]}
        self.errors = []
        for rival in self.rivals:
            fields = xr.DataArray(rival.forecast(observed.dates), axes, (*DATE, "lat", "lon"))
            self.errors.append(np.maximum(truth.on_tiles(fields), self.freezing) - sst)

    def add(self, block: Block) -> None:
        """Add the errors of a run and its rivals."""
        if block.system not in self.scene.runs:
            return
        number, area = self.names.index(block.system), self.truth.area
        own = block.mean - block.observed.anomaly[DEGREES]
        for rival, all_errors in enumerate(self.errors):
            errors = all_errors[block.dates.start - self.first : block.dates.stop - self.first]
            is_known = np.isfinite(errors)
            self.of_rival[number, rival, block.dates] = squared_errors(errors, is_known, area)
            self.of_run[number, rival, block.dates] = squared_errors(own, is_known, area)

    def dataset(self) -> xr.Dataset:
        """Return the mean squared errors by date and lead, and the number of dates on which no issue is new."""
        counts = [float((~rival.is_used).sum()) for rival in self.rivals]
        left_out = [counts if name in self.scene.runs else [np.nan] * len(counts) for name in self.names]
        tables = {OF_RUN: (DIMS, self.of_run), OF_RIVAL: (DIMS, self.of_rival), LEFT_OUT: (DIMS[:2], left_out)}
        return xr.Dataset(tables, {"system": pd.Index(self.names), "rival": [rival.name for rival in self.rivals]})

    @staticmethod
    def section(tables: xr.Dataset, reference: str) -> Scores:
        """Return `rivals`: by rival and run, the RMSE of both by lead, the ratio, its interval and a sentence."""
        if "rival" not in tables.dims:
            return {}
        found: Scores = {}
        for name in tables["rival"].values:
            of_rival = tables.sel(rival=name)
            runs = of_rival["system"].values[of_rival[LEFT_OUT].notnull().values]
            found[str(name)] = {str(run): _compared(of_rival.sel(system=run), str(run), str(name)) for run in runs}
        return {"rivals": found}


def _compared(tables: xr.Dataset, run: str, rival: str) -> dict[str, Any]:
    """Compare a run with a rival on the dates and leads that both forecast."""
    both = tables[[OF_RUN, OF_RIVAL]]
    leads = both[OF_RIVAL].notnull().any(INIT_TIME)
    dates = both[OF_RIVAL].where(leads, 0).notnull().all("lead") & leads.any()
    both = both.isel({INIT_TIME: np.flatnonzero(dates.values)})
    scores: dict[str, Any] = {
        "dates": both.sizes[INIT_TIME],
        "left_out": int(tables[LEFT_OUT]),
        "leads": both["lead"].values[leads.values].tolist(),
    }
    if not both.sizes[INIT_TIME]:
        return scores | {"sentence": f"{rival} has no issue that is new enough, or none in the training years."}
    comparison = LossComparison(both[OF_RUN])
    loss, reference = (comparison.loss(both[name].values) for name in (OF_RUN, OF_RIVAL))
    compared = comparison.compare(loss, reference, (run, f"the forecast {rival}", MEAN_SQUARED_ERROR))
    rmse = {key: both[name].mean(INIT_TIME) for key, name in (("rmse", OF_RUN), ("rmse_of_rival", OF_RIVAL))}
    scores |= {key: json_numbers(float(mean.mean("lead") ** 0.5)) for key, mean in rmse.items()}
    by_lead = {key: json_numbers((mean.values**0.5).tolist()) for key, mean in rmse.items()}
    by_lead |= {key: compared["by_lead"][key] for key in ("ratio", "interval")}
    kept = {key: compared[key] for key in ("ratio", "interval", "over_folds", "p_value", "sentence")}
    return scores | kept | {"by_lead": by_lead}

"""What predictors that are fields have in common: their values lie on the cells of the run."""

from contextlib import AbstractContextManager
from typing import Any

import xarray as xr

from sstcast.errors import reworded
from sstcast.predictors.store import StoredPredictor
from sstcast.predictors.values import Extremes, Limits, check_values
from sstcast.reading.digests import digest_of
from sstcast.reading.regrid import weights_of
from sstcast.reading.weights import Weights
from sstcast.storage.cf import rounded


class FieldPredictor(StoredPredictor):
    """A field, whose store holds its values on the cells of the run, NaN on land."""

    CHUNK = 128  # values on the first axis in a chunk

    def _open(self) -> xr.Dataset:
        return rounded(super()._open())

    def recipe(self, cube: xr.Dataset) -> dict[str, Any]:
        return {"cells": digest_of(cube[["ocean_mask"]])}

    def weights(self, field: xr.DataArray, cells: xr.Dataset) -> Weights:
        """Return what brings a field to the cells of the run."""
        remedy = "give a field that covers it, or the mean over a box, with kind: index and region"
        return weights_of(field, cells, self.config.path, remedy, folder=self.data.directory / "weights")

    def on_cells(self, field: xr.DataArray, weights: Weights, cells: xr.Dataset) -> xr.DataArray:
        """Bring a field to the cells of the run, NaN on land."""
        values = weights(weights.read(field)).where(cells["ocean_mask"]).rename("value")
        return values.drop_attrs(deep=False).assign_attrs(units=field.attrs["units"], method=weights.method)

    def read_by(self, field: xr.DataArray, weights: Weights, cells: xr.Dataset) -> xr.DataArray:
        """Return the values of a field that have a weight in an ocean cell of the run, on its own cells."""
        part = weights.read(field)
        return part.where(xr.DataArray(weights.used(cells["ocean_mask"].values), dims=part.dims[-2:]))

    def check(
        self, source: xr.DataArray, found: Extremes, plausible: Limits, where: object, more: Any = ()
    ) -> None:
        """Check the values of a source (see `check_values`), unless all are kept."""
        if self.config.implausible == "error":
            check_values(source, found, plausible, f"{where}", self.key, more)

    def naming_keys(self) -> AbstractContextManager[None]:
        """Make error messages name the keys of the predictor instead of those of SST."""
        return reworded(r"(\bdata\.|--)(variable|units|source)\b", rf"{self.key}.\2")

"""The data for maps of forecasts that `sstcast score` has scored."""

from functools import cached_property
from pathlib import Path

import xarray as xr

from sstcast.config import DataConfig
from sstcast.errors import SSTCastError
from sstcast.forecasting.files import DAY, read_forecasts
from sstcast.ocean.cropping import on_cells
from sstcast.ocean.identity import fingerprint
from sstcast.ocean.prepared import Prepared
from sstcast.pages.former import of_run, tables_of_run
from sstcast.pages.results import Results
from sstcast.scores.saved import Scored


class FileResults(Results):
    """The scores of a file, and the fields of its forecasts; what is drawn of a run is drawn of it."""

    def __init__(self, scored: Scored, region: str | None = None) -> None:
        """Read the scores; raise SSTCastError if they are damaged."""
        self.metrics, self.file, self.region = of_run(scored.read()), scored.metrics, region
        self.path = Path(self.metrics["file"])
        with scored.open() as tables:
            self.tables = tables_of_run(tables)

    def fields(self, date: int) -> tuple[xr.Dataset, xr.Dataset]:
        """Return the forecast from the initial date at position `date`, and the observation, as `Results` does."""
        init = self.tables["init_time"].values[[date]]
        sst = self._forecasts.sel(init_time=init).mean("member").load()
        sst = sst.isel(init_time=0).assign_coords(valid_time=sst["init_time"][0] + sst["lead"] * DAY)
        return self.beside(self._data, sst.where(sst.notnull().all("lead")))  # as in scores: a cell counts, or not

    @property
    def _data(self) -> DataConfig:
        return DataConfig.model_validate(self.metrics["recipe"]["data"])

    @cached_property
    def _forecasts(self) -> xr.DataArray:
        recipe = self.metrics["recipe"]
        if not self.path.exists() or fingerprint(self.path) != recipe["file"]:
            raise SSTCastError(f"{self.path}: has gone or changed since it was scored; run `sstcast score` again")
        data, forecasts = self._data, read_forecasts(self.path, *recipe["read_as"])
        return on_cells(forecasts.sst, Prepared.of(data).open()[1], data.box, self.path)[0].sel(
            lead=slice(data.horizon)
        )

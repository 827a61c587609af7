"""The data for figures: an evaluated run, its scores, and the fields of its forecasts."""

from functools import cached_property
from typing import Any

import numpy as np
import xarray as xr

from sstcast import __version__
from sstcast.artefacts import digest
from sstcast.config import DataConfig, parse_box
from sstcast.errors import SSTCastError, reading
from sstcast.geo import in_tiles
from sstcast.names import DEGREES, MODEL, STRONGEST
from sstcast.ocean.anomalies import on_days
from sstcast.ocean.prepared import Prepared
from sstcast.pages.former import of_run, tables_of_run
from sstcast.runs import Run
from sstcast.scores.evaluate import evaluate, open_forecasts
from sstcast.scores.metrics import skill
from sstcast.scores.saved import Scored
from sstcast.scores.significance import FDR

REFERENCE = STRONGEST


class Results:
    """An evaluated run; its fields are in degC, over its whole box or over a `region` of it.

    Attributes:
        metrics: the content of `metrics.json`.
        tables: the content of `scores.nc`, except the squared errors of every date.
    """

    def __init__(self, run: Run, region: str | None = None) -> None:
        """Evaluate the run if necessary; raise SSTCastError if that is not possible."""
        self.run, self.file, self.region = run, run.metrics, region
        self.metrics: dict[str, Any] = of_run(evaluate(run)[0])
        with Scored(run.folder).open() as tables:
            self.tables = tables_of_run(tables)

    @property
    def recipe(self) -> dict[str, Any]:
        """The recipe of all that is drawn from these scores."""
        return {"sstcast": __version__, "scores": digest(self.file)}

    @property
    def credit(self) -> str:
        """The credit line of maps: the source of the data."""
        return f"Data: {self.metrics['source']}. Land: Natural Earth."

    @cached_property
    def weekly(self) -> xr.Dataset:
        """`rmse`, `bias`, `skill` and the mask `hatched` where it is not significant, `(week, lat, lon)`.

        Raises SSTCastError if the run does not cover the region.
        """
        tables = self.tables.sel(units=DEGREES, drop=True)[["mse_by_cell", "bias_by_cell", "p_fdr"]]
        cells = crop(tables, self.region)
        error, reference = (cells["mse_by_cell"].sel(forecast=name, drop=True) for name in (MODEL, REFERENCE))
        p_value = cells["p_fdr"].sel(reference=REFERENCE, drop=True)
        return xr.Dataset(
            {
                "rmse": error**0.5,
                "bias": cells["bias_by_cell"].sel(forecast=MODEL, drop=True),
                "skill": skill(error, reference),
                "hatched": error.notnull() & ~(p_value <= FDR),
            }
        )

    @cached_property
    def error(self) -> xr.DataArray:
        """RMSE of each forecast over its days, `init_time`."""
        return self.tables["mse_by_date"].sel(units=DEGREES, forecast=MODEL, drop=True).mean("lead") ** 0.5

    def case(self, name: str) -> int:
        """Return the position of the `best`, `median` or `worst` forecast."""
        order = np.argsort(self.error.values)
        return int(order[{"best": 0, "median": len(order) // 2, "worst": -1}[name]])

    def fields(self, date: int) -> tuple[xr.Dataset, xr.Dataset]:
        """Return the forecast from the initial date at position `date`, and the observation.

        Both have `sst` and `anomaly`, the difference from the climatology of the day, over `(lead, lat, lon)`.
        """
        with reading(self.run.forecasts, f"delete it and run `sstcast evaluate {self.run.folder}`"):
            sst = open_forecasts(self.run)["sst"].isel(init_time=date).load()
        return self.beside(self.run.config.data, sst)

    def beside(self, data: DataConfig, sst: xr.DataArray) -> tuple[xr.Dataset, xr.Dataset]:
        """Return a forecast `sst(lead, lat, lon)` in degC, and the observation, as `fields` does."""
        cube, anomalies = Prepared.of(data).open()
        days = sst["valid_time"]
        truth, climatology = cube["sst"].sel(time=days).drop_vars("time"), on_days(anomalies["climatology"], days)
        sst, truth, climatology = xr.align(sst, truth.load(), climatology.load(), join="exact")
        known = sst.notnull() & truth.notnull() & climatology.notnull() & in_tiles(data.box, truth.shape)
        forecast, observed = (
            xr.Dataset({"sst": of, "anomaly": of - climatology}).where(known) for of in (sst, truth)
        )
        return crop(forecast, self.region), crop(observed, self.region)


def crop(fields: xr.Dataset, region: str | None) -> xr.Dataset:
    """Return the cells of `fields(..., lat, lon)` with centres in `region`, longitudes east of its west edge.

    Raises SSTCastError if there are fewer than two rows or two columns.
    """
    if region is None:
        return fields
    box = parse_box(region)
    inside = box.contains(fields["lat"], fields["lon"])
    rows, columns = inside.any("lon"), inside.any("lat")
    if min(int(rows.sum()), int(columns.sum())) < 2:
        raise SSTCastError(
            f"--region {region}: fewer than two rows and columns of the forecasts; make it larger or leave it out"
        )
    cells = fields.assign_coords(lon=box.eastward(fields["lon"]))
    cells = cells.isel(lat=rows.values, lon=columns.values).sortby("lon")
    step = float(fields["lon"][1] - fields["lon"][0])
    lon = cells["lon"].values
    whole = np.arange(lon[0], lon[-1] + step / 2, step)  # the box may have a gap
    return cells.reindex(lon=whole, method="nearest", tolerance=step / 4)

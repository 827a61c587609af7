"""The results that pages show: the scores of a run, a scored file or a hindcast, and fields of its forecasts."""

from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from sstcast._version import __version__
from sstcast.config import DataConfig
from sstcast.errors import SSTCastError, reading
from sstcast.figures.answers import label_of
from sstcast.figures.curves import styles_of
from sstcast.figures.maps import select_region
from sstcast.figures.sheets.sheet import first_system
from sstcast.names import DAY
from sstcast.ocean.prepared import Prepared
from sstcast.ocean.tiles import in_tiles
from sstcast.reading.days_of_year import on_days
from sstcast.reading.forecast_files import Forecasts, mean_of_days, read_forecasts
from sstcast.reading.regrid import on_cells
from sstcast.runs import Run
from sstcast.scores.evaluate import evaluate, kept, open_forecasts
from sstcast.scores.metrics import skill
from sstcast.scores.saved_scores import SavedScores
from sstcast.scores.score_files import ScoreFiles
from sstcast.scores.significance import FDR
from sstcast.scores.system_records import BASE, BASELINE, corrected, of_role
from sstcast.storage.artefacts import digest, fingerprint
from sstcast.types import Scores


class Results:
    """Scores, and fields in degC over the whole box or over a `region` within it.

    Attributes:
        scores: the scores as they were read, and `scored`, their folder.
        run: the run, or None for a scored file or a hindcast.
        name: the name of the run, the file or the hindcast.
        metrics: the contents of `metrics.json`.
        system: the main system: the model, or the best system of a hindcast.
        reference: the reference system.
        styles: the styles of the systems' curves.
    """

    def __init__(self, folder: Path, region: str | None = None) -> None:
        """Read the scores, and evaluate a run first if necessary.

        Raises SSTCastError if the folder has neither a run nor scores, or if the scores are damaged, or of weights
        that have changed since.
        """
        is_run = Run(folder).config_file.exists() or not ScoreFiles(folder).metrics.exists()
        self.run = Run.open(folder) if is_run else None
        if self.run is not None:
            evaluate(self.run, kept(self.run))
        self.scored, self.region = ScoreFiles(self.run.folder if self.run else folder), region
        self.scores = SavedScores(self.scored, self.scored.read()) if self.run else SavedScores.read(folder)
        self.metrics: Scores = self.scores.metrics
        if self.run is None and self.metrics["kind"] == "run":
            raise SSTCastError(f"{folder}: has no config.yaml, so its run is unknown; restore the file")
        self.system, self.reference = first_system(self.metrics), str(self.metrics["reference"])
        self.styles = styles_of(self.metrics["systems"])

    @property
    def name(self) -> str:
        """The name of the run, the file or the hindcast."""
        return label_of(self.metrics, self.scored.folder)

    @property
    def recipe(self) -> dict[str, Any]:
        """The recipe of reports and maps of these scores."""
        return {"sstcast": __version__, "scores": digest(self.scored.metrics)}

    @property
    def credit(self) -> str:
        """The credit line of maps, which names the source of the data."""
        return f"Data: {self.metrics['source']}. Land: Natural Earth."

    @property
    def shown(self) -> list[str]:
        """The systems in figures that show several: all, or a hindcast's best system, reference and baselines."""
        systems = self.metrics["systems"]
        if self.metrics["kind"] != "hindcast":
            return list(systems)
        return list(dict.fromkeys([self.system, self.reference, *of_role(systems, BASELINE)]))

    @property
    def models(self) -> list[str]:
        """The systems that are neither baselines nor the reference."""
        return [
            name for name, system in self.metrics["systems"].items() if system["model"] and name != self.reference
        ]

    def corrected(self, system: str) -> str:
        """Return the name of a system minus its mean error if it was scored so, else `system`."""
        return corrected(self.metrics["systems"], system)

    @property
    def linear_base(self) -> str | None:
        """The linear base of the run's network, or None if it has none."""
        return next(iter(of_role(self.metrics["systems"], BASE)), None)

    def weekly(self, system: str, reference: str | None = None) -> xr.Dataset:
        """Return maps `(week, lat, lon)` of `rmse`, `bias`, `skill` over a reference, and `hatched`.

        Weeks that no lead reaches are left out. `hatched` is a mask of the cells in which the skill is not
        significant. Raises SSTCastError if the forecasts do not cover the region.
        """
        cells = select_region(self.scores.cells(system, reference or self.reference), self.region)
        cells = cells.isel(week=cells["mse"].notnull().any(("lat", "lon")).values)
        return xr.Dataset(
            {
                "rmse": cells["mse"] ** 0.5,
                "bias": cells["bias"],
                "skill": skill(cells["mse"], cells["mse_of_reference"]),
                "hatched": cells["mse"].notnull() & ~(cells["p_value"] <= FDR),
            }
        )

    @cached_property
    def error(self) -> xr.DataArray:
        """The RMSE of each forecast over all leads, `(init_time)`."""
        return self.scores.errors.sel(system=self.system, drop=True).mean("lead") ** 0.5

    def case(self, name: str) -> int:
        """Return the position of the forecast called `name`: `best`, `median` or `worst` by its RMSE."""
        order = np.argsort(self.error.values)
        return int(order[{"best": 0, "median": len(order) // 2, "worst": -1}[name]])

    @cached_property
    def data(self) -> DataConfig:
        """The data configuration of a run or a scored file."""
        return self.run.config.data if self.run else DataConfig.model_validate(self.metrics["recipe"]["data"])

    @cached_property
    def prepared(self) -> Prepared:
        """The prepared stores of these data."""
        return Prepared.of(self.data)

    def fields(self, date: int) -> tuple[xr.Dataset, xr.Dataset]:
        """Return the forecast from the initial date at position `date`, and the observations.

        Both have `sst` and `anomaly` (the departure from the climatology of the day) on `(lead, lat, lon)`, in
        degC.
        """
        if self.run:
            with reading(self.run.forecasts, f"delete it and run `sstcast evaluate {self.run.folder}`"):
                sst = open_forecasts(self.run)["sst"].isel(init_time=date).load()
        else:
            sst = self._of_file.sst.sel(init_time=self.error["init_time"].values[date]).mean("member").load()
            sst = sst.assign_coords(valid_time=sst["init_time"] + sst["lead"] * DAY)
            sst = sst.where(sst.notnull().all("lead"))  # as in scores, a cell counts only if it has all leads
        (cube, anomalies), days = self.prepared.open(), sst["valid_time"]
        count = 1 if self.run else self._of_file.mean_of
        truth = mean_of_days(lambda day: cube["sst"].sel(time=day).drop_vars("time"), days, count)
        climatology = mean_of_days(partial(on_days, anomalies["climatology"]), days, count)
        sst, truth, climatology = xr.align(sst, truth.load(), climatology.load(), join="exact")
        valid = sst.notnull() & truth.notnull() & climatology.notnull() & in_tiles(self.data.box, truth.shape)
        forecast, observed = (
            xr.Dataset({"sst": field, "anomaly": field - climatology}).where(valid) for field in (sst, truth)
        )
        return select_region(forecast, self.region), select_region(observed, self.region)

    def base_fields(self, date: int) -> xr.Dataset | None:
        """Return the forecast of the linear base of the run's network, as in `fields`, or None if it has none."""
        if self.run is None or self.linear_base is None:
            return None
        # Imported here because these modules need PyTorch, which few figures do.
        from sstcast.forecasting.fields import in_degrees
        from sstcast.forecasting.system import Models, system_of
        from sstcast.scores.analysis import Analysis

        truth, system = Analysis.of(self.run), system_of(self.run)
        base = system.linear_base() if isinstance(system, Models) else None
        assert base is not None
        fields = in_degrees(base.predict(*truth.histories(slice(date, date + 1))), truth.statistics)
        fields = fields.isel(init_time=0).rename(sst_anomaly="anomaly")
        return select_region(fields, self.region)

    @cached_property
    def _of_file(self) -> Forecasts:
        path, recipe = Path(self.metrics["file"]), self.metrics["recipe"]
        if not path.exists() or fingerprint(path) != recipe["file"] or not self.scored.are_of(path):
            raise SSTCastError(f"{path}: is missing or has changed since it was scored; run `sstcast score` again")
        variable, units = recipe["read_as"]
        forecasts, cells = read_forecasts(path, variable, units, means=True), self.prepared.open_anomalies()
        sst = on_cells(forecasts.sst, cells, self.data.box, path)[0]
        return replace(forecasts, sst=sst.sel(lead=slice(self.data.horizon)))

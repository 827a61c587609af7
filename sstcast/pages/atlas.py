"""The verb `map`: where an evaluated run errs, and single forecasts of it beside what came true."""

from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from sstcast import __version__
from sstcast.errors import SSTCastError, reading
from sstcast.files import alone
from sstcast.geo import Box
from sstcast.pages.images import read_stamp, write_png
from sstcast.pages.maps import draw_forecast, draw_weeks
from sstcast.pages.views import DEFAULT_PROJECTION
from sstcast.runs import Run
from sstcast.scores.evaluate import LAYOUT, evaluate, open_forecasts, open_scores
from sstcast.scores.metrics import skill
from sstcast.scores.significance import FDR
from sstcast.scores.tables import DEGREES, MODEL
from sstcast.scores.verification import Verification

REFERENCE = "persistence"
LABELS = {
    "rmse": "RMSE (°C)",
    "bias": "Forecast − observed (°C)",
    "skill": f"1 − MSE / MSE of {REFERENCE} (above 0: better)",
}
NOT_SIGNIFICANT = f"not significant (false discoveries ≤ {FDR:.0%})"


class Atlas:
    """The fields of an evaluated run, in degC, over all its box or over a `region` of it."""

    def __init__(self, run: Run, region: str | None = None) -> None:
        """Raise SSTCastError if the run covers nothing of `region`, a name or W,E,S,N in degrees."""
        self.run, self.region = run, region
        with open_scores(run) as tables:
            self.tables = tables[["mse_by_cell", "bias_by_cell", "p_fdr", "mse_by_date"]].sel(units=DEGREES).load()
        self.weekly = self._weekly()

    def _weekly(self) -> xr.Dataset:
        """Return `rmse`, `bias`, `skill` and where it is not `significant`, over `(week, lat, lon)`."""
        cells = crop(self.tables.drop_vars("mse_by_date"), self.region)
        model = cells.sel(forecast=MODEL)
        error, reference = (cells["mse_by_cell"].sel(forecast=name, drop=True) for name in (MODEL, REFERENCE))
        fields = {
            "rmse": error**0.5,
            "bias": model["bias_by_cell"],
            "skill": skill(error, reference),
            "hatched": cells["p_fdr"].sel(reference=REFERENCE, drop=True) > FDR,
        }
        return xr.Dataset(fields).drop_vars(["forecast", "reference", "units"], errors="ignore")

    @cached_property
    def error(self) -> xr.DataArray:
        """RMSE of each forecast over its days, `init_time`."""
        return self.tables["mse_by_date"].sel(forecast=MODEL, drop=True).mean("lead") ** 0.5

    def case(self, name: str) -> int:
        """Return the position of the `best`, `median` or `worst` forecast."""
        order = np.argsort(self.error.values)
        return int(order[{"best": 0, "median": len(order) // 2, "worst": -1}[name]])

    def fields(self, date: int) -> tuple[xr.Dataset, xr.Dataset]:
        """Return the forecast from the initial date at position `date`, and what came true.

        Both hold `sst` and `anomaly`, its difference from the climatology of the day, over `(lead, lat, lon)`.
        """
        truth = self._verification.truth(slice(date, date + 1)).isel(init_time=0)
        climatology = truth["sst"] - truth["sst_anomaly"]
        with reading(self.run.forecasts, f"delete it and run `sstcast evaluate {self.run.folder}`"):
            sst = open_forecasts(self.run)["sst"].isel(init_time=date).load()
            sst, _ = xr.align(sst, climatology, join="exact")
            forecast = xr.Dataset({"sst": sst, "anomaly": sst - climatology})
        observed = xr.Dataset({"sst": truth["sst"], "anomaly": truth["sst_anomaly"]})
        return crop(forecast, self.region), crop(observed, self.region)

    @cached_property
    def _verification(self) -> Verification:
        return Verification.of(self.run)


def draw_run(
    run: Run,
    projection: str = DEFAULT_PROJECTION,
    region: str | None = None,
    say: Callable[[str], object] = print,
) -> list[Path]:
    """Draw `maps/*.png` of a run; `say` gets a line for each file made.

    By lead week: RMSE and bias in degC, and mean-squared-error skill over persistence, hatched where it is not
    significant; and the forecast of median error beside what came true. Maps that were drawn of the same
    checkpoint in the same way are kept.

    Raises SSTCastError if the run has not been evaluated, cartopy knows no such projection, or the run covers
    nothing of `region`.
    """
    if not run.forecasts.exists():
        raise SSTCastError(f"{run.forecasts}: no forecasts yet; run `sstcast evaluate {run.folder}` first")
    with alone(run.forecasts):
        return _draw(run, projection, region, say)


def _draw(run: Run, projection: str, region: str | None, say: Callable[[str], object]) -> list[Path]:
    metrics, _ = evaluate(run)
    files = {name: run.maps / f"{name}.png" for name in (*LABELS, "forecast")}
    stamp = f"{checkpoint_stamp(metrics)}, {projection}, {region or 'whole region'}"
    if all(read_stamp(file) == stamp for file in files.values()):
        say(f"{run.maps}: nothing to do")
        return list(files.values())

    atlas, name = Atlas(run, region), run.folder.name
    period = "-".join(sorted({day[:4] for day in metrics["test"]}))
    titles = {"rmse": "RMSE", "bias": "Bias", "skill": f"Skill over {REFERENCE}"}
    common: dict[str, Any] = {"credit": credit(metrics), "projection": projection}
    for field, title in titles.items():
        figure = draw_field(atlas, field, title=f"{title} of {name}, {period}", **common)
        write_png(figure, files[field], stamp)
        say(str(files[field]))
    forecast, truth = atlas.fields(atlas.case("median"))
    title = f"Forecast of {name} from {np.datetime_as_string(forecast['init_time'].values, unit='D')}"
    write_png(draw_forecast(forecast["sst"], truth["sst"], title=title, **common), files["forecast"], stamp)
    say(str(files["forecast"]))
    return list(files.values())


def draw_field(atlas: Atlas, name: str, **options: Any) -> Any:
    """Draw `rmse`, `bias` or `skill` by lead week; `options` are those of `draw_weeks`."""
    weekly = atlas.weekly
    kinds: dict[str, Any] = {"rmse": "error", "bias": "difference", "skill": "skill"}
    hatching: dict[str, Any] = (
        {"hatched": weekly["hatched"], "hatch_label": NOT_SIGNIFICANT} if name == "skill" else {}
    )
    return draw_weeks(weekly[name], label=LABELS[name], kind=kinds[name], **hatching, **options)


def checkpoint_stamp(metrics: dict[str, Any]) -> str:
    """Return what tells figures of this evaluation from those of another."""
    return f"sstcast {__version__}, layout {LAYOUT}, checkpoint {metrics['checkpoint']}"


def credit(metrics: dict[str, Any]) -> str:
    """Return where the data of the maps are from."""
    return f"Data: {metrics['source']}. Land: Natural Earth."


def crop(fields: xr.Dataset, region: str | None) -> xr.Dataset:
    """Return the cells of `fields(..., lat, lon)` with their centre in `region`, longitudes east of its west edge.

    Raises SSTCastError if there are not two rows and two columns of them.
    """
    if region is None:
        return fields
    box = Box.parse(region)
    inside = box.contains(fields["lat"], fields["lon"])
    rows, columns = inside.any("lon"), inside.any("lat")
    if min(int(rows.sum()), int(columns.sum())) < 2:
        raise SSTCastError(
            f"--region {region}: less than two rows and columns of the forecasts; widen or leave it"
        )
    cells = (
        fields.assign_coords(lon=box.eastward(fields["lon"]))
        .isel(lat=rows.values, lon=columns.values)
        .sortby("lon")
    )
    step = float(fields["lon"][1] - fields["lon"][0])
    lon = cells["lon"].values
    whole = np.arange(lon[0], lon[-1] + step / 2, step)  # the box may have a gap
    return cells.reindex(lon=whole, method="nearest", tolerance=step / 4)

"""What a forecast of SST, as a weather centre issues it, and the recommended linear system give together.

    python perf/centre.py FOLDER    # ten minutes on one core, and 2 GB in FOLDER; prepared stores stay there

Makes forecasts of the shipped ocean at half a degree, an issue every other day: the truth plus errors about as
large as those of `local-memory-stencil`, half of them common to all cells, correlated .9 from lead to lead. A
system that reads them as `kind: forecast` is fitted for five folds of four test years, 1997-2016, each to the
years before.

Prints mean squared errors in degC^2 over every third initial date and the leads that the issues reach: of the
system that reads SST alone, of the issues without their mean error (`sstcast.scores.rivals`), of the system that
reads both, and of one weight for each lead, fitted to the errors of the other four folds.
"""

import argparse
import contextlib
import platform
from pathlib import Path
from typing import Any

import numpy as np
import torch
import xarray as xr

import sstcast
from sstcast.config import DataConfig
from sstcast.forecasting.system import Fits, Models
from sstcast.hindcasts.plan import Protocol
from sstcast.models.predictor_stages import WithPredictors
from sstcast.ocean.prepared import Prepared
from sstcast.scores.analysis import Analysis
from sstcast.scores.rivals import rivals_in
from sstcast.storage.paths import packaged

HORIZON, EVERY, SHOWN = 28, 2, (1, 7, 14, 21, 27)
LIKE_THE_SYSTEM = ([1, 2, 4, 7, 14, 28], [0.25, 0.34, 0.45, 0.52, 0.63, 0.72])  # leads, and RMSE there in degC
FROM_LEAD_TO_LEAD, COMMON = 0.9, 0.5  # correlation of errors; share of their variance that all cells have
PROTOCOL = Protocol.parse("1997:2016", 4, 2, 3)
SYSTEM = {"name": "local-ridge", "memory": True, "stencil": True}
TERMS = ("own", "issued", "both", "product")  # squared errors, and the product of those of own and issued


def make(path: Path) -> None:
    """Write the forecasts."""
    with xr.open_dataset(packaged("data/sample/tasman_oisst_daily_1982_2016.nc")) as sample:
        (name,) = (name for name, field in sample.data_vars.items() if field.ndim == 3)
        sst = sample[name].astype("float32").load()
    coarse = sst.coarsen(lat=2, lon=2).mean().interpolate_na("lon", fill_value="extrapolate")
    starts, random = np.arange(0, coarse.sizes["time"] - HORIZON, EVERY), np.random.default_rng(0)
    leads = np.arange(1, HORIZON + 1)
    size = np.interp(leads, *LIKE_THE_SYSTEM)

    def noise() -> np.ndarray:
        found = random.normal(size=(len(starts), HORIZON)).astype("float32")
        for lead in range(1, HORIZON):
            fresh = (1 - FROM_LEAD_TO_LEAD**2) ** 0.5 * found[:, lead]
            found[:, lead] = FROM_LEAD_TO_LEAD * found[:, lead - 1] + fresh
        return found

    shared, fields = noise(), coarse.values[starts[:, None] + leads]
    for row, column in np.ndindex(fields.shape[2:]):
        fields[..., row, column] += (COMMON**0.5 * shared + (1 - COMMON) ** 0.5 * noise()) * size
    units = {"lat": "degrees_north", "lon": "degrees_east"}
    axes: dict[str, Any] = {axis: (axis, coarse[axis].values, {"units": of}) for axis, of in units.items()}
    axes |= {"init_time": coarse["time"].values[starts], "lead": ("lead", leads, {"units": "days"})}
    attributes = {"units": "degC", "standard_name": "sea_surface_temperature"}
    xr.Dataset({"sst": (("init_time", "lead", "lat", "lon"), fields, attributes)}, axes).to_netcdf(path)


@torch.no_grad()
def verify(data: DataConfig) -> np.ndarray:
    """Fit the systems of a fold, and return the sums of `TERMS` and of area, `[term, lead]`."""
    prepared = Prepared.of(data)
    model = Fits.of(prepared).model(SYSTEM["name"], predictors=data.kinds, memory=True, stencil=True)
    assert isinstance(model, WithPredictors)
    own, both = (
        Models(data.box, data.history, data.horizon, [of], torch.device("cpu"), predictors=[*data.predictors])
        for of in (model.system, model)
    )
    truth = Analysis.open(prepared, every=PROTOCOL.every)
    (rival,) = rivals_in(truth)
    sums = np.zeros((len(TERMS) + 1, HORIZON))
    for dates in truth.blocks():
        past, every = truth.histories(dates)
        scale, sst = truth.ahead(truth.statistics["scale"], dates), truth.ahead(truth.sst, dates)
        anomaly = sst - truth.ahead(truth.statistics["climatology"], dates)
        errors = [truth.on_tiles(system.predict(past, every)[0]) * scale - anomaly for system in (own, both)]
        axes = {axis: truth.anomalies[axis] for axis in ("lat", "lon")}
        issued = xr.DataArray(rival.forecast(dates), axes, ("init_time", "lead", "lat", "lon"))
        errors.insert(1, truth.on_tiles(issued) - sst)
        known = np.isfinite(errors[1]) * truth.area
        products = [*(error**2 for error in errors), errors[0] * errors[1], np.ones_like(sst)]
        sums += [np.where(known > 0, of * known, 0).sum((0, 2, 3), dtype=float) for of in products]
    return sums


def table(sums: np.ndarray) -> None:
    """Print the errors of all folds, `[fold, term, lead]`, by lead and over all."""
    joined = np.zeros((2, HORIZON))
    for fold, here in enumerate(sums):
        others = np.delete(sums, fold, 0).sum(0)
        own, issued, _, product, _ = others
        with np.errstate(invalid="ignore"):
            weight = (own - product) / (own + issued - 2 * product)  # of the issue
        left = 1 - weight
        joined += [left**2 * here[0] + weight**2 * here[1] + 2 * weight * left * here[3], here[4]]
    totals, reached = sums.sum(0), sums.sum(0)[4] > 0
    columns = [*(totals[TERMS.index(name)] for name in ("own", "issued", "both")), joined[0]]
    print("lead     SST alone   issues   both   one weight a lead")
    for name, leads in [*((f"day {day}", [day - 1]) for day in SHOWN), ("all", np.flatnonzero(reached))]:
        errors = [column[leads].sum() / totals[4][leads].sum() for column in columns]
        print(f"{name:8} " + "".join(f"{error:9.4f}" for error in errors), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    folder: Path = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    with contextlib.chdir(folder):
        if not Path("issued.nc").exists():
            make(Path("issued.nc"))
        config = Path("centre.yaml")
        config.write_text(
            "data:\n  source: sample\n  region: tasman\n"
            "  predictors:\n    centre: {kind: forecast, source: issued.nc}\n"
            "  splits: {train: [1982, 2012], validation: [2013, 2014], test: [2015, 2016]}\n"
            "model: {name: local-ridge, memory: true, stencil: true}\n"
        )
        sums = []
        for fold in PROTOCOL.folds:
            data = fold.split(sstcast.load_config(config).data)
            sstcast.prepare(sstcast.load_config(config).model_copy(update={"data": data}))
            sums.append(verify(data))
            own, issued, both, *_ = sums[-1].sum(1)
            print(
                f"from {fold.first}: both {both / own:.3f} of SST alone, {both / issued:.3f} of the issues",
                flush=True,
            )
    table(np.array(sums))
    print(
        f"sstcast {sstcast.__version__}, torch {torch.__version__}, {platform.processor() or platform.machine()}"
    )


if __name__ == "__main__":
    main()

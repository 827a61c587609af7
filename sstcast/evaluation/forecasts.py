"""Forecasts on the map: from a method's standardised anomalies to labelled fields in degC."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
import xarray as xr
from torch import nn

from sstcast import __version__
from sstcast.evaluation.baselines import Array, Method, truth
from sstcast.files import atomic, write_zarr
from sstcast.ocean.anomalies import on_days
from sstcast.ocean.cube import describe_axes
from sstcast.ocean.prepare import Prepared
from sstcast.ocean.tiles import from_tiles, tile_index
from sstcast.ocean.windows import Windows, cut_windows
from sstcast.runs import Run
from sstcast.training.checkpoint import load_checkpoint, load_weights
from sstcast.training.train import choose_device, forecaster

INIT_TIMES_PER_CHUNK = 64


class ModelMethod:
    """A trained model as a method: its best checkpoint, in evaluation mode."""

    def __init__(self, run: Run, windows: Windows) -> None:
        config = run.config
        self.device = choose_device(config.training.device)
        self.model: nn.Module = forecaster(config, windows)
        load_weights(self.model, load_checkpoint(run.best), run.best)
        self.model.eval().to(self.device)

    @torch.no_grad()
    def __call__(self, windows: Windows) -> Array:
        """Return the standardised anomaly `[starts, horizon, tile, N]`."""
        windows = windows.to(self.device)
        tiles, nodes = windows.values.shape[1:]
        batches = [windows.batch(index) for index in torch.arange(len(windows), device=self.device).split(64)]
        out = torch.cat([self.model(b.history, b.graph).cpu() for b in batches])
        forecast: Array = out.reshape(windows.starts, tiles, nodes, -1).permute(0, 3, 1, 2).numpy()
        return forecast


@dataclass(frozen=True)
class Verification:
    """The test split of a run, with all that brings a forecast back to degC."""

    train: Windows
    windows: Windows
    anomalies: xr.Dataset
    cube: xr.Dataset
    index: np.ndarray

    @classmethod
    def of(cls, run: Run) -> "Verification":
        """Open what `prepare` made for the run."""
        data = run.config.data
        cube, anomalies = Prepared.of(data).open()
        train, test = (cut_windows(anomalies, data, split) for split in ("train", "test"))
        shape = (anomalies.sizes["lat"], anomalies.sizes["lon"])
        return cls(train, test, anomalies, cube, tile_index(data.box, shape))

    def fields(self, method: Method) -> xr.Dataset:
        """Run `method` and put its tiles on the map.

        Returns, over `(init_time, lead, lat, lon)`, the `anomaly` in standardised units, the same
        `anomaly_degC` in degC, and `sst` in degC; NaN on land and outside the tiles.
        """
        return self._labelled(method(self.windows))

    def truth(self) -> xr.Dataset:
        """Return what came true, laid out like `fields`; its degC are the cube's own."""
        result = self._labelled(truth(self.windows))
        sst = self.cube["sst"].load().sel(time=result["valid_time"]).drop_vars("time")
        sst = sst.where(result["anomaly"].notnull())
        climatology = on_days(self.anomalies["climatology"].load(), result["valid_time"])
        return result.assign(sst=sst, anomaly_degC=sst - climatology)

    def _labelled(self, tiles: Array) -> xr.Dataset:
        shape = (self.anomalies.sizes["lat"], self.anomalies.sizes["lon"])
        ocean = self.anomalies["ocean_mask"].load()
        anomaly = xr.DataArray(
            from_tiles(tiles, self.index, shape),
            dims=("init_time", "lead", "lat", "lon"),
            coords={
                "init_time": self.windows.init_times,
                "lead": np.arange(1, tiles.shape[1] + 1),
                "lat": self.anomalies["lat"],
                "lon": self.anomalies["lon"],
            },
        ).where(ocean)
        days = anomaly["init_time"] + anomaly["lead"] * pd.Timedelta(days=1)
        anomaly = anomaly.assign_coords(valid_time=days)
        degrees = anomaly * on_days(self.anomalies["scale"].load(), days)
        sst = degrees + on_days(self.anomalies["climatology"].load(), days)
        return xr.Dataset({"anomaly": anomaly, "anomaly_degC": degrees, "sst": sst})


def save_forecasts(fields: xr.Dataset, run: Run, source: str) -> None:
    """Write `forecasts.zarr`: `sst(init_time, lead, lat, lon)` in degC; `source` is what the model learnt from."""
    dataset = fields[["sst"]].astype("float32")
    dataset["sst"].attrs = {
        "standard_name": "sea_surface_temperature",
        "long_name": "forecast sea surface temperature",
        "units": "degree_Celsius",
    }
    describe_axes(dataset)
    dataset["init_time"].attrs = {
        "standard_name": "forecast_reference_time",
        "long_name": "last day of history",
    }
    dataset["lead"].attrs = {"long_name": "days after init_time", "units": "1"}
    dataset["valid_time"].attrs = {"standard_name": "time", "long_name": "day forecast"}
    dataset.attrs = {
        "Conventions": "CF-1.11",
        "title": f"SST forecasts of run {run.folder.name}",
        "source": f"sstcast {__version__}, model {run.config.model.name}, trained on {source}",
    }
    with atomic(run.forecasts) as temporary:
        write_zarr(dataset, temporary, {"init_time": INIT_TIMES_PER_CHUNK})

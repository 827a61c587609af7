"""A trained run, or an ensemble, in memory: days of SST in, a forecast on the map out."""

import hashlib
import json
from functools import cached_property
from pathlib import Path

import numpy as np
import pandas as pd
import xarray as xr

from sstcast import __version__
from sstcast.config import DataConfig, Region, RunConfig
from sstcast.errors import SSTCastError
from sstcast.evaluation.baselines import Array
from sstcast.evaluation.forecasts import ModelMethod
from sstcast.forecasting.cf import CONVENTIONS, describe, describe_days, now
from sstcast.forecasting.history import Normals, checked
from sstcast.models import build_forecaster
from sstcast.models.base import Forecaster
from sstcast.ocean.anomalies import on_days
from sstcast.ocean.grid import parse_grid
from sstcast.ocean.tiles import from_tiles, tile_index
from sstcast.ocean.windows import windows_of
from sstcast.runs import Run
from sstcast.training.train import check_data


class LoadedRun:
    """The models of a run's members, and the statistics of the days they were trained on.

    With `region` (a name in `configs/regions.yaml`, or `W,E,S,N` in degrees, cut as the run's own) forecasts
    are made for another one. Raises SSTCastError if the run has no checkpoint, or its model knows one shape of
    tile and the region has another, or the prepared stores hold other data than it was trained on.
    """

    def __init__(self, folder: Path | str, region: str | None = None) -> None:
        self.run = Run.open(Path(folder))
        self.config = self.run.config
        self.data = self.config.data if region is None else elsewhere(self.config, region)
        if region is None:
            check_data(self.run)
        self._checkpoints = [hashlib.sha256(member.best.read_bytes()).hexdigest() for member in self.run.members]
        self._method: ModelMethod | None = None

    @cached_property
    def normals(self) -> Normals:
        """The region's grid and statistics, as `prepare` left them."""
        return Normals(self.data)

    def recipe(self, history: xr.DataArray) -> str:
        """Return, as JSON, what determines the forecast from `history`: equal recipes, equal forecasts."""
        state = hashlib.sha256(history["time"].values.tobytes() + history.values.tobytes())
        if "preliminary" in history.coords:
            state.update(history["preliminary"].values.tobytes())
        parts = {
            "sstcast": __version__,
            "checkpoints": self._checkpoints,
            "statistics": json.loads(self.normals.statistics.attrs["recipe"]),
            "history": state.hexdigest(),
        }
        return json.dumps(parts)

    def forecast(self, history: xr.DataArray) -> xr.Dataset:
        """Forecast from the last days of `history`, `sst(time, lat, lon)` in degC, NaN on land, at least the
        run's `data.history` days.

        It may be larger than the region, be held by dask, and lie on the run's grid or on the cells that were
        averaged to make it. A coordinate `preliminary(time)` is passed on in words.

        Returns `sst`, `sst_anomaly` (from the climatology of the training days) and, of an ensemble, whose
        mean these are, `sst_spread`: all `(init_time, lead, lat, lon)` in degC, one `init_time`, NaN on land and
        outside the tiles. Raises SSTCastError if days or values are missing, or the grid is another.
        """
        history = checked(history, self.data.history)
        fields = self._fields(history)
        members = fields.sizes["member"]
        dataset = fields.mean("member", skipna=False)
        if members > 1:
            dataset["sst_spread"] = fields["sst_anomaly"].std("member", ddof=1, skipna=False)
        dataset = describe(dataset.astype("float32"), members, "..".join(map(str, self.data.splits.train)))
        name, data, days = self.run.folder.resolve().name, self.config.data, history.indexes["time"]
        dataset.attrs = {
            "Conventions": CONVENTIONS,
            "title": f"SST forecast by run {name} from {describe_days(history).partition(';')[0]}",
            "source": f"sstcast {__version__}, model {self.config.model.name}, "
            f"{members} member{'s' if members > 1 else ''}, trained on {self.normals.source} of "
            f"{'..'.join(map(str, data.splits.train))}, region {_name(data)}",
            "history": f"{now()} sstcast {__version__} forecast of run {name} from {days[-1]:%Y-%m-%d}",
            "references": "Cai et al. (2023), arXiv:2301.11956; Huang et al. (2021), doi:10.1175/JCLI-D-20-0166.1",
            "comment": "init_time is the last day of history; lead counts days after it; NaN on land",
            "model": json.dumps(self.config.model.model_dump(mode="json")),
            "data": describe_days(history),
            "region": _name(self.data),
            "code_version": __version__,
            "forecast_recipe": self.recipe(history),
        }
        return dataset

    def _fields(self, history: xr.DataArray) -> xr.Dataset:
        """Return `sst` and `sst_anomaly`, `(member, init_time, lead, lat, lon)` in degC."""
        standard = self.normals.standardise(history)
        init = standard["time"][-1:].drop_vars("time").rename(time="init_time")
        init = init.assign_coords(init_time=init.values)
        lead = xr.DataArray(np.arange(1, self.data.horizon + 1, dtype="int32"), dims="lead")
        days = init + lead.assign_coords(lead=lead) * pd.Timedelta(days=1)
        climatology, scale = (on_days(standard[name], days) for name in ("climatology", "scale"))
        needed = standard[["anomaly", "ocean_mask"]].assign(climatology=climatology, scale=scale).compute()

        tiles = self._predict(needed[["anomaly", "ocean_mask"]])
        shape = (needed.sizes["lat"], needed.sizes["lon"])
        dims = ("member", "init_time", "lead", "lat", "lon")
        standardised = xr.DataArray(from_tiles(tiles, tile_index(self.data.box, shape), shape)[:, None], dims=dims)
        anomaly = (needed["scale"] * standardised).where(needed["ocean_mask"]).transpose(*dims)
        fields = xr.Dataset({"sst": anomaly + needed["climatology"], "sst_anomaly": anomaly})
        return fields.assign_coords(valid_time=days).drop_vars("time", errors="ignore")

    def _predict(self, anomalies: xr.Dataset) -> Array:
        """Return the members' standardised anomalies `[member, lead, tile, node]`."""
        days = pd.date_range(anomalies.indexes["time"][0], periods=self.data.history + self.data.horizon + 1)
        windows = windows_of(anomalies.reindex(time=days), self.data)  # the days to come are unknown: 0
        self._method = self._method or ModelMethod(self.run, windows)
        return self._method.members(windows)[:, 0]


def elsewhere(config: RunConfig, region: str) -> DataConfig:
    """Return the run's data for another region; a box `W,E,S,N` is averaged and cut into tiles as the run's is.

    Raises SSTCastError if there is no such region, or the run's model cannot leave its shape of tile.
    """
    data = config.data
    place: Region | str = region
    if "," in region:
        grid = parse_grid(region)
        box = {"lon": grid.lon_edges, "lat": grid.lat_edges, "skip": (), "land_tiles": "keep"}
        place = data.box.model_copy(update=box)
    other = data.model_copy(update={"region": place})
    if other.box.tile != data.box.tile and not _takes_any_graph(config):
        shapes = " x ".join(map(str, data.box.tile)), " x ".join(map(str, other.box.tile))
        raise SSTCastError(
            f"--region {region}: model {config.model.name} knows tiles of {shapes[0]} only, the region's are "
            f"{shapes[1]}; choose a graph model"
        )
    return other


def _takes_any_graph(config: RunConfig) -> bool:
    data, options = config.data, config.model.options
    model = build_forecaster(
        config.model.name, history=data.history, horizon=data.horizon, shape=data.box.tile, **options
    )
    return isinstance(model, Forecaster)


def _name(data: DataConfig) -> str:
    box = data.box
    return data.region if isinstance(data.region, str) else ",".join(f"{edge:g}" for edge in (*box.lon, *box.lat))

"""What forecasts: a trained run, an ensemble and every baseline answer one call, `Predictor.predict`."""

import json
from abc import ABC, abstractmethod
from dataclasses import replace

import numpy as np
import torch
import xarray as xr
from numpy.typing import NDArray

from sstcast import __version__
from sstcast.cf import describe, references
from sstcast.config import DataConfig, Region
from sstcast.geo import from_tiles, tile_index
from sstcast.models import build_forecaster
from sstcast.ocean.anomalies import on_days
from sstcast.ocean.windows import Windows, windows_of
from sstcast.runs import Run
from sstcast.training.checkpoint import load_checkpoint, load_weights
from sstcast.training.devices import choose_device

Array = NDArray[np.float32]
FIELD = ("init_time", "lead", "lat", "lon")
AT_ONCE = 64  # windows a model is given


class Predictor(ABC):
    """A system that forecasts `horizon` days of a region's anomalies from the last `history` days of them."""

    def __init__(self, region: Region, history: int, horizon: int) -> None:
        self.region, self.history, self.horizon = region, history, horizon

    @abstractmethod
    def members(self, past: Windows) -> Array:
        """Return standardised anomalies `[member, starts, horizon, tile, node]` from windows of history alone.

        A system that is no ensemble has one member. Land nodes may hold anything.
        """

    def predict(self, anomalies: xr.Dataset, every: int = 1) -> xr.DataArray:
        """Forecast from every day that ends `history` days.

        Args:
            anomalies: `anomaly(time, lat, lon)` in standardised units, NaN on land, a value a day, and
                `ocean_mask(lat, lon)`.
            every: how many days apart forecasts begin, from the first day on that can be.

        Returns:
            Standardised anomalies `(member, init_time, lead, lat, lon)`, NaN on land and outside the tiles.
            `init_time` is the last day of history, `lead` counts days after it, and the coordinate
            `valid_time(init_time, lead)` is the day forecast.
        """
        past = replace(windows_of(anomalies, self.region, self.history), every=every)
        values = np.where(past.ocean.numpy(), self.members(past), np.float32(np.nan))
        shape = (anomalies.sizes["lat"], anomalies.sizes["lon"])
        on_map = from_tiles(values, tile_index(self.region, shape), shape)
        return xr.DataArray(
            on_map,
            axes(past.init_times, self.horizon, anomalies).coords,
            ("member", *FIELD),
            name="anomaly",
        )


class TrainedRun(Predictor):
    """A run's model, or an ensemble's, at their best checkpoints; for another `region` than the run's if given."""

    def __init__(self, run: Run, region: Region | None = None) -> None:
        data = run.config.data
        super().__init__(region or data.box, data.history, data.horizon)
        self.device = choose_device(run.config.training.device)
        self.models = [self._load(member) for member in run.members]

    def _load(self, run: Run) -> torch.nn.Module:
        config = run.config.model
        model = build_forecaster(
            config.name, history=self.history, horizon=self.horizon, shape=self.region.tile, **config.options
        )
        load_weights(model, load_checkpoint(run.best), run.best)
        return model.eval().to(self.device)

    @torch.no_grad()
    def members(self, past: Windows) -> Array:
        """Return every member's forecast."""
        past = past.to(self.device)
        tiles, nodes = past.values.shape[1:]
        batches = torch.arange(len(past), device=self.device).split(AT_ONCE)
        members = np.empty((len(self.models), past.starts, self.horizon, tiles, nodes), np.float32)
        for member, model in zip(members, self.models, strict=True):
            out = torch.cat([model(b.history, b.graph).cpu() for b in map(past.batch, batches)])
            member[:] = out.reshape(past.starts, tiles, nodes, -1).permute(0, 3, 1, 2).numpy()
        return members


def axes(init_times: NDArray[np.datetime64], horizon: int, grid: xr.Dataset) -> xr.Dataset:
    """Return the coordinates of forecasts on the cells `lat`, `lon` of `grid`: those of `FIELD`, and
    `valid_time`.
    """
    lead = np.arange(1, horizon + 1, dtype=np.int32)
    days = init_times[:, None] + lead * np.timedelta64(1, "D")
    return xr.Dataset(
        coords={
            "init_time": init_times,
            "lead": lead,
            "lat": grid["lat"],
            "lon": grid["lon"],
            "valid_time": (FIELD[:2], days),
        }
    )


def in_degrees(forecast: xr.DataArray, statistics: xr.Dataset) -> xr.Dataset:
    """Bring what a `Predictor` returns to degC.

    Args:
        forecast: standardised anomalies `(member, init_time, lead, lat, lon)`.
        statistics: `climatology` and `scale(dayofyear, lat, lon)` in degC, of the base period.

    Returns:
        `sst` and `sst_anomaly(init_time, lead, lat, lon)` in degC, means over the members; of more than one
        member also `sst_spread`, their standard deviation with M - 1 as divisor.
    """
    climatology, scale = (on_days(statistics[name], forecast["valid_time"]) for name in ("climatology", "scale"))
    members = (forecast * scale).transpose("member", *FIELD)
    anomaly = members.mean("member", skipna=False)
    fields = {"sst": anomaly + climatology, "sst_anomaly": anomaly}
    if members.sizes["member"] > 1:
        fields["sst_spread"] = members.std("member", ddof=1, skipna=False)
    return xr.Dataset(fields).transpose(*FIELD).astype("float32")


def described(fields: xr.Dataset, run: Run, source: str, **attributes: str) -> xr.Dataset:
    """Return a run's forecasts in degC as they are written, in a hindcast and in a forecast alike.

    Args:
        fields: some of those that `in_degrees` returns.
        source: title of the data that the run was trained on.
        attributes: of the dataset, besides those that follow from the run.
    """
    config, count = run.config, len(run.members)
    train, base = ("..".join(map(str, span)) for span in (config.data.splits.train, config.data.splits.base))
    of = f", mean of {count} members" if count > 1 else ""
    names = {
        "sst": f"forecast sea surface temperature{of}",
        "sst_anomaly": f"forecast departure from the climatology of {base}{of}",
        "sst_spread": f"standard deviation of {count} members, with {count - 1} as divisor",
    }
    members = f"{count} member{'s' if count > 1 else ''}"
    return describe(
        fields,
        {name: text for name, text in names.items() if name in fields},
        summary=f"Daily sea surface temperature, forecast up to {fields.sizes['lead']} days ahead; "
        "init_time is the last day of history, lead counts days after it; NaN on land",
        source=f"sstcast {__version__}, model {config.model.name}, {members}, trained on {source} of {train}, "
        f"region {region_name(config.data)}",
        model=json.dumps(config.model.model_dump(mode="json")),
        code_version=__version__,
        **references(source, config.data.protocol),
        **attributes,
    )


def region_name(data: DataConfig) -> str:
    """Return the name of a region, or its box `W,E,S,N`."""
    box = data.box
    return data.region if isinstance(data.region, str) else ",".join(f"{edge:g}" for edge in (*box.lon, *box.lat))

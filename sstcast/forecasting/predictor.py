"""What forecasts: a trained run, an ensemble and every baseline answer one call, `Predictor.predict`."""

import json
from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np
import pandas as pd
import torch
import xarray as xr
from numpy.typing import NDArray

from sstcast import __version__
from sstcast.cf import describe, references
from sstcast.config import DataConfig, Region, RunConfig
from sstcast.errors import SSTCastError, reading
from sstcast.forecasting.adaptation import adapted, fitted_base
from sstcast.geo import from_tiles, tile_index
from sstcast.models import LINEAR, build_forecaster
from sstcast.models.base import ForecastModel
from sstcast.models.linear import LinearSystem
from sstcast.ocean.anomalies import on_days
from sstcast.ocean.whole import whole
from sstcast.ocean.windows import Windows, windows_of
from sstcast.runs import Run
from sstcast.training.checkpoint import load_checkpoint, load_weights
from sstcast.training.devices import choose_device

Array = NDArray[np.float32]
FIELD = ("init_time", "lead", "lat", "lon")
AT_ONCE, VALUES_AT_ONCE = 64, 2**23  # windows a model is given, and values of their history


class Predictor(ABC):
    """A system that forecasts `horizon` days of a region's anomalies from the last `history` days of them."""

    def __init__(self, region: Region, history: int, horizon: int) -> None:
        self.region, self.history, self.horizon = region, history, horizon

    @abstractmethod
    def predict(self, anomalies: xr.Dataset, every: int = 1) -> xr.DataArray:
        """Forecast from every day that ends `history` days.

        Args:
            anomalies: `anomaly(time, lat, lon)` in standardised units, NaN on land, a value a day, and
                `ocean_mask(lat, lon)`. A system with a memory reads the days before them, which are in
                `earlier(earlier_time, lat, lon)` (`ocean.windows.with_earlier`).
            every: how many days apart forecasts begin, from the first day on that can be.

        Returns:
            Standardised anomalies `(member, init_time, lead, lat, lon)`, NaN on land and outside the tiles.
            `init_time` is the last day of history, `lead` counts days after it, and the coordinate
            `valid_time(init_time, lead)` is the day forecast.

        Raises:
            SSTCastError: there are fewer earlier days than the system needs.
        """


class Models(Predictor):
    """Models of one kind, each a member; linear systems see the whole region as one tile."""

    def __init__(
        self, region: Region, history: int, horizon: int, models: Sequence[ForecastModel], device: torch.device
    ) -> None:
        super().__init__(region, history, horizon)
        self.models, self.device = [model.eval().to(device) for model in models], device

    def predict(self, anomalies: xr.Dataset, every: int = 1) -> xr.DataArray:
        """Forecast from days that end `history` days (see `Predictor.predict`)."""
        linear = isinstance(self.models[0], LinearSystem)
        region = whole(self.region, anomalies) if linear else self.region
        before = max(model.before for model in self.models if isinstance(model, LinearSystem)) if linear else 0
        days = _after_earlier(anomalies, before) if before else anomalies
        past = windows_of(days, region, self.history, before=before).thinned(every)
        values = np.where(past.ocean.numpy(), self.members(past), np.float32(np.nan))
        shape = (anomalies.sizes["lat"], anomalies.sizes["lon"])
        coordinates = axes(past.init_times, self.horizon, anomalies).coords
        on_map = from_tiles(values, tile_index(region, shape), shape)
        return xr.DataArray(on_map, coordinates, ("member", *FIELD), name="anomaly")

    @torch.no_grad()
    def members(self, past: Windows) -> Array:
        """Return standardised anomalies `[member, starts, horizon, tile, node]`, anything on land."""
        past = past.to(self.device)
        tiles, nodes = past.values.shape[1:]
        at_once = max(1, min(AT_ONCE, VALUES_AT_ONCE // (nodes * self.history)))
        members = np.zeros((len(self.models), past.starts, self.horizon, tiles, nodes), np.float32)
        for member, model in zip(members, self.models, strict=True):
            base = model if isinstance(model, LinearSystem) else model.linear
            if base is not model:
                network = model if base is None else model.change
                batches = map(past.batch, torch.arange(len(past), device=self.device).split(at_once))
                out = torch.cat([network(batch.history, batch.graph).cpu() for batch in batches])
                member += out.unflatten(0, (past.starts, tiles)).movedim(-1, 1).numpy()
            if isinstance(base, LinearSystem):
                member += torch.cat([base.ahead(part).cpu() for part in past.parts(at_once)]).numpy()
        return members


class TrainedRun(Models):
    """A run's model, or an ensemble's, at their best checkpoints.

    A network on a linear base is adapted (`forecasting.adaptation`) to other `data` than those of the run, which
    must be prepared.
    """

    def __init__(self, run: Run, data: DataConfig | None = None) -> None:
        oceans, config = run.config.oceans, run.config.model
        data = data or oceans[0]
        region, base = data.box, None
        models: list[ForecastModel] = []
        for member in run.members:
            state, shape = load_checkpoint(member.best), region.tile
            if config.name in LINEAR:
                with reading(member.best, "train again"):
                    shape = (int(state["tile"][0]), int(state["tile"][1]))
            model = build_forecaster(
                config.name, history=data.history, horizon=data.horizon, shape=shape, **config.options
            )
            load_weights(model, state, member.best)
            if isinstance(model.linear, LinearSystem) and data not in oceans:
                base = base or fitted_base(model.linear, data)
                model = adapted(model, base, data)
            models.append(model)
        super().__init__(region, data.history, data.horizon, models, choose_device(run.config.training.device))


def _after_earlier(anomalies: xr.Dataset, before: int) -> xr.Dataset:
    """Return the days of `anomalies` after the last `before` of the earlier ones, which must lead up to them."""
    first, held = anomalies.indexes["time"][0], 0
    if "earlier" in anomalies:
        earlier = anomalies["earlier"].isel(earlier_time=slice(-before, None)).rename(earlier_time="time")
        wanted = pd.date_range(end=first - pd.Timedelta(days=1), periods=before)
        held = len(earlier.indexes["time"].intersection(wanted))
    if held < before:
        raise SSTCastError(
            f"history: a system with a memory needs {before} days before {first:%Y-%m-%d}, there are {held}; "
            "give a longer record, or a system without model.memory"
        )
    joined = xr.concat([earlier, anomalies["anomaly"]], "time").transpose("time", "lat", "lon")
    return xr.Dataset({"anomaly": joined, "ocean_mask": anomalies["ocean_mask"]})


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
        `sst` and `sst_anomaly(init_time, lead, lat, lon)` in degC, means over the members.
    """
    climatology, scale = (on_days(statistics[name], forecast["valid_time"]) for name in ("climatology", "scale"))
    anomaly = (forecast * scale).mean("member", skipna=False)
    fields = {"sst": anomaly + climatology, "sst_anomaly": anomaly}
    return xr.Dataset(fields).transpose(*FIELD).astype("float32")


def described(
    fields: xr.Dataset, run: Run, source: str, data: DataConfig | None = None, /, **attributes: str
) -> xr.Dataset:
    """Return a run's forecasts in degC as they are written, in a hindcast and in a forecast alike.

    Args:
        fields: what `in_degrees` returns, or some of it, and what else is written.
        source: title of the data.
        data: those forecast, if they are not the run's.
        attributes: of the dataset, besides those that follow from the run.
    """
    config, count = run.config, len(run.members)
    forecast = data or config.data
    base = "..".join(map(str, forecast.splits.base))
    home = trained_elsewhere(config) or _origins(config, config.data, source if data is None else None)
    if (data or config.trained_on) and config.model.options.get("base") == "linear":
        home += f"; its linear base fitted to {origin(forecast, source)}"
    of = f", mean of {count} members" if count > 1 else ""
    names = {
        "sst": f"forecast sea surface temperature{of}",
        "sst_anomaly": f"forecast departure from the climatology of {base}{of}",
    }
    members = f"{count} member{'s' if count > 1 else ''}"
    return describe(
        fields,
        {name: text for name, text in names.items() if name in fields},
        summary=f"Daily sea surface temperature, forecast up to {fields.sizes['lead']} days ahead; "
        "init_time is the last day of history, lead counts days after it; NaN on land",
        source=f"sstcast {__version__}, model {config.model.name}, {members}, trained on {home}",
        model=json.dumps(config.model.model_dump(mode="json")),
        code_version=__version__,
        **references(source, config.data.protocol),
        **attributes,
    )


def trained_elsewhere(config: RunConfig) -> str | None:
    """Say on what a model was trained that forecasts another ocean; None of a run where it was trained."""
    return None if config.trained_on is None else _origins(config, config.trained_on)


def _origins(config: RunConfig, first: DataConfig, source: str | None = None) -> str:
    to_validation = config.training.include_validation or config.model.name in LINEAR
    others = [origin(ocean, None, to_validation) for ocean in config.also]
    return "; ".join([origin(first, source, to_validation), *others])


def origin(data: DataConfig, source: str | None = None, to_validation: bool = False) -> str:
    """Name the days learnt of a source, by its title where that is known: for training, or for validation too."""
    last = (data.splits.validation if to_validation else data.splits.train)[1]
    return f"{source or data.source} of {data.splits.train[0]}..{last}, region {data.place}"

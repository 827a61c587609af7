"""Forecasting systems: runs, ensembles, combinations and baselines share `ForecastSystem.predict`."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from typing import Any

import numpy as np
import pandas as pd
import torch
import xarray as xr
from numpy.typing import NDArray
from torch import Tensor

from sstcast.config import COMBINATION, Region, RunConfig
from sstcast.errors import SSTCastError, reading
from sstcast.forecasting.fields import FIELD, axes
from sstcast.forecasting.fitted import LinearFit, fitted, held_out_fit, linear_part, shares_of
from sstcast.models import LINEAR, build_forecaster, days_before
from sstcast.models.base import ForecastModel, LinearSystem, Samples
from sstcast.models.predictor_stages import WithPredictors
from sstcast.names import BASELINES
from sstcast.ocean.lead_weeks import WEEK, lead_weeks
from sstcast.ocean.prepared import Prepared
from sstcast.ocean.tiles import from_tiles, tile_index
from sstcast.ocean.windows import EARLIER, Windows, cut_windows, whole, whole_windows, windows_of
from sstcast.predictors.predictors import predictors_in
from sstcast.progress import tracked, waiting
from sstcast.runs import Run
from sstcast.training.checkpoint import load_best, load_weights
from sstcast.training.cross_fitting import blocks_of_years, supported_share
from sstcast.training.data_record import is_own, is_own_ocean
from sstcast.training.devices import choose_device
from sstcast.training.forecast_task import fit, in_parts, tell_memory
from sstcast.types import Array

Weights = NDArray[np.float64]
BLOCKS = 3  # of years, from which the share of a network's change on another ocean is estimated
CHANGE_SHARES = "shares"  # of the changes of an ensemble's members, `[member, horizon]`
WINDOWS_AT_ONCE, VALUES_AT_ONCE = 64, 2**23  # largest numbers of windows and of history values in a batch


class ForecastSystem(ABC):
    """Interface of systems that forecast a region's anomalies `horizon` days ahead from `history` days."""

    def __init__(self, region: Region, history: int, horizon: int) -> None:
        self.region, self.history, self.horizon = region, history, horizon

    @property
    def before(self) -> int:
        """The number of days that a forecast reads before its history."""
        return 0

    @abstractmethod
    def predict(self, anomalies: xr.Dataset, every: int = 1) -> xr.DataArray:
        """Forecast from each day on which `history` days are complete.

        Args:
            anomalies: daily `anomaly(time, lat, lon)` in standardised units, NaN on land, and
                `ocean_mask(lat, lon)`. A system with a memory also reads the preceding days from
                `earlier(earlier_time, lat, lon)` (see `ocean.windows.with_earlier`).
            every: the number of days between initial dates, beginning with the first possible one.

        Returns:
            Standardised anomalies `(member, init_time, lead, lat, lon)`, NaN on land and outside the tiles.
            `init_time` is the last day of history, and `lead` counts days after it. The coordinate
            `valid_time(init_time, lead)` is the day forecast.

        Raises:
            SSTCastError: the system needs more earlier days.
        """


class Models(ForecastSystem):
    """An ensemble of models of one kind. Linear systems treat the whole region as one tile.

    With `wraps`, a tile that spans 360 degrees has no west and east edge.
    """

    change = True  # whether networks add their change to their linear base

    def __init__(
        self,
        region: Region,
        history: int,
        horizon: int,
        models: Sequence[ForecastModel],
        device: torch.device,
        wraps: bool = True,
        predictors: Sequence[str] = (),
    ) -> None:
        super().__init__(region, history, horizon)
        self.wraps, self.predictors = wraps, predictors
        self.models, self.device = [model.eval().to(device) for model in models], device

    @property
    def before(self) -> int:
        """The number of days that a forecast reads before its history."""
        return max(model.before for model in self.models)

    @property
    def reads(self) -> Sequence[str]:
        """The names of the predictors that a linear system reads. A network's base reads none."""
        model = self.models[0]
        return [name for name in self.predictors if isinstance(model, WithPredictors) and name in model.stages]

    def without_change(self) -> "Models":
        """Return the members without what networks add to their linear base, or themselves if they are linear."""
        if isinstance(self.models[0], LinearSystem):
            return self
        bases = copy(self)
        bases.change = False
        return bases

    def linear_base(self) -> "Models | None":
        """Return the linear base of the networks, which forecasts without their change, or None without one."""
        first = self.models[0]  # all members have the same base
        if isinstance(first, LinearSystem) or first.linear is None:
            return None
        base = self.without_change()
        base.models = [first]
        return base

    def without(self, name: str, fits: "Fits") -> "Models | None":
        """Return a linear system without a predictor that it reads (see `WithPredictors.without`), or None."""
        model = self.models[0]
        if not isinstance(model, WithPredictors) or name not in model.stages:
            return None
        reduced = fits.without(model, name)
        return Models(self.region, self.history, self.horizon, [reduced], self.device, predictors=self.predictors)

    def predict(self, anomalies: xr.Dataset, every: int = 1) -> xr.DataArray:
        """Forecast from each day on which `history` days are complete (see `ForecastSystem.predict`)."""
        linear = isinstance(self.models[0], LinearSystem)
        region = whole(self.region, anomalies) if linear else self.region
        days = _after_earlier(anomalies, self.before) if self.before else anomalies
        windows = windows_of(
            days, region, self.history, before=self.before, wrap=self.wraps, predictors=self.predictors
        ).thinned(every)
        values = np.where(windows.ocean.numpy(), self.members(windows), np.float32(np.nan))
        shape = (anomalies.sizes["lat"], anomalies.sizes["lon"])
        coordinates = axes(windows.init_times, self.horizon, anomalies).coords
        maps = from_tiles(values, tile_index(region, shape), shape)
        return xr.DataArray(maps, coordinates, ("member", *FIELD), name="anomaly")

    @torch.no_grad()
    def members(self, windows: Windows) -> Array:
        """Return the standardised anomalies `[member, starts, horizon, tile, node]` of each model.

        Values on land are undefined.
        """
        windows = windows.to(self.device)
        tiles, nodes = windows.values.shape[1:]
        at_once = max(1, min(WINDOWS_AT_ONCE, VALUES_AT_ONCE // (nodes * self.history)))
        members = np.zeros((len(self.models), windows.starts, self.horizon, tiles, nodes), np.float32)
        for member, model in zip(members, self.models, strict=True):
            base = model if isinstance(model, LinearSystem) else model.linear
            if base is not model and self.change:
                network = model if base is None else model.scaled_change
                batches = map(windows.batch, torch.arange(len(windows), device=self.device).split(at_once))
                changes = torch.cat([network(batch.history, batch.graph).cpu() for batch in batches])
                member += changes.unflatten(0, (windows.starts, tiles)).movedim(-1, 1).numpy()
            if isinstance(base, LinearSystem):
                member += torch.cat([base.forecast_windows(part).cpu() for part in windows.parts(at_once)]).numpy()
        return members


class Fits:
    """Linear systems, bases of networks and baselines that are fitted to the days of the prepared stores.

    They are fitted to training and validation days together, except ridge and damped persistence, or to the
    training days alone, with the validation days `held_out`. Penalties may be chosen on the validation days. Fits
    to the same windows share normal-equation sums and choices of penalties, which stay in memory with the stores.
    """

    def __init__(self, prepared: Prepared) -> None:
        self.prepared, self.data, self.anomalies = prepared, prepared.data, prepared.open_anomalies()
        self._windows: dict[tuple[int, bool], tuple[Samples, Samples]] = {}

    @classmethod
    def of(cls, prepared: Prepared) -> "Fits":
        """Return the one value for all who fit to the days of these stores."""
        if "fits" not in prepared.shared:
            prepared.shared["fits"] = cls(prepared)
        fits: Fits = prepared.shared["fits"]
        return fits

    @torch.no_grad()
    def weights(self, model: LinearSystem, system: LinearFit, region: Region, held_out: bool) -> dict[str, Tensor]:
        """Fit a system to windows that are cut into the tiles of the `region`, and return its weights.

        They are kept (see `fitted`), unless validation days are held out.
        """
        tiled = (region.tile, region.skip) != (whole(region, self.anomalies).tile, ())

        def fit_model() -> dict[str, Any]:
            model.fit(*self._days(system.before, tiled), not held_out)
            if not held_out:
                tell_memory(f"{self.prepared.cube.parent}: {system.name}", system.before, model.before)
            return {name: weight.numpy() for name, weight in model.state_dict().items()}

        arrays = fit_model() if held_out else fitted(self.prepared, system, region.tile, fit_model)
        return {name: torch.from_numpy(np.asarray(array)) for name, array in arrays.items()}

    @torch.no_grad()
    def model(
        self, name: str, held_out: bool = False, predictors: Mapping[str, str] | None = None, **options: Any
    ) -> LinearSystem:
        """Fit the linear system called `name` (a `model.name`), with the given options of its class.

        It reads the given `predictors` of the data, their kinds by name, by default none.
        """
        history, horizon = self.data.history, self.data.horizon
        shape = self.anomalies.sizes["lat"], self.anomalies.sizes["lon"]
        model = build_forecaster(
            name, history=history, horizon=horizon, shape=shape, predictors=predictors, **options
        )
        assert isinstance(model, LinearSystem)
        with waiting(f"fitting {name}"):
            model.fit(*self._days(days_before(name, options, history)), not held_out)
        return model

    @torch.no_grad()
    def without(self, model: WithPredictors, name: str) -> WithPredictors:
        """Return a system fitted to these days without one of its predictors."""
        return model.without(name, *self._days(model.before))

    def system(
        self, name: str, held_out: bool = False, predictors: Mapping[str, str] | None = None, **options: Any
    ) -> Models:
        """Fit a linear system, and return it as a system that forecasts (see `model`)."""
        model, data = self.model(name, held_out, predictors, **options), self.data
        return Models(
            data.box, data.history, data.horizon, [model], torch.device("cpu"), predictors=[*(predictors or ())]
        )

    def _days(self, before: int, tiled: bool = False) -> tuple[Samples, Samples]:
        """Return the training and validation windows, with `before` more days before each history.

        If `tiled`, they are cut into the tiles of the region.
        """
        if (before, tiled) not in self._windows:
            cut = cut_windows if tiled else whole_windows
            train, validation = (
                in_parts(cut(self.anomalies, self.data, split, before)) for split in ("train", "validation")
            )
            self._windows[before, tiled] = train, validation
        return self._windows[before, tiled]

    def baselines(self, held_out: bool = False) -> dict[str, ForecastSystem]:
        """Fit all baselines, and return them by name (see `system`)."""
        baselines = tracked(BASELINES.items(), "fitting the baselines")
        return {name: self.system(model, held_out) for name, model in baselines}


def _trained(run: Run, prepared: Prepared, held_out: bool) -> Models:
    """Return the models of a run or an ensemble, with the weights of their best checkpoints (see `system_of`)."""
    config, data, is_other = run.config.model, prepared.data, not is_own(run, prepared)
    models: list[ForecastModel] = []
    wraps = True
    for member in run.members:
        trained_with = _trained_with(run, member)
        state, shape, kinds = load_best(member, trained_with), data.box.tile, trained_with.data.kinds
        is_fitted = config.name in LINEAR and is_other
        if is_fitted:
            shape = whole(data.box, prepared.open_cube()).tile
        elif config.name in LINEAR:
            with reading(member.best, "train again"):
                shape = (int(state["tile"][0]), int(state["tile"][1]))
        model = build_forecaster(
            config.name,
            history=data.history,
            horizon=data.horizon,
            shape=shape,
            shared=run.config.training.cross_fit > 0,
            predictors=kinds,  # in the order of the run: `data` may name them in another
            **config.options,
        )
        if not is_fitted:
            load_weights(model, state, member.best)
            wraps = wraps and bool(state.get("wraps"))
        models.append(model)
    if is_other:
        _adapt(models, run, prepared, held_out)
    device = choose_device(run.config.training.device)
    return Models(data.box, data.history, data.horizon, models, device, wraps, [*data.predictors])


def _trained_with(run: Run, member: Run) -> RunConfig:
    """Return the configuration that a member of a run was trained with: the run's own, with the member's seed."""
    config, seed = run.config, member.folder.name.removeprefix("seed-")
    if member == run or not seed.isdecimal():
        return config
    return config.model_copy(update={"training": config.training.model_copy(update={"seed": int(seed)})})


def _adapt(models: Sequence[ForecastModel], run: Run, prepared: Prepared, held_out: bool) -> None:
    """Fit linear systems, or the linear bases of networks, to other data. All members have the same.

    On another ocean, also estimate the share of each network's change, from `BLOCKS` blocks of years, or from
    fewer if there are fewer years.
    """
    data = prepared.data
    if (system := linear_part(run, data)) is None:
        return
    region = whole(data.box, prepared.open_anomalies()) if run.config.model.name in LINEAR else data.box

    def estimate() -> dict[str, Any]:
        train = cut_windows(prepared.open_anomalies(), data, "train", system.before)
        return {CHANGE_SHARES: torch.stack([_share(network, train) for network in models]).numpy()}

    if run.config.model.name not in LINEAR and not is_own_ocean(run, prepared):
        shares = estimate() if held_out else shares_of(run, prepared, system.before, estimate)
        for network, share in zip(models, torch.from_numpy(shares[CHANGE_SHARES]), strict=True):
            network.share = share
    parts = [model if isinstance(model, LinearSystem) else model.linear for model in models]
    systems = [part for part in parts if part is not None]
    weights = Fits.of(prepared).weights(systems[0], system, region, held_out)
    for part in systems:
        part.load_state_dict(weights)


def _share(network: ForecastModel, train: Windows) -> Tensor:
    """Estimate the share of a network's change, which fits its base again. A single year supports no change."""
    system, years = network.linear, len(np.unique(train.init_times.astype("datetime64[Y]")))
    assert system is not None
    if years == 1:
        return torch.zeros(system.horizon)

    def leave_one_block_out() -> Iterator[tuple[ForecastModel, Windows]]:
        for other_years, block in blocks_of_years(train, min(BLOCKS, years)):
            fit(system, other_years, None)
            yield network, block

    return supported_share(leave_one_block_out(), system.horizon)


def _after_earlier(anomalies: xr.Dataset, before: int) -> xr.Dataset:
    """Prepend the last `before` earlier days to `anomalies`. Raises SSTCastError if any of them is missing."""
    anomalies = anomalies.drop_vars("preliminary", errors="ignore")  # of fetched days, which earlier days lack
    first, earlier_count = anomalies.indexes["time"][0], 0
    if "earlier" in anomalies:
        earlier = anomalies["earlier"].isel(earlier_time=slice(-before, None)).rename(earlier_time="time")
        expected_days = pd.date_range(end=first - pd.Timedelta(days=1), periods=before)
        earlier_count = len(earlier.indexes["time"].intersection(expected_days))
    if earlier_count < before:
        raise SSTCastError(
            f"history: a system with a memory needs {before} days before {first:%Y-%m-%d}, but there are "
            f"{earlier_count}; give a longer record, or use a system without model.memory"
        )
    joined = xr.concat([earlier, anomalies["anomaly"]], "time").transpose("time", "lat", "lon")
    known = {}
    for name, field in predictors_in(anomalies).items():
        earlier_field = anomalies[EARLIER + name].rename(earlier_time="time")
        known[name] = xr.concat([earlier_field, field], "time").sel(time=joined["time"]).transpose("time", ...)
    return xr.Dataset({"anomaly": joined, "ocean_mask": anomalies["ocean_mask"], **known})


class Combination(ForecastSystem):
    """The weighted mean of the forecasts of other predictors. The weights depend on the lead week."""

    def __init__(self, parts: "Sequence[Models | Combination]", weights: Weights) -> None:
        """Take `weights [week, part]` and the parts, which share their region, history and horizon."""
        first = parts[0]
        super().__init__(first.region, first.history, first.horizon)
        leads = 1 + np.arange(first.horizon)
        self.parts, self.weights = parts, weights[lead_weeks(leads)].astype(np.float32)  # [lead, part]

    @property
    def before(self) -> int:
        """The number of days that a forecast reads before its history."""
        return max(part.before for part in self.parts)

    @property
    def reads(self) -> Sequence[str]:
        """The names of the predictors that linear systems among the parts read."""
        return [*dict.fromkeys(name for part in self.parts for name in part.reads)]

    def without_change(self) -> "Combination":
        """Return the combination of its parts without change, or itself if all are linear."""
        parts = [part.without_change() for part in self.parts]
        if parts == [*self.parts]:
            return self
        without = copy(self)
        without.parts = parts
        return without

    def predict(self, anomalies: xr.Dataset, every: int = 1) -> xr.DataArray:
        """Forecast the weighted mean as a single member (see `ForecastSystem.predict`).

        An ensemble contributes its mean. Parts with zero weight are not evaluated.
        """
        weighted = [
            part.predict(anomalies, every).mean("member", skipna=False) * xr.DataArray(weights, dims="lead")
            for part, weights in zip(self.parts, self.weights.T, strict=True)
            if weights.any()
        ]
        return sum(weighted[1:], start=weighted[0]).expand_dims("member").astype(np.float32)


def system_of(run: Run, prepared: Prepared | None = None, held_out: bool = False) -> Models | Combination:
    """Load the system of a run or a combination for its own data, or for the `prepared` stores of others.

    On other data, linear systems and the linear bases of networks are fitted again (see `Fits`), which takes
    seconds. On another ocean, the share of a network's change is also estimated again, from blocks of training
    years (see `training.cross_fitting`).

    With the validation days `held_out`, it is a system like the run that was not fitted to them. A network is
    unchanged, because they only selected its weights. A linear system, or a base that is fitted to other data, is
    fitted to the training days alone. So is the linear system that stands in for a network trained with
    `include_validation` (see `held_out_fit`). A combination keeps its weights.

    Raises SSTCastError if a checkpoint is damaged, or a part of a combination has changed.
    """
    prepared, run = prepared or Prepared.of(run.config.data), run.trained
    if run.config.model.name == COMBINATION:
        weights = load_combination(run)
        return Combination([system_of(part, prepared, held_out) for part in run.open_parts()], weights)
    if held_out and (system := held_out_fit(run, prepared.data)) is not None:
        return Fits.of(prepared).system(system.name, held_out, system.predictors, **system.options)
    return _trained(run, prepared, held_out)


def load_combination(run: Run) -> Weights:
    """Read the weights `[week, part]` of a combination.

    Raises SSTCastError if they are damaged, or do not match the parts and leads in its configuration.
    """
    weeks, parts = -(-run.config.data.horizon // WEEK), len(run.open_parts())
    with reading(run.best, "run the same `sstcast combine` again"):
        weights: torch.Tensor = load_best(run, run.config)["model"]["weights"]
        week_weights: Weights = weights.double().numpy()
        if week_weights.shape != (weeks, parts) or not np.isfinite(week_weights).all():
            raise ValueError(f"it has no weights for {parts} runs in {weeks} lead weeks")
    return week_weights

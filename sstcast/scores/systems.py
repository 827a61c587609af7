"""The systems that are scored: their forecasts of a block of initial dates, and the store of a run's forecasts."""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import dask.array as da
import numpy as np
import xarray as xr

from sstcast.extremes.heatwaves import FREEZING
from sstcast.forecasting.fields import FIELD, axes, described, in_degrees, not_below_freezing, trained_elsewhere
from sstcast.forecasting.plausible import implausible
from sstcast.forecasting.spread import Spread, SpreadCalibrator, calibrated
from sstcast.forecasting.system import Fits, ForecastSystem, Models, system_of
from sstcast.names import IMPLAUSIBLE, LINEAR_BASE, MODEL
from sstcast.ocean.lead_weeks import week_starts
from sstcast.progress import tracked
from sstcast.runs import Run
from sstcast.scores.analysis import Analysis
from sstcast.scores.comparisons import json_numbers
from sstcast.scores.system_records import BASE, BASELINE, RUN, UNKNOWN, WITHOUT, key_without, record
from sstcast.storage.artefacts import RECIPE, noted
from sstcast.storage.cf import encoded
from sstcast.storage.dataset_files import zarr_options
from sstcast.storage.stores import consolidate

Write = Callable[[slice, xr.Dataset], None]


class ScoredSystem(NamedTuple):
    """A forecasting system. Without a spread model it is not scored as a distribution.

    Temperatures below the freezing point of a cell are raised to it, unless they are scored `as_issued`. Unless a
    system `has_probabilities`, it is scored neither as a forecast of heatwaves nor of thirds. `role`, `of` and
    `label` are those of `system_records`, but forecasts of a file have no role.
    """

    system: ForecastSystem
    spread: Spread | None = None
    members: int = 1
    as_issued: bool = False
    has_probabilities: bool = True
    role: str | None = None
    of: str | None = None
    label: str | None = None

    @property
    def record(self) -> dict[str, Any]:
        """The record of a system beside the run or the file."""
        assert self.role is not None
        return record(self.role, self.of, self.label, **UNKNOWN)


def baselines(days: SpreadCalibrator) -> dict[str, ScoredSystem]:
    """Return the baselines by name with their spread models.

    They are fitted to all days before the test days, ridge and damped persistence to the training days alone.
    """
    fits = Fits.of(days.prepared)
    fitted, held_out = fits.baselines(), fits.baselines(held_out=True)
    others = [name for name in fitted if name != "climatology"]
    spreads = {name: days.spread(held_out[name]) for name in tracked(others, "spread of the baselines")}
    spreads["climatology"] = days.climatological
    return {name: ScoredSystem(fitted[name], spreads[name], role=BASELINE) for name in fitted}


def systems_of(run: Run, days: SpreadCalibrator) -> dict[str, ScoredSystem]:
    """Return a run as `MODEL`, and the systems besides the baselines that it is compared with.

    These are its linear base, and itself without each of its predictors. They have the spread of the run, so that
    probabilities differ only by what the network or the predictor added.
    """
    system, references = system_of(run, days.prepared), {}
    model = ScoredSystem(system, calibrated(run, days.prepared, days), len(run.members), role=RUN)
    if isinstance(system, Models):
        if (base := system.linear_base()) is not None:
            references[LINEAR_BASE] = ScoredSystem(base, model.spread, role=BASE, of=MODEL)
        for name in run.config.data.predictors:
            if (without := system.without(name, Fits.of(days.prepared))) is not None:
                scored = ScoredSystem(without, model.spread, role=WITHOUT, of=MODEL, label=name)
                references[key_without(name)] = scored
    return {MODEL: model} | references


def describe_run(run: Run, system: ForecastSystem) -> dict[str, Any]:
    """Return the entry of a run in the `systems` of `metrics.json`."""
    share = system.models[0].share if isinstance(system, Models) else None
    weeks = week_starts(1 + np.arange(system.horizon))
    return record(
        RUN,
        model=run.config.model.name,
        members=len(run.members),
        trained_on=trained_elsewhere(run.config),
        share=None if share is None else json_numbers(share[weeks].cpu().numpy()),
    )


def forecast_block(
    systems: Mapping[str, ScoredSystem], truth: Analysis, dates: slice
) -> Iterator[tuple[str, xr.Dataset]]:
    """Yield the name of each system and its forecast from the initial dates at the positions `dates`.

    The forecast holds standardised anomalies, `anomaly(member, init_time, lead, lat, lon)`, and with a spread
    model their standard deviation, `sst_spread(init_time, lead, lat, lon)` in degC. That of a run also tells
    on which dates it is `implausible(init_time)`.
    """
    past, every = truth.histories(dates)
    for name, scored in systems.items():
        anomaly = truth.of_dates(scored.system.predict(past, every), dates)
        wrong = None
        if scored.role == RUN:
            fields, scale = in_degrees(anomaly, truth.statistics), truth.statistics["scale"]
            wrong = implausible(fields, scale, truth.anomalies).any((1, 2, 3))
        if anomaly.sizes["lead"] > len(truth.leads):
            anomaly = anomaly.sel(lead=truth.leads)
        if not scored.as_issued:
            anomaly = not_below_freezing(anomaly, truth.statistics, truth.limits[FREEZING])
        forecast = anomaly.to_dataset(name="anomaly")
        if wrong is not None:
            forecast[IMPLAUSIBLE] = "init_time", wrong
        if scored.spread is not None:
            forecast["sst_spread"] = scored.spread.spread(anomaly["valid_time"])
        yield name, forecast


@contextmanager
def forecast_file(path: Path, run: Run, data: Analysis, /, **attributes: str) -> Iterator[Write]:
    """Yield a function `write(dates, forecast)` that adds a forecast of `forecast_block` to a Zarr store.

    The store holds `sst` and `sst_spread(init_time, lead, lat, lon)` in degC. It has the given
    `attributes`, with a `recipe`, besides those that describe the run. It appears at `path` once everything
    is written.
    """
    coordinates = axes(data.windows.init_times, data.windows.horizon, data.anomalies)
    length = max(block.stop - block.start for block in data.blocks(len(run.members)))
    chunks = (length, -1, -1, -1)
    empty = da.empty([coordinates.sizes[d] for d in FIELD], dtype=np.float32, chunks=chunks)
    names = ["sst", "sst_spread"]
    dataset = described(
        coordinates.assign(dict.fromkeys(names, (FIELD, empty))),
        run,
        data.cube.attrs["source"],
        **attributes,
    )
    with noted(path, json.loads(attributes[RECIPE])) as temporary:
        encoded(dataset).to_zarr(temporary, compute=False, **zarr_options(dataset))

        def write(dates: slice, forecast: xr.Dataset) -> None:
            fields = in_degrees(forecast["anomaly"], data.statistics).assign(sst_spread=forecast["sst_spread"])
            part = fields[names].drop_vars(list(fields.coords))
            region = {"init_time": dates, **dict.fromkeys(FIELD[1:], slice(None))}
            part.to_zarr(temporary, region=region, write_empty_chunks=True)

        yield write
        consolidate(temporary)

"""The verb `evaluate`: score a run on its test days beside the baselines."""

import hashlib
import json
from typing import Any

import numpy as np
import xarray as xr

from sstcast.evaluation.baselines import fit_baselines
from sstcast.evaluation.forecasts import ModelMethod, Verification, save_forecasts
from sstcast.evaluation.metrics import METRICS, skill
from sstcast.files import atomic
from sstcast.runs import Run

MODEL = "model"  # the run's own key in metrics.json, whatever its name
UNITS = {"standardised": ("anomaly", "anomaly"), "degC": ("sst", "anomaly_degC")}  # errors of, correlation of


def evaluate(run: Run) -> tuple[dict[str, Any], bool]:
    """Forecast the test split, write `forecasts.zarr` and `metrics.json`, and return the metrics.

    The second value is False if they were there already for the run's best checkpoint. Layout of
    metrics: `scores[method][units]` holds each metric overall and `by_lead`, `skill[units][baseline]`
    the model's mean-squared-error skill score against each baseline, overall and `by_lead`.
    """
    checkpoint = hashlib.sha256(run.best.read_bytes()).hexdigest()
    if run.metrics.exists() and run.forecasts.exists():
        metrics: dict[str, Any] = json.loads(run.metrics.read_text())
        if metrics["checkpoint"] == checkpoint:
            return metrics, False

    data = Verification.of(run)
    truth = data.truth()
    fields = data.fields(ModelMethod(run, data.windows))
    save_forecasts(fields, run, data.cube.attrs["source"])
    scores = {MODEL: _scores(fields, truth)}
    del fields
    for name, method in fit_baselines(data.train).items():
        scores[name] = _scores(data.fields(method), truth)

    first, last = run.config.data.splits.test
    metrics = {
        "checkpoint": checkpoint,
        "model": run.config.model.name,
        "source": data.cube.attrs["source"],
        "protocol": run.config.data.protocol,
        "test": [str(first), str(last)],
        "forecasts": data.windows.starts,
        "ocean_cells": int(data.windows.ocean.sum()),
        "scores": scores,
        "skill": {units: _skill(scores, units) for units in UNITS},
    }
    with atomic(run.metrics) as temporary:
        temporary.write_text(json.dumps(metrics, indent=2) + "\n")
    return metrics, True


def _scores(forecast: xr.Dataset, truth: xr.Dataset) -> dict[str, Any]:
    def of(metric: str, units: str, dims: tuple[str, ...] | None) -> Any:
        variable = UNITS[units][metric == "acc"]
        return _plain(METRICS[metric](forecast[variable], truth[variable], dims))

    return {
        units: {name: of(name, units, None) for name in METRICS}
        | {"by_lead": {name: of(name, units, ("init_time", "lat", "lon")) for name in METRICS}}
        for units in UNITS
    }


def _skill(scores: dict[str, Any], units: str) -> dict[str, Any]:
    def against(name: str) -> dict[str, Any]:
        model, reference = scores[MODEL][units], scores[name][units]
        by_lead = skill(*(xr.DataArray(s["by_lead"]["mse"]) for s in (model, reference)))
        return {
            "overall": _plain(skill(xr.DataArray(model["mse"]), xr.DataArray(reference["mse"]))),
            "by_lead": _plain(by_lead),
        }

    return {name: against(name) for name in scores if name != MODEL}


def _plain(values: xr.DataArray) -> Any:
    """Return numbers JSON knows: float or list of floats, None where undefined."""
    if values.ndim:
        return [_plain(value) for value in values]
    return round(float(values), 6) if np.isfinite(values) else None

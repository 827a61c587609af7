"""The command `combine`: averages the forecasts of several runs with weights fitted on the validation days."""

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np
import torch

from sstcast.config import COMBINATION, RunConfig
from sstcast.errors import SSTCastError
from sstcast.forecasting.system import ForecastSystem, Weights, load_combination, system_of
from sstcast.names import DEGREES
from sstcast.ocean.lead_weeks import WEEK, lead_weeks
from sstcast.ocean.prepared import Prepared
from sstcast.runs import Parts, Run, provenance
from sstcast.scores.analysis import Analysis
from sstcast.scores.evaluate import OCEAN_KEYS, check_same
from sstcast.storage.artefacts import atomic, locked, write_json
from sstcast.storage.yaml_files import save_config, validate
from sstcast.training.checkpoint import close_training, save_checkpoint
from sstcast.training.data_record import check_data, record_of

COMPARED_KEYS = (*OCEAN_KEYS, "horizon")
DIGESTS = {"cube": "days have different values", "statistics": "climatology and scale are different"}


def combine(runs: list[Run], folder: Path, equal: bool = False, replace: bool = False) -> tuple[Run, bool]:
    """Make a run in `folder` that forecasts the weighted mean of `runs`.

    Each lead week has its own weights, which are not negative and sum to 1. They minimise the mean squared error
    in degC on the validation days (Granger and Ramanathan 1984, J. Forecast. 3, with both constraints). With
    `equal`, all weights are the same, which is often as good if there are few validation days. A single run gets
    the weight 1. If a part has been trained again, the weights are fitted again. With `replace`, the new
    combination replaces one of other runs or weights in the folder.

    Returns the run, and False if it was made before. Raises SSTCastError if the runs were not trained on the same
    days of the same ocean, a run has no checkpoint or forecasts NaN, or the folder holds something else.
    """
    runs = [Run.open(run.folder) for run in runs]
    config = _configure(runs, folder, "equal" if equal else "fitted")
    with locked(folder):
        if folder.exists() and _is_made(Run(folder), config, replace):
            return Run(folder), False
        _make(runs, config, folder)
    return Run(folder), True


def least_squares(products: Weights) -> Weights:
    """Return the non-negative weights `w [part]` that sum to 1 and minimise `w @ products @ w`.

    `products [part, part]` holds mean products of errors. The problem is solved by non-negative least squares with
    one more row, which keeps the sum near 1. The optimality conditions of both problems agree up to a factor,
    whatever the weight of that row, so dividing the solution by its sum gives the optimum.
    """
    from scipy.optimize import nnls  # imported here because it takes 0.25 s, and reports import this module

    values, vectors = np.linalg.eigh(products)
    factor = np.sqrt(np.maximum(values, 0))[:, None] * vectors.T  # factor.T @ factor == products
    row = np.sqrt(np.trace(products) / len(products)) or 1.0
    weights, _ = nnls(np.vstack([factor, np.full(len(products), row)]), np.append(np.zeros(len(products)), row))
    shares: Weights = weights / weights.sum()
    return shares


def error_products(systems: Sequence[ForecastSystem], data: Analysis) -> Weights:
    """Return the mean products of the systems' errors by lead week, `[week, part, part]` in degC^2.

    Cells are weighted by area. One block of initial dates is in memory at a time.
    """
    weeks, count = lead_weeks(1 + np.arange(data.windows.horizon)), len(systems)
    root_area = np.sqrt(data.area)
    products = np.zeros((weeks[-1] + 1, count, count))
    for observed in data.observe(count, "validation"):
        past, truth = data.histories(observed.dates), observed.anomaly[DEGREES]
        predicted = (data.of_dates(system.predict(*past), observed.dates) for system in systems)
        forecasts = (data.on_tiles(forecast.mean("member", skipna=False)) for forecast in predicted)
        errors = np.stack([(forecast * observed.scale - truth) * root_area for forecast in forecasts])
        for week, product in enumerate(products):
            rows = errors[:, :, weeks == week].reshape(count, -1).astype(float)
            product += rows @ rows.T
    data.prepared.replaced(data.windows.days[-1].astype("M8[D]").item())  # raises if other days were read
    days = np.bincount(weeks) * data.windows.starts
    return products / days[:, None, None]


def _is_made(run: Run, config: RunConfig, replace: bool) -> bool:
    """Return whether `run` is this very combination.

    Raises SSTCastError if the folder holds something that must not be replaced.
    """
    saved_config = run.config if run.config_file.exists() else None
    if saved_config is not None and saved_config.model.name == COMBINATION:
        (saved_weighting, saved_digests), (weighting, digests) = _parts(saved_config), _parts(config)
        same_parts = saved_weighting == weighting and saved_digests.keys() == digests.keys()
        if same_parts:
            with suppress(SSTCastError):  # raised if the weights are damaged, or a part has been trained again
                load_combination(run)
                return saved_digests == digests and saved_config.data == config.data
        if same_parts or replace:
            return False
    raise SSTCastError(f"{run.folder}: holds something else; choose another name, or delete the folder")


def _parts(config: RunConfig) -> tuple[str, dict[Path, str]]:
    """Return how a combination is weighted (`fitted` or `equal`), and the digest of each part."""
    options = validate(Parts, config.model.options, config.name)
    return options.weights, {part.run: part.checkpoints for part in options.parts}


def _fit(runs: list[Run], prepared: Prepared) -> Weights:
    """Return the fitted weights `[week, part]`. Raises SSTCastError if a forecast is not finite."""
    for run in runs:
        _check_unseen(run)
    check_data(runs[0], prepared)
    data = Analysis.open(prepared, "validation")
    systems = [system_of(run, prepared, held_out=True) for run in runs]
    products = error_products(systems, data)
    for run, errors in zip(runs, products.diagonal(axis1=1, axis2=2).T, strict=True):
        if not np.isfinite(errors).all():
            raise SSTCastError(f"{run.folder}: its forecasts of the validation days are not finite; leave it out")
    return np.stack([least_squares(week) for week in products])


def _check_unseen(run: Run) -> None:
    """Raise SSTCastError if a run, or a part of it, was trained on its validation days."""
    if run.config.training.include_validation:
        raise SSTCastError(f"{run.folder}: was trained on its validation days; combine it with --equal")
    for part in run.open_parts():
        _check_unseen(part)


def _make(runs: list[Run], config: RunConfig, folder: Path) -> None:
    weeks, fitted = -(-config.data.horizon // WEEK), config.model.options["weights"] == "fitted"
    prepared = Prepared.of(config.data)
    shares = _fit(runs, prepared) if fitted else np.full((weeks, len(runs)), 1 / len(runs))
    with atomic(folder) as temporary:
        run = Run(temporary)
        run.checkpoints.mkdir(parents=True)
        write_json(run.folder / "provenance.json", provenance())
        prepared.record().save(run.data)
        save_checkpoint(run.best, config, model={"weights": torch.from_numpy(shares)})
        close_training(run, config)
        save_config(config, run.config_file, {"training"})


def _configure(runs: list[Run], folder: Path, weights: str) -> RunConfig:
    """Return the configuration of a combination. Raises SSTCastError if the runs cannot be combined."""
    first_run, paths = runs[0], [run.folder.resolve() for run in runs]
    for number, path in enumerate(paths):
        if path in paths[:number]:
            raise SSTCastError(f"{runs[number].folder}: named twice; name each run once")
        if runs[number].trained != runs[number]:
            raise SSTCastError(
                f"{runs[number].folder}: is a run on another ocean; combine the original runs, then evaluate the "
                "combination there"
            )
    remedy = "combine runs that were trained on the same days of the same ocean"
    for other_run in runs[1:]:
        have_records = all(record_of(run.recorded[0]) for run in (first_run, other_run))
        keys = (
            COMPARED_KEYS if have_records else ("source", *COMPARED_KEYS)
        )  # without digests, compare the source's name
        check_same(first_run, other_run, keys, DIGESTS, remedy)
    return validate(
        RunConfig,
        {
            "name": folder.name,
            "runs": folder.parent,
            "data": first_run.config.data,
            "model": {
                "name": COMBINATION,
                "weights": weights,
                "parts": [{"run": os.path.relpath(run.folder, folder), "checkpoints": run.digest} for run in runs],
            },
        },
        f"--name {folder.name}",
    )

"""The command `runs`, which lists runs and their progress."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sstcast.config import COMBINATION
from sstcast.errors import SSTCastError, aligned, in_short, reading
from sstcast.log import LOG, show
from sstcast.models import LINEAR
from sstcast.runs import Run
from sstcast.storage.paths import below
from sstcast.storage.yaml_files import read_yaml

CSV: Any = {"delimiter": ",", "deletechars": "", "encoding": "utf-8"}


def list_runs(folder: Path) -> None:
    """Print a row for every run below `folder`. Raises SSTCastError if there is none."""
    runs = [Run(file.parent) for file in below(folder, "config.yaml")]
    rows = [
        {"run": str(run.folder.relative_to(folder))} | _row(run)
        for run in runs
        if run.members == [run]  # the members of an ensemble are listed, not the ensemble
    ]
    if not rows:
        raise SSTCastError(f"{folder}: no runs; make one with sstcast train configs/demo.yaml")
    show(*aligned([[*rows[0]], *([*row.values()] for row in rows)]))


def _row(run: Run) -> dict[str, str]:
    try:
        return describe(run)
    except Exception as error:  # no error in one run may hide the others
        LOG.warning(f"{run.folder}: {in_short(error)}")
        return {"model": "-", "state": "cannot be read", "best validation": "-", "time": "-"}


def describe(run: Run) -> dict[str, str]:
    """Return the model, state, best validation score and training time of a run, from its files."""
    config = read_yaml(run.config_file)
    with reading(run.config_file, "restore it"):
        if config["model"]["name"] == COMBINATION:
            state = f"of {len(config['model']['parts'])} runs"
            return {"model": COMBINATION, "state": state, "best validation": "-", "time": "-"}
        epochs, patience = (config["training"][key] for key in ("epochs", "patience"))
        row = {"model": str(config["model"]["name"]), "state": f"epoch 0 of {epochs:d}"}
    if row["model"] in LINEAR and run.best.exists():
        row["state"] = "finished"
    if not run.history.exists():
        return row | {"best validation": "-", "time": "-"}
    history = read_history(run.history)
    best = np.flatnonzero(history["best"])  # empty if no validation score was finite
    epochs_done = len(history["epoch"])
    epochs_waited = epochs_done - 1 - (int(best[-1]) if len(best) else -1)
    finished = epochs_done >= epochs or (patience is not None and epochs_waited >= patience)
    name = next(column for column in history if column.startswith("validation_"))
    score = f"{history[name][best[-1]]:.4f} ({name.removeprefix('validation_')})" if len(best) else "-"
    seconds = int(history["seconds"][-1])
    return row | {
        "state": "finished" if finished else f"epoch {epochs_done} of {epochs}",
        "best validation": score,
        "time": f"{seconds // 3600}:{seconds % 3600 // 60:02d}:{seconds % 60:02d}",
    }


def read_history(file: Path) -> dict[str, NDArray[Any]]:
    """Read the columns of a `history.csv`, with a value for each epoch. Raises SSTCastError if it is damaged."""
    with reading(file, f"run `sstcast train --resume {file.parent}`, which writes it again"):
        table = np.atleast_1d(np.genfromtxt(file, names=True, dtype=None, **CSV))
        scores = [name for name in table.dtype.names or () if name.startswith("validation_")]
        numbers = ("epoch", "train_loss", "learning_rate", "seconds", scores[0], *scores[1:])
        history: dict[str, NDArray[Any]] = {name: table[name].astype(float) for name in numbers}
        history["best"] = table["best"]
    return history


def read_losses(run: Run) -> tuple[NDArray[Any], NDArray[Any]] | None:
    """Read the `curve.csv` of a run: fractional epochs, and the mean training loss since the row before.

    Returns None if the file does not exist. Raises SSTCastError if it is damaged.
    """
    if not run.curve.exists():
        return None
    with reading(run.curve, "delete it to make a report without it"):
        _, epoch, loss = np.loadtxt(run.curve, delimiter=",", skiprows=1, ndmin=2, unpack=True)
        return epoch, loss

"""The verb `runs`: what there is and how far it is."""

from pathlib import Path
from typing import Any

import pandas as pd
import yaml
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from sstcast.errors import SSTCastError
from sstcast.runs import Run


def list_runs(folder: Path) -> None:
    """Print a row for every run below `folder`; raise SSTCastError if there is none."""
    runs = [Run(file.parent) for file in sorted(folder.rglob("config.yaml"))]
    rows = [
        {"run": str(run.folder.relative_to(folder))} | _row(run)
        for run in runs
        if run.members == [run]  # of an ensemble, its members
    ]
    if not rows:
        raise SSTCastError(f"{folder}: no runs; make one with sstcast train configs/demo.yaml")
    table = Table(box=SIMPLE_HEAD)
    for name in rows[0]:
        table.add_column(name, overflow="fold")
    for row in rows:
        table.add_row(*row.values())
    Console(highlight=False).print(table)


def _row(run: Run) -> dict[str, str]:
    try:
        return describe(run)
    except Exception:  # whatever it is, it must not hide the other runs
        return {"model": "-", "state": "cannot be read", "best validation": "-", "time": "-"}


def describe(run: Run) -> dict[str, str]:
    """Return a run's model, state, best validation score and training time, from `history.csv`."""
    config: dict[str, Any] = yaml.safe_load(run.config_file.read_text())
    epochs, patience = config["training"]["epochs"], config["training"]["patience"]
    row = {"model": str(config["model"]["name"]), "state": f"epoch 0 of {epochs}"}
    if not run.history.exists():
        return row | {"best validation": "-", "time": "-"}
    history = pd.read_csv(run.history)
    better = history[history["best"]]  # none where no validation score was finite
    done = len(history)
    waited = done - 1 - (int(better["epoch"].iloc[-1]) if len(better) else -1)
    finished = done >= epochs or (patience is not None and waited >= patience)
    name = next(column for column in history if column.startswith("validation_"))
    score = f"{better[name].iloc[-1]:.4f} ({name.removeprefix('validation_')})" if len(better) else "-"
    seconds = int(history["seconds"].iloc[-1])
    return row | {
        "state": "finished" if finished else f"epoch {done} of {epochs}",
        "best validation": score,
        "time": f"{seconds // 3600}:{seconds % 3600 // 60:02d}:{seconds % 60:02d}",
    }

"""The files that commands follow from, as patterns for `sstcast.finished`."""

import glob
import os
from pathlib import Path

from sstcast.config import DataConfig
from sstcast.files import packaged
from sstcast.ocean.prepared import Prepared
from sstcast.ocean.reading import source_path
from sstcast.plain_yaml import read_yaml
from sstcast.runs import Run

TRAINED = ("config.yaml", "data*.json", "checkpoints/best.pt")
TRAINING = ("history.csv", "checkpoints/step-*.pt")
SCORED = ("metrics.json", "scores.nc", "forecasts.zarr/**")
HINDCAST = ("hindcast.json", "hindcast.nc", "hindcast.csv")


def below(folder: Path, *patterns: str) -> list[str]:
    """Return patterns for files in a folder, whose own name may hold any character."""
    return [f"{glob.escape(str(folder))}/{pattern}" for pattern in patterns]


def config_files(path: Path) -> list[str]:
    """Return a run's YAML, where else it would be looked for, and the file that is its base."""
    shipped = packaged(str(path))
    base = read_yaml(shipped if not path.exists() and shipped.exists() else path).get("base")
    based = [place.parent / base for place in (path, shipped)] if isinstance(base, str) else []
    return [glob.escape(str(place)) for place in (path, shipped, *based)]


def store_files(data: DataConfig) -> list[str]:
    """Return all files of the prepared stores."""
    prepared = Prepared.of(data)
    return [
        part for store in (prepared.cube, prepared.statistics, prepared.anomalies) for part in below(store, "**")
    ]


def source_files(source: str) -> list[str]:
    """Return all files of a source, as `data.source` names it."""
    path = source_path(source)
    return [glob.escape(str(path)), *below(path, "**")]


def trained_files(run: Run) -> list[str]:
    """Return all files that a run's weights follow from, and those of a combination's parts."""
    run = run.trained
    own = below(run.folder, *TRAINED, *(f"seed-*/{name}" for name in TRAINED))
    parts = [Run(Path(os.path.normpath(run.folder / part.run))) for part in run.parts]
    return own + [file for part in parts for file in trained_files(part)]


def run_files(run: Run) -> list[str]:
    """Return all files that a run's forecasts follow from."""
    data = run.config.data
    return trained_files(run) + below(run.folder, *TRAINED) + store_files(data) + source_files(data.source)


def scored_files(run: Run) -> list[str]:
    """Return all files that hold a run's scores."""
    return below(run.folder, *SCORED)

"""Runs on the small ocean whose models nobody trained: they forecast badly, which is all that scoring needs."""

import io
import json
import shutil
from pathlib import Path
from typing import Any

import torch
import untrained

from sstcast.config import RunConfig
from sstcast.ocean.prepare import prepare
from sstcast.runs import Run
from sstcast.storage.yaml_files import validate

OTHER_DAYS = {
    "train": [2001, 2002],
    "validation": ["2003-01-01", "2003-06-30"],
    "test": ["2003-07-01", "2004-06-30"],
}

SHORT_TEST = {"train": [2001, 2002], "validation": [2003, 2003], "test": ["2004-01-01", "2004-04-15"]}


def configure(
    folder: Path,
    sst_file: Path | str,
    name: str = "small",
    model: dict[str, Any] | None = None,
    training: dict[str, Any] | None = None,
    **data: Any,
) -> RunConfig:
    """Describe a run on two tiles of 8 x 6 cells, ten days of history, eight ahead.

    Its stores lie beside the source, so that runs on one source share them.
    """
    raw = {
        "name": name,
        "runs": folder / "runs",
        "data": {
            "source": str(sst_file),
            "region": {"lon": [170, 173], "lat": [-12, -10], "tile": [8, 6]},
            "directory": Path(sst_file).parent / "prepared",
            "history": 10,
            "horizon": 8,
            "splits": {"train": [2001, 2002], "validation": [2003, 2003], "test": [2004, 2004]},
            **data,
        },
        "model": model or {"name": "mpnn", "width": 8, "layers": 1},
        "training": {"device": "cpu"} | (training or {}),
    }
    return validate(RunConfig, raw, "test")


def metrics_of(run: Run) -> dict[str, Any]:
    """Return the scores of an evaluated run."""
    return json.loads(run.metrics.read_text())


def make_run(config: RunConfig, seeds: tuple[int, ...] = (0,)) -> Run:
    """Prepare the data and make the run, an ensemble if there are several seeds.

    Its forecasts are apart from persistence, and from each other.
    """
    prepare(config.data)
    return untrained.make_run(config, seeds, noise=0.2)


def copy_that_reads(file: Path, trained: Path) -> Run:
    """Copy a run that is named as the file of its predictor. The copy reads another file, and is named as that."""
    run, name = Run(Path(shutil.copytree(trained, file.parent / "runs" / file.stem))), Run(trained).config.name
    text = run.config_file.read_text().replace(f"{name}{file.suffix}", file.name)
    run.config_file.write_text(text.replace(f"name: {name}", f"name: {file.stem}"))
    return run


def retrain(run: Run, factor: float = 0.5) -> None:
    """Scale the weights of a run, as if it had been trained on."""
    state = torch.load(run.best, weights_only=True)
    for value in state["model"].values():
        value.mul_(factor)
    torch.save(state, buffer := io.BytesIO())
    untrained.replace_weights(run, buffer.getvalue())

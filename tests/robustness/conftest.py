"""A tiny ocean, prepared, and a run on it that has all its files."""

from pathlib import Path

import pytest
import yaml
from small_ocean import make_sst

from sstcast.config import load_config
from sstcast.ocean.prepare import prepare
from sstcast.runs import Run
from sstcast.scores.evaluate import evaluate
from sstcast.training import engine
from sstcast.training.train import train, training_windows


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with small.nc, small.yaml, prepared/ and runs/small: one step of training, and its evaluation."""
    folder = tmp_path_factory.mktemp("world")
    make_sst(years=2).to_netcdf(folder / "small.nc", engine="netcdf4")
    raw = {
        "name": "small",
        "runs": str(folder / "runs"),
        "data": {
            "source": str(folder / "small.nc"),
            "region": {"lon": [170, 173], "lat": [-12, -10], "tile": [8, 6]},
            "directory": str(folder / "prepared"),
            "history": 4,
            "horizon": 3,
            "splits": {
                "train": [2001, 2001],
                "validation": ["2002-01-01", "2002-01-20"],
                "test": ["2002-03-01", "2002-06-10"],
            },
        },
        "model": {"name": "mpnn-vn", "width": 4, "layers": 2},
        "training": {"epochs": 1, "windows_per_epoch": 4, "batch_size": 4, "device": "cpu", "compile": False},
    }
    (folder / "small.yaml").write_text(yaml.safe_dump(raw))
    config = load_config(folder / "small.yaml")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine, "open_board", lambda folder, epoch: None)
        prepare(config.data, say=str)
        run, _ = train(config, training_windows(config))
    evaluate(Run(run.folder))
    return folder

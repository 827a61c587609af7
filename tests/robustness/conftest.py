"""A tiny ocean, prepared, a run on it that has all its files, and what must come of bad ones."""

from collections.abc import Callable
from pathlib import Path

import pytest
from scored_runs import configure
from small_ocean import make_sst

from sstcast.ocean.prepare import prepare
from sstcast.runs import Run
from sstcast.scores.evaluate import evaluate
from sstcast.storage.yaml_files import save_config
from sstcast.training import engine
from sstcast.training.train import train, training_windows


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with small.nc, small.yaml, prepared/ and runs/small: one step of training, and its evaluation."""
    folder = tmp_path_factory.mktemp("world")
    make_sst(years=2).to_netcdf(folder / "small.nc", engine="netcdf4")
    splits = {
        "train": [2001, 2001],
        "validation": ["2002-01-01", "2002-01-20"],
        "test": ["2002-03-01", "2002-06-10"],
    }
    model = {"name": "mpnn-vn", "width": 4, "layers": 2}
    training = {"epochs": 1, "windows_per_epoch": 4, "batch_size": 4, "compile": False}
    config = configure(
        folder, folder / "small.nc", model=model, training=training, history=4, horizon=3, splits=splits
    )
    save_config(config, folder / "small.yaml")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine, "open_board", lambda folder, epoch: None)
        prepare(config.data)
        run, _ = train(config, training_windows(config))
    evaluate(Run(run.folder))
    return folder


@pytest.fixture
def attempt(command: Callable[..., tuple[int, str, str]]) -> Callable[..., int]:
    """Run a command line. A refusal must be one line with one of `words`, such as a file's name or a key."""

    def run(words: tuple[object, ...], *arguments: object) -> int:
        code, _, err = command(*arguments)
        case = f"sstcast {' '.join(map(str, arguments))}: exit code {code}: {err[-500:]}"
        assert code in {0, 2, 3}, case
        assert "Traceback" not in err, case
        lines = [line for line in err.splitlines() if ": skipped, because" not in line]  # a warning, not an error
        assert code != 2 or len(lines) == 1, case
        assert code != 2 or any(str(word) in err for word in words), case
        for path in (argument for argument in arguments if isinstance(argument, Path)):
            assert not list(path.parent.rglob("*.partial")), case
        return code

    return run

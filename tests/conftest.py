"""A small ocean, and runs on it that are scored once for all tests."""

import gc
import logging
import os

# Before NumPy and PyTorch: threads only fight for small arrays, and tests run side by side.
os.environ |= {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}

import sys
from collections.abc import Callable
from pathlib import Path

import dask
import pytest
import yaml
from scored_runs import configure, make_run
from small_ocean import make_sst

from sstcast import cli
from sstcast.log import LOG
from sstcast.runs import Run
from sstcast.scores.evaluate import evaluate

# Threads take longer than these small arrays are worth. Commands and notebooks that run as processes keep theirs.
dask.config.set(scheduler="synchronous")

Command = Callable[..., tuple[int, str, str]]


def pytest_configure() -> None:
    gc.disable()  # until all tests are imported, which leaves no garbage


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--slow", action="store_true", help="also run the tests that are marked slow")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("--slow"):
        for item in items:
            if item.get_closest_marker("slow"):
                item.add_marker(pytest.mark.skip(reason="slow: run with --slow, or with make test SLOW=--slow"))


def pytest_collection_finish() -> None:
    gc.freeze()  # modules and tests stay to the end: nobody need look for garbage among them again and again
    gc.enable()


@pytest.fixture(scope="session")
def sst_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The small ocean as a NetCDF file."""
    path = tmp_path_factory.mktemp("ocean") / "small.nc"
    make_sst().to_netcdf(path, engine="netcdf4")
    return path


@pytest.fixture(scope="session")
def scored(tmp_path_factory: pytest.TempPathFactory, sst_file: Path) -> Run:
    """A run that is evaluated. Tests that write to it write to a copy."""
    run = make_run(configure(tmp_path_factory.mktemp("scored"), sst_file))
    evaluate(run)
    return run


@pytest.fixture(scope="session")
def ensemble(tmp_path_factory: pytest.TempPathFactory, sst_file: Path) -> Run:
    """An ensemble of seeds 0 and 1 that is evaluated. Tests that write to it write to a copy."""
    run = make_run(configure(tmp_path_factory.mktemp("ensemble"), sst_file), (0, 1))
    evaluate(run)
    return run


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Run a command line in this process; return exit code, stdout and stderr."""

    def run(*arguments: object) -> tuple[int, str, str]:
        capsys.readouterr()
        monkeypatch.setattr(sys, "argv", ["sstcast", *map(str, arguments)])
        with pytest.raises(SystemExit) as end:
            cli.main()
        LOG.setLevel(logging.NOTSET)
        return int(end.value.code or 0), *capsys.readouterr()

    return run


@pytest.fixture
def fails(command: Command) -> Callable[..., None]:
    """Run a command line that must be refused in one line with all `words`."""

    def run(words: list[str], *arguments: object) -> None:
        code, _, err = command(*arguments)
        assert (code, err.count("\n")) == (2, 1)
        for word in words:
            assert word in err

    return run


@pytest.fixture
def stores(tmp_path: Path) -> Path:
    """The folder of prepared stores. Where tests only read them, a folder's conftest.py shares one."""
    return tmp_path / "prepared"


@pytest.fixture
def run_yaml(tmp_path: Path, sst_file: Path, stores: Path) -> Path:
    """A run on the small ocean: two tiles of 8 x 6, ten days of history, five ahead."""
    raw = {
        "name": "small",
        "runs": str(tmp_path / "runs"),
        "data": {
            "source": str(sst_file),
            "region": {"lon": [170, 173], "lat": [-12, -10], "tile": [8, 6]},
            "directory": str(stores),
            "history": 10,
            "horizon": 5,
            "splits": {"train": [2001, 2002], "validation": [2003, 2003], "test": [2004, 2004]},
        },
        "model": {"name": "mpnn-vn", "width": 16, "layers": 2},
        "training": {"epochs": 2, "windows_per_epoch": 200, "device": "cpu"},
    }
    path = tmp_path / "small.yaml"
    path.write_text(yaml.safe_dump(raw))
    return path

"""One place for all that the tests of this folder prepare."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from quick_drawing import draw_no_plots
from scored_runs import SHORT_TEST, configure, make_run

from sstcast.forecasting.spread import calibrated
from sstcast.runs import Run


@pytest.fixture(scope="session")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("prepared")


@pytest.fixture(autouse=True)
def quick_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    draw_no_plots(monkeypatch)


@pytest.fixture
def as_made(monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], Run]:
    """Return the run `runs/small` in a folder, which becomes the working folder and is as it was made.

    Tests may change all in it: the next one finds it as this one did. It stays in its place, which stores tell.
    """

    def enter(folder: Path) -> Run:
        kept = folder.with_name(f"{folder.name}-as-made")
        if kept.exists():
            shutil.rmtree(folder)
            shutil.copytree(kept, folder)
        else:
            shutil.copytree(folder, kept)
        monkeypatch.chdir(folder)
        return Run(Path("runs/small"))

    return enter


@pytest.fixture(scope="session")
def original(tmp_path_factory: pytest.TempPathFactory, sst_file: Path) -> Run:
    """A run with its spread and few days of test."""
    run = make_run(configure(tmp_path_factory.mktemp("original"), sst_file, splits=SHORT_TEST))
    calibrated(run)
    return run


@pytest.fixture
def copied(original: Run, tmp_path: Path) -> Run:
    """A copy of that run, to which a test may write. The ocean and its stores are shared."""
    return Run(Path(shutil.copytree(original.folder, tmp_path / "runs/small")))


@pytest.fixture(scope="session")
def sites(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A point, a point outside the region, and an area whose edges are those of cells."""
    path = tmp_path_factory.mktemp("places") / "mine.geojson"
    ring = [[171, -11.5], [172, -11.5], [172, -10.5], [171, -10.5], [171, -11.5]]
    of = {
        "farm": {"type": "Point", "coordinates": [171.3, -10.3]},
        "elsewhere": {"type": "Point", "coordinates": [20, -10.3]},
        "park": {"type": "Polygon", "coordinates": [ring]},
    }
    features = [{"type": "Feature", "properties": {"name": n}, "geometry": g} for n, g in of.items()]
    path.write_text(json.dumps({"type": "FeatureCollection", "features": features}))
    return path

"""Runs of one ocean share the scores of its baselines, which are those of a run that is scored alone."""

import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from scored_runs import SHORT_TEST, configure, make_run, metrics_of, retrain

from sstcast.errors import SSTCastError
from sstcast.forecasting.spread import SpreadCalibrator
from sstcast.ocean.prepared import Prepared
from sstcast.runs import Run
from sstcast.scores import baseline_tables, score_files
from sstcast.scores.analysis import Analysis
from sstcast.scores.asked import NOTHING, Asked
from sstcast.scores.baseline_tables import recipe_of_tables, tables_of_run
from sstcast.scores.evaluate import evaluate
from sstcast.scores.score_files import ScoreFiles
from sstcast.storage.dataset_files import cached


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory, sst_file: Path) -> Run:
    """A run that is scored, and so are the baselines of its ocean."""
    run = make_run(configure(tmp_path_factory.mktemp("shared"), sst_file, splits=SHORT_TEST))
    evaluate(run)
    return run


@pytest.fixture(scope="module")
def tables(first: Run) -> xr.Dataset:
    """What is kept of the baselines of its ocean."""
    return tables_of(first)


@pytest.fixture
def fitted(monkeypatch: pytest.MonkeyPatch) -> list[Prepared]:
    """The oceans whose baselines are fitted and scored."""
    oceans: list[Prepared] = []
    make = baseline_tables.baselines
    monkeypatch.setattr(baseline_tables, "baselines", lambda days: (oceans.append(days.prepared), make(days))[1])
    return oceans


def tables_of(run: Run, asked: Asked = NOTHING) -> xr.Dataset:
    truth = Analysis.of(run)
    with tables_of_run(truth, SpreadCalibrator(truth.prepared), asked) as opened:
        return opened.load()


def file_of(run: Run) -> Path:
    return Prepared.of(run.config.data).baselines


def scores_of(run: Run) -> dict[str, Any]:
    run.metrics.unlink(missing_ok=True)
    evaluate(run)
    return {key: value for key, value in metrics_of(run).items() if key != "recipe"}


def test_a_second_run_is_scored_beside_the_same_baselines(first: Run, fitted: list[Prepared]) -> None:
    second = Run(shutil.copytree(first.folder, first.folder.with_name("second")))
    retrain(second)
    beside, saved = scores_of(second), ScoreFiles(second.folder).open().load()
    assert not fitted
    file_of(second).unlink()
    assert scores_of(second) == beside
    assert len(fitted) == 1
    assert ScoreFiles(second.folder).open().load().drop_attrs().identical(saved.drop_attrs())
    of_first = metrics_of(first)["scores"]
    assert {**of_first, "model": None} == {**beside["scores"], "model": None}
    assert of_first["model"] != beside["scores"]["model"]


def swap(path: Path) -> None:
    shutil.copy(path.with_name(path.name.replace("baselines", "terciles")), path)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1000])


def change(path: Path) -> None:
    """Change a byte, and neither the size nor the time of modification."""
    state, content = path.stat(), bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))


def test_a_file_that_is_not_the_one_written_is_written_again(
    first: Run, tables: xr.Dataset, fitted: list[Prepared]
) -> None:
    change(file_of(first))
    for _ in range(2):
        assert tables_of(first).identical(tables)
    assert len(fitted) == 1


@pytest.mark.parametrize("damage", [swap, cut, change])
def test_whatever_has_happened_to_a_file_it_is_made_again(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    """With no more than what keeps it, which all files beside the stores have in common."""
    made: list[str] = []
    table = xr.Dataset({"of_day": ("day", np.random.default_rng(0).normal(size=1000))})

    def kept(name: str) -> xr.Dataset:
        found = cached(tmp_path / f"{name}.nc", {"of": name}, lambda: (made.append(name), table)[1], chunked=True)
        with found:
            return found.load()

    kept("terciles"), kept("baselines")
    damage(tmp_path / "baselines.nc")
    for _ in range(2):
        assert kept("baselines").equals(table)
    assert made == ["terciles", "baselines", "baselines"]


def test_other_values_and_other_questions_have_tables_of_their_own(
    first: Run,
    tables: xr.Dataset,
    fitted: list[Prepared],
    tmp_path: Path,
    sst_file: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with xr.open_dataset(sst_file) as ocean:
        warmer = ocean.load()
    warmer["sst"][300] += 1  # a day of training; those scored have a digest of their own
    warmer.to_netcdf(tmp_path / "warmer.nc")
    other = make_run(configure(tmp_path, tmp_path / "warmer.nc", splits=SHORT_TEST))
    for kept in (file_of(first), file_of(first).with_name(f".{file_of(first).name}.note")):
        shutil.copy(kept, file_of(other).with_name(kept.name))  # a colleague's
    found = tables_of(other)
    assert not found["mse_by_date"].equals(tables["mse_by_date"])
    assert "event_onsets_by_date" in tables_of(first, Asked(events=True))
    assert len(fitted) == 2
    _in_a_read_only_folder_they_are_scored_each_time(first, tables, monkeypatch)
    assert len(fitted) == 3


def _in_a_read_only_folder_they_are_scored_each_time(
    first: Run, tables: xr.Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file there stays as it is: with what was asked before."""
    access, folder, before = os.access, file_of(first).parent, file_of(first).read_bytes()
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != folder and access(path, mode))
    xr.testing.assert_equal(tables_of(first), tables)
    assert file_of(first).read_bytes() == before


def test_the_recipe_names_what_the_tables_depend_on(first: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    truth = Analysis.of(first)
    recipe, data = recipe_of_tables(truth, NOTHING), truth.data
    splits = data.splits.model_copy(update={"validation": data.splits.train})
    assert recipe["region"] == data.box.model_dump(mode="json")
    for changed in ({"history": 12}, {"horizon": 7}, {"splits": splits}):
        other = replace(truth.prepared, data=data.model_copy(update=changed))
        assert recipe_of_tables(replace(truth, prepared=other), NOTHING) != recipe
    assert "source" not in recipe["data"]  # the digests tell the values
    assert recipe_of_tables(truth, Asked(events=True)) != recipe
    for module, name, value in (
        (baseline_tables, "__version__", "9.9"),
        (score_files, "LAYOUT", 0),
        (score_files, "BASELINES", score_files.BASELINES | {"ridge": "linear"}),  # another model of the same name
    ):
        with monkeypatch.context() as patch:
            patch.setattr(module, name, value)
            assert recipe_of_tables(truth, NOTHING) != recipe, name


def test_an_interruption_leaves_no_file(first: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    file_of(first).unlink(missing_ok=True)

    def full(*_: object, **__: object) -> None:
        raise SSTCastError("the disk is full")

    monkeypatch.setattr(baseline_tables, "describe", full)
    with pytest.raises(SSTCastError, match="full"):
        tables_of(first)
    assert not file_of(first).exists()

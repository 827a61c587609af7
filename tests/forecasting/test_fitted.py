"""What a run fits to other days is saved, and read only for the same run, days and version."""

import contextlib
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import torch
import xarray as xr
from scored_runs import configure, make_run
from small_ocean import make_sst
from untrained import replace_weights

from sstcast.config import DataConfig
from sstcast.forecasting import fitted
from sstcast.forecasting.stores import splits_to_forecast
from sstcast.forecasting.system import Fits, system_of
from sstcast.models.linear import MultiscaleRidge
from sstcast.ocean.prepare import prepare
from sstcast.ocean.prepared import Prepared
from sstcast.reports.update import NOTHING_NEW, update
from sstcast.runs import Run
from sstcast.storage.dataset_files import cached
from sstcast.storage.dataset_files import write as write_file

YEARS = 7
MODEL = {"name": "multiscale-ridge", "stencil": True}


def write(run: Run, sst: xr.Dataset) -> None:
    sst.to_netcdf(run.config.data.source, engine="netcdf4")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run, its ocean and the stores of its last forecasts."""
    folder = tmp_path_factory.mktemp("made")
    make_sst(YEARS).to_netcdf(folder / "small.nc", engine="netcdf4")
    with contextlib.chdir(folder):
        newest(make_run(configure(Path(), "small.nc", model=MODEL)))
    return folder


@pytest.fixture
def run(made: Path, as_made: Callable[[Path], Run]) -> Run:
    return as_made(made)


def kept_fits(run: Run) -> list[Path]:
    """The fits that are kept beside the stores of all base periods."""
    return [*Prepared.of(run.config.data).cube.parent.glob("*.fit.nc")]


def newest(run: Run, year: int = 2000 + YEARS) -> DataConfig:
    """Prepare the data with which the run forecasts at the end of a year."""
    data = run.config.data
    splits = splits_to_forecast(run, data, np.datetime64(f"{year}-12-31").item())
    prepare(data := data.model_copy(update={"splits": splits}))
    return data


def weight(run: Run, data: DataConfig) -> torch.Tensor:
    return system_of(run, Prepared.of(data)).models[0].weight


def fit(data: DataConfig) -> torch.Tensor:
    """Fit the system without any file."""
    return Fits.of(Prepared.of(data)).model(**MODEL).weight


def is_read(run: Run, data: DataConfig, expected: torch.Tensor) -> bool:
    """Whether the next forecast fits nothing. What it uses must be what a fit gives."""
    with patch.object(MultiscaleRidge, "fit", autospec=True, side_effect=MultiscaleRidge.fit) as called:
        assert torch.equal(weight(run, data), expected)
    return not called.called


def test_a_fit_is_read_until_the_days_the_year_or_the_version_change(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = newest(run, 1999 + YEARS)
    expected = fit(data)
    assert not is_read(run, data, expected)
    assert is_read(run, data, expected)
    later = newest(run)  # the turn of a year
    expected = fit(later)
    assert not is_read(run, later, expected)
    assert is_read(run, later, expected)
    assert len(kept_fits(run)) == 1
    changed = make_sst(YEARS)
    changed["sst"].loc[{"time": "2002-03-04"}] += 1
    write(run, changed)
    prepare(later)
    expected = fit(later)
    assert not is_read(run, later, expected)
    assert is_read(run, later, expected)
    for name in ("__version__", "LAYOUT"):
        monkeypatch.setattr(fitted, name, 0)
        assert not is_read(run, later, expected), name


def test_a_day_before_training_that_a_memory_reads_counts(run: Run) -> None:
    data = newest(run)
    splits = data.splits.model_copy(update={"train": (np.datetime64("2003-01-01").item(), data.splits.train[1])})
    data = data.model_copy(update={"splits": splits.model_copy(update={"base_period": splits.before_test})})
    prepare(data)
    recipes = [fitted.recipe_of_fit(run, Prepared.of(data), before) for before in (0, 355)]
    changed = make_sst(YEARS)
    changed["sst"].loc[{"time": "2002-07-01"}] += 1
    write(run, changed)
    shutil.rmtree(Prepared.of(data).cube)
    prepare(data)
    again = [fitted.recipe_of_fit(run, Prepared.of(data), before) for before in (0, 355)]
    assert [new == old for new, old in zip(again, recipes, strict=True)] == [True, False]


def test_the_recipe_of_a_fit_has_the_weights_and_the_days_that_tell_the_statistics(run: Run) -> None:
    def recipe() -> dict[str, Any]:
        return fitted.recipe_of_fit(run, Prepared.of(run.config.data))

    recipes, other = [recipe()], make_run(run.config.model_copy(update={"name": "other"}), (1,))
    replace_weights(run, other.best.read_bytes())
    recipes.append(recipe())
    sst = make_sst(YEARS)
    sst["sst"] += 1
    write(run, sst)
    shutil.rmtree(Prepared.of(run.config.data).cube)
    prepare(run.config.data)
    recipes.append(recipe())
    changed = [{key for key in one if one[key] != then[key]} for one, then in pairwise(recipes)]
    assert changed == [{"checkpoints"}, {"days"}]


def test_a_forecast_s_fit_is_kept_alone_and_made_again_if_swapped_cut_or_edited(run: Run, tmp_path: Path) -> None:
    """Not the held-out one, nor any in a folder that is read-only."""
    data = newest(run)
    ours, theirs = (Fits.of(Prepared.of(data)).model(held_out=each, **MODEL).weight for each in (False, True))
    with patch("os.access", return_value=False):
        assert torch.equal(weight(run, data), ours)
    assert not kept_fits(run)
    assert torch.equal(expected := weight(run, data), ours)
    assert torch.equal(system_of(run, Prepared.of(data), held_out=True).models[0].weight, theirs)
    (file,) = kept_fits(run)
    note, whole = file.with_name(f".{file.name}.note"), file.read_bytes()
    with xr.open_dataset(file) as opened:
        other = (opened.load() * 2).assign_attrs(opened.attrs | {"recipe": "{}"})
    other.to_netcdf(tmp_path / "other.nc")
    swapped = (tmp_path / "other.nc").read_bytes()
    for damaged, has_note in ((swapped, True), (swapped, False), (whole[:-100], True), (whole[:-100], False)):
        file.write_bytes(damaged)
        if not has_note:  # as after a kill between the file and its note
            note.unlink()
        file.with_name(f".{file.name}.partial").write_bytes(whole[:50])  # of a killed process
        assert torch.equal(weight(run, data), expected)
        assert is_read(run, data, expected)
    # An edited one would be taken else, without its note. So would one that a link leads to, which is the user's.
    with xr.open_dataset(file, engine="netcdf4") as opened:
        edited = opened.load().map(lambda field: field + 1, keep_attrs=True)
    file.unlink()
    edited.to_netcdf(file, engine="netcdf4")
    note.unlink()
    assert torch.equal(weight(run, data), expected)
    mine = file.rename(run.folder / "mine.nc")
    content = mine.read_bytes()
    file.symlink_to(mine)
    note.rename(run.folder / ".mine.nc.note")
    assert torch.equal(weight(run, data), expected)
    assert not file.is_symlink()
    assert mine.read_bytes() == content


def _store(folder: Path, data: DataConfig, out: Path) -> None:
    torch.save(weight(Run(folder), data), out)


def _end_while_saving(folder: Path, data: DataConfig) -> None:
    def half_written(_: xr.Dataset, path: Path, **__: Any) -> None:
        path.write_bytes(b"\x89HDF\r\n\x1a\n")
        os.kill(os.getpid(), signal.SIGKILL)

    with patch.object(xr.Dataset, "to_netcdf", half_written):
        weight(Run(folder), data)


def test_after_a_kill_two_processes_at_once_read_their_own_years(run: Run, tmp_path: Path) -> None:
    years, files = [newest(run, 1999 + YEARS), newest(run)], [tmp_path / "earlier.pt", tmp_path / "later.pt"]
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["sstcast.forecasting.system", "pytest"])  # PyTorch is imported once for all
    killed = context.Process(target=_end_while_saving, args=(run.folder, years[1]))
    killed.start()
    killed.join()
    assert killed.exitcode == -signal.SIGKILL
    assert not kept_fits(run)
    both = [
        context.Process(target=_store, args=(run.folder, data, file))
        for data, file in zip(years, files, strict=True)
    ]
    for process in both:
        process.start()
    for process in both:
        process.join()
    for data, file in zip(years, files, strict=True):
        assert torch.equal(torch.load(file, weights_only=True), fit(data))


def test_what_finds_its_work_done_imports_no_pytorch_and_draws_nothing(run: Run) -> None:
    """Nor does it load weights to learn how many days a memory reads."""
    model = MODEL | {"memory": True}
    run = make_run(configure(run.folder.parent.parent, run.config.data.source, "memory", model))
    issued = run.folder / f"forecasts/forecast-{2000 + YEARS}-12-31.nc"
    update(run.folder)
    code = f"""import sys, sstcast
done = [sstcast.forecast({str(run.folder)!r}, out={str(issued)!r}).new, sstcast.update({str(run.folder)!r}).code]
print(done, {{"torch", "matplotlib", "bokeh", "cartopy"}} & set(sys.modules))"""
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert out.stdout == f"[False, {NOTHING_NEW}] set()\n", out.stderr


def test_a_file_replaced_before_it_is_opened_is_not_read(tmp_path: Path) -> None:
    def made(value: float) -> xr.Dataset:
        return xr.Dataset({"a": ("x", [value])})

    file = tmp_path / "a.nc"
    cached(file, {"year": 1}, lambda: made(1.0)).close()
    with patch("sstcast.storage.dataset_files.is_up_to_date", return_value=True):
        assert cached(file, {"year": 2}, lambda: made(2.0))["a"].item() == 2.0
    assert cached(file, {"year": 1}, lambda: made(3.0))["a"].item() == 1.0


def test_a_file_deleted_before_it_is_opened_is_computed_again(tmp_path: Path) -> None:
    def made() -> xr.Dataset:
        return xr.Dataset({"a": ("x", [1.0])})

    def deleted(dataset: xr.Dataset, path: Path, **options: Any) -> None:
        write_file(dataset, path, **options)
        path.unlink()

    with patch("sstcast.storage.dataset_files.write", deleted):
        assert cached(tmp_path / "a.nc", {"year": 1}, made)["a"].item() == 1.0


def test_runs_of_one_system_share_a_fit_and_networks_on_it(run: Run) -> None:
    """The base of a network on one tile is the linear system of the same options. Its share is its own."""
    one_tile = {"lon": [170, 173], "lat": [-12, -10], "tile": [8, 12]}
    linear, network = (
        make_run(configure(run.folder.parent.parent, run.config.data.source, name, model, region=one_tile))
        for name, model in (
            ("linear", MODEL),
            ("network", {"name": "mpnn", "width": 4, "layers": 1, "base": {"name": "linear", "stencil": True}}),
        )
    )
    data = newest(linear)
    expected = weight(linear, data)
    with patch("sstcast.models.linear.MultiscaleRidge.fit", side_effect=AssertionError("fitted")):
        assert torch.equal(system_of(network, Prepared.of(data)).models[0].linear.weight, expected)
    assert len(kept_fits(linear)) == 1

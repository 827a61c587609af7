"""A run is scored on, and forecasts from, the data it was trained on: everything else is refused in one line."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from logged import logged
from scored_runs import configure
from small_ocean import make_sst
from untrained import make_run

from sstcast.config import RunConfig, load_config
from sstcast.errors import SSTCastError
from sstcast.extremes import heatwaves
from sstcast.extremes.heatwaves import limits_of
from sstcast.forecasting.forecast import forecast
from sstcast.forecasting.loaded_run import load_run
from sstcast.ocean import prepared
from sstcast.ocean.prepare import prepare
from sstcast.ocean.prepared import Prepared, changed_days, check_source
from sstcast.reading.digests import digests
from sstcast.runs import Run
from sstcast.scores.evaluate import compare_runs, evaluate
from sstcast.storage import artefacts
from sstcast.storage.artefacts import digest, fingerprint, remove
from sstcast.training.data_record import check_data
from sstcast.training.train import train, training_windows

SHORT = ["training.epochs=1", "training.windows_per_epoch=20", "data.splits.test=[2004-01-01, 2004-02-29]"]


def write(path: Path, seed: int = 0, warmer: float = 0, days: slice = slice(None)) -> Path:
    """Write the small ocean, some days of it warmer."""
    path.parent.mkdir(parents=True, exist_ok=True)
    data = make_sst(seed=seed)
    data["sst"][days] += warmer
    path.unlink(missing_ok=True)
    data.to_netcdf(path)
    return path


def configured(run_yaml: Path, source: Path, *overrides: str) -> RunConfig:
    return load_config(run_yaml, [f"data.source={source}", *SHORT, *overrides])


def trained(config: RunConfig) -> Run:
    """Prepare, and make a run as a training leaves it."""
    prepare(config.data)
    return make_run(config)


@pytest.fixture(scope="module")
def first_stores(tmp_path_factory: pytest.TempPathFactory, sst_file: Path) -> Path:
    """The stores of the small ocean. Tests change a copy."""
    config = configure(tmp_path_factory.mktemp("first"), sst_file, directory=tmp_path_factory.mktemp("stores"))
    prepare(config.data)
    return config.data.directory


@pytest.fixture
def stores(tmp_path: Path, first_stores: Path) -> Path:
    return Path(shutil.copytree(first_stores, tmp_path / "prepared"))


def prepared_again(config: RunConfig) -> list[str]:
    with logged() as lines:
        prepare(config.data)
    return lines


def refuses(run: Run, config: RunConfig) -> None:
    """Every verb that uses the run's data refuses it, and names the run and the store."""
    pattern = rf"{run.folder}: was trained on other data than .*cube.zarr holds: cube [0-9a-f]+ of .*; restore"
    for verb in (
        lambda: evaluate(run),
        lambda: train(config, training_windows(config)),
        lambda: forecast(run.folder),
        lambda: load_run(run.folder),
    ):
        with pytest.raises(SSTCastError, match=pattern):
            verb()


def test_two_sources_of_one_name_share_nothing(tmp_path: Path, run_yaml: Path) -> None:
    here, there = (configured(run_yaml, write(tmp_path / name / "sst.nc", seed)) for seed, name in enumerate("ab"))
    run = trained(here)
    prepare(there.data)
    assert not prepared_again(here)
    check_data(run)
    names = {Prepared.of(config.data).cube.parent.name for config in (here, there)}
    assert len(names | {"sample-tasman"}) == 3
    (tmp_path / "c").symlink_to(tmp_path / "a")  # a source is where it lies, whatever way leads there
    assert Prepared.of(configured(run_yaml, tmp_path / "c/sst.nc").data).cube == Prepared.of(here.data).cube


def test_a_source_that_was_replaced_is_refused(tmp_path: Path, run_yaml: Path) -> None:
    config = configured(run_yaml, write(tmp_path / "sst.nc"))
    run = trained(config)
    evaluate(run)
    write(tmp_path / "sst.nc", seed=1)
    with pytest.raises(SSTCastError, match=r"sst.nc: has changed since .* on 1155 days, the first 2001-01-01"):
        training_windows(config)
    with pytest.raises(SSTCastError, match=r"sst.nc: has changed since"):
        forecast(run.folder)
    assert prepared_again(config)[0].endswith("days written")
    refuses(run, config)
    write(tmp_path / "sst.nc")  # the first one again, at another time
    prepared_again(config)
    assert not evaluate(run)[1]
    assert forecast(run.folder)[1]


def test_runs_of_one_configuration_and_two_oceans_are_not_compared(tmp_path: Path, run_yaml: Path) -> None:
    source = write(tmp_path / "sst.nc")
    ours = trained(configured(run_yaml, source))
    write(source, seed=1)
    theirs = trained(configured(run_yaml, source, "name=other"))
    with pytest.raises(SSTCastError, match=rf"{theirs.folder}: its test days have different values"):
        compare_runs(ours, theirs)


def test_a_jump_in_one_year_is_seen_and_one_after_the_run_is_not(tmp_path: Path, run_yaml: Path) -> None:
    config = configured(run_yaml, write(tmp_path / "sst.nc"))
    run = trained(config)
    write(tmp_path / "sst.nc", warmer=0.5, days=slice(1400, None))
    prepared_again(config)
    check_data(run)  # those days are not the run's
    write(tmp_path / "sst.nc", warmer=0.01, days=slice(700, 701))
    prepared_again(config)
    with pytest.raises(SSTCastError, match="was trained on other data"):
        check_data(run)


@pytest.mark.parametrize("store", ["cube", "anomalies"])
def test_what_is_damaged_is_named_and_made_again(
    tmp_path: Path, run_yaml: Path, sst_file: Path, store: str
) -> None:
    config = configured(run_yaml, sst_file)
    run = trained(config)
    path: Path = getattr(Prepared.of(config.data), store)
    chunk = path / ("sst" if store == "cube" else "anomaly") / "11.0.0"  # of the test days
    whole = chunk.read_bytes()
    chunk.write_bytes(whole[:-20] + bytes([whole[-20] ^ 1]) + whole[-19:])
    with pytest.raises(SSTCastError, match=rf"^{path}: has changed since it was written; run `sstcast prepare`"):
        for dataset in Prepared.of(config.data).open():
            dataset.load()
    chunk.unlink()
    with pytest.raises(SSTCastError, match=r"has changed since it was written; run `sstcast prepare`"):
        evaluate(run)
    path.with_name(f".{path.name}.note").unlink()  # as of a copy without it
    with pytest.raises(SSTCastError, match=r"lacks 1 of 12 chunks\); run `sstcast prepare`"):
        evaluate(run)
    assert prepared_again(config) == [f"{path}: 1461 days written"]
    check_data(run)


def test_a_damaged_record_is_named_and_an_absent_one_passes_with_a_line(
    run_yaml: Path, sst_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = trained(configured(run_yaml, sst_file))
    whole = json.loads(run.data.read_text())
    digests = {"cube", "test", "statistics", "anomalies", "weights", "initial_weights", "predictors"}
    assert set(whole) == {"source", *digests}
    for text in ("", "[]", "{}", '{"cube": 1}', "[" * 100_000):
        run.data.write_text(text)
        with pytest.raises(SSTCastError, match=r"data.json: cannot be read"):
            check_data(run)
    run.data.unlink()
    check_data(run)
    assert "has no data.json; its data are not checked" in capsys.readouterr().err


def test_stores_with_another_layout_are_named_and_made_again(
    run_yaml: Path, sst_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = configured(run_yaml, sst_file)
    run = trained(config)
    limits_of(Prepared.of(config.data)).close()
    for module in (prepared, heatwaves):
        monkeypatch.setattr(module, "LAYOUT", 99)
    cube, limits = Prepared.of(config.data).cube, Prepared.of(config.data).limits
    with pytest.raises(
        SSTCastError, match=f"^{cube}: was made by another version of sstcast; run `sstcast prepare`"
    ):
        evaluate(run)
    assert len(prepared_again(config)) == 3
    assert prepared_again(config) == []
    check_data(run)  # the weights are of the same data
    for lines in ([f"{limits}: was made by another version of sstcast; it is made again"], []):
        with logged() as told:
            limits_of(Prepared.of(config.data)).close()
        assert told == lines


def test_newer_days_of_the_same_source_are_welcome_and_lost_ones_are_not(tmp_path: Path, run_yaml: Path) -> None:
    source = tmp_path / "sst.nc"
    whole = make_sst()
    whole.isel(time=slice(1300)).to_netcdf(source)
    config = configured(run_yaml, source)
    run = trained(config)
    source.unlink()
    whole.to_netcdf(source)
    path, new = forecast(run.folder)
    assert new
    assert path.name == "forecast-2004-12-31.nc"
    source.unlink()
    whole.isel(time=slice(1100)).to_netcdf(source)
    with pytest.raises(SSTCastError, match=r"sst.nc: has changed since .* on 55 days, the first 2004-01-06"):
        forecast(run.folder)


def test_the_sample_keeps_its_name_and_the_fingerprint_sees_every_file(tmp_path: Path, run_yaml: Path) -> None:
    config = load_config(run_yaml, ["data.source=sample", "data.region=tasman"])
    assert Prepared.of(config.data).cube.parent.name == "sample-tasman"
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "a/b/c").write_text("1")
    seen = {fingerprint(tmp_path / "a")}
    (tmp_path / "a/b/c").write_text("12")
    seen.add(fingerprint(tmp_path / "a"))
    (tmp_path / "a/b/c").rename(tmp_path / "a/b/d")
    seen.add(fingerprint(tmp_path / "a"))
    assert len(seen) == 3


def test_digests_are_of_values_alone() -> None:
    sst = make_sst(years=1)["sst"].astype("float32")
    ours = digests(sst)
    assert ours.equals(digests(sst.chunk(time=7, lat=3)).compute())
    assert len(np.unique(ours)) == sst.sizes["time"]
    one = sst.copy()
    one[5, 3, 3] += 0.01
    assert np.flatnonzero(digests(one).values != ours.values).tolist() == [5]


def disguise(path: Path, other: Path) -> None:
    """Replace the content of a file, which keeps its size and time of modification, as rsync -t does."""
    state = path.stat()
    assert other.stat().st_size == state.st_size
    path.write_bytes(other.read_bytes())
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))


def test_another_ocean_of_the_same_size_and_time_is_noticed(tmp_path: Path, run_yaml: Path) -> None:
    """Also where its days differ only after those of the run."""
    source, other = write(tmp_path / "a.nc"), write(tmp_path / "b/a.nc", seed=1)
    first, late = write(tmp_path / "c/a.nc"), write(tmp_path / "d/a.nc", warmer=1, days=slice(-9, None))
    config = configured(run_yaml, source)
    run, before = trained(config), fingerprint(source)
    cube = Prepared.of(config.data).open_cube()["digest"].load()
    disguise(source, other)
    assert fingerprint(source) == before
    with pytest.raises(SSTCastError, match=r"a.nc: has changed since .*cube.zarr was made from it, on 1155 days"):
        forecast(run.folder)
    assert any("cube.zarr" in line for line in prepared_again(config))
    refuses(run, config)
    disguise(source, first)
    prepare(config.data)
    assert Prepared.of(config.data).open_cube()["digest"].equals(cube)
    forecast(run.folder, out=tmp_path / "f.nc")
    disguise(source, late)
    assert not changed_days(Prepared.of(config.data)).size  # of the splits
    assert any("cube.zarr" in line for line in prepared_again(config))
    assert Prepared.of(config.data).open_cube()["digest"][-9:].values.tolist() != cube[-9:].values.tolist()
    with xr.open_dataset(first) as days:
        lost = days.load()
    source.unlink()
    lost.drop_sel(time=[np.datetime64("2004-02-05")]).to_netcdf(source)
    with pytest.raises(
        SSTCastError, match=r"a.nc: 2004-02-05 is missing, which .*cube.zarr was made from; restore it"
    ):
        check_source(Prepared.of(config.data))


@pytest.mark.parametrize("case", ["copied", "chmod"])
def test_a_project_that_was_copied_is_compared_once_and_nothing_is_written(
    tmp_path: Path, run_yaml: Path, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    config = configured(run_yaml, write(tmp_path / "a.nc"))
    run = trained(config)
    source, folder = Path(config.data.source), Prepared.of(config.data).cube.parent
    for path in (source, folder):
        if case == "copied":
            aside = path.with_name("aside")
            (shutil.copytree if path.is_dir() else shutil.copy2)(path, aside)  # keep times of modification
            remove(path)
            aside.rename(path)
    for file in (source, *folder.rglob("*")):
        if case == "chmod" and file.is_file():
            file.chmod(0o640)
    kept = {file: file.stat().st_mtime_ns for file in folder.rglob("*") if file.suffix not in (".note", ".lock")}
    read: list[str] = []
    for function in ("open_region", "digest"):
        module, original = (prepared, prepared.open_region) if function == "open_region" else (artefacts, digest)
        monkeypatch.setattr(module, function, lambda *given, of=original, f=function: read.append(f) or of(*given))
    for reads in (1, 0):
        read.clear()
        check_source(Prepared.of(config.data))
        check_data(run)
        assert prepared_again(config) == []
        assert read.count("open_region") == reads
        assert bool(read.count("digest")) == bool(reads)
    assert {file: file.stat().st_mtime_ns for file in kept} == kept


def test_other_days_under_the_size_and_time_of_a_file_are_prepared_as_anew(tmp_path: Path) -> None:
    source, sst = tmp_path / "sst.nc", make_sst(years=4)["sst"].load()
    splits = {"train": ["2001-06-01", 2002], "validation": [2003, 2003], "test": ["2004-01-01", "2004-10-31"]}
    config = configure(tmp_path, source, splits=splits, directory=tmp_path / "first")
    days: Any = {"time": {"units": "days since 2000-01-01"}}
    options: Any = {"engine": "netcdf4", "format": "NETCDF3_64BIT", "encoding": days}
    sst.to_netcdf(source, **options)
    prepare(config.data)
    before = source.stat()
    sst.assign_coords(time=sst["time"] + np.timedelta64(30, "D")).to_netcdf(source, **options)
    assert source.stat().st_size == before.st_size
    os.utime(source, ns=(before.st_atime_ns, before.st_mtime_ns))
    folders = (tmp_path / name for name in ("first", "second"))
    again, anew = (prepare(config.data.model_copy(update={"directory": folder})) for folder in folders)
    for name in ("open_cube", "open_anomalies", "open_statistics"):
        one, other = (getattr(stores, name)().drop_attrs() for stores in (again, anew))
        xr.testing.assert_identical(one, other)

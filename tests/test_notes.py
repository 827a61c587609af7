"""A file counts as made only if it is the one that was written, as in git's index."""

import json
import os
import shutil
import time
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from refusals import refused

from sstcast.storage import artefacts
from sstcast.storage.artefacts import as_text, check_intact, is_intact, is_up_to_date, noted, write_json
from sstcast.storage.cf import describe
from sstcast.storage.dataset_files import write, write_zarr

RECIPE = {"layout": 1, "weights": "abc"}


def ocean(first: float = 0) -> xr.Dataset:
    sst = first + np.arange(48, dtype="float32").reshape(4, 3, 4)
    axes = {"time": np.arange("2000-01-01", 4, dtype="datetime64[D]").astype("datetime64[ns]")}
    axes |= {"lat": np.arange(3.0), "lon": np.arange(4.0)}
    return xr.Dataset({"sst": (("time", "lat", "lon"), sst)}, axes).chunk(time=2)


def make(path: Path, first: float = 0) -> None:
    if path.suffix == ".json":
        write_json(path, {"recipe": RECIPE, "rmse": first})
    else:
        write(describe(ocean(first), recipe=as_text(RECIPE)), path)


@pytest.fixture(params=["a.zarr", "a.nc", "a.json"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    make(tmp_path / request.param)
    return tmp_path / request.param


def note(path: Path) -> Path:
    return path.with_name(f".{path.name}.note")


def replace(path: Path, by: Path) -> None:
    artefacts.remove(path)
    shutil.move(by, path)


def test_what_was_written_is_made_and_what_replaces_it_is_not(path: Path, tmp_path: Path) -> None:
    assert is_up_to_date(path, RECIPE)
    assert not is_up_to_date(path, RECIPE | {"weights": "other"})
    other = tmp_path / "b" / path.name
    other.parent.mkdir()
    make(other, first=1)  # with the same recipe
    replace(path, other)
    assert not is_up_to_date(path, RECIPE)
    with refused(path, "has changed since it was written; again"):
        check_intact(path, "again")
    make(path)
    assert is_up_to_date(path, RECIPE)


def test_a_copy_is_read_once(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    there = tmp_path / "there"
    there.mkdir()
    for one in (path, note(path)):
        shutil.copytree(one, there / one.name) if one.is_dir() else shutil.copyfile(one, there / one.name)
    for file in there.rglob("*"):
        os.utime(file, (1, 1))
    assert is_up_to_date(there / path.name, RECIPE)
    monkeypatch.setattr(artefacts, "digest", lambda path: pytest.fail("read again"))
    assert is_up_to_date(there / path.name, RECIPE)


def test_files_without_a_note_count_by_their_recipe_and_get_one(path: Path) -> None:
    whole = json.loads(note(path).read_text())
    for content in (None, "{", json.dumps({key: of for key, of in whole.items() if key != "changes"})):
        note(path).unlink()
        if content is not None:
            note(path).write_text(content)
        assert not is_up_to_date(path, RECIPE | {"config": 1})
        assert is_up_to_date(path, RECIPE)
        assert json.loads(note(path).read_text()) == whole


def test_a_kill_while_a_file_is_replaced_leaves_no_note_of_the_old_one(path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), noted(path, RECIPE):
        raise KeyboardInterrupt
    assert is_up_to_date(path, RECIPE)


def test_two_chunks_exchanged_and_a_chunk_lost(tmp_path: Path) -> None:
    path = tmp_path / "a.zarr"
    write_zarr(describe(ocean(), recipe=as_text(RECIPE)), path, {"time": 2})
    assert is_up_to_date(path, RECIPE)  # which notes it
    first, second = (path / f"sst/{number}.0.0" for number in (0, 1))
    ours, theirs = first.read_bytes(), second.read_bytes()
    first.write_bytes(theirs)
    second.write_bytes(ours)
    assert not is_intact(path)
    first.write_bytes(ours)
    second.write_bytes(theirs)
    assert is_intact(path)
    first.unlink()
    assert not is_intact(path)


def test_in_a_read_only_folder_nothing_is_written(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    note(path).unlink()

    def refuse(path: Path) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(artefacts, "atomic", refuse)
    assert is_up_to_date(path, RECIPE)


def test_a_store_of_two_gibibytes_takes_less_than_a_second(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "big.zarr"
    monkeypatch.setattr(artefacts, "digest", lambda path: "")  # which is read only once it has changed
    with noted(path, RECIPE) as temporary:
        temporary.mkdir()
        for number in range(512):
            with (temporary / f"{number}.0.0").open("wb") as file:
                file.truncate(2**22)
    monkeypatch.setattr(artefacts, "digest", lambda path: pytest.fail("read"))
    started = time.process_time()
    assert is_up_to_date(path, RECIPE)
    assert time.process_time() - started < 0.5

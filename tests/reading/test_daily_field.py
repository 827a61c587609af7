"""The names of stores, by which earlier projects find theirs, and what each kind of source tells of itself."""

import hashlib
import importlib
import json
from pathlib import Path

import pytest
import xarray as xr

from sstcast.config import FieldSource
from sstcast.reading import raw
from sstcast.reading.daily_field import DailyField, FetchedDays, HeldObject, Sample, Url, source_of
from sstcast.reading.xarray_objects import hold


def hashed(*keys: object) -> str:
    return hashlib.sha256(json.dumps(keys).encode()).hexdigest()[:8]


@pytest.mark.parametrize(
    ("source", "kind", "stem", "key"),
    [
        ("days/sst.nc", DailyField, "sst", "{here}/days/sst.nc"),
        ("./days//sst.nc", DailyField, "sst", "{here}/days/sst.nc"),
        ("days", DailyField, "days", "{here}/days"),
        ("https://data.example//a/sst.zarr/", Url, "sst", "https://data.example/a/sst.zarr"),
        ("s3://bucket/sst.zarr", Url, "sst", "s3://bucket/sst.zarr"),
        ("object:0123abcd", HeldObject, "object", "object:0123abcd"),
        ("sample", Sample, "sample", "{here}/sample"),
    ],
)
def test_names_of_stores_are_those_of_earlier_versions(
    source: str, kind: type[DailyField], stem: str, key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    field, key = source_of(source), key.format(here=tmp_path.resolve())
    assert type(field) is kind
    assert field.name("sst", None, 2) == f"{stem}-{hashed(key, 'sst', None, 2)}"
    whole = "sample" if source == "sample" else f"{stem}-{hashed(key, None, None, 0)}"
    assert field.name(None, None, 0) == whole
    assert str(field.path) == str(FieldSource(source=source).path)


def test_a_path_called_sample_is_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert not source_of(Path("sample")).exists()
    assert source_of("sample").exists()


def test_readers_see_a_folder_and_the_number_of_its_files(tmp_path: Path) -> None:
    folder = tmp_path / "days"
    (folder / "2001").mkdir(parents=True)
    for name in ("b.nc", "2001/a.nc", "note.txt"):
        (folder / name).touch()
    days = source_of(folder)
    assert days.called("a.nc") == "days, 2 files"
    assert (
        days.called("sea surface temperature of NOAA (a.nc)") == "sea surface temperature of NOAA (days, 2 files)"
    )
    assert days.called("NOAA OISST") == "NOAA OISST (days, 2 files)"
    for other in (folder / "b.nc", "sample", "https://data.example/days", "absent"):
        assert source_of(other).called("a.nc") == "a.nc"


def test_each_kind_tells_whether_it_is_there(tmp_path: Path) -> None:
    days = xr.Dataset({"sst": ("time", [1.0])})
    held, absent = source_of(hold(days)), source_of("object:absent")
    assert held.exists()
    assert held.state() == hold(days).partition(":")[2]
    assert not absent.exists()
    assert absent.state() == ""
    assert {source.needs_python for source in (held, absent)} == {True}
    url = source_of("https://data.example/sst.zarr")
    assert url.exists()
    assert url.changes() == ""
    assert url.reads_region
    assert not url.needs_python
    file = tmp_path / "sst.nc"
    assert not source_of(file).exists()
    file.write_bytes(b"1")
    first = source_of(file).state(), source_of(file).changes()
    file.write_bytes(b"12")
    assert source_of(file).exists()
    assert source_of(file).state() != first[0]
    assert source_of(file).contents() is None
    assert source_of(file).states(FieldSource(source=str(file))) is None


def test_a_fetched_store_is_found_by_its_arrays(tmp_path: Path) -> None:
    for array in ("sst", "status"):
        (tmp_path / array).mkdir()
        (tmp_path / array / ".zarray").touch()
    field = source_of(tmp_path)
    assert type(field) is FetchedDays
    assert field.checked
    assert field.beside("out.nc") == tmp_path.parent / "out.nc"
    assert source_of("object:0").beside("out.nc") == Path("out.nc")


def test_sources_written_for_the_earlier_name_of_raw_find_what_they_import() -> None:
    earlier = importlib.import_module("sstcast.reading.raw")
    for name in ("Day", "pack", "block_of", "OPTIONAL"):
        assert getattr(earlier, name) is getattr(raw, name)

"""OISST's ice and error in raw stores: on all days of a store or on none, and read as predictors."""

from pathlib import Path
from urllib.parse import unquote

import numpy as np
import pytest
import xarray as xr
import zarr
from oisst_server import (
    DAYS,
    REGION,
    daily_file,
    daily_files,
    daily_path,
    err_hundredths,
    hundredths,
    ice_hundredths,
    yearly_file,
)
from storing import EARLY, assert_holds, get, put, tree

import sstcast
from sstcast.config import FieldSource
from sstcast.errors import SSTCastError
from sstcast.reading.raw import FIRST_DAY, open_days
from sstcast.reading.reading import open_daily, open_sst
from sstcast.sources import find_source
from sstcast.sources.source import FetchRequest
from sstcast.storage.stores import consolidate

FEW = DAYS[:12]
ICE, BOTH = ("sst", "ice"), ("sst", "ice", "err")


def expected(name: str, days: list) -> np.ndarray:
    """Return what a store should hold, `[time, lat, lon]`, from the values in the files."""
    stored = np.stack([{"ice": ice_hundredths, "err": err_hundredths}[name](date) for date in days]) / 100
    land = np.stack([hundredths(date) for date in days]) == -999
    stored[stored == -9.99] = 0 if name == "ice" else np.nan
    return np.where(land, np.nan, stored)


def assert_holds_optional(path: Path, name: str, days: list) -> None:
    """Exactly `days` have the variable, with the values of their files, and 0 where there is no ice."""
    held = open_days(path)[name].load()
    has_values = held.notnull().any(("lat", "lon"))
    assert held["time"].values[has_values].astype("datetime64[D]").tolist() == days
    np.testing.assert_allclose(held[has_values], expected(name, days), atol=1e-6)


@pytest.fixture
def oisst(aws):
    aws.files = daily_files(DAYS, optional=True)
    return aws


def test_ice_and_error_are_kept_beside_sst(oisst, tmp_path: Path) -> None:
    assert get(tmp_path, FEW, variables=BOTH).complete
    path = tmp_path / "a.zarr"
    assert_holds(path, FEW)
    for name in ("ice", "err"):
        assert_holds_optional(path, name, FEW)
    with xr.open_zarr(path) as plain:
        assert plain["ice"].attrs["standard_name"] == "sea_ice_area_fraction"
        assert plain["err"].attrs["units_metadata"] == "temperature: difference"
    np.testing.assert_allclose(open_sst(FieldSource(source=str(path))), open_days(path)["sst"])
    (contents,) = sstcast.status(path)
    assert contents.sources == {"aws": 12}


def test_a_store_keeps_its_variables_for_new_days(oisst, tmp_path: Path) -> None:
    path = tmp_path / "a.zarr"
    get(tmp_path, FEW, variables=ICE)
    oisst.seen.clear()
    get(tmp_path, DAYS[:20])
    assert set(oisst.seen) == {daily_path(date) for date in DAYS[12:20]}
    assert_holds_optional(path, "ice", DAYS[:20])
    assert_holds(path, DAYS[:20])
    assert "err" not in open_days(path)
    assert get(tmp_path, DAYS[:20], variables=ICE).lines()[0].endswith("nothing to do, all 20 days are present")


@pytest.mark.parametrize(
    ("first", "then", "words"),
    [
        (("sst",), ICE, "a.zarr: holds sst, without ice; fetch it into another --out"),
        (ICE, BOTH, "a.zarr: holds sst, ice, without err; fetch it into another --out"),
    ],
)
def test_a_store_gets_no_other_variables(oisst, tmp_path: Path, first, then, words: str) -> None:
    get(tmp_path, FEW[:5], variables=first)
    before = tree(tmp_path / "a.zarr")
    oisst.seen.clear()
    with pytest.raises(SSTCastError, match=words):
        get(tmp_path, FEW, variables=then)
    assert not oisst.seen
    assert tree(tmp_path / "a.zarr") == before


def test_a_store_with_ice_on_some_days_is_refused(oisst, tmp_path: Path) -> None:
    """Earlier versions could add ice to some days. A store with ice on all opens and grows."""
    path = tmp_path / "a.zarr"
    get(tmp_path, FEW, variables=ICE)
    status = zarr.open_group(path, mode="r+", zarr_format=2)["status"]
    status[:] = np.where(status[:] > 0, status[:] + 2, 0)
    status.attrs["flag_meanings"] = "missing aws aws_preliminary aws+ice aws+ice_preliminary"
    consolidate(path)
    get(tmp_path, DAYS[:20])
    assert_holds_optional(path, "ice", DAYS[:20])
    status[(FEW[3] - FIRST_DAY).days] = 1
    for use in (open_days, lambda path: get(path.parent, DAYS[:21])):
        with pytest.raises(SSTCastError, match="not all of its days have the same variables; fetch them"):
            use(path)


def test_final_versions_of_preliminary_days_have_ice(oisst, tmp_path: Path) -> None:
    path = tmp_path / "a.zarr"
    oisst.files = daily_files(FEW, preliminary=True, optional=True)
    assert get(tmp_path, FEW, variables=ICE).preliminary == tuple(FEW)
    assert_holds_optional(path, "ice", FEW)
    assert_holds(path, FEW, preliminary=tuple(FEW))
    oisst.files = daily_files(FEW, optional=True)
    assert get(tmp_path, FEW).fetched == 12
    assert_holds_optional(path, "ice", FEW)
    assert_holds(path, FEW)


@pytest.mark.parametrize(
    ("source", "variables", "words"),
    [
        ("psl", ICE, "the source psl has no 'ice', but sst; choose among these, or another --source"),
        ("sample", BOTH, "the source sample has no 'ice', but sst"),
        ("aws", ("sst", "anom"), "the source aws has no 'anom', but sst, ice, err"),
    ],
)
def test_a_source_without_them_is_refused(tmp_path: Path, source: str, variables, words: str) -> None:
    with pytest.raises(SSTCastError, match=words):
        get(tmp_path, FEW, source, variables=variables)
    assert not (tmp_path / "a.zarr").exists()


def test_a_day_whose_file_has_no_ice_is_listed(oisst, tmp_path: Path) -> None:
    oisst.files |= daily_files(FEW[:1])
    report = get(tmp_path, FEW, variables=ICE)
    assert list(report.missing) == FEW[:1]
    assert report.missing[FEW[0]].startswith("aws: its file has no ice; ncei: ")
    assert_holds(tmp_path / "a.zarr", FEW[1:])
    assert_holds_optional(tmp_path / "a.zarr", "ice", FEW[1:])


def test_a_source_of_sst_alone_adds_no_days_to_a_store_with_ice(oisst, tmp_path: Path) -> None:
    get(tmp_path, FEW, variables=ICE)
    with pytest.raises(SSTCastError, match="holds sst, ice of each day, but the source psl has only sst; choose"):
        get(tmp_path, DAYS[:14], "psl")
    assert_holds_optional(tmp_path / "a.zarr", "ice", FEW)


@pytest.mark.parametrize("kind", ["mirror", "folder"])
def test_daily_files_of_mirrors_and_folders_have_ice(server, tmp_path: Path, kind: str) -> None:
    server.files = daily_files(FEW, optional=True) | {"/sst.day.mean.2020.nc": yearly_file(DAYS)}
    folder = tmp_path / "files"
    folder.mkdir()
    for path, content in daily_files(FEW, optional=True).items():
        (folder / Path(path).name).write_bytes(content)
    report = get(tmp_path, FEW, server.url if kind == "mirror" else str(folder), variables=BOTH)
    assert report.complete
    assert "/sst.day.mean.2020.nc" not in server.seen
    for name in ("ice", "err"):
        assert_holds_optional(tmp_path / "a.zarr", name, FEW)


def test_erddap_is_asked_for_all_variables() -> None:
    request = FetchRequest(FEW[0], FEW[0], "erddap", region=REGION, variables=BOTH)
    query = unquote(find_source("erddap").open(request)[0].files(FEW[0])[0].partition("?")[2])
    cut = "[(2020-02-25T12:00:00Z)][(0.0)][(-0.875):(0.875)][(180.125):(181.875)]"
    assert query == f"sst{cut},ice{cut},err{cut}"


def test_the_command_passes_variables_on(oisst, tmp_path: Path, command) -> None:
    path, options = tmp_path / "a.zarr", ["--start", FEW[0], "--end", FEW[-1], "--region", REGION]
    assert command("fetch", *options, "--out", path, "--variables", "sst, ice")[0] == 0
    assert_holds_optional(path, "ice", FEW)
    assert "err" not in open_days(path)
    code, _, said = command("fetch", *options, "--out", path, "--variables", "wind")
    assert code == 2
    assert "--variables sst,wind: the source aws has no 'wind', but sst, ice, err" in said


def test_ice_that_is_no_share_is_refused(tmp_path: Path, oisst, monkeypatch) -> None:
    monkeypatch.setattr("oisst_server.ice_hundredths", lambda date: np.full((8, 8), 4000, np.int16))
    oisst.files = {daily_path(FEW[0]): daily_file(FEW[0], optional=True)}
    report = get(tmp_path, FEW[:1], variables=ICE)
    assert "aws: ice of 40..40 of 1" in report.missing[FEW[0]]


def test_a_lost_file_of_ice_is_one_line_and_not_days_without_it(tmp_path: Path) -> None:
    put(tmp_path / "a.zarr", EARLY, ice=True)
    (tmp_path / "a.zarr/ice/1.0.0").unlink()
    with pytest.raises(SSTCastError, match=r"a\.zarr: cannot be read \(its file ice/1\.0\.0 is missing"):
        open_days(tmp_path / "a.zarr")


def test_ice_is_read_as_a_daily_field_and_sst_is_the_default(oisst, tmp_path: Path) -> None:
    get(tmp_path, FEW, variables=ICE)
    read = open_daily(FieldSource(source=str(tmp_path / "a.zarr"), variable="ice"))
    assert read.attrs["units"] == "1"
    np.testing.assert_allclose(read, expected("ice", FEW), atol=1e-6)
    sst = open_daily(FieldSource(source=str(tmp_path / "a.zarr")))
    np.testing.assert_allclose(sst, open_days(tmp_path / "a.zarr")["sst"], atol=1e-5)

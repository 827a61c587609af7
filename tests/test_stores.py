"""Files from strangers: ordinary ones open, those that reach out of themselves or run code do not."""

import contextlib
import json
import os
import pickle
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import netCDF4
import numpy as np
import pytest
import xarray as xr
import zarr
from numcodecs import FixedScaleOffset, Shuffle, Zstd

from sstcast.errors import SSTCastError
from sstcast.storage.cf import describe
from sstcast.storage.dataset_files import write, write_zarr
from sstcast.storage.stores import open_netcdf, open_written, open_zarr

REMEDY = "get it again"


def ocean() -> xr.Dataset:
    """Four days of a tiny ocean, with a variable of text."""
    sst = np.arange(48.0, dtype="float32").reshape(4, 3, 4)
    axes = {"time": np.arange("2000-01-01", 4, dtype="datetime64[D]").astype("datetime64[ns]")}
    axes |= {"lat": np.arange(3.0), "lon": np.arange(4.0)}
    return xr.Dataset({"sst": (("time", "lat", "lon"), sst)}, axes)


def test_variables_in_blocks_of_several_lengths_are_written(tmp_path: Path) -> None:
    blocks = xr.Dataset({name: ocean()["sst"].chunk(time=length) for name, length in (("sst", 2), ("other", 3))})
    write(describe(blocks), tmp_path / "a.zarr", chunks={"time": 2})
    xr.testing.assert_equal(open_written(tmp_path / "a.zarr", REMEDY)[["sst", "other"]].load(), blocks.load())


def refusal(opening: Callable[..., Any], path: Path) -> str:
    with pytest.raises(SSTCastError) as error:
        opening(path, REMEDY)
    text = str(error.value)
    assert text.startswith(f"{path}: cannot be read (")
    assert text.endswith(f"; {REMEDY}")
    assert "\n" not in text
    return text


@pytest.fixture(params=[2, 3])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    ocean().to_zarr(tmp_path / "ocean.zarr", zarr_format=request.param, consolidated=request.param == 2)
    return tmp_path / "ocean.zarr"


@pytest.fixture
def store2(tmp_path: Path) -> Path:
    ocean().to_zarr(tmp_path / "two.zarr", zarr_format=2, consolidated=True)
    return tmp_path / "two.zarr"


def edit(file: Path, change: Callable[[dict[str, Any]], object]) -> None:
    content = json.loads(file.read_text())
    change(content)
    file.write_text(json.dumps(content))


@pytest.mark.parametrize("format_", ["NETCDF3_CLASSIC", "NETCDF3_64BIT", "NETCDF4", "NETCDF4_CLASSIC"])
def test_every_netcdf_opens_whatever_it_is_called(tmp_path: Path, format_: Any) -> None:
    ocean().to_netcdf(tmp_path / "ocean", engine="netcdf4", format=format_)
    with open_netcdf(tmp_path / "ocean", REMEDY) as opened:
        assert np.array_equal(opened["sst"], ocean()["sst"])


def test_an_open_file_keeps_few_decoded_chunks(tmp_path: Path) -> None:
    """A folder of many files is read in the memory of a block, not of 64 MiB for each file."""
    xr.Dataset({"sst": ("time", np.arange(10.0))}).to_netcdf(tmp_path / "a.nc", engine="netcdf4")
    netCDF4.set_chunk_cache(2**26)
    with open_netcdf(tmp_path / "a.nc", ""), netCDF4.Dataset(tmp_path / "a.nc") as file:
        assert file["sst"].get_var_chunk_cache()[0] <= 2**24


def test_texts_come_back_and_have_a_length_of_their_own(tmp_path: Path) -> None:
    """HDF5 may look for texts of any length in another file, if several are open at a time."""
    path, names = tmp_path / "a.nc", ["pier", "", "Bucht Ä", "日本", "x" * 300]
    fields = {"value": ("place", np.arange(5.0)), "kind": ("place", names[::-1])}
    write(xr.Dataset(fields, {"place": names}), path)
    with open_netcdf(path, "delete it") as opened:
        assert opened.sizes == {"place": 5}
        assert [opened[name].values.tolist() for name in ("place", "kind")] == [names, names[::-1]]
    with netCDF4.Dataset(path) as file:
        assert all(variable.dtype is not str for variable in file.variables.values())


def test_zarr_of_both_formats_opens_also_through_a_link(store: Path) -> None:
    store.with_name("link").symlink_to(store)
    for path in (store, store.with_name("link")):
        assert open_zarr(path, REMEDY).load().equals(ocean())


def test_filters_shards_and_text_open(tmp_path: Path) -> None:
    packed = {"filters": [FixedScaleOffset(0, 100, "f4", "i2"), Shuffle(2)], "compressors": [Zstd(3)]}
    ocean().to_zarr(tmp_path / "packed", zarr_format=2, encoding={"sst": packed}, consolidated=True)
    assert open_zarr(tmp_path / "packed", REMEDY).load().equals(ocean())
    sharded = {"sst": {"shards": (4, 3, 4), "chunks": (2, 3, 2)}}
    ocean().to_zarr(tmp_path / "sharded", zarr_format=3, encoding=sharded, consolidated=False)
    assert open_zarr(tmp_path / "sharded", REMEDY).load().equals(ocean())
    text = ocean().assign(name=("time", np.array(list("abcd"), object)))
    text.to_zarr(tmp_path / "text", zarr_format=2, consolidated=True)
    assert open_zarr(tmp_path / "text", REMEDY)["name"].values.tolist() == list("abcd")


class Payload:
    """Unpickled, it makes a folder."""

    def __init__(self, made: Path) -> None:
        self.made = made

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.made),)


@pytest.mark.parametrize("filters", [["pickle"], ["vlen-utf8", "pickle"], ["json2"], ["msgpack2"], ["vlen-array"]])
@pytest.mark.parametrize("where", [".zarray", ".zmetadata"])
def test_codecs_that_run_code_are_refused(store2: Path, filters: list[str], where: str) -> None:
    made = store2.with_name("made")
    for chunk in (store2 / "sst").glob("[0-9]*"):
        chunk.write_bytes(pickle.dumps(Payload(made)))
    objects = {"dtype": "|O", "compressor": None, "filters": [{"id": name} for name in filters], "fill_value": 0}
    if where == ".zmetadata":
        edit(store2 / where, lambda c: c["metadata"]["sst/.zarray"].update(objects))
    else:
        edit(store2 / "sst/.zarray", lambda c: c.update(objects))
        (store2 / ".zmetadata").unlink()
    refusal(open_zarr, store2)
    assert not made.exists()


@pytest.mark.parametrize("inside", [False, True])
def test_codecs_that_run_code_are_refused_in_format_3_too(tmp_path: Path, inside: bool) -> None:
    ocean().to_zarr(tmp_path / "z", zarr_format=3, consolidated=False)
    bad: list[Any] = [{"name": "numcodecs.pickle", "configuration": {}}]
    if inside:
        shard = {"chunk_shape": [1, 1, 1], "codecs": bad, "index_codecs": ["bytes"]}
        bad = [{"name": "sharding_indexed", "configuration": shard}]
    edit(tmp_path / "z/sst/zarr.json", lambda c: c.update(codecs=bad))
    assert "numcodecs.pickle" in refusal(open_zarr, tmp_path / "z")


def test_what_is_no_store_is_one_line(tmp_path: Path, store2: Path) -> None:
    for path in (tmp_path / "absent", tmp_path, store2 / ".zmetadata"):
        refusal(open_zarr, path)
    whole = (store2 / ".zmetadata").read_bytes()
    for text in (b"", b"\x00\xff", b"[]", b'{"metadata": {"sst/.zarray": 1}}'):
        (store2 / ".zmetadata").write_bytes(text)
        refusal(open_zarr, store2)
    (store2 / ".zmetadata").write_bytes(whole)
    (store2 / "time/0").write_bytes(b"damaged")
    refusal(open_zarr, store2)


def elsewhere(path: Path, kind: str, target: Path) -> None:
    """Write an HDF5 file whose sst is in `target`."""
    with h5py.File(path, "w") as file:
        if kind == "external storage":
            file.create_dataset("sst", (8,), "i1", external=[(str(target), 0, 8)])
        elif kind == "external link":
            file.create_group("deep/down")["sst"] = h5py.ExternalLink(str(target), "/sst")
        elif kind == "virtual dataset":
            layout = h5py.VirtualLayout((4,), maxshape=(None,), dtype="f4")
            layout[0:4:1] = h5py.VirtualSource(str(target), "sst", (4,), maxshape=(None,))[0:4]
            file.create_virtual_dataset("sst", layout)
        else:
            file["out"] = h5py.ExternalLink(str(target), "/")
            file["sst"] = h5py.SoftLink("/out/sst")


@pytest.mark.parametrize(
    "kind",
    ["external storage", "external link", "virtual dataset", "soft link out of the file"],
)
def test_hdf5_that_leads_elsewhere_is_refused_before_it_is_followed(tmp_path: Path, kind: str) -> None:
    os.mkfifo(tmp_path / "target")  # whoever opened it would wait for ever
    elsewhere(tmp_path / "a.nc", kind, tmp_path / "target")
    assert "another file" in refusal(open_netcdf, tmp_path / "a.nc")


def test_what_is_no_netcdf_is_one_line(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "empty").touch()
    (tmp_path / "page").write_text("<!DOCTYPE html>")
    (tmp_path / "hdf5").write_bytes(b"\x89HDF\r\n\x1a\n" + bytes(100))
    (tmp_path / "classic").write_bytes(b"CDF\x01" + b"\xff" * 100)
    whole = tmp_path / "whole"
    ocean().to_netcdf(whole, engine="netcdf4")
    (tmp_path / "cut").write_bytes(whole.read_bytes()[:2000])
    for name in ("absent", "pipe", "empty", "page", "hdf5", "classic", "cut", "."):
        refusal(open_netcdf, tmp_path / name)


def test_a_store_of_ours_is_whole_or_refused(tmp_path: Path) -> None:
    """Every file of a store lost, cut in half and with a bit flipped: it holds the same values or is an error."""
    path, random, refused = tmp_path / "ours.zarr", np.random.default_rng(0), set()
    write_zarr(describe(ocean(), title="an ocean"), path, {"time": 2})
    whole = open_written(path, REMEDY).load()
    xr.testing.assert_equal(whole["sst"], ocean()["sst"])
    files = [file for file in path.rglob("*") if file.is_file()]
    for file in files:
        content = file.read_bytes()
        flipped = bytearray(content)
        flipped[random.integers(len(content))] ^= 1 << int(random.integers(8))
        for damaged in (None, content[: len(content) // 2], bytes(flipped)):
            file.unlink() if damaged is None else file.write_bytes(damaged)
            said, found = f"{path}: ; {REMEDY}", whole
            try:
                found = open_written(path, REMEDY).load()
            except SSTCastError as error:
                said = str(error)
                refused.add(file.relative_to(path))
            assert found.identical(whole), file
            assert re.fullmatch(rf"{path}: [^\n]*; {REMEDY}", said)
        file.write_bytes(content)
    assert refused >= {Path(name) for name in (".zmetadata", ".zattrs", "sst/0.0.0", "sst/1.0.0", "time/0")}
    edit(path / ".zmetadata", lambda content: content["metadata"]["sst/.zattrs"].update(units="K"))
    with pytest.raises(SSTCastError, match="its metadata are damaged"):
        open_written(path, REMEDY)


def test_a_flipped_bit_in_a_chunk_of_netcdf_is_never_another_value(tmp_path: Path) -> None:
    path = tmp_path / "ours.nc"
    write(describe(ocean(), title="an ocean"), path)
    with h5py.File(path) as file:
        chunk = file["sst"].id.get_chunk_info(0)
    content = path.read_bytes()
    for place in range(chunk.byte_offset, chunk.byte_offset + chunk.size):
        flipped = bytearray(content)
        flipped[place] ^= 1 << place % 8
        path.write_bytes(flipped)
        with open_netcdf(path, REMEDY) as found, contextlib.suppress(SSTCastError):
            np.testing.assert_array_equal(found["sst"], ocean()["sst"])


@pytest.mark.parametrize("is_sharded", [False, True])
def test_a_pipe_in_place_of_a_chunk_is_refused(is_sharded: bool, tmp_path: Path) -> None:
    encoding = {"sst": {"chunks": (1, 3, 4)} | ({"shards": (2, 3, 4)} if is_sharded else {})}
    ocean().to_zarr(tmp_path / "a.zarr", zarr_format=3, consolidated=False, encoding=encoding)
    chunk = next(
        path for path in sorted((tmp_path / "a.zarr/sst").rglob("*")) if path.name == "0" and path.is_file()
    )
    chunk.unlink()
    os.mkfifo(chunk)
    opened = open_zarr(tmp_path / "a.zarr", REMEDY)
    told = refusal(lambda path, remedy: opened["sst"].load(), tmp_path / "a.zarr")
    assert "a pipe or a device, not a file" in told


CLAIMED = 10**9


def claimed_netcdf(path: Path, name: str, **attributes: str) -> None:
    with netCDF4.Dataset(path, "w", format="NETCDF3_64BIT_OFFSET" if path.suffix == ".cdf" else "NETCDF4") as file:
        file.set_fill_off()
        file.createDimension(name, CLAIMED)
        file.createVariable(name, "f8", (name,), chunksizes=(1000,) if path.suffix == ".nc" else None).setncatts(
            attributes
        )


def claimed_zarr(path: Path, name: str, version: int, **attributes: str) -> None:
    group = zarr.create_group(path, zarr_format=version)
    dims = {"dimension_names": [name]} if version == 3 else {}
    array = group.create_array(name, shape=(CLAIMED,), chunks=(1000,), dtype="f8", **dims)
    array.attrs.update(attributes | ({} if version == 3 else {"_ARRAY_DIMENSIONS": [name]}))


@pytest.mark.parametrize(
    ("kind", "name", "attributes"),
    [
        *((kind, name, {}) for kind in ("nc", "cdf", "zarr2", "zarr3") for name in ("lat", "time")),
        ("nc", "x", {"units": "degrees_east"}),
        ("zarr3", "y", {"standard_name": "latitude"}),
    ],
)
def test_an_axis_that_claims_more_than_any_has_is_not_read(
    kind: str, name: str, attributes: dict[str, str], tmp_path: Path
) -> None:
    path = tmp_path / f"a.{kind}"
    if kind.startswith("zarr"):
        claimed_zarr(path, name, int(kind[-1]), **attributes)
    else:
        claimed_netcdf(path, name, **attributes)
    told = refusal(open_zarr if path.is_dir() else open_netcdf, path)
    assert f"{name} claims 1,000,000,000 values" in told


def test_a_mesh_may_have_more_cells_than_an_axis_has_values(tmp_path: Path) -> None:
    cells = 2 * 10**6
    mesh = xr.Dataset(coords={"lat": ("cell", np.zeros(cells, "i1")), "cell": np.zeros(cells, "i1")})
    mesh.to_netcdf(tmp_path / "a.nc", engine="netcdf4", encoding={name: {"zlib": True} for name in mesh.variables})
    assert open_netcdf(tmp_path / "a.nc", REMEDY).sizes["cell"] == cells

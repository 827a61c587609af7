"""Chunks that a Zarr store lacks are missing, land, zeros that were left out, or lost, as they were written."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from bucket_server import serving
from logged import logged
from refusals import refused
from small_ocean import make_sst

from sstcast.config import FieldSource
from sstcast.reading.forecast_files import read_forecasts
from sstcast.reading.reading import open_daily, open_sst

OCEAN = make_sst(1)
CHUNKS = {"chunks": (100, 4, 4)}
PACKED = {"dtype": "int16", "scale_factor": 0.01, "add_offset": 20.0, "_FillValue": -32768} | CHUNKS
LOST = "c/2/1/0"  # days 200 to 299 of the rows from 4 on and the columns to 3
pytestmark = pytest.mark.filterwarnings("ignore:Consolidated metadata")


def store(path: Path, data: xr.Dataset, encoding: dict[str, Any], fill: Any = None, version: Any = 3) -> Path:
    """Write a store. `fill` replaces the fill value in its metadata, as other libraries write it."""
    (name,) = data.data_vars
    data.to_zarr(path, zarr_format=version, encoding={name: encoding}, consolidated=True)
    if fill is not None:
        content = json.loads((path / "zarr.json").read_text())
        content["consolidated_metadata"]["metadata"][name]["fill_value"] = fill
        (path / "zarr.json").write_text(json.dumps(content))
        array = json.loads((path / name / "zarr.json").read_text())
        (path / name / "zarr.json").write_text(json.dumps(array | {"fill_value": fill}))
    return path


def without_chunk(data: xr.DataArray) -> xr.DataArray:
    return data.where(
        (data["time"] < data["time"][200]) | (data["time"] > data["time"][299]) | cells_outside(data)
    )


def cells_outside(data: xr.DataArray) -> xr.DataArray:
    return (data["lat"] < data["lat"][4]) | (data["lon"] > data["lon"][3])


@pytest.mark.parametrize(
    ("encoding", "fill", "attributes", "value"),
    [
        (PACKED, None, {}, 20),
        (CHUNKS, 0.0, {}, 0),
        (PACKED | {"add_offset": 60.0}, None, {}, 60),
        (PACKED, -32768, {}, None),
        ({**PACKED, "missing_value": -32768}, -32768, {}, None),
        (CHUNKS, None, {}, None),  # NaN
        (PACKED | {"add_offset": 60.0}, None, {"valid_max": 50.0}, None),
    ],
)
def test_a_lost_chunk_of_sst_is_refused_where_it_would_read_as_a_value(
    tmp_path: Path, encoding: dict[str, Any], fill: Any, attributes: dict[str, Any], value: float | None
) -> None:
    data = OCEAN.assign(sst=OCEAN["sst"].assign_attrs(attributes))
    path = store(tmp_path / "a.zarr", data, encoding, fill)
    with open_sst(FieldSource(source=str(path))) as sst:
        np.testing.assert_allclose(sst, OCEAN["sst"], atol=0.006)
    (path / "sst" / LOST).unlink()
    if value is not None:
        with refused(f"a.zarr: sst lacks 1 of 24 chunks, which would read as {value}"):
            open_sst(FieldSource(source=str(path)))
        return
    with open_sst(FieldSource(source=str(path))) as sst:
        np.testing.assert_allclose(sst, without_chunk(OCEAN["sst"]), atol=0.006)


@pytest.mark.parametrize("at_url", [False, True])
def test_chunks_that_zarr_left_out_are_read(tmp_path: Path, at_url: bool) -> None:
    """Land on all days of SST is no loss, and neither are the zeros of ice. A wind of 20 m/s is one."""
    land = OCEAN.assign(sst=OCEAN["sst"].where(cells_outside(OCEAN["sst"])).fillna(20))
    store(tmp_path / "land.zarr", land, PACKED)  # land has the number that is left out
    assert not [*(tmp_path / "land.zarr/sst").glob("c/*/1/0")]
    ice = OCEAN["sst"].where(~cells_outside(OCEAN["sst"]), 0).rename("ice")
    store(tmp_path / "ice.zarr", ice.fillna(0).to_dataset(), CHUNKS, 0.0)
    for pattern in ("c/*/0/*", "c/*/1/[12]"):  # of zeros alone
        for chunk in (tmp_path / "ice.zarr/ice").glob(pattern):
            chunk.unlink()
    store(tmp_path / "wind.zarr", OCEAN.rename(sst="wind"), PACKED)
    for name, lost in (("land", "sst/c/2/0/1"), ("wind", f"wind/{LOST}")):
        (tmp_path / f"{name}.zarr" / lost).unlink()
    with serving(tmp_path) as (url, _), logged() as lines:
        at = f"{url}/" if at_url else f"{tmp_path}/"
        with open_daily(FieldSource(source=f"{at}ice.zarr")) as field:
            np.testing.assert_allclose(field, ice.fillna(0), atol=0.006)
        told = [line for line in lines if "ice is read with 0 in chunks that are not there" in line]
        lost = ["its chunk wind/c/2/1/0 is missing"] if at_url else ["wind lacks 1 of 24 chunks", "read as 20"]
        with refused("wind.zarr", *lost), open_daily(FieldSource(source=f"{at}wind.zarr")) as field:
            field.load()
        lost = ["its chunk sst/c/2/0/1 is missing"] if at_url else ["sst lacks 1 of 24 chunks"]
        with refused("land.zarr", *lost), open_sst(FieldSource(source=f"{at}land.zarr")) as sst:
            sst[:, :4].load()
    assert len(told) == 1
    assert at_url or told[0].endswith(", 20 of 24")


@pytest.mark.parametrize("at_url", [False, True])
def test_land_that_was_left_out_is_read(tmp_path: Path, at_url: bool) -> None:
    land = OCEAN.assign(sst=OCEAN["sst"].where(cells_outside(OCEAN["sst"])).fillna(20))
    path = store(tmp_path / "land.zarr", land, PACKED)
    with (
        serving(tmp_path) as (url, _),
        open_sst(FieldSource(source=f"{url}/land.zarr" if at_url else path)) as sst,
    ):
        np.testing.assert_allclose(sst, land["sst"], atol=0.006)


def test_a_lost_chunk_of_forecasts_is_refused(tmp_path: Path) -> None:
    forecasts = OCEAN["sst"][:300].rename(time="init_time").expand_dims(lead=[1, 2], axis=1)
    forecasts["lead"].attrs["units"] = "days"
    path = store(tmp_path / "f.zarr", forecasts.to_dataset(), PACKED | {"chunks": (100, 1, 4, 4)})
    read_forecasts(path)
    (path / "sst/c/2/1/1/0").unlink()
    with refused("f.zarr: sst lacks 1 of 36 chunks"):
        read_forecasts(path)


@pytest.mark.parametrize(("version", "fill"), [(2, 0.0), (2, -1.0), (3, 0.0)])
def test_zeros_that_are_missing_by_the_default_of_zarr_2_are_told(
    tmp_path: Path, version: int, fill: float
) -> None:
    ice = OCEAN["sst"].fillna(0).where(cells_outside(OCEAN["sst"]), 0).rename("ice").to_dataset()
    path = store(
        tmp_path / "ice.zarr", ice, CHUNKS | ({"_FillValue": fill} if version == 2 else {}), version=version
    )
    with logged() as lines, open_daily(FieldSource(source=path)) as field:
        assert bool(field.isnull().any()) == (version == 2 and fill == 0)
    told = [line for line in lines if "ice is read with 0 as missing, because 0 is its fill_value" in line]
    assert len(told) == (version == 2 and fill == 0)

"""Level 3 SST: flags beside it are used or named, and the days on which it serves are told."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from logged import logged
from refusals import refused
from small_ocean import make_sst

from sstcast.config import FieldSource
from sstcast.reading.plausible import checked
from sstcast.reading.reading import open_daily, open_sst

AXES = ("time", "lat", "lon")
GHRSST = "no_data bad_data worst_quality low_quality acceptable_quality best_quality"
BYTES = {"flag_values": np.arange(6, dtype="i1")}
MUR = "open_sea land open_lake open_sea_with_ice_in_the_grid open_lake_with_ice_in_the_grid"
MASKS = {"flag_masks": np.array([1, 2, 4, 8, 16], "i1"), "flag_meanings": MUR}
LEVELS = np.random.default_rng(3).integers(0, 6, (1461, 8, 12)).astype("i1")


def write(
    path: Path, name: str, flags: np.ndarray, attributes: dict[str, Any], dims: tuple[str, ...] = AXES
) -> xr.DataArray:
    data = make_sst()
    data[name] = (dims, flags, attributes)
    data.isel(lat=slice(None, None, -1)).to_netcdf(path, encoding={name: {"_FillValue": np.int8(-128)}})
    return data["sst"]


@pytest.mark.parametrize(
    ("name", "attributes", "best"),
    [
        ("quality_level", {"flag_meanings": GHRSST} | BYTES, 5),
        ("quality_level", {}, 5),  # as GHRSST defines it
        ("quality_level", {"flag_values": np.arange(3, dtype="i1"), "flag_meanings": "best_quality low bad"}, 0),
        ("sst_flag", {"flag_values": np.arange(1, 4, dtype="i1"), "flag_meanings": "good suspect bad"}, 1),
    ],
)
def test_only_values_of_the_best_quality_are_read(
    tmp_path: Path, name: str, attributes: dict[str, Any], best: int
) -> None:
    expected = write(tmp_path / "l3.nc", name, LEVELS, attributes).where(
        xr.DataArray(LEVELS, dims=AXES).isin(best)
    )
    with logged() as lines, open_sst(FieldSource(source=str(tmp_path / "l3.nc"))) as sst:
        np.testing.assert_allclose(sst.values, expected.values, rtol=1e-6)
    assert [line for line in lines if line.endswith(f"l3.nc: sst is read where {name} is {best}, the best, alone")]
    with open_daily(FieldSource(source=str(tmp_path / "l3.nc"), variable="sst")) as field:  # a predictor
        np.testing.assert_allclose(field.values, expected.values, rtol=1e-6)
    with open_daily(FieldSource(source=str(tmp_path / "l3.nc"), variable=name)) as field:
        np.testing.assert_array_equal(field.values, LEVELS)


def test_land_of_a_mask_is_left_out_and_its_other_flags_are_named(tmp_path: Path) -> None:
    mask = np.random.default_rng(4).choice(np.array([1, 2, 5, 9, 13, 3, -128], "i1"), (1461, 8, 12))
    expected = write(tmp_path / "mur.nc", "mask", mask, MASKS)
    is_land = np.isin(mask, [2, 3])
    with logged() as lines, open_sst(FieldSource(source=str(tmp_path / "mur.nc"))) as sst:
        np.testing.assert_allclose(sst.values, expected.where(~is_land).values, rtol=1e-6)
    assert [
        line
        for line in lines
        if line.endswith("mur.nc: sst is read without land of mask, whose other flags are not used")
    ]
    write(tmp_path / "values.nc", "mask", mask, {"flag_values": MASKS["flag_masks"], "flag_meanings": MUR})
    with logged() as lines, open_sst(FieldSource(source=str(tmp_path / "values.nc"))) as sst:
        np.testing.assert_allclose(sst.values, expected.where(mask != 2).values, rtol=1e-6)


def test_flags_that_are_not_used_are_named(tmp_path: Path) -> None:
    clouds = {"flag_values": np.arange(2, dtype="i1"), "flag_meanings": "clear cloudy"}
    expected = write(tmp_path / "l3.nc", "cloud", LEVELS % 2, clouds)
    write(tmp_path / "flat.nc", "mask", LEVELS[0], MASKS, AXES[1:])
    for name, flag in (("l3.nc", "cloud"), ("flat.nc", "mask")):
        with logged() as lines, open_sst(FieldSource(source=str(tmp_path / name))) as sst:
            np.testing.assert_allclose(sst.values, expected.values, rtol=1e-6)
        assert [
            line for line in lines if line.endswith(f"{name}: sst is read without regard to the flags in {flag}")
        ]


def test_it_is_told_from_which_day_a_record_serves() -> None:
    sst = make_sst()["sst"].chunk(time=100)
    first, whole = sst["time"] < np.datetime64("2001-02-10"), sst["time"] != sst["time"][700]
    with refused("l3.nc", "not before 2001-02-10, where values begin: save only the days from then on", "level 4"):
        checked(sst.where(~first | (sst["lon"] < 171)), Path("l3.nc"), gaps=3)[0].compute()
    odd = xr.DataArray(np.arange(1461)[:, None] % 2 == np.arange(12) % 2, dims=("time", "lon"))
    with refused("l3.nc", "in time, or use a gap-free (level 4) analysis"):  # no day is whole
        checked(sst.where(odd), Path("l3.nc"))[0].compute()
    with refused("l3.nc", "longer than data.gaps: 3; raise it to fill them linearly in time, or use"):
        checked(sst.where(whole), Path("l3.nc"), gaps=3)[0].compute()

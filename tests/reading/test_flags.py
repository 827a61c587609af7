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
from sstcast.reading.flags import tell_invalid
from sstcast.reading.forecast_files import read_forecasts
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


GOOD = {"flag_values": np.arange(6, dtype="i1"), "flag_meanings": "a b c d good_quality best_quality"}
OF_SALT = {"standard_name": "sea_surface_salinity"}
ANCILLARY = {"ancillary_variables": "flag"}


@pytest.mark.parametrize(
    ("of_sst", "of_salt", "of_flag", "is_used"),
    [
        ({}, {}, {}, True),
        ({}, ANCILLARY, {}, False),
        ({}, OF_SALT, {"standard_name": "sea_surface_salinity status_flag"}, False),
        (ANCILLARY, ANCILLARY, {}, True),
        ({"ancillary_variables": "other"}, {}, {}, False),
        ({"ancillary_variables": "absent"}, {}, {}, True),
    ],
)
def test_sst_is_judged_by_its_own_flags(
    tmp_path: Path, of_sst: dict[str, str], of_salt: dict[str, str], of_flag: dict[str, str], is_used: bool
) -> None:
    """Of two qualities that are called good and best, only the best is read. Masks of land are for all."""
    data = make_sst(1)
    flags, others = LEVELS[:365], LEVELS[365:730]
    land = data["sst"][0].isnull().values
    data["salt"] = data["sst"] + 10
    data["flag"] = AXES, flags, GOOD | of_flag
    data["mask"] = ("lat", "lon"), ~land, LAND_SEA
    data["sst"].attrs |= of_sst
    data["salt"].attrs |= of_salt
    if of_sst.get("ancillary_variables") == "other":
        data["other"] = AXES, others, GOOD
    data.fillna({"sst": 0}).to_netcdf(tmp_path / "a.nc")
    kept = flags == 5 if is_used else others == 5 if "other" in data else np.ones(flags.shape, bool)
    with open_sst(FieldSource(source=str(tmp_path / "a.nc"), variable="sst")) as sst:
        np.testing.assert_allclose(sst, data["sst"].where(xr.DataArray(kept, dims=AXES)), rtol=1e-6)


def test_land_of_a_mask_is_left_out_and_its_other_flags_are_named(tmp_path: Path) -> None:
    mask = np.random.default_rng(4).choice(np.array([1, 2, 5, 9, 13, 3, -128], "i1"), (1461, 8, 12))
    expected = write(tmp_path / "mur.nc", "mask", mask, MASKS)
    is_land = np.isin(mask, [2, 3])
    with logged() as lines, open_sst(FieldSource(source=str(tmp_path / "mur.nc"))) as sst:
        np.testing.assert_allclose(sst.values, expected.where(~is_land).values, rtol=1e-6)
    lakes = "open_lake and open_lake_with_ice_in_the_grid of it stay sea"
    assert [
        line for line in lines if line.endswith(f"without land of mask, whose other flags are not used; {lakes}")
    ]
    write(tmp_path / "values.nc", "mask", mask, {"flag_values": MASKS["flag_masks"], "flag_meanings": MUR})
    with logged() as lines, open_sst(FieldSource(source=str(tmp_path / "values.nc"))) as sst:
        np.testing.assert_allclose(sst.values, expected.where(mask != 2).values, rtol=1e-6)


def test_flags_that_are_not_used_are_named(tmp_path: Path) -> None:
    clouds = {"flag_values": np.arange(2, dtype="i1"), "flag_meanings": "clear cloudy"}
    expected = write(tmp_path / "l3.nc", "cloud", LEVELS % 2, clouds)
    levels = {"flag_values": np.arange(2, dtype="i1"), "flag_meanings": "land sea"}
    write(tmp_path / "row.nc", "mask", LEVELS[:, 0] % 2, levels, ("time", "lon"))
    for name, flag in (("l3.nc", "cloud"), ("row.nc", "")):
        with logged() as lines, open_sst(FieldSource(source=str(tmp_path / name))) as sst:
            np.testing.assert_allclose(sst.values, expected.values, rtol=1e-6)
        told = f"{name}: sst is read without regard to the flags in {flag}"
        assert not flag or [line for line in lines if line.endswith(told)]


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


IS_SEA = np.random.default_rng(6).random((8, 12)) > 0.3
LAND_SEA = {"flag_values": np.array([0.0, 1.0]), "flag_meanings": "land water"}  # as ROMS writes


@pytest.mark.parametrize(
    ("name", "mask", "attributes", "told"),
    [
        ("mask_rho", IS_SEA, LAND_SEA, "without land of mask_rho, whose other flags are not used"),
        ("lsm", ~IS_SEA * 0.9 + 0.05, {}, "where lsm is 0, the sea by its name, alone"),  # shares, as ECMWF writes
        ("tmask", IS_SEA, {}, "where tmask is 1, the sea by its name, alone"),
        ("wet", np.where(IS_SEA, 1, np.nan), {}, "where wet is 1, the sea by its name, alone"),
        ("m", ~IS_SEA, {"standard_name": "land_binary_mask"}, "where m is 0, the sea by its standard name, alone"),
        ("m", IS_SEA, {"standard_name": "sea_binary_mask"}, "where m is 1, the sea by its standard name, alone"),
        ("lsm", IS_SEA, {"standard_name": "sea_binary_mask"}, "lsm is 1, the sea by its standard name, alone"),
    ],
)
def test_a_mask_without_days_is_used(
    tmp_path: Path, name: str, mask: np.ndarray, attributes: dict[str, Any], told: str
) -> None:
    """The file stores latitudes from the north, as the mask does, and a folder tells a line once."""
    data = make_sst()
    data[name] = (AXES[1:], np.asarray(mask, "f4"), attributes)
    expected = data["sst"].where(xr.DataArray(IS_SEA, dims=AXES[1:]))
    files = data.set_coords(name).isel(lat=slice(None, None, -1))
    for year in (2001, 2002):
        files.sel(time=str(year)).to_netcdf(tmp_path / f"{year}.nc")
    with logged() as lines, open_sst(FieldSource(source=str(tmp_path))) as sst:
        np.testing.assert_allclose(sst.values, expected.sel(time=slice("2001", "2002")).values, rtol=1e-6)
    assert [line.endswith(told) for line in lines] == [True]


def test_a_mask_or_range_that_leaves_no_sea_is_refused_by_name(tmp_path: Path) -> None:
    data = make_sst()
    data["tmask"] = (AXES[1:], np.zeros((8, 12), "f4"))
    data.to_netcdf(tmp_path / "land.nc")
    with refused("land.nc: sst has no value on its first day if it is read where tmask is 1"):
        open_sst(FieldSource(source=str(tmp_path / "land.nc")))
    data["tmask"] = data["sst"][0].isnull().astype("f4")  # 1 is land
    data["tmask"][3, 3] = 0
    data.to_netcdf(tmp_path / "turned.nc")
    with refused("turned.nc", "read where tmask is 1"):
        open_sst(FieldSource(source=str(tmp_path / "turned.nc")))
    for attributes in ({"valid_range": np.array([270.0, 310.0])}, {"valid_min": 270.0}):
        ranged = make_sst()
        ranged["sst"].attrs |= attributes
        path = tmp_path / f"{next(iter(attributes))}.nc"
        ranged.to_netcdf(path)
        with refused(f"{path.name}: sst has no value on its first day if it is read in its valid_", "(270.."):
            open_sst(FieldSource(source=str(path)))


PACKED = {"dtype": "i2", "scale_factor": 0.01, "add_offset": 20.0, "_FillValue": -32768}


@pytest.mark.parametrize(
    ("encoding", "attributes", "low", "high"),
    [
        (PACKED, {"valid_min": np.int16(-100), "valid_max": np.int16(500)}, 19.0, 25.0),  # packed as its values
        (PACKED, {"valid_range": np.array([-100, 500])}, 19.0, 25.0),  # as netCDF4 writes numbers of Python
        (PACKED, {"valid_range": np.array([19, 25], "f4")}, 19.0, 25.0),  # in degrees
        (PACKED | {"scale_factor": -0.01}, {"valid_min": np.int16(-500)}, -np.inf, 25.0),
        (
            PACKED | {"dtype": "u2", "add_offset": 0.0, "_FillValue": 65535},
            {"valid_max": np.uint16(2500)},
            0,
            25.0,
        ),
        ({"dtype": "f4"}, {"valid_range": np.array([19.1, 25.3])}, np.float32(19.1), np.float32(25.3)),
        ({"dtype": "f4"}, {"valid_range": "19 25"}, -np.inf, np.inf),  # no numbers
    ],
)
def test_values_outside_the_valid_range_are_missing_and_counted(
    tmp_path: Path, encoding: dict[str, Any], attributes: dict[str, Any], low: float, high: float
) -> None:
    """Also without `isel`, netCDF4's own reader masks them."""
    data = make_sst()
    data["sst"][7, 3, :2] = np.array([19.1, 25.3], "f4")
    data["sst"].attrs |= attributes
    data.to_netcdf(tmp_path / "a.nc", encoding={"sst": encoding})
    stored = xr.open_dataset(tmp_path / "a.nc")["sst"].astype("f4")
    expected = stored.where((stored >= low - 1e-4 * (encoding["dtype"] != "f4")) & (stored <= high + 1e-4))
    with logged() as lines, open_sst(FieldSource(source=str(tmp_path / "a.nc"))) as sst:
        np.testing.assert_array_equal(np.isnan(sst.values), np.isnan(expected.values))
        np.testing.assert_allclose(sst.values, expected.values, atol=1e-5)
        sst[:10].compute()  # counts no value twice
    count = int((stored.notnull() & expected.isnull()).sum())
    assert bool(count) == np.isfinite(high)
    assert [line for line in lines if f"a.nc: sst has {count} values outside its valid_" in line] or not count


def test_the_range_and_mask_of_forecasts_and_of_predictors_count(tmp_path: Path) -> None:
    init = np.datetime64("2002-01-01", "ns") + np.arange(3) * np.timedelta64(1, "D")
    values = np.full((3, 2, 8, 12), 20.0, "f4") + np.arange(12, dtype="f4")
    attributes = {"units": "degC", "valid_range": np.array([20, 29], "f4")}
    axes = {"init_time": init, "lead": ("lead", [1, 2], {"units": "days"})}
    axes |= {"lat": np.arange(8.0), "lon": np.arange(12.0), "wet": (("lat", "lon"), IS_SEA.astype("f4"))}
    data = xr.Dataset({"sst": (("init_time", "lead", "lat", "lon"), values, attributes)}, axes)
    data["sst_spread"] = (data["sst"].dims, 1 + 0 * values, {"units": "degC", "valid_max": np.float32(2)})
    data["sst_spread"][1, 1, 3, 4:7] = 9
    data.to_netcdf(tmp_path / "ahead.nc")
    found = read_forecasts(tmp_path / "ahead.nc")
    expected = np.where(IS_SEA & (values <= 29), values, np.nan)
    np.testing.assert_array_equal(found.sst[0].values, expected)
    of_spread = data["sst_spread"].values  # which has a range of its own
    np.testing.assert_array_equal(found.spread.values, np.where(IS_SEA & (of_spread <= 2), of_spread, np.nan))
    with logged() as lines:
        tell_invalid(tmp_path / "ahead.nc", found.ranges)
    assert [line.partition("ahead.nc: ")[2] for line in lines] == [
        f"sst has {(values > 29).sum()} values outside its valid_range (20..29), taken as missing",
        "sst_spread has 3 values outside its valid_max (-inf..2), taken as missing",
    ]
    assert "where wet is 1, the sea by its name, alone" in found.note
    assert "without values outside its valid_range (20..29)" in found.note
    daily = data.isel(lead=0, drop=True).rename(init_time="time", sst="u10")
    daily.to_netcdf(tmp_path / "wind.nc")
    with open_daily(FieldSource(source=str(tmp_path / "wind.nc"), variable="u10")) as field:
        np.testing.assert_array_equal(field.values, expected[:, 0])


def test_values_that_the_field_itself_calls_flags_are_missing(tmp_path: Path) -> None:
    """A code for ice in the range of temperatures."""
    data = make_sst()
    data["sst"][100:110, 4, 5] = -4
    data["sst"].attrs |= {"flag_values": np.array([-4], "f4"), "flag_meanings": "sea_ice"}
    data.to_netcdf(tmp_path / "ice.nc")
    with logged() as lines, open_sst(FieldSource(source=str(tmp_path / "ice.nc"))) as sst:
        np.testing.assert_allclose(sst.values, data["sst"].where(data["sst"] != -4).values, rtol=1e-6)
    assert [line for line in lines if "sst is read without -4, which it calls flags" in line]


def test_flags_may_have_an_axis_of_one_value_that_sst_lacks(tmp_path: Path) -> None:
    dims = ("time", "height", "lat", "lon")
    sst = write(tmp_path / "l3.nc", "quality_level", LEVELS[:, None], BYTES | {"flag_meanings": GHRSST}, dims)
    with open_sst(FieldSource(source=str(tmp_path / "l3.nc"))) as opened:
        expected = sst.where(xr.DataArray(LEVELS, dims=AXES) == 5)
        np.testing.assert_allclose(opened.values, expected.values, rtol=1e-6)

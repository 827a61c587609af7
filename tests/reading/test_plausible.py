"""Values that no ocean has, days that are missing, and regions that do not fit are named; gaps are filled."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from refusals import refused
from small_files import SPLITS, Write, data_of, netcdf, zarr
from small_ocean import make_sst

from sstcast.config import DataConfig, FieldSource, Region, load_config
from sstcast.errors import SSTCastError
from sstcast.ocean.init_config import start
from sstcast.ocean.prepare import prepare
from sstcast.reading.gaps import gaps_filled
from sstcast.reading.grid import crop
from sstcast.reading.plausible import checked
from sstcast.reading.reading import open_region
from sstcast.reading.sea import without_land

OCEAN = make_sst(1)
SST = OCEAN["sst"]

REFUSED: dict[str, tuple[xr.Dataset, dict[str, object], list[str]]] = {
    "a gap": (
        OCEAN.isel(time=[*range(50), *range(53, 365)]),
        {"gaps": 2},
        ["3 missing days", "2001-02-20", "data.gaps: 3"],
    ),
    "a region off the edges": (
        OCEAN,
        {"region": {"lon": [170.1, 173], "lat": [-12, -10], "tile": [8, 1]}},
        ["edges", "data.region: {lon: [170, 173], lat: [-12, -10]}"],
    ),
    "a region beyond the data": (
        OCEAN,
        {"region": {"lon": [165, 180], "lat": [-20, 0], "tile": [8, 5]}},
        ["outside", "data.region: {lon: [170, 172.5], lat: [-12, -10]}"],
    ),
    "a region elsewhere": (OCEAN, {"region": {"lon": [10, 20], "lat": [-12, -10]}}, ["lon: [170, 173]"]),
    "west and east swapped": (
        OCEAN,
        {"region": {"lon": [173, 170], "lat": [-12, -10], "tile": [8, 6]}},
        ["contains no cell of the data, which cover {lon: [170, 173]"],
    ),
    "all the same": (xr.full_like(OCEAN, 0), {}, ["no cell ever changes"]),
}


@pytest.mark.parametrize("case", REFUSED)
def test_it_is_refused_in_one_line(tmp_path: Path, case: str) -> None:
    data, keys, words = REFUSED[case]
    path = netcdf(data)(tmp_path)
    with refused(tmp_path, *words):
        open_region(data_of(path, **keys))


@pytest.mark.parametrize("write", [netcdf, lambda d: zarr(d.chunk(time=7), 2)], ids=["whole", "chunks of a week"])
def test_gaps_are_filled_linearly_in_time(tmp_path: Path, write: Callable[[xr.Dataset], Write]) -> None:
    holes = OCEAN.copy(deep=True)
    holes["sst"][20:23, 4, 4] = np.nan  # three days of a cell
    holes["sst"][60:64, 4, 5] = np.nan  # four: too long
    holes["sst"][:2, 4, 6] = np.nan  # nothing before it
    holes = holes.isel(time=[*range(100), *range(102, 365)])
    expected = holes.reindex(time=OCEAN.time)["sst"].to_series().unstack("time")
    expected = expected.T.interpolate("linear", limit_area="inside").unstack().to_xarray()
    expected = expected.transpose("time", "lat", "lon").values
    expected[60:64, 4, 5] = np.nan
    opened = open_region(data_of(write(holes)(tmp_path), gaps=3))
    np.testing.assert_allclose(opened, expected, atol=1e-4)
    cells = int(SST[0].notnull().sum())
    filled = [f"2001-01-{day}: 1 of {cells} cells" for day in (21, 22, 23)]
    filled += [f"2001-04-{day}: {cells} of {cells} cells" for day in (11, 12)]
    assert gaps_filled(opened) == ", ".join(filled)
    values, _ = checked(opened, tmp_path, 3)
    with pytest.raises(SSTCastError, match=r"ocean cells lack values on .* longer than data.gaps: 3"):
        values.compute()


@pytest.mark.parametrize("cell", [1.0, 0.25, 0.05, 1 / 12])
@pytest.mark.parametrize("start", [0.0, -180.0])
def test_regions_on_any_grid(cell: float, start: float) -> None:
    lon = (start + cell * (np.arange(round(360 / cell)) + 0.5)).astype(np.float32).astype(float)
    lat = (cell * (np.arange(round(4 / cell)) + 0.5)).astype(np.float32).astype(float)
    place = np.broadcast_to(lon % 360, (1, lat.size, lon.size))
    sst = xr.DataArray(place, dims=("time", "lat", "lon"), coords={"lat": lat, "lon": lon})
    for west, east in ((-4, 4), (356, 4), (176, -176), (-184, -176), (0, 360), (-180, 180), (20, 60)):
        side = round(4 / cell)
        box = crop(sst, Region(lon=(west, east), lat=(0, 4), tile=(side, side)), Path("x"))
        count = round(((east - west) % 360 or 360) / cell)
        expected = west + cell * (np.arange(count) + 0.5)
        np.testing.assert_allclose(box["lon"], expected, atol=cell / 100)
        np.testing.assert_allclose((box[0, 0] - expected + 180) % 360 - 180, 0, atol=cell / 100)


def test_a_row_centred_on_a_pole_belongs_to_the_region() -> None:
    sst = make_sst(1, rows=5)["sst"].assign_coords(lat=[-90.0, -45.0, 0.0, 45.0, 90.0])
    for south, north, rows in ((-90, 90, 5), (-90, 67.5, 4), (-67.5, 90, 4), (-67.5, 67.5, 3)):
        box = crop(sst, Region(lon=(170, 173), lat=(south, north), tile=(rows, 12)), Path("x"))
        assert box.sizes["lat"] == rows


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (-999, ["-999 degC on 2001-04-11 at lat -10.625, lon 171.375", "_FillValue"]),
        (1e30, ["1e+30 degC on 2001-04-11"]),
        (300, ["300 degC", "data.units"]),
        (np.nan, ["lack values", "2001-04-11 at lat -10.625, lon 171.375", "data.gaps"]),
    ],
)
def test_one_wrong_value_is_found_as_it_is_computed(tmp_path: Path, value: float, words: list[str]) -> None:
    wrong = OCEAN.copy(deep=True)
    wrong["sst"][100, 5, 5] = value
    values, _ = checked(open_region(data_of(netcdf(wrong)(tmp_path))), tmp_path)
    with refused(*words):
        values.mean().compute()


@pytest.mark.parametrize(
    ("day", "place", "value", "words"),
    [
        (33, 0, 21.5, "21.5 degC on 2001-02-03 at lat -11.875, lon 170.125"),
        (33, 0, 0.1, "0.1 degC on 2001-02-03 at lat -11.875, lon 170.125, but this cell has 0 on other days"),
    ],
)
def test_a_number_that_stands_for_land_must_stay_there(
    day: int, place: int | slice, value: float, words: str, tmp_path: Path
) -> None:
    changed = OCEAN.fillna(0)
    changed["sst"][day, place, place] = value
    opened = open_region(data_of(netcdf(changed)(tmp_path)))
    with pytest.raises(SSTCastError, match=words):
        opened.compute()


def test_what_is_real_or_ships_passes() -> None:
    region = Region(lon=(147, 155), lat=(-45, -37), tile=(32, 32))
    sample = open_region(DataConfig.model_validate({"region": region, "splits": SPLITS})).isel(time=slice(100))
    values, ocean = checked(sample, Path("sample"))
    assert int((~ocean).sum()) == 83
    assert values.compute().notnull().sum() == 100 * int(ocean.sum())


@pytest.mark.parametrize(("day", "chunk", "days"), [(0, 1, 40), (150, 30, 365), (224, 365, 365), (364, 30, 365)])
def test_a_day_that_no_ocean_has_is_refused(tmp_path: Path, day: int, chunk: int, days: int) -> None:
    """A day of zeros, or in another unit that lies in the range of SST, among days as they should be."""
    for values in (0 * SST[day], SST[day] + 12):
        changed = OCEAN.copy(deep=True)
        changed["sst"][day] = values
        opened = open_region(data_of(netcdf(changed, f"{float(values.max()):.0f}.nc")(tmp_path)))
        date = np.datetime_as_string(SST["time"][day].values, unit="D")
        with refused(date, "degC on average, which is not plausible"):
            checked(opened[:days].chunk(time=chunk), tmp_path)[0].compute()


def test_long_gaps_are_told_and_not_bridged(tmp_path: Path) -> None:
    data = make_sst(4)
    path = netcdf(data.isel(time=[*range(500), *range(512, data.sizes["time"])]))(tmp_path)
    lines = start(FieldSource(source=path), tmp_path / "a.yaml")
    assert load_config(tmp_path / "a.yaml").data.gaps == 3
    assert any("the gap of 12 days in a row is too long" in line for line in lines)
    with pytest.raises(SSTCastError, match=r"12 missing days"):
        prepare(load_config(tmp_path / "a.yaml", [f"data.directory={tmp_path}/p"]).data)


@pytest.mark.parametrize("days", [1, 12, 29, 40])
def test_what_marks_land_in_a_short_record(days: int, tmp_path: Path) -> None:
    """Of less than 30 days, the sea may be one number: 28.1 degC to a tenth, or frozen at -.3."""
    ocean = OCEAN["sst"][:days].copy(deep=True)
    values = np.linspace(15, 18, days, dtype=np.float32)[:, None, None] + np.zeros(ocean.shape, np.float32)
    values[:, 0], values[:, 1], values[:, 2], values[:, 3], values[:, 4] = 28.1, -0.3, 0, -999, 1e20
    found = without_land(ocean.copy(data=values), tmp_path).values
    is_land = np.isnan(found).all(0).all(1)
    assert is_land[:5].tolist() == [days >= 30, days >= 30, True, True, True]
    assert not is_land[5:].any()
    kept = ~np.isnan(found)
    np.testing.assert_array_equal(found[kept], values[kept])


def test_kelvin_in_a_short_record_is_no_land(tmp_path: Path) -> None:
    values = np.full_like(OCEAN["sst"][:1], 290)
    assert without_land(OCEAN["sst"][:1].copy(data=values), tmp_path).notnull().all()

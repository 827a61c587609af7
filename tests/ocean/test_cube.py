from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from small_ocean import make_sst

from sstcast.config import Region
from sstcast.ocean.cropping import crop
from sstcast.ocean.cube import coarsen, ocean_cells, ocean_fraction
from sstcast.ocean.reading import open_sst

SHARED = Path(__file__).parents[2].parent / "shared/data/ocean"


def write(dataset: xr.Dataset, path: Path) -> Path:
    dataset.to_netcdf(path, engine="netcdf4")
    return path


@pytest.mark.parametrize("change", ["latitude", "longitude", "kelvin", "order", "names", "zlev", "noon"])
def test_conventions_are_simply_handled(tmp_path: Path, change: str) -> None:
    plain = make_sst(1).assign_coords(lon=lambda d: d.lon - 350)  # across Greenwich's other side: -180..-177
    other = {
        "latitude": lambda d: d.isel(lat=slice(None, None, -1)),
        "longitude": lambda d: d.assign_coords(lon=d.lon % 360),
        "kelvin": lambda d: d.assign(sst=(d.sst + 273.15).assign_attrs(units="K")),
        "order": lambda d: d.isel(time=slice(None, None, -1)),
        "names": lambda d: d.rename(lat="latitude", lon="longitude"),
        "zlev": lambda d: d.expand_dims(zlev=[0.0], axis=1),
        "noon": lambda d: d.assign_coords(time=d.time + np.timedelta64(12, "h")),
    }[change](plain)
    region = Region(lon=(-180, -177), lat=(-12, -10), tile=(8, 6))
    a, b = (
        crop(open_sst(write(d, tmp_path / f"{name}.nc")), region, Path("x"))
        for name, d in (("plain", plain), ("other", other))
    )
    np.testing.assert_allclose(a.values, b.values, atol=1e-4)
    for axis in ("time", "lat"):
        np.testing.assert_array_equal(a[axis], b[axis])
    np.testing.assert_allclose(a["lon"], b["lon"])


def test_a_region_may_span_the_date_line() -> None:
    lon = np.arange(0.5, 360)
    sst = xr.DataArray(
        np.tile(lon, (2, 4, 1)), dims=("time", "lat", "lon"), coords={"lat": np.arange(4) + 0.5, "lon": lon}
    )
    for west, east in ((170, 190), (170, -170), (-190, -170)):
        box = crop(sst, Region(lon=(west, east), lat=(0, 4), tile=(2, 10)), Path("x"))
        np.testing.assert_array_equal(box[0, 0], np.arange(170.5, 190))
        np.testing.assert_array_equal(np.diff(box["lon"]), 1)
    box = crop(sst, Region(lon=(350, 10), lat=(0, 4), tile=(2, 10)), Path("x"))
    np.testing.assert_array_equal(box[0, 0], [*np.arange(350.5, 360), *np.arange(0.5, 10)])


def test_coarsening_averages_ocean_cells_only() -> None:
    random = np.random.default_rng(0)
    values = random.normal(20, 3, (5, 6, 8))
    land = random.random((6, 8)) < 0.5
    values[:, land] = np.nan
    sst = xr.DataArray(values, dims=("time", "lat", "lon"), coords={"lat": np.arange(6.0), "lon": np.arange(8.0)})
    region = Region(lon=(0, 8), lat=(0, 6), coarsen=2, tile=(3, 4), min_ocean=0.5)
    fraction = ocean_fraction(ocean_cells(sst), region)
    coarse = coarsen(sst, ocean_cells(sst), region)
    assert 0 < int(coarse[0].isnull().sum()) < 12
    for row in range(3):
        for col in range(4):
            cells = values[:, 2 * row : 2 * row + 2, 2 * col : 2 * col + 2].reshape(5, 4)
            ocean = ~np.isnan(cells[0])
            assert fraction[row, col] == ocean.mean()
            expected = cells[:, ocean].mean(1) if ocean.mean() >= 0.5 else np.full(5, np.nan)
            np.testing.assert_allclose(coarse[:, row, col], expected)


def test_a_real_original_of_noaa() -> None:
    path = SHARED / "oisst-avhrr-v02r01.20220218.nc"
    if not path.exists():
        pytest.skip(f"{path.name} is not at hand")
    sst = open_sst(path)
    assert str(sst["time"].values[0])[:10] == "2022-02-18"
    pacific = crop(sst, Region(lon=(180, 270), lat=(-15, 15)), path)
    assert float(pacific.min()) == pytest.approx(22.69, abs=0.005)
    assert float(pacific.max()) == pytest.approx(30.14, abs=0.005)

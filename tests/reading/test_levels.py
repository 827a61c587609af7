"""Of several levels, the one at the surface is read, whichever end of the axis it is at."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from logged import logged
from refusals import refused
from small_ocean import make_sst

from sstcast.config import FieldSource
from sstcast.reading.reading import open_sst

SURFACE = make_sst()["sst"][:20]


def write(path: Path, name: str, values: list[float] | None, attributes: dict[str, Any], at_surface: int) -> None:
    """Write an ocean that is 5 degC colder at each level away from the surface, the level `at_surface`."""
    away = abs(np.arange(4) - at_surface)
    data = (SURFACE - 5 * xr.DataArray(away, dims=name)).transpose("time", name, "lat", "lon")
    data = data.astype("f4").assign_attrs(units="degC", standard_name="sea_water_potential_temperature")
    if values is not None:
        data = data.assign_coords({name: (name, values, attributes)})
    data.to_dataset(name="temp").to_netcdf(path)


S = {"standard_name": "ocean_s_coordinate_g2"}


@pytest.mark.parametrize(
    ("name", "values", "attributes", "at_surface", "told"),
    [
        ("s_rho", [-0.875, -0.625, -0.375, -0.125], S | {"positive": "up"}, 3, "s_rho -0.125"),
        ("zz", [-0.9, -0.6, -0.3, 0.0], {"standard_name": "ocean_sigma_coordinate"}, 3, "zz 0"),
        ("Z", [-5.0, -15, -30, -60], {"axis": "Z", "positive": "up", "standard_name": "depth"}, 0, "Z -5"),
        ("lev", [1, 2, 3, 4], {"positive": "up"}, 3, "lev 4"),
        ("lev", [4, 3, 2, 1], {"positive": "down", "axis": "Z"}, 3, "lev 1"),
        ("depth", [1.0, 20, 40, 60], {"positive": "up"}, 3, "depth 60"),  # above the sea floor
        ("depth", [60.0, 30, 10, 0.5], {}, 3, "depth 0.5"),
        ("deptht", [-60.0, -30, -10, -0.5], {}, 3, "deptht -0.5"),
        ("z_l", [2.5, 10, 30, 60], {"units": "meters", "cartesian_axis": "Z", "positive": "down"}, 0, "z_l 2.5"),
        ("p", [100.0, 50, 20, 5], {"units": "dbar"}, 3, "p 5"),
        ("z", [0.0, 1, 2, 3], {"standard_name": "depth"}, 0, "z 0"),
    ],
)
def test_the_surface_is_read(
    tmp_path: Path, name: str, values: list[float], attributes: dict[str, Any], at_surface: int, told: str
) -> None:
    write(tmp_path / "a.nc", name, values, attributes, at_surface)
    with logged() as lines, open_sst(FieldSource(source=str(tmp_path / "a.nc"))) as sst:
        np.testing.assert_allclose(sst.values, SURFACE.values, rtol=1e-6)
    assert [line for line in lines if line.endswith(f"temp is read at the level {told}")]


@pytest.mark.parametrize(
    ("name", "values", "attributes"),
    [
        ("s_rho", None, {}),
        ("depth", None, {}),  # a dimension without values
        ("lev", [1, 2, 3, 4], {"long_name": "level"}),
        ("level", [0, 1, 2, 3], {}),
        ("depth", [-1.0, 0, 1, 2], {}),
        ("h", [0.0, 1, 2, 3], {"axis": "Z"}),
    ],
)
def test_an_axis_that_does_not_tell_its_surface_is_refused(
    tmp_path: Path, name: str, values: list[float] | None, attributes: dict[str, Any]
) -> None:
    write(tmp_path / "a.nc", name, values, attributes, 0)
    with refused("a.nc: temp has 4 levels on", "nothing tells the surface", f"ds.isel({name}=0)", "s_rho=-1"):
        open_sst(FieldSource(source=str(tmp_path / "a.nc")))

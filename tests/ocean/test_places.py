"""Rows of any spacing."""

from pathlib import Path

import numpy as np
import pytest
from refusals import refused
from small_files import data_of, netcdf
from small_ocean import make_sst

from sstcast.config import FieldSource, Region, load_config
from sstcast.ocean.reading import open_region, open_sst
from sstcast.ocean.starting import start

OCEAN = make_sst(2)
SST = OCEAN["sst"]


def test_rows_of_any_spacing_are_read_but_none_may_be_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = -12 + np.cumsum([0.1, 0.2, 0.2, 0.2, 0.4, 0.4, 0.4, 0.4])  # the spacing doubles, as in HYCOM's grids
    data = OCEAN.assign_coords(lat=("lat", rows, {"units": "degrees_north"}))
    path = netcdf(data)(tmp_path)
    start(FieldSource(source=path), tmp_path / "a.yaml")
    box = load_config(tmp_path / "a.yaml").data.box
    assert box.lat == (pytest.approx(-12), pytest.approx(-9.5))
    np.testing.assert_allclose(open_region(data_of(path, region=box)), SST, atol=1e-4)
    north = Region(lon=(170, 173), lat=(-11.1, -9.5), tile=(4, 6))  # -11.1 is halfway between two rows
    np.testing.assert_allclose(open_region(data_of(path, region=north)), SST[:, 4:], atol=1e-4)
    with refused("unevenly spaced rows, which cannot be coarsened: set data.region.coarsen: 1"):
        open_region(data_of(path, region=box.model_copy(update={"coarsen": 2, "tile": (2, 3)})))
    reduced = data.assign_coords(lat_bnds=(("lat", "nv"), np.stack([rows - 0.05, rows + 0.35], 1)))
    reduced["lat"].attrs["bounds"] = "lat_bnds"
    open_sst(FieldSource(source=netcdf(reduced, "bounds.nc")(tmp_path)))
    assert "with rows that meet halfway between their centres, unlike its bounds" in capsys.readouterr().err
    gap = netcdf(data.isel(lat=[0, 1, 2, 3, 4, 5, 7]), "gap.nc")(tmp_path)
    with refused("its lat lacks values after -10.5"):
        open_sst(FieldSource(source=gap))

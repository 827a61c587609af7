"""The edges of rows: those of the bounds that a file states, where rows meet."""

from pathlib import Path

import pytest
from logged import logged
from small_files import netcdf
from small_ocean import make_sst

from sstcast.config import FieldSource
from sstcast.geo import SOUTH
from sstcast.reading.reading import open_sst


@pytest.mark.parametrize(("north", "meet"), [(0.175, True), (0.125, False)])
def test_rows_that_do_not_meet_are_read_with_edges_between_their_centres(
    tmp_path: Path, north: float, meet: bool
) -> None:
    data = make_sst(1)
    data = data.assign(
        lat_bnds=(("lat", "nv"), data["lat"].values[:, None] + (-0.075, north))
    )  # rows of 0.25 degrees
    data["lat"].attrs["bounds"] = "lat_bnds"
    with logged() as lines, open_sst(FieldSource(source=str(netcdf(data, "rows.nc")(tmp_path)))) as sst:
        assert (SOUTH in sst.coords) is meet
    told = [line for line in lines if "rows that meet halfway between their centres, unlike its bounds" in line]
    assert bool(told) is not meet

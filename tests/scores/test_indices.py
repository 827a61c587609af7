"""Box means: the areas by hand, the date line, and which boxes a region covers."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from refusals import refused

from sstcast.config import load_region
from sstcast.errors import SSTCastError
from sstcast.geo import NINO, Box
from sstcast.runs import Run
from sstcast.scores.analysis import Analysis
from sstcast.scores.indices import box_mean, box_of, covers, thirds
from sstcast.scores.kinds import errors


def field(west: float = 120.5, cols: int = 170, east_first: float = 0) -> xr.DataArray:
    lat, lon = np.arange(-14.5, 15), west + np.arange(cols)
    values = lat[:, None] * 10 + (lon - 190)[None]
    axes = {"lat": lat, "lon": (lon - east_first + 180) % 360 - 180 if east_first else lon}
    return xr.DataArray(values, axes, ("lat", "lon"))


def test_nino34_mean_is_weighted_by_area() -> None:
    sst = field()
    rows = (sst["lat"] > 0) & (sst["lat"] < 5)
    northern = sst.where(rows)  # of the box's ten rows five remain
    lat = np.array([0.5, 1.5, 2.5, 3.5, 4.5])
    weights = np.cos(np.deg2rad(lat))
    expected = (weights * lat * 10).sum() / weights.sum() + 25  # the 50 longitudes 190.5..239.5
    assert float(box_mean(northern, "nino34")) == pytest.approx(expected)
    assert float(box_mean(sst, "nino34")) == pytest.approx(25)


def test_boxes_know_longitudes_of_either_convention() -> None:
    sst = field()
    signed = sst.assign_coords(lon=(sst["lon"] + 180) % 360 - 180)
    for box in NINO:
        assert float(box_mean(signed, box)) == pytest.approx(float(box_mean(sst, box)))
    across = (170, -170, -5, 5)
    assert float(box_mean(sst, across)) == pytest.approx(-10)
    assert int(Box(*across).contains(sst["lat"], sst["lon"]).sum()) == 200
    assert float(box_mean(sst, (0, 360, -15, 15))) == pytest.approx(float(sst.mean()), abs=0.5)


def test_time_is_kept_and_nan_is_land() -> None:
    sst = field().expand_dims(time=[0, 1]) * xr.DataArray([1.0, 2.0], dims="time")
    with_land = sst.where(sst["lon"] != 200.5)
    mean = box_mean(with_land, "nino34")
    assert mean.dims == ("time",)
    np.testing.assert_allclose(mean, np.array([1, 2]) * (25 * 50 - 10.5) / 49)


def test_what_a_region_covers() -> None:
    whole = field(west=155.5, cols=130).astype(bool) | True
    assert [name for name, box in NINO.items() if covers(whole, box)] == ["nino12", "nino3", "nino34", "nino4"]
    pacific = field(west=180.5, cols=90).astype(bool) | True
    assert [name for name, box in NINO.items() if covers(pacific, box)] == ["nino3", "nino34"]
    without_a_tile = pacific & ~((pacific["lon"] > 255) & (pacific["lat"] > 0))
    assert [name for name, box in NINO.items() if covers(without_a_tile, box)] == ["nino34"]
    centred = xr.DataArray(
        np.ones((31, 131), bool), {"lat": np.arange(-15.0, 16), "lon": np.arange(155.0, 286)}, ("lat", "lon")
    )  # cells on the edges of the boxes, as on grids of whole degrees
    assert all(covers(centred, box) for box in NINO.values())
    assert [name for name, box in NINO.items() if covers(centred[:, 37:], box)] == ["nino12", "nino3"]
    for few in (pacific[:, :1], pacific[::29, ::20]):  # one column, and cells larger than a box
        assert not any(covers(few, box) for box in NINO.values())


def test_a_box_is_covered_by_cells_that_are_scored_and_by_land(
    scored: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    truth = Analysis.of(scored)
    monkeypatch.setattr(errors, "NINO", {"here": Box(170, 173, -12, -10)})
    assert not truth.ocean.all()
    assert [*errors._boxes(truth)] == ["region", "here"]
    west = truth.ocean & (np.arange(truth.ocean.shape[-1]) % 12 < 6)  # as a file with values there alone
    assert [*errors._boxes(replace(truth, ocean=west))] == ["region"]


def test_names_and_boxes_without_ocean() -> None:
    assert box_of("tasman") == load_region("tasman").bounds
    with pytest.raises(SSTCastError, match="no region 'atlantis'"):
        box_of("atlantis")
    for box in ("tasman", (10, 20, -5, 5)):
        with pytest.raises(SSTCastError, match="no ocean in this box"):
            box_mean(field(), box)
    with pytest.raises(SSTCastError, match="no ocean"):
        box_mean(field().where(field()["lat"] > 5), "nino34")


def test_thirds_are_those_of_a_table_as_it_is_published(tmp_path: Path) -> None:
    (tmp_path / "index.data").write_text(" 2001 2001\n 2001 7 1 8 2 9 3 -99.99 0 4 5 6 10\n  -99.99\n")
    days = pd.to_datetime(["2001-01-31", "2001-02-01", "2001-03-09", "2001-09-30", "2001-10-01", "2001-12-31"])
    scores = xr.Dataset(coords={"box": ["region"], "init_time": days})
    assert thirds(scores, str(tmp_path / "index.data")).values.tolist() == [
        *("middle", "lower", "upper", "lower", "middle", "upper")
    ]
    with refused("--index", "index.data: has no value for 2001-07-01"):
        thirds(
            scores.assign_coords(init_time=pd.date_range("2001-07-01", periods=6)), str(tmp_path / "index.data")
        )
    with refused("--index", "nina.csv", "neither a box of the scores nor an index"):
        thirds(scores, "nina.csv")

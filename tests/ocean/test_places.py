"""Rows of any spacing."""

from pathlib import Path
from unittest.mock import MagicMock

import numpy as np
import pytest
import xarray as xr
from matplotlib.colors import BoundaryNorm
from refusals import refused
from small_files import data_of, netcdf
from small_ocean import make_sst

import sstcast
from sstcast.config import FieldSource, Region, load_config
from sstcast.figures.maps import _draw
from sstcast.figures.plots import image_rows
from sstcast.geo import Box, area_weights, edges
from sstcast.ocean.init_config import start
from sstcast.ocean.prepare import prepare
from sstcast.reading.reading import open_region, open_sst

SHORT = ["data.history=10", "data.horizon=5", "model={name: ridge}"]

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
    open_sst(FieldSource(source=netcdf(reduced, "bounds.nc")(tmp_path)))  # its rows overlap
    assert "with rows that meet halfway between their centres, unlike its bounds" in capsys.readouterr().err
    gap = netcdf(data.isel(lat=[0, 1, 2, 3, 4, 5, 7]), "gap.nc")(tmp_path)
    with refused("its lat lacks values after -10.5"):
        open_sst(FieldSource(source=gap))


ENDS = np.array([-12.0, -11.9, -11.6, -11.5, -11.2, -11.1, -10.8, -10.7, -10.4])


def with_bounds(ends: np.ndarray, descending: bool = False) -> xr.Dataset:
    """The small ocean on rows whose bounds are `ends`, at centres 0.2 degrees apart."""
    rows = -11.96 + 0.2 * np.arange(8)
    data = OCEAN.assign_coords(lat=("lat", rows, {"units": "degrees_north", "bounds": "lat_bnds"}))
    data = data.assign_coords(lat_bnds=(("lat", "nv"), np.stack([ends[:-1], ends[1:]], 1)))
    return data.isel(lat=slice(None, None, -1)) if descending else data


@pytest.mark.parametrize("descending", [False, True])
def test_rows_have_the_bounds_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, descending: bool
) -> None:
    """In regions, area weights, scores, files, maps and the page."""
    monkeypatch.chdir(tmp_path)
    with_bounds(ENDS, descending).to_netcdf("own.nc", engine="netcdf4")
    sstcast.init("own.nc")
    assert load_config(Path("own.yaml")).data.box.lat == (-12, -10.4)
    part = Region(lon=(170, 173), lat=(-11.6, -10.8), tile=(4, 12))
    np.testing.assert_allclose(open_region(data_of(Path("own.nc"), region=part)), SST[:, 2:6], atol=1e-4)
    if descending:
        return
    run = sstcast.train("own.yaml", SHORT)
    cube, anomalies = sstcast.open(run.config)
    areas = np.diff(np.sin(np.radians(ENDS)))
    for lat in (cube["lat"], cube["sst"]["lat"], anomalies["anomaly"]["lat"]):
        np.testing.assert_allclose(edges(lat), ENDS)
        np.testing.assert_allclose(area_weights(lat) / area_weights(lat)[0], areas / areas[0])
    metrics = sstcast.evaluate(run).value
    with xr.open_zarr(run.forecasts) as forecasts:
        np.testing.assert_allclose(forecasts["lat_bnds"], np.stack([ENDS[:-1], ENDS[1:]], 1))
        truth = SST.values
        place = {day: number for number, day in enumerate(SST["time"].values)}
        came = truth[[place[day] for day in forecasts["valid_time"].values.ravel()]].reshape(
            forecasts["sst"].shape
        )
        squares = (forecasts["sst"].values - came) ** 2
    weight = np.where(np.isfinite(came), areas[:, None], 0)
    rmse = np.sqrt(np.nansum(squares * weight) / weight.sum())
    assert metrics["scores"]["model"]["degC"]["rmse"] == pytest.approx(rmse, rel=1e-4)
    fields = sstcast.forecast(run).value
    np.testing.assert_allclose(edges(fields["lat"]), ENDS)
    assert image_rows(fields["lat"]) == [0, 1, 1, 1, 2, 3, 3, 3, 4, 5, 5, 5, 6, 7, 7, 7]
    assert sstcast.page(run).path.exists()
    axes, field = MagicMock(), fields["sst"][0, 0]
    _draw(axes, MagicMock(), field, BoundaryNorm([0, 20, 40], 256), "temperature")
    np.testing.assert_allclose(axes.pcolormesh.call_args.args[1], ENDS)
    assert Box.of(field).south == -12


def test_bounds_that_are_not_midway_belong_to_the_data(tmp_path: Path) -> None:
    """Others leave digests as they were without bounds."""
    midway = np.append(-12.06, -11.86 + 0.2 * np.arange(8))
    digests = []
    for ends in (ENDS, ENDS - np.array([0, 0.05, *[0] * 7]), midway, None):
        data = with_bounds(midway if ends is None else ends)
        if ends is None:
            data = data.drop_vars("lat_bnds")
            del data["lat"].attrs["bounds"]
        path = netcdf(data, f"{len(digests)}.nc")(tmp_path)
        start(FieldSource(source=path), tmp_path / f"{len(digests)}.yaml")
        config = load_config(tmp_path / f"{len(digests)}.yaml", [f"data.directory={tmp_path}", *SHORT])
        digests.append(prepare(config.data).record().statistics)
    assert digests[2] == digests[3]
    assert len(set(digests)) == 3

"""`init` on files nobody has seen: what it writes prepares, and holds windows of every split."""

import datetime as dt
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import perf.simulated  # noqa: F401 - adds the source `simulator`
from sstcast.config import FieldSource, load_config
from sstcast.errors import SSTCastError
from sstcast.ocean.init_config import choose_area, start
from sstcast.ocean.prepare import prepare
from sstcast.ocean.splits import for_training
from sstcast.ocean.windows import cut_windows
from sstcast.sources.fetch import fetch
from sstcast.sources.source import FetchRequest


def ocean(days: int, rows: int, cols: int, cell: float) -> xr.Dataset:
    random = np.random.default_rng(0)
    time = pd.date_range("2001-01-01", periods=days)
    season = 20 + 4 * np.cos(2 * np.pi * time.day_of_year.values / 365.25)
    sst = season[:, None, None] + random.normal(0, 0.3, (days, rows, cols))
    sst[:, :4, :6] = np.nan
    places = {"lat": 30 + cell * (np.arange(rows) + 0.5), "lon": -40 + cell * (np.arange(cols) + 0.5)}
    return xr.Dataset(
        {"sst": (("time", "lat", "lon"), sst.astype("f4"), {"units": "degC"})}, {"time": time, **places}
    )


def twelfth(folder: Path) -> None:
    data = ocean(800, 36, 48, 1 / 12).rename(sst="thetao", lat="latitude", lon="longitude")
    data = data.expand_dims(depth=[0.494], axis=1).assign_coords(
        latitude=data.latitude.astype("f4"), longitude=data.longitude.astype("f4")
    )
    data["thetao"].attrs = {"standard_name": "sea_water_potential_temperature", "units": "degrees_C"}
    data.to_netcdf(folder / "source", engine="netcdf4")


def files(folder: Path) -> None:
    (folder / "source").mkdir()
    data = ocean(460, 20, 24, 1.0)
    for first in range(0, 460, 46):
        kept = [day for day in range(first, first + 46) if day not in (100, 101)]
        data.isel(time=kept).to_netcdf(folder / f"source/{first}.nc4", engine="netcdf4")


def fetched(folder: Path) -> None:
    days = dt.date(2001, 1, 1), dt.date(2002, 6, 30)
    assert fetch(FetchRequest(*days, "simulator", "200,206,-3,3", folder / "source")).complete


SOURCES = {  # tiles, their shape, gaps, and days of history
    twelfth: (2, (36, 24), 0, 42),
    files: (1, (20, 24), 2, 7),
    fetched: (1, (24, 24), 0, 14),
}


@pytest.mark.parametrize("write", SOURCES, ids=lambda write: write.__name__)
def test_what_it_writes_can_be_trained_on(tmp_path: Path, write: Callable[[Path], None]) -> None:
    write(tmp_path)
    out = tmp_path / "mine.yaml"
    lines = start(FieldSource(source=tmp_path / "source"), out)
    assert f"sstcast train {out}" in lines[-2]
    config = load_config(out, [f"data.directory={tmp_path / 'prepared'}"])
    _, anomalies = prepare(config.data).open()
    assert config.model.name == "local-ridge"
    tiles, shape, gaps, history = SOURCES[write]
    for split in ("train", "validation", "test"):
        windows = cut_windows(anomalies, config.data, split)
        assert len(windows) > 0
        assert windows.ocean.shape == (tiles, shape[0] * shape[1])
    assert (config.data.box.tile, config.data.gaps, config.data.history) == (shape, gaps, history)
    with pytest.raises(SSTCastError, match=r"mine.yaml: exists already; .*--out"):
        start(FieldSource(source=tmp_path / "source"), out)


@pytest.mark.parametrize("order", ["descending", "date line", "Greenwich"])
def test_longitudes_in_any_order_give_the_region_that_prepares(tmp_path: Path, order: str) -> None:
    data, west = ocean(460, 20, 24, 1.0), {"date line": 168, "Greenwich": -12}.get(order, -40)
    lon = west + np.arange(24) + 0.5
    data = data.assign_coords(lon={"date line": (lon + 180) % 360 - 180, "Greenwich": lon % 360}.get(order, lon))
    data = data.sortby("lon", ascending=order != "descending")
    data.to_netcdf(tmp_path / "source.nc", engine="netcdf4")
    start(FieldSource(source=tmp_path / "source.nc"), tmp_path / "mine.yaml")
    config = load_config(tmp_path / "mine.yaml", [f"data.directory={tmp_path / 'prepared'}"])
    assert config.data.box.lon == (west, west + 24)
    cube, _ = prepare(config.data).open()
    np.testing.assert_array_equal(cube["lon"] % 360, lon % 360)
    np.testing.assert_array_equal(cube["sst"].isel(time=3), ocean(460, 20, 24, 1.0)["sst"].isel(time=3))


def test_too_short_a_record_leaves_nothing(tmp_path: Path) -> None:
    ocean(380, 8, 8, 1.0).to_netcdf(tmp_path / "a.nc", engine="netcdf4")
    with pytest.raises(SSTCastError, match=r"a.nc: 380 days, but training needs 445"):
        start(FieldSource(source=tmp_path / "a.nc"), tmp_path / "a.yaml")
    assert [path.name for path in tmp_path.iterdir()] == ["a.nc"]


def test_kelvin_called_celsius_leaves_nothing(tmp_path: Path) -> None:
    data = ocean(460, 20, 20, 1.0)
    data.assign(sst=(data["sst"] + 273.15).assign_attrs(units="degC")).to_netcdf(tmp_path / "a.nc")
    with pytest.raises(SSTCastError, match=r"a.nc: holds 29\d.* degC; give its --units"):
        start(FieldSource(source=tmp_path / "a.nc"), tmp_path / "a.yaml")
    assert not (tmp_path / "a.yaml").exists()


@pytest.mark.parametrize("count", [445, 470, 506, 700, 1200, 2000, 3000, 6000, 15000])
def test_splits_follow_one_another_and_hold_windows(count: int) -> None:
    days = pd.date_range("1991-03-05", periods=count)
    history, horizon, splits = for_training(days[0].date(), days[-1].date(), Path("x"))
    spans = [day for name in ("train", "validation", "test") for day in splits.given[name]]
    assert spans[0] == days[0].date()
    assert spans[-1] == days[-1].date()
    for (_, end), (begin, _) in zip((spans[0:2], spans[2:4]), (spans[2:4], spans[4:6]), strict=True):
        assert (begin - end).days == 1
    lengths = [(spans[i + 1] - spans[i]).days + 1 for i in (0, 2, 4)]
    assert lengths[0] >= 365
    assert min(lengths) > history + horizon


def test_tiles_lie_where_the_ocean_is() -> None:
    mask = np.zeros((180, 360), bool)
    mask[60:140, 100:260] = True
    rows, cols, tile, skip = choose_area(mask)
    assert tile == (30, 30)
    assert mask[rows, cols].all()
    assert mask[rows, cols].size == 8 * 900
    assert not skip

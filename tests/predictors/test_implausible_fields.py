"""Each kind of impossible value in each place where a field comes in, and what must pass."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from bucket_server import serving
from refusals import refused
from scored_runs import configure
from test_known_forecasts import forecasts
from test_known_grids import DAYS, LAT, LON, wind

from sstcast.ocean.prepare import prepare
from sstcast.ocean.prepared import Prepared
from sstcast.predictors.predictors import stored_predictors
from sstcast.reading.xarray_objects import hold

FINE_LAT, FINE_LON = np.arange(-12.45, -9.5, 0.1), np.arange(169.55, 173.5, 0.1)
COARSE_LAT, COARSE_LON = np.arange(-14.0, -7), np.arange(168.0, 177)
KINDS = {"grid": {"delay": 2}, "forecast": {}, "static": {}}
HERE: dict[str, tuple[str, dict[str, Any]]] = {  # the kind, and where one value of its source is changed
    "history": ("grid", {"time": 900, "lat": 5, "lon": 7}),
    "base period": ("grid", {"time": 50, "lat": 5, "lon": 7}),
    "newest day": ("grid", {"time": -1, "lat": 7, "lon": 11}),
    "finer cells": ("grid", {"time": 900, "lat": 15, "lon": 15}),
    "coarser cells": ("grid", {"time": 900, "lat": 3, "lon": 4}),
    "issue": ("forecast", {"member": 1, "init_time": -1, "lead": 9, "lat": 5, "lon": 7}),
    "static": ("static", {"lat": 5, "lon": 7}),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, sst_file: Path) -> Path:
    folder = tmp_path_factory.mktemp("implausible")
    prepare(configure(folder, sst_file).data)
    return folder


@pytest.fixture(scope="module")
def sources() -> dict[str, xr.Dataset]:
    days = wind()
    return dict.fromkeys(HERE, days) | {
        "finer cells": wind(1, FINE_LAT, FINE_LON),
        "coarser cells": wind(1, COARSE_LAT, COARSE_LON),
        "issue": forecasts(),
        "static": days.isel(time=0, drop=True),
    }


@pytest.fixture
def read(folder: Path, sst_file: Path) -> Callable[..., Any]:
    """Make the store of a predictor, and return the predictor."""

    def predictor(source: xr.Dataset | str, kind: str, **keys: Any) -> Any:
        name = source if isinstance(source, str) else hold(source)
        options = {"kind": kind, "source": name, **KINDS.get(kind, {}), **keys}
        data = configure(folder, sst_file, predictors={"wind": options}).data
        prepared = Prepared.of(data)
        stored = stored_predictors(data, prepared.cube.parent)["wind"]
        stored.prepare(prepared.open_cube())
        return stored

    return predictor


def changed(source: xr.Dataset, at: dict[str, int], value: float) -> xr.Dataset:
    copy = source.copy(deep=True)
    copy["u10"][at] = value
    return copy


@pytest.mark.parametrize(
    ("value", "surface"),
    [
        *((value, surface) for surface in HERE for value in (-9999, 12345)),
        *((value, "history") for value in (99.9, 32767, 9.97e36)),
    ],
)
def test_an_impossible_value_is_refused_wherever_it_comes_in(
    read: Callable[..., Any], sources: dict[str, xr.Dataset], value: float, surface: str
) -> None:
    kind, at = HERE[surface]
    bad = changed(sources[surface], at, value)
    cell = bad["u10"][at]
    place = f"lat {float(cell['lat']):g} lon {float(cell['lon']):g}"
    day = [str(cell[axis].values)[:10] for axis in ("time", "init_time") if axis in cell.coords]
    fault = "is far from" if value == 12345 else "marks a missing value"
    with refused(f"{value:g} at ", place, *day, fault, "data.predictors.wind.implausible: keep"):
        read(bad, kind)
    if surface == "newest day":
        with refused(f"{value:g} at "):  # again, as nothing of it was kept
            read(bad, kind)


def test_they_are_kept_on_request_and_do_not_matter_on_land(
    read: Callable[..., Any], sources: dict[str, xr.Dataset]
) -> None:
    bad = changed(sources["history"], HERE["history"][1], -9999)
    kept = read(bad, "grid", implausible="keep")
    assert float(kept.open()["value"].min()) == -9999
    with refused("-9999 at "):  # although a store of these days is up to date
        read(bad, "grid")
    land = {"lat": slice(0, 2), "lon": slice(0, 3)}
    for kind, source in (
        ("grid", sources["history"]),
        ("forecast", sources["issue"]),
        ("static", sources["static"]),
    ):
        undeclared = source.copy(deep=True)
        undeclared["u10"][land] = -9999
        assert float(read(undeclared, kind).open()["value"].min()) > -5
    fine = sources["finer cells"].copy(deep=True)
    fine["u10"][{"lat": slice(0, 5), "lon": slice(0, 7)}] = -9999  # west of 170.25 and south of -11.95: land only
    assert float(read(fine, "grid").open()["value"].min()) > -5


@pytest.mark.parametrize("surface", ["newest day", "issue"])
def test_given_values_are_judged_as_those_of_the_store(
    read: Callable[..., Any], sources: dict[str, xr.Dataset], surface: str
) -> None:
    kind, at = HERE[surface]
    stored = read(sources[surface], kind)
    axis = stored.open()["value"].dims[0]
    last = sources[surface].isel({axis: [-1]})
    assert stored.given(last).equals(stored.given(sources[surface]))
    for value in (-9999, 12345):
        with refused("predictors: wind", f"{value:g} at "):
            stored.given(changed(sources[surface], at, value))
        whole = last.copy(deep=True)
        whole["u10"][:] = value
        with refused("predictors: wind", f"{value:g} at "):
            stored.given(whole)


def test_a_url_is_judged_too(read: Callable[..., Any], sources: dict[str, xr.Dataset], tmp_path: Path) -> None:
    with serving(tmp_path) as (url, _):
        bad = changed(sources["newest day"], HERE["newest day"][1], -9999)
        bad.to_zarr(tmp_path / "wind.zarr", zarr_format=2)
        with refused(f"{url}/wind.zarr: -9999 at time 2004-12-31"):
            read(f"{url}/wind.zarr", "grid")


def test_what_nature_does_is_plausible(read: Callable[..., Any], sources: dict[str, xr.Dataset]) -> None:
    random, shape = np.random.default_rng(0), (len(DAYS), len(LAT), len(LON))
    rain = np.where(random.random(shape) < 0.9, 0, random.gamma(0.3, 15, shape))
    rain[1300, 4, 4] = 500  # mm in a day
    storm = sources["history"]["u10"].values.copy()
    storm[1300:1303] = 75
    pressure = 1010 + 10 * random.standard_normal(shape)
    pressure[1300, 4, 4], pressure[10, 4, 4] = 999.9, 870
    ice = np.zeros(shape)
    ice[1300:] = 0.9
    for values in (rain, storm, pressure, ice):
        source = sources["history"].copy(data={"u10": values.astype(np.float32)})
        kept = read(source, "grid").open()["value"].values
        sea = np.isfinite(kept)
        np.testing.assert_array_equal(kept[sea], source["u10"].values[sea])
        assert sea.mean() == pytest.approx(90 / 96)

"""What is written says what it is, passes a CF checker and lines up in xarray, whatever the cells."""

import functools
from pathlib import Path
from unittest.mock import Mock

import netCDF4
import numpy as np
import pytest
import xarray as xr
from small_ocean import make_sst
from untrained import make_run

from sstcast.config import load_config
from sstcast.forecasting.forecast import forecast
from sstcast.ocean.prepare import prepare
from sstcast.ocean.prepared import Prepared
from sstcast.reading.digests import digest_of
from sstcast.reading.reading import open_region
from sstcast.scores.evaluate import evaluate
from sstcast.scores.score_files import ScoreFiles
from sstcast.storage import cf, dataset_files
from sstcast.storage.cf import VARIABLES

BOX = "data.region={lon: [170, 171], lat: [-12, -11.333333], coarsen: %d, tile: %s}"


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The small ocean on cells of a twelfth of a degree, in single precision."""
    path = tmp_path_factory.mktemp("twelfths") / "OISST of twelfths.nc"
    lat, lon = -12 + (np.arange(8) + 0.5) / 12, 170 + (np.arange(12) + 0.5) / 12
    make_sst().assign_coords(lat=lat.astype("float32"), lon=lon.astype("float32")).to_netcdf(path)
    return path


# What the checker searches the file for, thousands of times for the same.
SEARCHES = [
    f"get_{kind}_variables" for kind in ("auxiliary_coordinate", "axis", "latitude", "longitude", "time", "z")
]


def complaints(path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    suite = pytest.importorskip("compliance_checker.suite", reason="compliance-checker is not installed")
    from compliance_checker.cf import util as suite_util

    refuse = Mock(side_effect=AssertionError("the checker must do without a network"))
    monkeypatch.setattr("socket.socket.connect", refuse)
    if not suite.CheckSuite.checkers:
        suite.CheckSuite.load_all_available_checkers()
    for name in SEARCHES:
        search = functools.cache(getattr(suite_util, name))
        monkeypatch.setattr(suite_util, name, lambda file, search=search: list(search(file)))
    with netCDF4.Dataset(path) as file:
        groups, errors = suite.CheckSuite().run_all(file, ["cf:1.11"])["cf:1.11"]
    # It cannot subtract texts, and scores.nc has coordinates that are.
    assert not errors.keys() - {"check_coordinate_variables_strict_monotonicity"}
    assert len(groups) > 10
    return [f"{group.name}: {group.msgs}" for group in groups if group.value[0] < group.value[1]]


def test_all_files_are_cf_and_line_up(
    run_yaml: Path, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A forecast is the hindcast of its date, with spread and heatwaves, of cells that were averaged."""
    monkeypatch.setattr("sstcast.forecasting.loaded_run.check_forecast", lambda *_: None)  # of random weights
    coarsen = 2
    overrides = [f"data.source={source}", "data.protocol=paper", BOX % (coarsen, "[4, 3]")]
    config = load_config(run_yaml, [*overrides, "data.splits.test=[2004-06-01, 2004-09-15]"])
    prepare(config.data)
    run = make_run(config, (0, 1))
    evaluate(run)
    path, _ = forecast(run.folder)
    ahead, hindcast = xr.open_dataset(path, engine="netcdf4"), xr.open_zarr(run.forecasts)
    cube, scores = xr.open_zarr(Prepared.of(run.config.data).cube), xr.open_dataset(ScoreFiles(run.folder).tables)

    same = xr.load_dataset(forecast(run.folder, "2004-07-01")[0], engine="netcdf4")
    for name, field in hindcast.sel(init_time=same["init_time"].values).load().items():
        assert field.notnull().any(), name
        xr.testing.assert_allclose(
            same[name].drop_attrs(), field.drop_attrs(), rtol=1e-5, atol=1e-4, check_dim_order=True
        )
    both = xr.concat([hindcast, ahead], "init_time")
    assert both.sizes["init_time"] == hindcast.sizes["init_time"] + 1
    np.testing.assert_array_equal(both["sst"][-1], ahead["sst"][0])
    xr.align(hindcast, ahead, scores, cube, join="exact", exclude=["init_time"])
    for one in (ahead, hindcast, scores):
        assert one["lead"].dtype == np.int32
        assert one["lead"].attrs == cf.VARIABLES["lead"]
        for axis in ("init_time", "valid_time"):
            assert (one[axis].encoding["units"], one[axis].encoding["dtype"]) == (cf.EPOCH, np.int32)
    for one in (ahead, hindcast, scores, cube):
        for axis, step in (("lat", coarsen / 12), ("lon", coarsen / 12)):
            assert one[axis].dtype == np.float64
            np.testing.assert_array_equal(one[axis], one[axis].values.round(6))
            bounds = one[one[axis].attrs["bounds"]]
            np.testing.assert_allclose(bounds.mean("bnds"), one[axis], atol=2e-6)
            np.testing.assert_allclose(bounds[:, 1] - bounds[:, 0], step, atol=2e-6)
        assert {"title", "summary", "institution", "creator_name", "license", "history"} <= one.attrs.keys()
        assert one.attrs["geospatial_lat_min"] == pytest.approx(-12, abs=1e-5)
        assert ("Cai et al." in one.attrs["references"]) == (one is not cube)  # which serves both protocols
    assert hindcast.attrs["time_coverage_start"] == "2004-06-11"
    assert ahead["sst"].attrs["cell_methods"] == hindcast["sst"].attrs["cell_methods"]

    for name, field in hindcast.variables.items():  # so that the checker need see one of the two
        assert field.attrs == ahead[name].attrs, name
    dataset_files.write(cube.load(), tmp_path / "cube.nc")
    for file in (path, tmp_path / "cube.nc"):
        assert complaints(file, monkeypatch) == []
    # Scores are ordered by what they are of, not by place and time.
    assert all(
        found.startswith("§2.4 Dimensions") for found in complaints(ScoreFiles(run.folder).tables, monkeypatch)
    )


def test_a_run_trained_before_cells_were_rounded_knows_its_data(run_yaml: Path, source: Path) -> None:
    """The digest of the statistics is of the source's own coordinates, not of the rounded ones."""
    config = load_config(run_yaml, [f"data.source={source}", BOX % (1, "[8, 6]")])
    prepare(config.data)
    statistics = xr.load_dataset(Prepared.of(config.data).statistics, engine="zarr").drop_vars(
        ["lat_bnds", "lon_bnds"]
    )
    cells = {axis: open_region(config.data)[axis] for axis in ("lat", "lon")}
    assert statistics["lat"].dtype == np.float64
    assert digest_of(statistics.assign_coords(cells)) == statistics.attrs["digest"]


@pytest.mark.parametrize(
    ("title", "protocol", "expected"),
    [
        ("NOAA Daily OISST (AVHRR), 0.25 degrees", "physical", {"references": cf.OISST_REFERENCE}),
        ("NOAA Daily OISST", "paper", {"references": f"{cf.METHOD_REFERENCE}; {cf.OISST_REFERENCE}"}),
        ("SIMULATED by sstcast, in the layout of OISST", "physical", {}),
        ("my own ocean", "paper", {"references": cf.METHOD_REFERENCE}),
    ],
)
def test_only_what_was_used_is_cited(title: str, protocol: str, expected: dict[str, str]) -> None:
    assert cf.references(title, protocol) == expected


def test_probabilities_of_events_say_what_they_are_from() -> None:
    no_event = {
        "exceedance_probability",
        "place_exceedance_probability",
        "tercile_probability",
        "above_probability",
        "below_probability",
    }
    told = {name: attributes.get("comment", "") for name, attributes in VARIABLES.items() if "probability" in name}
    for name in told.keys() - no_event:
        assert "trajectories" in told[name] or "joint samples" in told[name], name
    assert "below -1.7; from trajectories" in VARIABLES["heatwave_category"]["comment"]

"""On a globe, the last column meets the first: where the map is cut does not change a forecast."""

import numpy as np
import pandas as pd
import pytest
import torch
import xarray as xr
from scipy.ndimage import uniform_filter

from sstcast.config import Region
from sstcast.forecasting.system import Models
from sstcast.graphs.grid import GridGraph
from sstcast.models import build_forecaster
from sstcast.models.base import ForecastModel, LinearSystem
from sstcast.models.ridge_inputs import box_means, shifted
from sstcast.ocean.windows import windows_of
from sstcast.scores.metrics import METRICS, small_scales
from sstcast.training.forecast_task import fit

ROWS, COLS, HISTORY, HORIZON, BEFORE, CUT = 6, 24, 12, 5, 365 - 12, 7
REGION = Region(lon=(0, 360), lat=(-45, 45), tile=(ROWS, COLS))
HALF = Region(lon=(0, 180), lat=(-45, 45), tile=(ROWS, COLS // 2))


@pytest.fixture(scope="module")
def globe() -> xr.Dataset:
    """Red noise that crosses the date line and Greenwich, with an island at each."""
    random, days = np.random.default_rng(5), pd.date_range("2001-01-01", periods=1300)
    field = np.zeros((len(days), ROWS, COLS), np.float32)
    for day in range(1, len(days)):
        fields = np.stack([field[day - 1], random.normal(size=(ROWS, COLS))])
        near, fresh = uniform_filter(fields, (0, 3, 3), mode=("nearest", "nearest", "wrap"))
        field[day] = 0.9 * near + 0.5 * fresh
    ocean = np.ones((ROWS, COLS), bool)
    ocean[2, [0, 12, 23]] = False
    axes = {"lat": -37.5 + 15.0 * np.arange(ROWS), "lon": 7.5 + 15.0 * np.arange(COLS)}
    anomaly = xr.DataArray(np.where(ocean, field, np.nan), {"time": days, **axes}, ("time", "lat", "lon"))
    return xr.Dataset({"anomaly": anomaly, "ocean_mask": xr.DataArray(ocean, axes, ("lat", "lon"))})


def cut_elsewhere(globe: xr.Dataset) -> xr.Dataset:
    """The same globe on a map that begins `CUT` columns further east."""
    rolled = globe.roll(lon=-CUT, roll_coords=True)
    return rolled.assign_coords(lon=rolled["lon"] + 360 * (rolled["lon"] < rolled["lon"][0]))


def forecasts(model: ForecastModel, anomalies: xr.Dataset, wraps: bool = True) -> xr.DataArray:
    past = anomalies.isel(time=slice(850, 1300))
    earlier = anomalies["anomaly"].isel(time=slice(0, 850)).rename(time="earlier_time")
    predictor = Models(REGION, HISTORY, HORIZON, [model], torch.device("cpu"), wraps)
    return predictor.predict(past.assign(earlier=earlier), every=40)


def system(name: str, anomalies: xr.Dataset, **options: object) -> ForecastModel:
    torch.manual_seed(0)
    model = build_forecaster(name, history=HISTORY, horizon=HORIZON, shape=(ROWS, COLS), **options)
    if isinstance(model, LinearSystem):
        train, validation = (
            windows_of(anomalies.isel(time=days), REGION, HISTORY, HORIZON, before=BEFORE)
            for days in (slice(0, 850), slice(450, 1250))
        )
        fit(model, train, validation)
    else:
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(0.1 * torch.randn_like(parameter))
    return model


SYSTEMS = [
    ("multiscale-ridge", {"memory": True, "stencil": True}),
    ("local-ridge", {"memory": True, "stencil": True}),
    ("mpnn", {"width": 8, "layers": 3}),
    ("mpnn", {"width": 8, "layers": 2, "conv": "gatedgcn", "virtual_node": True}),
]


@pytest.mark.parametrize(("name", "options"), SYSTEMS)
def test_rotating_the_globe_rotates_the_forecasts(
    globe: xr.Dataset, name: str, options: dict[str, object]
) -> None:
    turned = cut_elsewhere(globe)
    here, there = (forecasts(system(name, of, **options), of) for of in (globe, turned))
    np.testing.assert_allclose(there.values, np.roll(here.values, -CUT, -1), atol=2e-4)


@pytest.mark.parametrize(("name", "options"), SYSTEMS)
def test_runs_that_were_trained_with_edges_keep_them(
    globe: xr.Dataset, name: str, options: dict[str, object]
) -> None:
    model = system(name, globe, **options)
    new, old = (forecasts(model, globe, wraps=wraps) for wraps in (True, False))
    middle = {"lon": slice(8, 16)} if name != "mpnn" else {"lon": slice(0, 0)}
    np.testing.assert_allclose(new.isel(middle), old.isel(middle), atol=1e-5)
    assert abs(new - old).isel(lon=[0, -1]).max() > 1e-3


def test_tfnet_keeps_the_edges_of_the_map(globe: xr.Dataset) -> None:
    """Its strides see the columns in blocks of 16, so it cannot turn with the globe (docs/own-data.md)."""
    turned = cut_elsewhere(globe)
    model = system("tfnet", globe, width=4)
    here, there = (forecasts(model, of) for of in (globe, turned))
    assert np.nanmax(abs(there.values - np.roll(here.values, -CUT, -1))) > 1e-2


def test_small_scales_cross_the_seam(globe: xr.Dataset) -> None:
    """Where the map is cut changes neither them nor their ratio. Half a globe has edges."""
    field, turned = (
        globe["anomaly"].isel(time=slice(0, 40)),
        cut_elsewhere(globe)["anomaly"].isel(time=slice(0, 40)),
    )
    here, there = (small_scales(of.values, wrap=True) for of in (field, turned))
    np.testing.assert_allclose(there, np.roll(here, -CUT, -1), atol=1e-6)
    size = (1, 5, 5)
    known = np.isfinite(field.values)
    total, count = (
        uniform_filter(np.where(known, of, 0).astype(float), size, mode=("nearest", "constant", "wrap"))
        for of in (field.values, known)
    )
    np.testing.assert_allclose(here[known], (field.values - total / count)[known], atol=1e-5)
    metric = METRICS["small_scales"]
    ratios = [
        float(metric(of.isel(time=slice(1, None)), of.isel(time=slice(0, -1)).assign_coords(time=of["time"][1:])))
        for of in (field, turned)
    ]
    assert ratios[0] == pytest.approx(ratios[1], rel=1e-6)
    half = field.isel(lon=slice(0, 12))
    assert np.nanmax(abs(small_scales(half.values) - here[..., :12])[..., [0, -1]]) > 1e-3


def test_only_a_whole_turn_has_no_edge(globe: xr.Dataset) -> None:
    assert windows_of(globe, REGION, HISTORY).wrap
    assert not windows_of(globe, REGION, HISTORY, wrap=False).wrap
    assert not windows_of(globe, HALF, HISTORY).wrap  # two tiles side by side
    part = globe.isel(lon=slice(0, COLS - 1))
    assert not windows_of(part, REGION.model_copy(update={"tile": (ROWS, COLS - 1)}), HISTORY).wrap


@pytest.mark.parametrize("size", [3, 7, 15])
def test_boxes_and_stencils_against_scipy(size: int) -> None:
    random = np.random.default_rng(size)
    ocean = random.random((ROWS, COLS)) < 0.8
    field = np.where(ocean, random.normal(size=(ROWS, COLS)), 0)
    graph = GridGraph(ROWS, COLS, torch.from_numpy(ocean).reshape(1, -1), wrap=True)
    found = box_means(torch.from_numpy(field).reshape(1, -1, 1), graph, size)[0, :, 0].reshape(ROWS, COLS)
    total, count = (uniform_filter(x.astype(float), size, mode=("constant", "wrap")) for x in (field, ocean))
    np.testing.assert_allclose(found, np.where(ocean, total / np.where(ocean, count, 1), 0), atol=1e-9)
    np.testing.assert_array_equal(shifted(torch.from_numpy(field), 0, 4, wrap=True), np.roll(field, -4, 1))
    inside = shifted(torch.from_numpy(field), 2, 0, wrap=True)
    np.testing.assert_array_equal(inside, np.concatenate([field[2:], 0 * field[:2]]))

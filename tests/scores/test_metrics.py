import numpy as np
import pytest
import xarray as xr
from scores import continuous
from sklearn import metrics as sk

from sstcast.scores.metrics import METRICS, acc, mse, skill

DIMS = ("init_time", "lead", "cell")


def pair(seed: int = 0) -> tuple[xr.DataArray, xr.DataArray]:
    random = np.random.default_rng(seed)
    forecast, truth = (xr.DataArray(random.normal(size=(7, 3, 5)), dims=DIMS) for _ in range(2))
    truth[:, :, 2] = np.nan  # land
    return forecast.where(truth.notnull()), truth


@pytest.mark.parametrize("dims", [DIMS, ("init_time", "cell")])
@pytest.mark.parametrize("weights", [None, xr.DataArray([0.2, 1, 3, 0, 0.7], dims="cell")])
def test_against_scores(dims: tuple[str, ...], weights: xr.DataArray | None) -> None:
    theirs = {
        "mse": continuous.mse,
        "rmse": continuous.rmse,
        "mae": continuous.mae,
        "bias": continuous.additive_bias,
    }
    forecast, truth = pair()
    for name, function in theirs.items():
        expected = function(forecast, truth, reduce_dims=dims, weights=weights)
        np.testing.assert_allclose(METRICS[name](forecast, truth, list(dims), weights), expected)


def test_correlations_against_scikit_learn_and_numpy() -> None:
    forecast, truth = pair()
    weights = xr.DataArray([0.2, 1, 3, 0, 0.7], dims="cell")
    known = truth.notnull()
    f, t, w = (a.values[known.values] for a in (forecast, truth, weights.broadcast_like(truth).transpose(*DIMS)))
    assert float(acc(forecast, truth)) == pytest.approx(sk.pairwise.cosine_similarity([f], [t])[0, 0])
    expected = sk.pairwise.cosine_similarity([f * np.sqrt(w)], [t * np.sqrt(w)])[0, 0]
    assert float(acc(forecast, truth, None, weights)) == pytest.approx(expected)
    assert float(METRICS["acc_centred"](forecast, truth)) == pytest.approx(np.corrcoef(f, t)[0, 1])


def test_small_scales_against_rolling_means() -> None:
    """Of fields with land, in a corner and within."""
    random, dims = np.random.default_rng(3), ("init_time", "lat", "lon")
    forecast, truth = (xr.DataArray(random.normal(size=(3, 9, 12)), dims=dims) for _ in range(2))
    truth[:, :3, :4], truth[:, 6, 7] = np.nan, np.nan
    squares = []
    for field in (forecast.where(truth.notnull()), truth):
        means = field.rolling(lat=5, lon=5, center=True, min_periods=1).mean()
        squares.append(float(((field - means) ** 2).mean()))
    metric = METRICS["small_scales"]
    for chunks in ({}, {"init_time": 1}):
        found = metric(forecast.chunk(chunks), truth.chunk(chunks))
        assert float(found) == pytest.approx(squares[0] / squares[1])
    assert float(metric(0.5 * truth + 3, truth)) == pytest.approx(0.25)  # whatever the mean
    smooth = truth.rolling(lat=5, lon=5, center=True, min_periods=1).mean()
    assert float(metric(smooth, truth)) < 0.1


@pytest.mark.parametrize("name", [name for name in METRICS if name != "small_scales"])
def test_each_metric_leaves_nan_out_and_is_lazy_on_dask(name: str) -> None:
    forecast, truth = pair()
    forecast[0, 0, 0], truth[1, 1, 1] = np.nan, np.nan
    metric, weights = METRICS[name], xr.DataArray([0.2, 1, 3, 0, 0.7], dims="cell")
    known = (forecast.notnull() & truth.notnull()).values.ravel()
    some = (xr.DataArray(field.values.ravel()[known], dims="case") for field in (forecast, truth))
    expected = float(metric(*some))
    assert float(metric(forecast, truth)) == pytest.approx(expected)
    lazy = forecast.chunk(init_time=2), truth.chunk(init_time=3)
    for options in ({}, {"dims": ["cell"]}, {"dims": ["init_time", "cell"], "weights": weights}):
        found = metric(*lazy, **options)
        assert found.chunks is not None
        np.testing.assert_allclose(found, metric(forecast, truth, **options))


def test_correlations_of_opposite_and_constant_forecasts() -> None:
    _, truth = pair()
    assert float(acc(-truth, truth)) == pytest.approx(-1)
    assert np.isnan(acc(0 * truth, truth))
    assert np.isnan(METRICS["acc_centred"](0 * truth + 1, truth))
    assert float(METRICS["acc_centred"](truth + 5, truth + 5)) == pytest.approx(1)


def test_skill() -> None:
    forecast, truth = pair()
    reference = mse(forecast, truth)
    assert float(skill(reference, reference)) == 0
    assert float(skill(0 * reference, reference)) == 1
    assert float(skill(2 * reference, reference)) == -1
    assert np.isnan(skill(reference, 0 * reference))

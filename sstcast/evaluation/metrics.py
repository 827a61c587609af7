"""Scores of forecasts, one function a metric, over any dimensions of labelled arrays.

Every function takes `forecast` and `truth` of the same units, averages over `dims` (all if None), ignores
NaN (land) and works lazily on dask arrays. Each element counts once: nothing is a mean of means.
"""

from collections.abc import Hashable, Sequence

import xarray as xr

Dims = Sequence[Hashable] | None


def mse(forecast: xr.DataArray, truth: xr.DataArray, dims: Dims = None) -> xr.DataArray:
    """Mean squared error."""
    return ((forecast - truth) ** 2).mean(dims)


def rmse(forecast: xr.DataArray, truth: xr.DataArray, dims: Dims = None) -> xr.DataArray:
    """Root of the mean squared error."""
    return mse(forecast, truth, dims) ** 0.5


def mae(forecast: xr.DataArray, truth: xr.DataArray, dims: Dims = None) -> xr.DataArray:
    """Mean absolute error."""
    return abs(forecast - truth).mean(dims)


def bias(forecast: xr.DataArray, truth: xr.DataArray, dims: Dims = None) -> xr.DataArray:
    """Mean of forecast minus truth."""
    return (forecast - truth).mean(dims)


def acc(forecast: xr.DataArray, truth: xr.DataArray, dims: Dims = None) -> xr.DataArray:
    """Anomaly correlation, uncentred: both arguments are anomalies from the same climatology.

    NaN where either has no variance about it, as the climatology itself has none.
    """
    truth = truth.where(forecast.notnull())
    norms = (forecast**2).sum(dims) * (truth**2).sum(dims)
    return (forecast * truth).sum(dims) / norms.where(norms > 0) ** 0.5


def skill(error: xr.DataArray, reference: xr.DataArray) -> xr.DataArray:
    """Mean-squared-error skill score, `1 - error / reference`; 0 is no better than the reference."""
    return 1 - error / reference.where(reference > 0)


METRICS = {"mse": mse, "rmse": rmse, "mae": mae, "bias": bias, "acc": acc}

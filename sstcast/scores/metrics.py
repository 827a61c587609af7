"""Scores of forecasts, one function a metric, over any dimensions of labelled arrays.

Every function takes `forecast` and `truth` of the same units, averages over `dims` (all if None) with
`weights` (equal if None), ignores NaN (land) and works lazily on dask arrays. Each element counts once, with
its weight: nothing is a mean of means.
"""

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
import xarray as xr

Dims = Sequence[Hashable] | None
Weights = xr.DataArray | None


def mse(forecast: xr.DataArray, truth: xr.DataArray, dims: Dims = None, weights: Weights = None) -> xr.DataArray:
    """Mean squared error."""
    return _mean((forecast - truth) ** 2, dims, weights)


def rmse(forecast: xr.DataArray, truth: xr.DataArray, dims: Dims = None, weights: Weights = None) -> xr.DataArray:
    """Root of the mean squared error."""
    return mse(forecast, truth, dims, weights) ** 0.5


def mae(forecast: xr.DataArray, truth: xr.DataArray, dims: Dims = None, weights: Weights = None) -> xr.DataArray:
    """Mean absolute error."""
    return _mean(abs(forecast - truth), dims, weights)


def bias(forecast: xr.DataArray, truth: xr.DataArray, dims: Dims = None, weights: Weights = None) -> xr.DataArray:
    """Mean of forecast minus truth."""
    return _mean(forecast - truth, dims, weights)


def acc(forecast: xr.DataArray, truth: xr.DataArray, dims: Dims = None, weights: Weights = None) -> xr.DataArray:
    """Anomaly correlation, uncentred: both arguments are anomalies from the same climatology.

    NaN where either has no variance about it, as the climatology itself has none.
    """
    known = forecast.notnull() & truth.notnull()
    squares = (_mean(field.where(known) ** 2, dims, weights) for field in (forecast, truth))
    return correlation(_mean(forecast * truth, dims, weights), *squares)


def correlation(product: Any, *squares: Any) -> Any:
    """Return the mean `product` of two fields over the root of their two mean `squares`; NaN where one is 0.

    Of NumPy or labelled arrays alike.
    """
    norms = squares[0] * squares[1]
    return product / (norms * xr.where(norms > 0, 1.0, np.nan)) ** 0.5


def skill(error: xr.DataArray, reference: xr.DataArray) -> xr.DataArray:
    """Mean-squared-error skill score, `1 - error / reference`; 0 is no better than the reference."""
    return 1 - error / reference.where(reference > 0)


METRICS = {"mse": mse, "rmse": rmse, "mae": mae, "bias": bias, "acc": acc}


def _mean(field: xr.DataArray, dims: Dims, weights: Weights) -> xr.DataArray:
    return field.mean(dims) if weights is None else field.weighted(weights).mean(dims)

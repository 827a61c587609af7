"""Metrics of forecasts: a `Metric` is computed from the mean of one or more `Statistic`s.

A metric listed in `METRICS` appears in `metrics.json`, `scores.nc`, the printed tables, the report and the
leaderboard. A metric is also a function of labelled arrays and scores any forecast:
`rmse(forecast, truth, ["time"], weights)`. Each element counts once, with its weight. No score is a mean of means.

Metrics of distributions and ensembles are in `distributions`, and scores of the probabilities of events in
`probabilities`. Histograms (PIT, ranks) and the scores of warnings (ROC area, SEDI, reliability) are computed from
counts of cases instead (see `cases`).
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from sstcast.geo import spans_globe
from sstcast.names import DEGREES, STANDARDISED
from sstcast.types import Array

Dims = Sequence[Hashable] | None
Weights = xr.DataArray | None


class Statistic(NamedTuple):
    """An elementwise function of forecast and truth that is averaged.

    For values, both arguments are NumPy or labelled arrays. For distributions the forecast is a `Gaussian`, for
    ensembles it is an array of members `[M, ...]`. The truth of both is a NumPy array.
    """

    name: str  # names its variables in scores.nc
    function: Callable[[Any, Any], Any]
    small: bool = False  # whether its arguments are the `small_scales` of forecast and truth, in degC


SQUARED_ERROR = Statistic("mse", lambda forecast, truth: (forecast - truth) ** 2)
ABSOLUTE_ERROR = Statistic("mae", lambda forecast, truth: abs(forecast - truth))
ERROR = Statistic("bias", lambda forecast, truth: forecast - truth)
PRODUCT = Statistic("product", lambda forecast, truth: forecast * truth)
FORECAST_SQUARE = Statistic("forecast_square", lambda forecast, truth: forecast * forecast)
TRUTH_SQUARE = Statistic("truth_square", lambda forecast, truth: truth * truth)
MEAN_TRUTH = Statistic("truth", lambda forecast, truth: truth + 0 * forecast)
SMALL_FORECAST = Statistic("small_forecast_square", lambda forecast, truth: forecast * forecast, small=True)
SMALL_TRUTH = Statistic("small_truth_square", lambda forecast, truth: truth * truth, small=True)

BOX = 5  # side in cells of the box whose mean is removed to get the small scales


def small_scales(field: Array, wrap: bool = False, ocean: NDArray[np.bool_] | None = None) -> Array:
    """Subtract from `field [..., lat, lon]` its running mean over 5 x 5 cells, ignoring NaN (land).

    With `wrap`, the first column follows the last, as on a globe. `ocean` masks the cells `[lat, lon]` that are
    not NaN, if they are known to be the same on all maps.
    """
    from scipy.ndimage import uniform_filter1d  # imported here because it takes half a second

    def box_sums(values: Array) -> Array:
        values = uniform_filter1d(values, BOX, axis=-2, mode="constant")
        uniform_filter1d(values, BOX, axis=-1, mode="wrap" if wrap else "constant", output=values)
        return values

    if ocean is None:
        ocean = np.isfinite(field)
        first = ocean[(0,) * (field.ndim - 2)]
        if field.size and (ocean == first).all():  # as usual: all maps have the same ocean
            ocean = first
    share = box_sums(ocean.astype(np.float32))
    means = box_sums(np.where(ocean, field, np.float32(0)))
    means /= np.where(ocean, share, 1)
    small: Array = np.subtract(field, means, out=means)
    np.copyto(small, np.nan, where=~ocean)
    return small


class Metric:
    """Base class of scores that are computed from mean statistics. By default, the mean of a single statistic.

    Attributes:
        name: key in `metrics.json`.
        heading: column heading in tables.
        about: a one-sentence description for the report.
        statistics: the statistics whose means enter the score.
        unit: unit of the score if errors are in degC.
        in_degrees, standardised: whether tables show the score of errors in degC and in standardised units.
        ranked: whether leaderboards show it.
        by_cell: whether `scores.nc` holds it for every cell and lead week, as `NAME_by_cell`.
    """

    name: str
    heading: str
    about: str
    statistics: tuple[Statistic, ...]
    unit = "°C"
    in_degrees = True
    standardised = False
    ranked = True
    by_cell = True

    def value(self, *means: Any) -> Any:
        """Compute the score from the mean of each statistic (NumPy or labelled arrays)."""
        (mean,) = means
        return mean

    def from_means(self, means: Mapping[str, Any]) -> Any:
        """Compute the score from a mapping of statistic names to means."""
        return self.value(*(means[statistic.name] for statistic in self.statistics))

    def __call__(
        self, forecast: xr.DataArray, truth: xr.DataArray, dims: Dims = None, weights: Weights = None
    ) -> xr.DataArray:
        """Score forecasts against the truth.

        Args:
            forecast: forecast values, which may be backed by dask.
            truth: observed values in the same units. Elements that are NaN in either array (land) are ignored.
            dims: dimensions to average over. By default, all.
            weights: weights of the elements. By default, all are equal.
        """
        valid = forecast.notnull() & truth.notnull()
        if any(statistic.small for statistic in self.statistics):
            forecast, truth = (_small_scales(field.where(valid)) for field in (forecast, truth))
        fields = (statistic.function(forecast, truth).where(valid) for statistic in self.statistics)
        return self.value(*(f.mean(dims) if weights is None else f.weighted(weights).mean(dims) for f in fields))


class MSE(Metric):
    """Mean squared error, `mean (f - o)^2`. In standardised units, it is the score of the published table.

    >>> float(MSE()(xr.DataArray([1.0, 3.0]), xr.DataArray([0.0, 1.0])))  # (1 + 4) / 2
    2.5
    """

    name, heading, unit = "mse", "MSE", "°C²"
    about = "Mean squared error."
    statistics = (SQUARED_ERROR,)
    in_degrees, standardised = False, True


class RMSE(Metric):
    """Root of the mean squared error, `sqrt(mean (f - o)^2)`.

    >>> float(RMSE()(xr.DataArray([1.0, 7.0]), xr.DataArray([0.0, 0.0])))  # sqrt((1 + 49) / 2)
    5.0
    """

    name, heading = "rmse", "RMSE"
    about = "Root of the mean squared error."
    statistics = (SQUARED_ERROR,)
    by_cell = False  # the root of `mse_by_cell`

    def value(self, *means: Any) -> Any:
        """Return the square root of the mean squared error."""
        return means[0] ** 0.5


class MAE(Metric):
    """Mean absolute error, `mean |f - o|`.

    >>> float(MAE()(xr.DataArray([1.0, 3.0]), xr.DataArray([0.0, 5.0])))  # (1 + 2) / 2
    1.5
    """

    name, heading = "mae", "MAE"
    about = "Mean absolute error."
    statistics = (ABSOLUTE_ERROR,)
    standardised = True


class Bias(Metric):
    """Mean of forecast minus truth, `mean (f - o)`.

    >>> float(Bias()(xr.DataArray([1.0, 3.0]), xr.DataArray([0.0, 5.0])))  # (1 - 2) / 2
    -0.5
    """

    name, heading = "bias", "bias"
    about = "Mean of forecast minus observation."
    statistics = (ERROR,)


class ACC(Metric):
    """Uncentred anomaly correlation. Forecast and truth are anomalies from the same climatology.

    `mean f o / sqrt(mean f^2 mean o^2)` (Wilks 2019, Statistical Methods in the Atmospheric Sciences, ch. 9). NaN
    if either is zero throughout, as a forecast of the climatology is.

    >>> float(ACC()(xr.DataArray([4.0, 3.0]), xr.DataArray([3.0, 4.0])))  # 12 / sqrt(12.5 * 12.5)
    0.96
    """

    name, heading, unit = "acc", "ACC", ""
    about = "Uncentred correlation of anomalies from the climatology."
    statistics = (PRODUCT, FORECAST_SQUARE, TRUTH_SQUARE)

    def value(self, *means: Any) -> Any:
        """Return the mean product divided by the root of the product of the mean squares."""
        product, *squares = means
        norms = squares[0] * squares[1]
        return product / (norms * xr.where(norms > 0, 1.0, np.nan)) ** 0.5


class CentredACC(Metric):
    """Centred anomaly correlation: the means of forecast and truth over all scored days and cells are removed.

    `cov(f, o) / sqrt(var f var o)`. If all days are warmer than the climatology, as in a warming ocean, any warm
    forecast has a high uncentred correlation.

    >>> forecast, truth = xr.DataArray([5.0, 6.0, 5.0, 6.0]), xr.DataArray([5.0, 5.0, 6.0, 6.0])
    >>> round(float(ACC()(forecast, truth)), 2), float(CentredACC()(forecast, truth))
    (0.99, 0.0)
    """

    name, heading, unit = "acc_centred", "centred ACC", ""
    about = (
        "Correlation of anomalies after their means over the test days are removed: warming alone adds nothing."
    )
    statistics = (PRODUCT, FORECAST_SQUARE, TRUTH_SQUARE, ERROR, MEAN_TRUTH)
    ranked = by_cell = False

    def value(self, *means: Any) -> Any:
        """Return the covariance divided by the root of the product of the variances."""
        product, forecast_square, truth_square, error, truth = means
        forecast = truth + error
        norms = (forecast_square - forecast**2) * (truth_square - truth**2)
        return (product - forecast * truth) / (norms * xr.where(norms > TINY, 1.0, np.nan)) ** 0.5


class SmallScales(Metric):
    """Small-scale variance of the forecast divided by that of the truth: the amount of detail, right or wrong.

    `mean f'^2 / mean o'^2`, where a prime marks the departure from the mean of 5 x 5 cells (see `small_scales`).

    >>> truth = xr.DataArray(np.arange(36.0).reshape(6, 6) % 2, dims=("lat", "lon"))
    >>> float(SmallScales()(2 * truth, truth))  # twice the amplitude
    4.0
    """

    name, heading, unit = "small_scales", "detail", ""
    about = (
        f"Forecast variance at scales below {BOX} cells over the observed variance; a blurred forecast is below 1."
    )
    statistics = (SMALL_FORECAST, SMALL_TRUTH)
    ranked = by_cell = False

    def value(self, *means: Any) -> Any:
        """Return the ratio of the variances."""
        forecast, truth = means
        return forecast / (truth * xr.where(truth > 0, 1.0, np.nan))


def _small_scales(field: xr.DataArray) -> xr.DataArray:
    result: xr.DataArray = xr.apply_ufunc(
        small_scales,
        field.chunk(lat=-1, lon=-1) if field.chunks else field,
        kwargs={"wrap": "lon" in field.coords and spans_globe(field["lon"].values)},
        input_core_dims=[["lat", "lon"]],
        output_core_dims=[["lat", "lon"]],
        dask="parallelized",
        output_dtypes=[field.dtype],
    )
    return result


TINY = 1e-12  # a variance up to this is rounding error in a constant forecast
mse, rmse, mae, bias, acc = MSE(), RMSE(), MAE(), Bias(), ACC()
METRICS: dict[str, Metric] = {
    metric.name: metric for metric in (mse, rmse, mae, bias, acc, CentredACC(), SmallScales())
}


def statistics_of(metrics: Mapping[str, Metric] | None = None) -> dict[str, Statistic]:
    """Return the statistics that some metrics need, by name. By default, those of all `METRICS`."""
    chosen = METRICS if metrics is None else metrics
    return {statistic.name: statistic for metric in chosen.values() for statistic in metric.statistics}


def columns() -> list[tuple[str, str, str]]:
    """Return the columns of score tables: heading, units and name of each metric, degC first."""
    degrees = [(m.heading, DEGREES, m.name) for m in METRICS.values() if m.in_degrees]
    return degrees + [(f"{m.heading} (std)", STANDARDISED, m.name) for m in METRICS.values() if m.standardised]


def skill(error: xr.DataArray, reference: xr.DataArray) -> xr.DataArray:
    """Return the mean-squared-error skill score `1 - error / reference`. 0 means no better than the reference."""
    return 1 - error / reference.where(reference > 0)

"""Scores of forecasts: a `Statistic` is averaged, and a `Metric` follows from averages.

A metric listed in `METRICS` appears in `metrics.json`, `scores.nc`, the printed tables, the report and the
leaderboard. Called on labelled arrays, it scores any forecast: `rmse(forecast, truth, ["time"], weights)`. Each
element counts once, with its weight: nothing is a mean of means.

Metrics of distributions and of ensembles are in `distributions`, the Brier score in `heatwaves`. Histograms (PIT,
ranks) and the scores of warnings (ROC area, SEDI, reliability) are no means over elements: cases are counted.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from sstcast.names import DEGREES, STANDARDISED

Array = NDArray[np.floating]
Dims = Sequence[Hashable] | None
Weights = xr.DataArray | None


class Statistic(NamedTuple):
    """A function of forecast and truth, element by element, whose mean is taken.

    Of values, both are NumPy or labelled arrays. Of distributions the forecast is a `Gaussian`, of ensembles it is
    the members `[M, ...]`; their truth is NumPy.
    """

    name: str  # of its tables in scores.nc
    of: Callable[[Any, Any], Any]
    small: bool = False  # whether it takes the `small_scales` of forecast and truth, in degC


SQUARED_ERROR = Statistic("mse", lambda forecast, truth: (forecast - truth) ** 2)
ABSOLUTE_ERROR = Statistic("mae", lambda forecast, truth: abs(forecast - truth))
ERROR = Statistic("bias", lambda forecast, truth: forecast - truth)
PRODUCT = Statistic("product", lambda forecast, truth: forecast * truth)
FORECAST_SQUARE = Statistic("forecast_square", lambda forecast, truth: forecast * forecast)
TRUTH_SQUARE = Statistic("truth_square", lambda forecast, truth: truth * truth)
TRUTH = Statistic("truth", lambda forecast, truth: truth + 0 * forecast)
SMALL_FORECAST = Statistic("small_forecast_square", lambda forecast, truth: forecast * forecast, small=True)
SMALL_TRUTH = Statistic("small_truth_square", lambda forecast, truth: truth * truth, small=True)

BOX = 5  # cells; smaller scales are small


def small_scales(field: Array) -> Array:
    """Return `field [..., lat, lon]` less its means over boxes of 5 x 5 cells; NaN (land) is left out."""
    from scipy.ndimage import uniform_filter1d  # not above: it takes half a second

    def box_sums(values: Array) -> Array:
        for axis in (-2, -1):
            values = uniform_filter1d(values, BOX, axis=axis, mode="constant")
        return values

    known = np.isfinite(field)
    share = box_sums(known.astype(np.float32))
    means = box_sums(np.where(known, field, np.float32(0))) / np.where(known, share, 1)
    small: Array = np.where(known, field - means, np.float32(np.nan))
    return small


class Metric:
    """A score that follows from mean statistics; by default it is the mean of the only one.

    Attributes:
        name: its key in `metrics.json`.
        heading: its name in tables.
        about: what it is, in a sentence for the report.
        statistics: what it follows from.
        unit: of errors in degC.
        in_degrees, standardised: whether tables show it of errors in degC and in standardised units.
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
        """Return the score, given the mean of each statistic, NumPy or labelled."""
        (mean,) = means
        return mean

    def of(self, means: Mapping[str, Any]) -> Any:
        """Return the score, given mean statistics by name."""
        return self.value(*(means[statistic.name] for statistic in self.statistics))

    def __call__(
        self, forecast: xr.DataArray, truth: xr.DataArray, dims: Dims = None, weights: Weights = None
    ) -> xr.DataArray:
        """Score forecasts.

        Args:
            forecast: labelled values, dask-backed or not.
            truth: what came true, in the same units. NaN in either (land) is left out.
            dims: what is averaged over; all dimensions if None.
            weights: of the elements; equal if None.
        """
        known = forecast.notnull() & truth.notnull()
        if any(statistic.small for statistic in self.statistics):
            forecast, truth = (_small_scales(field.where(known)) for field in (forecast, truth))
        fields = (statistic.of(forecast, truth).where(known) for statistic in self.statistics)
        return self.value(*(f.mean(dims) if weights is None else f.weighted(weights).mean(dims) for f in fields))


class MSE(Metric):
    """Mean squared error, which is what the published table shows, in standardised units."""

    name, heading, unit = "mse", "MSE", "°C²"
    about = "Mean squared error."
    statistics = (SQUARED_ERROR,)
    in_degrees, standardised = False, True


class RMSE(Metric):
    """Root of the mean squared error."""

    name, heading = "rmse", "RMSE"
    about = "Root of the mean squared error."
    statistics = (SQUARED_ERROR,)
    by_cell = False  # the root of `mse_by_cell`

    def value(self, *means: Any) -> Any:
        """Return the root."""
        return means[0] ** 0.5


class MAE(Metric):
    """Mean absolute error."""

    name, heading = "mae", "MAE"
    about = "Mean absolute error."
    statistics = (ABSOLUTE_ERROR,)
    standardised = True


class Bias(Metric):
    """Mean of forecast minus truth."""

    name, heading = "bias", "bias"
    about = "Mean of forecast minus observation."
    statistics = (ERROR,)


class ACC(Metric):
    """Anomaly correlation, uncentred: forecast and truth are anomalies from the same climatology.

    NaN where either has no variance about it, as the climatology itself has none.
    """

    name, heading, unit = "acc", "ACC", ""
    about = "Uncentred correlation of anomalies from the climatology of the training years."
    statistics = (PRODUCT, FORECAST_SQUARE, TRUTH_SQUARE)

    def value(self, *means: Any) -> Any:
        """Return the product over the root of the two squares."""
        product, *squares = means
        norms = squares[0] * squares[1]
        return product / (norms * xr.where(norms > 0, 1.0, np.nan)) ** 0.5


class CentredACC(Metric):
    """Anomaly correlation about the means of forecast and truth over the days and cells that are scored.

    Where all days are warmer than the climatology, as in a warming ocean, the uncentred one is high for any
    forecast that is warm.
    """

    name, heading, unit = "acc_centred", "centred ACC", ""
    about = "Correlation of anomalies, each about its mean over the test days: warming alone adds nothing to it."
    statistics = (PRODUCT, FORECAST_SQUARE, TRUTH_SQUARE, ERROR, TRUTH)
    ranked = by_cell = False

    def value(self, *means: Any) -> Any:
        """Return the covariance over the root of the two variances."""
        product, forecast_square, truth_square, error, truth = means
        forecast = truth + error
        norms = (forecast_square - forecast**2) * (truth_square - truth**2)
        return (product - forecast * truth) / (norms * xr.where(norms > TINY, 1.0, np.nan)) ** 0.5


class SmallScales(Metric):
    """Variance of the forecast at small scales over the truth's: how much detail it has, right or wrong."""

    name, heading, unit = "small_scales", "detail", ""
    about = f"Variance below {BOX} cells as a share of the truth's; less than 1: the forecast is blurred."
    statistics = (SMALL_FORECAST, SMALL_TRUTH)
    ranked = by_cell = False

    def value(self, *means: Any) -> Any:
        """Return the ratio."""
        forecast, truth = means
        return forecast / (truth * xr.where(truth > 0, 1.0, np.nan))


def _small_scales(field: xr.DataArray) -> xr.DataArray:
    found: xr.DataArray = xr.apply_ufunc(
        small_scales,
        field.chunk(lat=-1, lon=-1) if field.chunks else field,
        input_core_dims=[["lat", "lon"]],
        output_core_dims=[["lat", "lon"]],
        dask="parallelized",
        output_dtypes=[field.dtype],
    )
    return found


TINY = 1e-12  # variance of a constant forecast, but for rounding
mse, rmse, mae, bias, acc = MSE(), RMSE(), MAE(), Bias(), ACC()
METRICS: dict[str, Metric] = {
    metric.name: metric for metric in (mse, rmse, mae, bias, acc, CentredACC(), SmallScales())
}


def statistics(metrics: Mapping[str, Metric] | None = None) -> dict[str, Statistic]:
    """Return the statistics of metrics, by default of `METRICS`, by name, each once."""
    chosen = METRICS if metrics is None else metrics
    return {statistic.name: statistic for metric in chosen.values() for statistic in metric.statistics}


def columns() -> list[tuple[str, str, str]]:
    """Return what tables show of every metric: heading, units and name, degC first."""
    degrees = [(m.heading, DEGREES, m.name) for m in METRICS.values() if m.in_degrees]
    return degrees + [(f"{m.heading}*", STANDARDISED, m.name) for m in METRICS.values() if m.standardised]


def skill(error: xr.DataArray, reference: xr.DataArray) -> xr.DataArray:
    """Return the mean-squared-error skill score, `1 - error / reference`; 0 is no better than the reference."""
    return 1 - error / reference.where(reference > 0)

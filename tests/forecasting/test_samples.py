"""Joint samples against known covariances, closed forms and plain NumPy, and the days that they are made of."""

import datetime as dt
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scored_runs
import xarray as xr
from scipy.stats import norm
from scored_runs import configure
from small_ocean import make_sst

from sstcast.config import FieldSource
from sstcast.errors import SSTCastError
from sstcast.extremes.heatwaves import MARGIN_DAYS, events
from sstcast.forecasting import samples
from sstcast.forecasting.areas import area_means, heatwave_shares
from sstcast.forecasting.forecast import forecast
from sstcast.forecasting.samples import SAMPLES, ErrorPaths, ErrorsOfCells, normal_levels, sampled
from sstcast.forecasting.spread import QUANTILES, calibrated
from sstcast.forecasting.stores import stores_for
from sstcast.geo import area_weights
from sstcast.ocean.prepared import Prepared
from sstcast.options import DEFAULTS
from sstcast.runs import Run
from sstcast.scores.distributions import crps

DAYS = np.arange(np.datetime64("1951-01-01"), np.datetime64("2020-01-01"))
TRAIN = (dt.date(1951, 1, 1), dt.date(2010, 12, 31))
DATE = np.datetime64("2015-02-10")
PHI, REACH, HORIZON = 0.9, 3.0, 10


def paths_of(anomaly: np.ndarray, train: tuple[dt.date, dt.date] = TRAIN, horizon: int = HORIZON) -> ErrorPaths:
    cells = np.ones(anomaly.shape[1:], bool)
    return ErrorPaths(DAYS[: len(anomaly)], anomaly, cells, train, horizon, "ocean.nc")


@pytest.fixture(scope="module")
def known_ocean() -> tuple[np.ndarray, np.ndarray]:
    """Anomalies `[day, cell]` that are AR(1) in time and exponential in space, and the covariance of cells."""
    cells = np.arange(8.0)
    space = np.exp(-np.abs(np.subtract.outer(cells, cells)) / REACH)
    random = np.random.default_rng(0)
    steps = random.standard_normal((len(DAYS), len(cells))) @ np.linalg.cholesky(space).T
    steps[1:] *= np.sqrt(1 - PHI**2)
    for day in range(1, len(DAYS)):
        steps[day] += PHI * steps[day - 1]
    return steps.astype(np.float32), space


def test_a_known_covariance_is_found_again(known_ocean: tuple[np.ndarray, np.ndarray]) -> None:
    """The errors of damped persistence on AR(1) have the covariance `phi^|l - m| - phi^(l + m)`."""
    anomaly, space = known_ocean
    lead = np.arange(1, HORIZON + MARGIN_DAYS + 1)
    covariance = PHI ** np.abs(np.subtract.outer(lead, lead)) - PHI ** np.add.outer(lead, lead)
    spread = np.sqrt(covariance.diagonal())
    expected = np.kron(covariance / np.outer(spread, spread), space)
    found, dates = np.zeros_like(expected), [DATE + np.timedelta64(13 * n, "D") for n in range(20)]
    for date in dates:
        errors = paths_of(anomaly).standard_errors(date, SAMPLES).astype(float)
        rows = errors.reshape(-1, SAMPLES)
        found += rows @ rows.T / (rows[0] @ rows[0]) / len(dates)
    # The paths of 20 dates share days, so that the standard error of a correlation is well above 1 / sqrt(2000).
    assert abs(found - expected).max() < 0.1
    assert abs(found - expected).mean() < 0.03
    weights = np.ones((1, 8), np.float32)
    wide = np.broadcast_to(spread[:HORIZON, None], (HORIZON, 8)).astype(np.float32)
    variance = [
        area_means(0 * wide, wide, paths_of(anomaly).standard_errors(date, SAMPLES), weights).var(-1)[:, 0]
        for date in dates
    ]
    of_mean = spread[:HORIZON] ** 2 * space.mean()
    np.testing.assert_allclose(np.mean(variance, 0), of_mean, rtol=0.12)
    assert (of_mean > 2 * spread[:HORIZON] ** 2 / 8).all()  # far from independent cells


@pytest.mark.parametrize("most", [1, 3, 100])
def test_errors_of_some_cells_are_those_of_all_to_the_bit(
    known_ocean: tuple[np.ndarray, np.ndarray], monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    """However many days are in memory at once, and in the means and shares of areas."""
    paths, known = paths_of(known_ocean[0]), np.arange(8) % 3 == 1
    errors = paths.standard_errors(DATE, 30)
    monkeypatch.setattr(samples, "MAX_CELLS_UNASKED", most)
    some = ErrorsOfCells(paths.standard_errors(DATE, 30, known), known)
    np.testing.assert_array_equal(some.values, errors[:, known])
    random = np.random.default_rng(1)
    mean, spread, lowest = (random.gamma(4, 0.3, (HORIZON, 8)).astype(np.float32) for _ in range(3))
    weights = (random.random((2, 8)) * known).astype(np.float32)
    for least in (None, lowest[0]):
        found, expected = (area_means(mean, spread, of, weights, least) for of in (some, errors))
        np.testing.assert_array_equal(found, expected)
    hot = random.random((12, 8)) < 0.6
    monkeypatch.setattr("sstcast.forecasting.areas.CELLS_AT_ONCE", 3)
    found, expected = (heatwave_shares(hot, mean - 1, spread, of, weights) for of in (some, errors))
    np.testing.assert_array_equal(found, expected)


def test_each_cell_and_day_keeps_its_distribution(known_ocean: tuple[np.ndarray, np.ndarray]) -> None:
    errors = paths_of(known_ocean[0]).standard_errors(DATE, SAMPLES)
    assert errors.shape == (HORIZON + MARGIN_DAYS, 8, SAMPLES)
    levels = norm.ppf((np.arange(SAMPLES) + 0.5) / SAMPLES)
    np.testing.assert_allclose(np.sort(errors, axis=-1), np.broadcast_to(levels, errors.shape), atol=1e-6)
    truth = np.linspace(-3, 3, 61)
    density = 2 * norm.pdf(truth) + truth * (2 * norm.cdf(truth) - 1) - 1 / np.sqrt(np.pi)
    scores = crps(np.repeat(normal_levels(SAMPLES)[:, None], 61, axis=1), truth.astype(np.float32))
    weights = norm.pdf(truth)
    assert abs(scores @ weights / (density @ weights) - 1) < 0.001  # a tenth of a per cent of the CRPS


def test_values_are_clipped_as_the_distribution_is() -> None:
    mean, spread = np.array([[1.0, -1.7]], np.float32), np.array([[2.0, 0.5]], np.float32)
    errors = np.broadcast_to(normal_levels(20), (1, 2, 20))
    expected = mean[..., None] + spread[..., None] * errors
    np.testing.assert_array_equal(sampled(mean, spread, errors, np.full(2, np.nan)), expected)
    found = sampled(mean, spread, errors, np.array([np.nan, -1.8], np.float32))
    np.testing.assert_array_equal(found[:, 0], expected[:, 0])
    np.testing.assert_array_equal(found[:, 1], np.maximum(expected[:, 1], np.float32(-1.8)))


def test_paths_are_of_the_season_and_of_training_days_only() -> None:
    paths = paths_of(np.zeros((len(DAYS), 1), np.float32))
    for date in (DATE, np.datetime64("2015-12-20"), np.datetime64("2016-02-29"), np.datetime64("1990-06-15")):
        starts = paths.starts(date, SAMPLES)
        assert len(set(starts.tolist())) == SAMPLES
        first, last = DAYS[starts], DAYS[starts + paths.length - 1]
        assert first.min() >= np.datetime64(TRAIN[0])
        assert last.max() <= np.datetime64(TRAIN[1])
        assert not ((first < date + np.timedelta64(paths.length, "D")) & (last >= date)).any()
        of_year = pd.DatetimeIndex(first).day_of_year - pd.Timestamp(date).day_of_year
        apart = np.minimum(abs(of_year), 366 - abs(of_year))
        assert apart.max() <= 46
        years = np.unique(first.astype("datetime64[Y]"))
        assert len(years) > 50  # spread over all training years
        np.testing.assert_array_equal(paths.starts(date, SAMPLES), starts)
    assert (paths.starts(DATE, SAMPLES) != paths.starts(DATE + np.timedelta64(1, "D"), SAMPLES)).any()


def test_days_outside_the_training_years_change_nothing(known_ocean: tuple[np.ndarray, np.ndarray]) -> None:
    anomaly, _ = known_ocean
    changed = anomaly.copy()
    changed[np.datetime64(TRAIN[1]) < DAYS] = np.nan
    one, other = (paths_of(values).standard_errors(DATE, SAMPLES) for values in (anomaly, changed))
    np.testing.assert_array_equal(one, other)


def test_too_few_paths_are_refused_with_the_years_needed(known_ocean: tuple[np.ndarray, np.ndarray]) -> None:
    short = paths_of(known_ocean[0], (dt.date(1951, 1, 1), dt.date(1951, 12, 31)))
    assert len(short.starts(DATE, 60)) == 60  # starts of every day
    with pytest.raises(SSTCastError, match=r"--samples 100: .*1951-12-31 of ocean.nc has \d\d; train on 3 years"):
        short.starts(DATE, SAMPLES)
    assert not short.enough(DATE, SAMPLES)


def test_means_and_shares_are_plain_numpy_on_the_samples(known_ocean: tuple[np.ndarray, np.ndarray]) -> None:
    random = np.random.default_rng(1)
    errors = paths_of(known_ocean[0]).standard_errors(DATE, 30)
    mean, spread = random.normal(20, 1, (HORIZON, 8)), random.gamma(4, 0.3, (HORIZON, 8))
    threshold = np.full((HORIZON, 8), 20.3)
    threshold[4:, 2] = threshold[:, 5] = np.nan  # no event is defined
    hot, weights = random.random((12, 8)) < 0.6, random.random((2, 8))
    weights[1, :5] = 0
    days = np.minimum(np.arange(HORIZON + MARGIN_DAYS), HORIZON - 1)
    values = mean[days][..., None] + spread[days][..., None] * errors
    found = area_means(*(of.astype(np.float32) for of in (mean, spread)), errors, weights)
    np.testing.assert_allclose(
        found, np.einsum("lcn,ac->lan", values[:HORIZON], weights) / weights.sum(1)[:, None], rtol=1e-5
    )
    ahead = values > threshold[days][..., None]
    whole = np.concatenate([np.repeat(hot[..., None], 30, axis=2), ahead])
    inside = np.stack([[events(whole[:, c, n]) for n in range(30)] for c in range(8)]).transpose(2, 0, 1)
    inside = inside[11 : 12 + HORIZON]
    shares = heatwave_shares(
        hot, (mean - threshold).astype(np.float32), spread.astype(np.float32), errors, weights
    )
    for lead in (0, 1, 4, 5, HORIZON):
        defined = np.isfinite(threshold).any(0) if lead == 0 else np.isfinite(threshold[lead - 1])
        for area in range(2):
            expected = np.average(inside[lead][defined], axis=0, weights=weights[area][defined])
            np.testing.assert_allclose(shares[lead, area], expected, atol=1e-5)
    nothing = heatwave_shares(hot, np.full((HORIZON, 8), np.nan), spread, errors, weights)
    assert np.isnan(nothing).all()


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, sst_file: Path) -> Run:
    run = scored_runs.make_run(configure(tmp_path_factory.mktemp("runs"), sst_file, horizon=5))
    calibrated(run)
    return run


@pytest.fixture(scope="module")
def plain(made: Run) -> Path:
    return forecast(made.folder, "2004-03-10")[0]


def test_a_file_holds_samples_of_its_own_distribution(made: Run, plain: Path, tmp_path: Path) -> None:
    for name, count in (("with.nc", 40), ("with.zarr", 20)):
        path, _ = forecast(made.folder, "2004-03-10", tmp_path / name, samples=count)
        assert forecast(made.folder, "2004-03-10", tmp_path / name, samples=count)[1] is False
        found = (xr.open_zarr(path, zarr_format=2) if path.suffix == ".zarr" else xr.load_dataset(path)).load()
        samples = found["sst_sample"]
        assert samples.dims == ("init_time", "sample", "lead", "lat", "lon")
        assert samples["sample"].values.tolist() == list(range(1, count + 1))
        np.testing.assert_array_equal(samples.isnull().any("sample"), found["sst"].isnull())
        errors = np.sort((samples - found["sst"]) / found["sst_spread"], axis=1)
        ocean = found["sst"].notnull().values[0, 0]
        levels = normal_levels(count)[:, None]
        np.testing.assert_allclose(errors[0, :, 2][:, ocean], levels + np.zeros(ocean.sum()), atol=0.01)
        before = xr.load_dataset(plain).drop_vars(["heatwave_area_quantile", "heatwave_area_now_quantile"])
        for variable, field in before.items():
            np.testing.assert_array_equal(found[variable], field)
    import netCDF4

    with netCDF4.Dataset(tmp_path / "with.nc") as raw:
        assert raw["sst_sample"].dtype == np.int16


def test_the_share_of_the_sea_has_its_interval_by_numpy(made: Run, plain: Path, tmp_path: Path) -> None:
    path, _ = forecast(made.folder, "2004-03-10", tmp_path / "with.nc", samples=SAMPLES)
    without, _ = forecast(made.folder, "2004-03-10", tmp_path / "without.nc", samples=0)
    found, default, none = (xr.load_dataset(one) for one in (path, plain, without))
    assert not [name for name in none if str(name).endswith(("area_quantile", "now_quantile"))]
    assert "sst_sample" not in default
    for name in ("heatwave_area_quantile", "heatwave_area_now_quantile"):
        np.testing.assert_array_equal(found[name], default[name])
    ahead = (found["sst_sample"] > found["heatwave_threshold"])[0].transpose("lead", "lat", "lon", "sample").values
    past = (found["sst_past"] > found["heatwave_threshold_past"])[0].values
    inside = events(np.concatenate([np.repeat(past[..., None], SAMPLES, axis=-1), ahead]))[len(past) :]
    defined = found["heatwave_threshold"].notnull().values[0]
    weights = (area_weights(found["lat"]) * xr.ones_like(found["lon"])).values * defined
    shares = np.einsum("lyxn,lyx->ln", inside, weights) / weights.sum((1, 2))[:, None]
    expected = np.quantile(shares, QUANTILES, axis=1, method="hazen").T
    got = found["heatwave_area_quantile"].values[0]
    # Which of the last leads are in an event depends on days that the file does not hold.
    np.testing.assert_allclose(got[:1], expected[:1], atol=0.05)
    assert (got[:, 3] >= expected[:, 3] - 0.01).all()
    assert (np.diff(got, axis=1) >= 0).all()


def test_samples_of_a_command(made: Run, command, fails, tmp_path: Path) -> None:
    assert {"--samples": str(SAMPLES)} == DEFAULTS
    out = tmp_path / "a.nc"
    code, _, _ = command("forecast", "--samples", made.folder, "--date", "2004-03-10", "--out", out)
    assert (code, xr.load_dataset(out).sizes["sample"]) == (0, SAMPLES)
    command("forecast", made.folder, "--date", "2004-03-10", "--out", out, "--samples", "7")
    assert xr.load_dataset(out).sizes["sample"] == 7
    before = out.read_bytes()
    words = ["--samples 500: ", "2001-01-01..2002-12-31", "train on 7 years or more"]
    fails(words, "forecast", made.folder, "--date", "2004-03-10", "--out", out, "--samples", 500)
    fails(["1000"], "forecast", made.folder, "--date", "2004-03-10", "--out", out, "--samples", 5000)
    assert out.read_bytes() == before


def test_another_source_gives_its_own_training_days(made: Run, tmp_path: Path) -> None:
    make_sst(years=8, seed=5).to_netcdf(tmp_path / "other.nc", engine="netcdf4")
    days = FieldSource(source=tmp_path / "other.nc")
    path, _ = forecast(made.folder, out=tmp_path / "o.nc", where=days, samples=20)
    found = xr.load_dataset(path).isel(init_time=0)
    data = stores_for(made, days, dt.date(2008, 12, 31)).data
    assert data.splits.train[1].year == 2006  # 2007 is for validation
    ocean = found["sst"].notnull().values[0]
    paths = ErrorPaths.of(Prepared.of(data), ocean)
    errors = paths.standard_errors(found["init_time"].values, 20)[: found.sizes["lead"]]
    mean, spread = (found[name].values[:, ocean] for name in ("sst", "sst_spread"))
    samples = found["sst_sample"].transpose("lead", "lat", "lon", "sample").values[:, ocean]
    np.testing.assert_allclose(samples, sampled(mean, spread, errors), atol=1e-3)

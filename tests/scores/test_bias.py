"""Mean errors from other years, against plain NumPy, and what they may not see."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from scored_runs import configure
from small_ocean import make_sst

from sstcast.errors import SSTCastError
from sstcast.figures.catalogue import skill_by_lead, skill_maps
from sstcast.figures.results import Results
from sstcast.forecasting.system import FIELD, ForecastSystem, axes
from sstcast.names import BIAS_REMOVED, DEFAULT_REFERENCE
from sstcast.ocean.prepare import prepare
from sstcast.ocean.prepared import Prepared
from sstcast.reading.days_of_year import on_days
from sstcast.reports.report import _sentences
from sstcast.scores.analysis import Analysis
from sstcast.scores.bias import BiasRemoved, shares_of_errors

EVERY = 5
SPLITS = {"train": [2001, 2001], "validation": ["2002-01-01", "2002-11-30"], "test": ["2002-12-01", "2006-12-31"]}


class WithErrors(ForecastSystem):
    """The truth plus given errors `[starts, lead, lat, lon]` in degC."""

    def __init__(self, truth: Analysis, errors: np.ndarray) -> None:
        super().__init__(truth.data.box, truth.data.history, truth.data.horizon)
        self.truth, self.errors = truth, errors

    def predict(self, anomalies: xr.Dataset, every: int = 1) -> xr.DataArray:
        dates = anomalies["time"].values[self.history - 1 :: every]
        grid = axes(dates, self.horizon, anomalies)
        valid = grid["valid_time"]
        climatology, scale = (on_days(self.truth.statistics[name], valid) for name in ("climatology", "scale"))
        sst = self.truth.cube["sst"].sel(time=valid).drop_vars("time").load()
        errors = self.errors[np.searchsorted(self.truth.windows.init_times, dates)]
        field = ((sst - climatology + xr.DataArray(errors, dims=FIELD)) / scale).transpose(*FIELD)
        return field.astype(np.float32).expand_dims("member").assign_coords(valid_time=valid)


@pytest.fixture(scope="module")
def ocean(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("years") / "years.nc"
    make_sst(years=6).to_netcdf(path, engine="netcdf4")
    return path


@pytest.fixture(scope="module")
def truth(tmp_path_factory: pytest.TempPathFactory, ocean: Path) -> Analysis:
    """Five years of initial dates, with starts of December whose forecasts end in the next year."""
    data = configure(tmp_path_factory.mktemp("bias"), ocean, splits=SPLITS).data
    prepare(data)
    return Analysis.open(Prepared.of(data), every=EVERY)


@pytest.fixture(scope="module")
def errors(truth: Analysis) -> np.ndarray:
    shape = (truth.windows.starts, len(truth.leads), *truth.shape)
    return np.random.default_rng(0).normal(0, 0.4, shape)


def test_the_correction_equals_plain_numpy(truth: Analysis, errors: np.ndarray) -> None:
    found = truth.on_map(BiasRemoved(WithErrors(truth, errors), truth).correction)
    start = pd.DatetimeIndex(truth.windows.init_times)
    day = start.day_of_year.to_numpy() + (~start.is_leap_year & (start.day_of_year >= 60))
    for lead in (1, 8):
        valid = start + pd.Timedelta(lead, "D")
        for date in range(len(start)):
            apart = np.abs(day - day[date])
            kept = np.minimum(apart, 366 - apart) <= 45
            for year in (start[date].year, valid[date].year):
                kept &= np.asarray((start.year != year) & (valid.year != year))
            expected = errors[kept, lead - 1].mean(0)
            ocean = np.isfinite(found[date, lead - 1])
            assert ocean.sum() == 8 * 12 - 6
            np.testing.assert_allclose(found[date, lead - 1][ocean], expected[ocean], atol=1e-5)


def test_a_year_does_not_correct_itself(truth: Analysis, errors: np.ndarray) -> None:
    """Changing the truth of a year changes the errors of all forecasts of its days, but not their correction."""
    start, corrections = truth.windows.init_times.astype("datetime64[Y]").astype(int) + 1970, []
    valid = truth.windows.init_times[:, None] + truth.leads * np.timedelta64(1, "D")
    valid_year = valid.astype("datetime64[Y]").astype(int) + 1970
    in_year = (valid_year == 2004)[..., None, None]
    assert (in_year.any(1).ravel() & (start == 2003)).any()  # a start of December
    for changed in (errors, np.where(in_year, errors + 3, errors)):
        corrections.append(BiasRemoved(WithErrors(truth, changed), truth).correction)
    same = (start[:, None] == 2004) | (valid_year == 2004)
    np.testing.assert_array_equal(corrections[0][same], corrections[1][same])
    assert (corrections[0][start == 2003] != corrections[1][start == 2003]).any()


def test_a_planted_bias_and_none_agree_once_corrected(truth: Analysis, errors: np.ndarray) -> None:
    lead, lat = np.arange(1, 9)[:, None, None], truth.anomalies["lat"].values[:, None]
    planted = errors + 0.3 * lead + lat / 5
    days, every = truth.histories(truth.blocks()[0])
    plain, biased = (BiasRemoved(WithErrors(truth, of), truth).predict(days, every) for of in (errors, planted))
    xr.testing.assert_allclose(plain, biased, atol=2e-5)
    scale = on_days(truth.statistics["scale"], plain["valid_time"])
    mse = [float(((of.isel(lead=7) * scale.isel(lead=7)) ** 2).mean()) for of in (plain, biased)]
    assert mse[0] == pytest.approx(mse[1], rel=1e-6)


def test_too_few_years_are_refused(truth: Analysis) -> None:
    dates = truth.windows.init_times
    with pytest.raises(SSTCastError, match=r"--remove-bias: the forecast from 2004-01-0. has none to correct it"):
        shares_of_errors(dates[dates.astype("datetime64[Y]").astype(int) == 34], 1)
    one = replace(truth, windows=replace(truth.windows, at=truth.windows.at[5:6]))
    with pytest.raises(SSTCastError, match="in other years; score more years"):
        shares_of_errors(one.windows.init_times, 1)


def test_rows_before_and_after(
    ocean: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: Callable[..., tuple[int, str, str]]
) -> None:
    """Members that are 1 degC too warm are as good as without it, and every baseline is corrected like them."""
    monkeypatch.chdir(tmp_path)
    with xr.open_dataset(ocean) as opened:
        sst = opened["sst"].load()
    dates = pd.date_range("2003-06-01", "2006-12-20", freq="12D")
    lead = np.arange(1, 4)
    valid = xr.DataArray(dates.values[:, None] + lead * np.timedelta64(1, "D"), dims=("init_time", "lead"))
    noise = np.random.default_rng(1).normal(0, 0.3, (len(dates), 3, 8, 12))
    warm = sst.sel(time=valid).drop_vars("time") + noise + 1 + xr.DataArray([-0.2, 0.2], dims="member")
    file = tmp_path / "warm.nc"
    warm.assign_coords(init_time=dates, lead=lead).to_dataset(name="sst").to_netcdf(file, engine="netcdf4")
    code, said, err = command("score", file, "--truth", ocean, "--remove-bias", "--out", tmp_path / "out")
    assert code == 0, err
    metrics = json.loads((tmp_path / "out/metrics.json").read_text())
    mse = {name: of["degC"]["mse"] for name, of in metrics["scores"].items()}
    assert mse["model"] == pytest.approx(1.09, abs=0.01)
    assert mse[f"model{BIAS_REMOVED}"] == pytest.approx(0.09, abs=0.01)
    bases = [name for name in mse if not name.endswith(BIAS_REMOVED)]
    assert {f"{name}{BIAS_REMOVED}" for name in bases} == mse.keys() - set(bases)
    assert metrics["bias_removed"] == {"nearby_days": 45, "years": 4}
    assert metrics["recipe"]["remove_bias"] is True
    for words in ("later years included", "with 4 years it is uncertain", f"{DEFAULT_REFERENCE}{BIAS_REMOVED}:"):
        assert any(words in note for note in metrics["notes"])
        assert words in said
    for name, bias in (("model", 1), (f"model{BIAS_REMOVED}", 0)):
        members = metrics["ensemble"][name]
        assert members["spread"] == pytest.approx(0.2 * 2**0.5, rel=1e-3)
        near, far = (abs(noise + bias + side) for side in (-0.2, 0.2))
        assert members["crps"] == pytest.approx(((near + far) / 2 - 0.1).mean(), abs=0.01)
    results = Results(tmp_path / "out")
    names = [f"{name}{BIAS_REMOVED}" for name in ("model", DEFAULT_REFERENCE)]
    assert f"Skill of the {names[0]} by lead, over {names[1]}. " in next(skill_by_lead(results)).caption
    assert f"Skill of the {names[0]} over {names[1]} by lead week" in next(skill_maps(results)).caption
    texts = [text for of_section in _sentences(results).values() for text in of_section]
    assert any(text.startswith(f"The {names[0]} is better than {names[1]}: 0.") for text in texts)
    assert metrics["climate"] in bases

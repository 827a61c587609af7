"""Days above a temperature: their scores equal plain NumPy, and a forecast has their probability."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from documentation import EXTENDING, ROOT, blocks
from scipy.stats import norm
from scored_runs import SHORT_TEST, configure, make_run
from sklearn.metrics import brier_score_loss, roc_auc_score

import sstcast
from sstcast.api.arguments import read_temperatures
from sstcast.errors import SSTCastError
from sstcast.extremes.above import exceeds, temperatures
from sstcast.extremes.heatwaves import FREEZING, limits_of
from sstcast.figures.sheets import sections_of
from sstcast.forecasting.above import chance_above
from sstcast.geo import area_weights
from sstcast.names import STATE
from sstcast.ocean.prepared import Prepared
from sstcast.runs import Run
from sstcast.scores.score_files import comparison


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, sst_file: Path) -> Run:
    return make_run(configure(tmp_path_factory.mktemp("above"), sst_file, splits=SHORT_TEST))


@pytest.fixture(scope="module")
def levels(run: Run) -> tuple[float, float]:
    """Two temperatures that are exceeded at times, the second more rarely."""
    sst = Prepared.of(run.config.data).open_cube()["sst"].load()
    return tuple(round(float(of), 1) for of in sst.quantile([0.5, 0.8]).values)


@pytest.fixture(scope="module")
def metrics(run: Run, levels: tuple[float, float]) -> dict[str, Any]:
    return sstcast.evaluate(run, above=[levels[1], levels[0], 44, levels[0]]).value


def test_temperatures_are_read_once_in_order_and_refused_beyond_bounds() -> None:
    assert temperatures("29.5, 28,28") == (28, 29.5)
    assert temperatures(3) == (3,)
    assert temperatures([-0.0, 0.0]) == (0,)
    assert temperatures(None) == ()
    for wrong in ("", "nan", "28,x", "46", "-2.1", "inf", "28;29"):
        with pytest.raises(SSTCastError, match=r"--above .*: give temperatures from -2 to 45 degC"):
            temperatures(wrong)


def test_temperatures_of_numpy_and_none_at_all_are_taken() -> None:
    assert read_temperatures(np.array([18.0, 12.0]), "--above") == (12.0, 18.0)
    assert read_temperatures([], "--above") == temperatures([]) == ()
    assert read_temperatures("none", "--above") == ()
    assert read_temperatures(None, "--above") is None


def test_temperatures_that_cannot_be_told_apart_are_refused() -> None:
    assert temperatures("28,28.0002") == (28, 28.0002)
    for wrong in ("28,28.00005", "28.00005,28.00015"):
        with pytest.raises(SSTCastError, match=rf"--above {wrong}: .* cannot be told apart; give one of them"):
            temperatures(wrong)


def test_a_temperature_is_exceeded_in_kelvin_as_in_degrees() -> None:
    """Values of one decimal that passed through kelvin exceed their neighbours and never themselves."""
    degrees = np.arange(-20, 350, dtype=np.int32) / 10
    through_kelvin = (degrees + 273.15).astype(np.float32) - np.float32(273.15)
    for position, level in enumerate(degrees):
        above = exceeds(through_kelvin, np.float32(level))
        np.testing.assert_array_equal(above, np.arange(len(degrees)) > position)


def test_scores_are_plain_numpy(run: Run, metrics: dict[str, Any], levels: tuple[float, float]) -> None:
    assert list(metrics["above"]) == [f"{level:g}" for level in (*levels, 44)]
    issued, prepared = xr.open_zarr(run.forecasts, zarr_format=2).load(), Prepared.of(run.config.data)
    cube = prepared.open_cube()["sst"].load()
    truth = cube.sel(time=issued["valid_time"]).transpose(*issued["sst"].dims).values
    now = cube.sel(time=issued["init_time"]).values[:, None]
    area = np.broadcast_to((area_weights(issued["lat"]) * xr.ones_like(issued["lon"])).values, truth.shape)
    ocean = np.isfinite(issued["sst"].values)
    lowest = limits_of(prepared)[FREEZING].fillna(-np.inf).values
    for level in levels:
        came, weights = (truth > np.float32(level))[ocean], area[ocean]
        chance = norm.sf((level - issued["sst"].values) / issued["sst_spread"].values)
        chance = np.where(lowest > level, 1, chance)[ocean]
        found = metrics["above"][f"{level:g}"]
        for name, forecast in (("model", chance), (STATE, np.broadcast_to(now > level, truth.shape)[ocean])):
            brier = brier_score_loss(came, forecast, sample_weight=weights)
            assert found[name]["brier"] == pytest.approx(brier, abs=2e-6), (level, name)
            assert found[name]["observed"] == pytest.approx((came * weights).sum() / weights.sum(), abs=2e-6)
            assert found[name]["probability"] == pytest.approx(
                (forecast * weights).sum() / weights.sum(), abs=2e-6
            )
            area_of_roc = roc_auc_score(came, np.floor(100 * forecast + 1e-4), sample_weight=weights)
            assert found[name]["roc_area"] == pytest.approx(area_of_roc, abs=2e-4)
        compared = comparison(metrics, f"above {level:g}", "model", metrics["climate"])
        ratio = found["model"]["brier"] / found[metrics["climate"]]["brier"]
        assert compared["ratio"] == pytest.approx(ratio, rel=1e-4)
    titles = [sheet.title for sheets in sections_of(metrics, "ridge").values() for sheet in sheets]
    assert any(title.startswith(f"Days above {levels[0]:g} °C") for title in titles)


def test_what_never_comes_has_brier_scores_alone(metrics: dict[str, Any]) -> None:
    never = metrics["above"]["44"]["model"]
    assert never["brier"] == 0
    assert never["roc_area"] is never["sedi"] is never["observed"] is None
    assert set(never["warnings"]["value"]["value"]) == {None}
    assert set(never["reliability"]["share"]) == {None}
    assert never.keys() == metrics["heatwaves"]["event"]["model"].keys()


def test_they_are_kept_until_others_are_asked_for(run: Run, metrics: dict[str, Any]) -> None:
    again = sstcast.evaluate(run)
    assert not again.new
    assert again.value["above"] == metrics["above"]


def test_a_forecast_has_the_probability_of_each(run: Run, levels: tuple[float, float], tmp_path: Path) -> None:
    first, again, other = (
        sstcast.forecast(run, "2004-07-01", out=tmp_path / "f.nc", above=above)
        for above in (f"{levels[1]},{levels[0]}", [*levels], levels[0])
    )
    assert (first.new, again.new, other.new) == (True, False, True)
    forecast = xr.open_dataset(other.path).load()
    field = forecast["above_probability"]
    assert field.dims == ("init_time", "above", "lead", "lat", "lon")
    assert forecast["above"].attrs["units"] == forecast["sst"].attrs["units"] == "degree_Celsius"
    assert forecast["above"].values.tolist() == [levels[0]]
    expected = norm.sf((levels[0] - forecast["sst"]) / forecast["sst_spread"])
    np.testing.assert_allclose(field.isel(above=0), expected, atol=2e-6)
    assert f"above {levels[0]:g} °C" in sstcast.page(other.path).path.read_text()


def test_a_frozen_sea_is_above_what_lies_below_its_freezing_point() -> None:
    mean, spread, lowest = (np.array([of], np.float32) for of in (-1.8, 0.5, -1.8))
    assert chance_above(mean, spread, np.float32(-1.9), lowest) == 1
    assert chance_above(mean, spread, np.float32(-1.8), lowest) == 0.5  # exceeded, not equalled
    assert (
        chance_above(mean, spread, np.float32(-1.80005), lowest) < 0.51
    )  # closer than temperatures are told apart
    assert chance_above(mean, spread, np.float32(-1.9), None) < 0.6


def test_the_page_shows_the_code_of_the_kind() -> None:
    kind = (ROOT / "sstcast/scores/kinds/above.py").read_text()
    shown = blocks(EXTENDING, "A probability")
    assert len(shown) == 2
    assert all(block.rstrip() in kind for block in shown)

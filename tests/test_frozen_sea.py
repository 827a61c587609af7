"""A sea with seasonal ice and a cell under perennial ice, from training to report."""

from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from quick_drawing import draw_no_plots, draw_quickly
from scored_runs import configure
from small_ocean import make_sst

from sstcast.figures.printing import print_scores
from sstcast.figures.results import Results
from sstcast.forecasting.forecast import forecast
from sstcast.forecasting.freezing import freezing_point_of
from sstcast.ocean.prepare import prepare
from sstcast.reports.page import write_forecast_page
from sstcast.reports.report import write_report
from sstcast.reports.update import update, verify_issued
from sstcast.runs import Run
from sstcast.scores.evaluate import evaluate
from sstcast.scores.score import score
from sstcast.training.train import train, training_windows

FREEZING = np.float32(-1.8)


def polar() -> xr.Dataset:
    """Return the small ocean at 24 degC less, not colder than the freezing point, with a cell that stays at it."""
    ocean = make_sst()
    ocean["sst"] = (ocean["sst"] - 22).clip(min=-1.8).assign_attrs(ocean["sst"].attrs)
    ocean["sst"][:, 5, 7] = -1.8
    return ocean


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("polar")
    polar().to_netcdf(folder / "polar.nc", engine="netcdf4")
    config = configure(folder, folder / "polar.nc", model={"name": "ridge"})
    prepare(config.data)
    return train(config, training_windows(config))[0]


def test_forecasts_of_a_frozen_sea(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    draw_no_plots(monkeypatch)
    for date in ("2004-07-15", "2004-01-15"):
        path, _ = forecast(run.folder, date)
        made = xr.load_dataset(path, engine="netcdf4")
        ocean = made["sst"].notnull()
        for kind in ("heatwave", "cold_spell"):
            undefined = made[f"{kind}_threshold"].isnull() & ocean
            assert undefined[..., 5, 7].all()
            share = float(undefined.sum() / ocean.sum())
            assert share > 0.5 if date == "2004-07-15" else share < 0.1
            probability, category = made[f"{kind}_probability"], made[f"{kind}_category"]
            np.testing.assert_array_equal(probability.isnull() & ocean, undefined)
            np.testing.assert_array_equal(category == 5, undefined)
        assert float(made["sst"].min()) >= FREEZING - 1e-6
        assert float(made["sst_quantile"].min()) >= FREEZING - 1e-6
        base = polar()["sst"].sel(time=slice("2001", "2002")).values
        frozen = (base <= FREEZING + 0.02).mean(0) >= 0.1
        lowest = np.where(frozen, base.min(0), np.nan).astype("float32")
        assert frozen.sum() > 20
        np.testing.assert_allclose(made["freezing_point"][0], lowest)
        earlier = freezing_point_of(made.drop_vars("freezing_point").isel(init_time=0))
        reached = ((made["sst_quantile"] == lowest).sum("quantile") > 1).any("lead")[0].values
        np.testing.assert_allclose(earlier, np.where(reached, lowest, np.nan))
        assert np.isfinite(made["sst_spread"].values[ocean.values]).all()
        assert "no event defined" in write_forecast_page(path)[0].read_text()
    assert update(run.folder, "2004-07-20").code == 0


def test_intervals_that_are_verified_end_at_the_freezing_point(run: Run) -> None:
    path, _ = forecast(run.folder, "2004-05-25", run.folder / "autumn.nc")
    made, truth = xr.load_dataset(path, engine="netcdf4"), polar()["sst"].round(2)
    truth[..., :6] -= 0.05  # some days are colder than any in the base period
    low, high = (made["sst_quantile"].isel(init_time=0).sel(quantile=q, method="nearest") for q in (0.1, 0.9))
    came = truth.sel(time=made["valid_time"][0]).transpose(*low.dims[:1], "lat", "lon")
    inside = ((low - 1e-4 <= came) & (came <= high + 1e-4)).where(low.notnull())
    unclipped = (abs(came - made["sst"][0]) <= 1.2816 * made["sst_spread"][0]).where(low.notnull())
    area = np.cos(np.radians(made["lat"]))
    wanted, before = (of.weighted(area).mean(("lat", "lon")) for of in (inside, unclipped))
    assert float(abs(wanted - before).max()) > 0.01
    np.testing.assert_allclose(verify_issued([path], truth)["coverage_80"], wanted, atol=1e-5)


def test_scores_of_a_frozen_sea(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    metrics, _ = evaluate(run)
    assert None not in [of["crps"] for of in metrics["probabilities"].values()]
    for of in metrics["heatwaves"].values():
        assert 0.05 < of["model"]["defined"] < 0.95
        assert of["model"]["brier"] < 0.3
        by_season = of["model"]["by_season"]
        assert by_season["defined"]["JJA"] < by_season["defined"]["DJF"]
    print_scores(metrics, "small")
    assert "no event defined on" in capsys.readouterr().out.replace("\n", " ")
    own, _, _ = score(run.forecasts, against=[run], out=tmp_path / "scored")
    for name, number in metrics["probabilities"]["model"].items():
        if name.startswith("crps"):
            assert own["probabilities"]["model"][name] == pytest.approx(number, abs=1e-5)
    draw_quickly(monkeypatch)
    text = write_report(Results(run.folder))[0].read_text()
    assert "base period of only 2 years" in text

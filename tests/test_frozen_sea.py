"""A sea with seasonal ice and a cell under perennial ice, from training to report."""

from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from quick_drawing import draw_quickly
from scored_runs import configure
from small_ocean import make_sst

from sstcast.figures.printing import print_scores
from sstcast.figures.results import Results
from sstcast.forecasting.forecast import forecast
from sstcast.ocean.prepare import prepare
from sstcast.reports.page import write_forecast_page
from sstcast.reports.report import write_report
from sstcast.reports.update import update
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


def test_forecasts_of_a_frozen_sea(run: Run) -> None:
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
        assert np.isfinite(made["sst_spread"].values[ocean.values]).all()
        assert "no event defined" in write_forecast_page(path)[0].read_text()
    assert update(run.folder, "2004-07-20").code == 0


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

"""The verbs after training, on the small ocean: what they write, and that it is what it claims."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
import xarray as xr

from sstcast.config import load_config
from sstcast.errors import SSTCastError
from sstcast.evaluation.atlas import draw_run
from sstcast.evaluation.evaluate import evaluate
from sstcast.evaluation.forecasts import ModelMethod, Verification
from sstcast.evaluation.report import write_report
from sstcast.ocean.prepare import prepare
from sstcast.ocean.windows import cut_windows
from sstcast.runs import Run
from sstcast.training.train import train

PROTOCOLS = ("physical", "paper")


@pytest.fixture(params=PROTOCOLS)
def run(request: pytest.FixtureRequest, run_yaml: Path) -> Run:
    config = load_config(run_yaml, [f"data.protocol={request.param}", "training.epochs=3"])
    _, anomalies = prepare(config.data, say=lambda line: None).open()
    windows = {split: cut_windows(anomalies, config.data, split) for split in ("train", "validation")}
    return train(config, windows)[0]


def test_forecasts_open_without_help_and_line_up_with_the_source(run: Run) -> None:
    evaluate(run)
    forecasts = xr.open_zarr(run.forecasts)
    sst = forecasts["sst"]
    assert sst.dims == ("init_time", "lead", "lat", "lon")
    assert sst.attrs["units"] == "degree_Celsius"
    lead = (forecasts["valid_time"] - forecasts["init_time"]) / np.timedelta64(1, "D")
    np.testing.assert_array_equal(lead, forecasts["lead"].broadcast_like(lead))
    source = xr.open_dataset(run.config.data.source, engine="h5netcdf")["sst"]
    first = np.datetime64("2004-01-01") + np.timedelta64(run.config.data.history - 1, "D")
    assert forecasts["init_time"].values[0] == first
    land = np.isnan(source[0].values)
    assert np.isnan(sst.values[..., land]).all()
    assert np.isfinite(sst.values[..., ~land]).all()
    # Trained for seconds, it still must know the season: far nearer to the truth than a year's spread.
    # (Not so under the paper's protocol, which here divides by the deviation of two values.)
    came = source.sel(time=forecasts["valid_time"].values.ravel()).values.reshape(sst.shape)
    if run.config.data.protocol == "physical":
        assert np.nanstd(sst.values - came) < 0.5 * np.nanstd(source)


def test_metrics_by_hand(run: Run) -> None:
    metrics, new = evaluate(run)
    assert new
    assert json.loads(run.metrics.read_text()) == metrics
    sst = xr.open_zarr(run.forecasts)["sst"].values.astype(float)
    data = Verification.of(run)
    source = xr.open_dataset(run.config.data.source, engine="h5netcdf")["sst"]
    came = source.sel(time=data.truth()["valid_time"].values.ravel()).values.reshape(sst.shape)
    error = (sst - came)[~np.isnan(came)].reshape(len(sst), 5, -1)
    degrees = metrics["scores"]["model"]["degC"]
    assert degrees["rmse"] == pytest.approx(np.sqrt((error**2).mean()), rel=1e-4)
    assert degrees["mae"] == pytest.approx(np.abs(error).mean(), rel=1e-4)
    assert degrees["bias"] == pytest.approx(error.mean(), abs=1e-4)
    np.testing.assert_allclose(degrees["by_lead"]["mse"], (error**2).mean((0, 2)), rtol=1e-3)
    tiles = ModelMethod(run, data.windows)(data.windows)
    batch = data.windows.batch(index := torch.arange(len(data.windows)))
    mask = batch.ocean.numpy()
    standard = tiles.transpose(0, 2, 3, 1).reshape(len(index), -1, 5)[mask] - batch.target.numpy()[mask]
    assert metrics["scores"]["model"]["standardised"]["mse"] == pytest.approx((standard**2).mean(), rel=1e-4)
    for baseline in ("persistence", "damped persistence", "climatology", "ridge"):
        for units in ("standardised", "degC"):
            ratio = metrics["scores"]["model"][units]["mse"] / metrics["scores"][baseline][units]["mse"]
            assert metrics["skill"][units][baseline]["overall"] == pytest.approx(1 - ratio, abs=1e-4)
    assert metrics["scores"]["climatology"]["degC"]["acc"] is None
    assert evaluate(run) == (metrics, False)


def test_a_run_that_goes_on_is_evaluated_again(run: Run) -> None:
    evaluate(run)
    state = torch.load(run.best, weights_only=True)
    for value in state["model"].values():
        value.mul_(0.5)
    torch.save(state, run.best)
    assert evaluate(run)[1]


def test_maps_and_report(run: Run) -> None:
    with pytest.raises(SSTCastError, match=r"forecasts.zarr: no forecasts yet; run `sstcast evaluate"):
        draw_run(run, say=lambda line: None)
    evaluate(run)
    with pytest.raises(SSTCastError, match=r"rmse.png: no map yet; run `sstcast map"):
        write_report(run)
    lines: list[str] = []
    files = draw_run(run, say=lines.append)
    assert {f.name for f in files} == {"rmse.png", "bias.png", "skill.png", "forecast.png"}
    assert all(f.read_bytes().startswith(b"\x89PNG") for f in files)
    draw_run(run, say=lines.append)
    assert lines[-1].endswith("nothing to do")
    page = write_report(run).read_text()
    assert page.count("data:image/png;base64,") == 4
    assert "http" not in page
    assert f"{json.loads(run.metrics.read_text())['scores']['model']['degC']['rmse']:.3f}" in page

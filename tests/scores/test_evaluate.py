"""The verb on the small ocean: what it writes is what whole labelled fields give, whatever the blocks."""

import io
import json
import shutil
from functools import cache
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pandas as pd
import pytest
import scipy.stats
import torch
import xarray as xr
from refusals import refused
from scored_runs import OTHER_DAYS, SHORT_TEST, configure, make_run, metrics_of, retrain
from scores.probability import crps_for_ensemble, rank_histogram
from untrained import replace_weights
from whole_fields import forecast_of, truth_of

import sstcast
from sstcast.errors import SSTCastError
from sstcast.extremes.heatwaves import limits
from sstcast.figures.answers import added
from sstcast.figures.sheets.errors import by_index
from sstcast.forecasting.spread import calibrated
from sstcast.forecasting.system import Fits, ForecastSystem, system_of
from sstcast.geo import area_weights
from sstcast.names import IMPLAUSIBLE
from sstcast.ocean.prepare import prepare
from sstcast.ocean.prepared import Prepared
from sstcast.reading.days_of_year import on_days
from sstcast.runs import Run
from sstcast.scores import analysis as forecasts_module
from sstcast.scores.analysis import Analysis
from sstcast.scores.asked import Asked
from sstcast.scores.evaluate import compare_runs, evaluate, reference
from sstcast.scores.indices import box_mean
from sstcast.scores.joining import join_folds
from sstcast.scores.metrics import METRICS
from sstcast.scores.score_files import ScoreFiles
from sstcast.scores.significance import adjust, correlated_days, diebold_mariano
from sstcast.scores.summary import of_implausible
from sstcast.scores.system_records import RUN
from sstcast.scores.systems import ScoredSystem, forecast_block
from sstcast.storage import scratch
from sstcast.training.train import train, training_windows


@pytest.fixture(scope="module")
def paper(tmp_path_factory: pytest.TempPathFactory, sst_file: Path) -> Run:
    """A run whose anomalies are standardised day by day and cell by cell."""
    run = make_run(configure(tmp_path_factory.mktemp("paper"), sst_file, protocol="paper", splits=SHORT_TEST))
    evaluate(run)
    return run


def tables_of(run: Run) -> xr.Dataset:
    return ScoreFiles(run.folder).open()


def persistence(data: Analysis) -> ForecastSystem:
    return Fits.of(data.prepared).system("persistence")


def crps_gaussian(truth: np.ndarray, mean: np.ndarray | float, spread: np.ndarray) -> np.ndarray:
    """Return the closed form by SciPy."""
    z, norm = (truth - mean) / spread, scipy.stats.norm
    return spread * (z * (2 * norm.cdf(z) - 1) + 2 * norm.pdf(z) - 1 / np.sqrt(np.pi))


@cache
def fields_of(run: Run, units: str, method: str = "model") -> tuple[xr.DataArray, xr.DataArray]:
    """Return forecast and truth of the whole test split, as anomalies."""
    data = Analysis.of(run)
    fields = forecast_of(persistence(data) if method == "persistence" else system_of(run), data)
    name = {"standardised": "anomaly", "degC": "sst_anomaly"}[units]
    return fields[name].astype(float), truth_of(data)[name].astype(float)


def test_forecasts_open_without_help_and_line_up_with_the_source(scored: Run) -> None:
    forecasts = xr.open_zarr(scored.forecasts)
    sst = forecasts["sst"]
    assert sst.dims == ("init_time", "lead", "lat", "lon")
    assert sst.attrs["units"] == "degree_Celsius"
    xr.testing.assert_allclose(
        forecasts["sst_spread"].drop_attrs(),
        calibrated(scored).spread(forecasts["valid_time"]),
        check_dim_order=True,
    )
    lead = (forecasts["valid_time"] - forecasts["init_time"]) / np.timedelta64(1, "D")
    np.testing.assert_array_equal(lead, forecasts["lead"].broadcast_like(lead))
    source = xr.open_dataset(scored.config.data.source, engine="netcdf4")["sst"]
    first = np.datetime64("2004-01-01") + np.timedelta64(scored.config.data.history - 1, "D")
    assert forecasts["init_time"].values[0] == first
    land = np.isnan(source[0].values)
    assert np.isnan(sst.values[..., land]).all()
    assert np.isfinite(sst.values[..., ~land]).all()
    data = Analysis.of(scored)
    np.testing.assert_allclose(sst, forecast_of(system_of(scored), data)["sst"], atol=1e-4)
    came = source.sel(time=forecasts["valid_time"].values.ravel()).values.reshape(sst.shape)
    np.testing.assert_allclose(truth_of(data)["sst"], came, atol=1e-4)


@pytest.mark.parametrize(
    ("protocol", "method", "units"),
    [
        ("physical", "model", "degC"),
        ("physical", "persistence", "standardised"),
        ("paper", "persistence", "degC"),
        ("paper", "model", "standardised"),
    ],
)
def test_streamed_scores_are_those_of_whole_fields(
    scored: Run, paper: Run, protocol: str, method: str, units: str
) -> None:
    run = paper if protocol == "paper" else scored
    forecast, truth = fields_of(run, units, method)
    weights = area_weights(truth["lat"]) if units == "degC" else None
    scores = metrics_of(run)["scores"][method][units]
    season = truth["valid_time"].dt.season
    for name, metric in METRICS.items():
        if name == "small_scales" and units == "standardised":
            assert scores[name] is None
            continue
        close = {"rel": 1e-4, "abs": 2e-6}
        assert scores[name] == pytest.approx(float(metric(forecast, truth, None, weights)), **close)
        by_lead = metric(forecast, truth, ["init_time", "lat", "lon"], weights)
        assert scores["by_lead"][name] == pytest.approx(by_lead.values.tolist(), **close)
        summer = metric(forecast.where(season == "DJF"), truth.where(season == "DJF"), None, weights)
        assert scores["by_season"][name]["DJF"] == pytest.approx(float(summer), **close)
        if not metric.by_cell:
            continue
        table = tables_of(run)[f"{name}_by_cell"].sel(units=units, system=method)
        for week, leads in ((1, slice(1, 7)), (2, slice(8, 8))):
            part = (field.sel(lead=leads) for field in (forecast, truth))
            expected = metric(*part, ["init_time", "lead"])
            np.testing.assert_allclose(table.sel(week=week), expected, rtol=1e-3, atol=2e-5)


@pytest.mark.parametrize(
    ("units", "loss", "base"),
    [("standardised", "mse_standardised", "multiscale ridge"), ("degC", "mse", "ridge")],
)
def test_ratios_are_of_the_scores_and_none_where_undefined(scored: Run, units: str, loss: str, base: str) -> None:
    metrics = metrics_of(scored)
    ours, theirs = (metrics["scores"][name][units]["mse"] for name in ("model", base))
    compared = metrics["ratios"][loss]["model"][base]
    assert compared["ratio"] == pytest.approx(ours / theirs, rel=1e-4)
    assert compared["interval"][0] < compared["ratio"] < compared["interval"][1]
    assert [len(of) for of in compared["by_lead"].values()] == ([8] * 3 if loss == "mse" else [])
    assert metrics["scores"]["climatology"]["degC"]["acc"] is None
    assert metrics["ensemble"] == {}


def test_neither_blocks_nor_arrays_in_files_change_anything(
    sst_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    short = make_run(configure(tmp_path, sst_file, splits=SHORT_TEST, directory=tmp_path / "prepared"))
    evaluate(short, Asked(events=True))
    copy = Run(Path(shutil.copytree(short.folder, tmp_path / "copy")))
    monkeypatch.setattr(forecasts_module, "BLOCK_ELEMENTS", 8 * 96 * 50)
    monkeypatch.setattr(scratch, "KEPT", 0)
    monkeypatch.setattr("sstcast.extremes.heatwaves.VALUES_AT_ONCE", 1)
    for file in (Prepared.of(short.config.data).limits, copy.folder / "spread.nc", copy.metrics):
        file.unlink()
    metrics, new = evaluate(copy, Asked(events=True))
    assert new
    for units in ("standardised", "degC"):
        for name in METRICS:
            ours, theirs = (m["scores"]["model"][units][name] for m in (metrics, metrics_of(short)))
            assert ours == theirs or ours == pytest.approx(theirs, rel=1e-5, abs=2e-6)
    sst = xr.open_zarr(copy.forecasts)["sst"]
    assert sst.chunks[0][0] == 50
    np.testing.assert_allclose(sst, xr.open_zarr(short.forecasts)["sst"], atol=1e-4)
    ours, theirs = tables_of(copy), tables_of(short)
    assert bool(ours["p_value"].notnull().any())
    by_date = [f"{name}_by_date" for name in ("heatwave_brier", "tercile_brier", "area_crps", "event_hits")]
    for name in ("squared_error_by_week", "p_value", "pit", *by_date):
        np.testing.assert_allclose(ours[name], theirs[name], rtol=1e-3, atol=1e-5)


def test_nothing_to_do_until_the_run_goes_on(scored: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert evaluate(scored) == (metrics_of(scored), False)
    copy = Run(Path(shutil.copytree(scored.folder, tmp_path / "copy")))
    text = copy.config_file.read_text()
    copy.config_file.write_text(text.replace("width: 8", "activation: gelu\n  width: 8"))
    with pytest.raises(SSTCastError, match="another configuration than the run has now"):
        evaluate(copy)
    copy.config_file.write_text(text)
    _damaged_scores_are_scored_again(ScoreFiles(copy.folder))
    retrain(copy)

    monkeypatch.setattr("sstcast.scores.verify.verify", Mock(side_effect=InterruptedError))
    with pytest.raises(InterruptedError):
        evaluate(copy)


def _damaged_scores_are_scored_again(files: ScoreFiles) -> None:
    """A copy without a note, in which no number stands where a mapping belongs."""
    note = files.metrics.with_name(".metrics.json.note")
    metrics = json.loads(files.metrics.read_text())
    for damaged in (metrics | {"scores": np.nan}, metrics | {"systems": {}}, np.nan):
        note.unlink(missing_ok=True)
        files.metrics.write_text(json.dumps(damaged))
        assert files.known(metrics["recipe"]) is None
        with refused(files.metrics, "missing, damaged or from another version"):
            files.read()
    note.unlink(missing_ok=True)
    files.metrics.write_text(json.dumps(metrics))
    assert files.known(metrics["recipe"]) == metrics


def test_p_values_are_of_the_cell_and_adjusted_within_the_week(scored: Run) -> None:
    tables = tables_of(scored).sel(reference="persistence", compared="model")
    forecast, truth = fields_of(scored, "degC")
    other, _ = fields_of(scored, "degC", "persistence")
    difference = (forecast - truth) ** 2 - (other - truth) ** 2
    cell = difference.sel(lead=slice(1, 7)).mean("lead")[:, 5, 7].values
    assert float(tables["p_value"][0, 5, 7]) == pytest.approx(
        float(diebold_mariano(cell, correlated_days(8))), rel=1e-2
    )
    np.testing.assert_allclose(tables["p_fdr"][1], adjust(tables["p_value"][1].values), rtol=1e-5)
    squares = ((forecast - truth) ** 2).sel(lead=8)
    np.testing.assert_allclose(tables["squared_error_by_week"].sel(week=2), squares, rtol=1e-3, atol=1e-5)
    shares = metrics_of(scored)["ratios"]["mse"]["model"]["persistence"]
    told = (tables["p_fdr"] <= 0.1).sum(["lat", "lon"]) / 90
    np.testing.assert_allclose(np.add(shares["better"], shares["worse"]), told, atol=1e-5)


def test_probabilities_are_those_of_whole_fields(scored: Run) -> None:
    """The reference is a Gaussian about the climatology, as wide as the training days of cell and season."""
    data, found = Analysis.of(scored), metrics_of(scored)["probabilities"]
    ratios = metrics_of(scored)["ratios"]["crps"]
    truth = truth_of(data)["sst_anomaly"].astype(float)
    sst = data.cube["sst"].sel(time=slice("2001", "2002")).load()
    climatology = data.statistics["climatology"].sel(dayofyear=sst["time"].dt.dayofyear)
    variance = ((sst - climatology) ** 2).groupby("time.season").mean("time")
    spread = variance.sel(season=truth["valid_time"].dt.season) ** 0.5
    weights = area_weights(truth["lat"])
    scores = crps_gaussian(truth.values, 0, spread.transpose(*truth.dims).values)
    expected = truth.copy(data=scores).weighted(weights).mean(["init_time", "lat", "lon"])
    assert found["climatology"]["by_lead"]["crps"] == pytest.approx(expected.values.tolist(), rel=1e-4)
    climate = metrics_of(scored)["climate"]
    assert ratios[climate][climate]["ratio"] == 1
    forecast, truth = fields_of(scored, "degC")
    width = calibrated(scored).spread(truth["valid_time"])
    model, scores = found["model"], crps_gaussian(truth.values, forecast.values, width.values)
    assert model["crps"] == pytest.approx(float(truth.copy(data=scores).weighted(weights).mean()), rel=1e-4)
    expected = model["crps"] / found[climate]["crps"]
    assert ratios["model"][climate]["ratio"] == pytest.approx(expected, rel=1e-4)
    hot = data.cube["sst"] > on_days(limits(sst)["heatwave_threshold"], data.cube["time"])
    inside = (hot.rolling(time=5).sum() == 5).sel(time=truth["init_time"]).drop_vars("time").broadcast_like(truth)
    by_state = truth.copy(data=scores)
    for name, cells_of in (("crps_in_heatwave", inside), ("crps_elsewhere", ~inside)):
        expected = float(by_state.where(cells_of).weighted(weights).mean())
        assert model[name] == pytest.approx(expected, rel=1e-3)
    below = scipy.stats.norm.cdf((truth - forecast) / width)
    ocean = np.isfinite(below)
    cells = np.broadcast_to(weights.values[:, None], below.shape)[ocean]
    for level in (50, 80, 95):
        inside = abs(below[ocean] - 0.5) <= level / 200
        assert model[f"covered_{level}"] == pytest.approx(np.average(inside, weights=cells), abs=1e-4)
    counts, _ = np.histogram(below[ocean], bins=20, range=(0, 1), weights=cells)
    assert model["pit"] == pytest.approx(counts / counts.sum(), abs=1e-4)
    error = float(((forecast - truth) ** 2).weighted(weights).mean())
    ratio = np.sqrt(float((width**2).weighted(weights).mean()) / error)
    assert model["spread_skill"] == pytest.approx(ratio, rel=1e-3)


def test_box_means_are_of_the_fields(scored: Run) -> None:
    forecast, truth = fields_of(scored, "degC")
    tables = tables_of(scored)
    assert list(tables["box"].values) == ["region"]
    everywhere = (170, 173, -12, -10)
    for name, field in (("index", forecast), ("observed_index", truth)):
        found = tables[name].sel(box="region")
        found = found.sel(system="model") if name == "index" else found
        np.testing.assert_allclose(found, box_mean(field, everywhere), atol=1e-5)
    index, came = (box_mean(field, everywhere) for field in (forecast, truth))
    scores = metrics_of(scored)["indices"]["region"]["model"]
    assert scores["rmse"] == pytest.approx(float(((index - came) ** 2).mean() ** 0.5), rel=1e-4)
    assert scores["by_lead"]["correlation"][7] == pytest.approx(
        np.corrcoef(index[:, 7], came[:, 7])[0, 1], abs=1e-4
    )


def test_scores_by_third_of_an_index(scored: Run, tmp_path: Path) -> None:
    """Of a monthly series, and of the region's own anomaly, which `box_mean` gives in another test."""
    months, path = pd.date_range("2003-12-01", "2004-12-01", freq="MS"), tmp_path / "index.csv"
    series = pd.Series(np.random.default_rng(5).normal(size=len(months)), months, name="value")
    series.rename_axis("date").to_csv(path)
    forecast, truth = fields_of(scored, "degC")
    squares = [(of - truth) ** 2 for of in (forecast, fields_of(scored, "degC", "persistence")[0])]
    own = tables_of(scored)["observed_index"].sel(box="region", lead=1).values
    of_month = series.reindex(pd.DatetimeIndex(truth["init_time"]).to_period("M").to_timestamp()).values
    for index, values in (("region", own), (path, of_month)):
        found = sstcast.evaluate(scored, index=index).value
        day = "the first day forecast (day 1)" if index == "region" else "the initial date"
        assert by_index(found, "small")[0].title.startswith(f"By third of {index} on {day}: ")
        low, high = np.quantile(values, [1 / 3, 2 / 3])
        parts = {"lower": values <= low, "middle": (values > low) & (values <= high), "upper": values > high}
        for third, inside in parts.items():
            model, other = (float(of[inside].weighted(area_weights(truth["lat"])).mean()) for of in squares)
            assert found["scores"]["model"]["degC"]["by_index"]["mse"][third] == pytest.approx(model, rel=1e-4)
            compared = found["ratios"]["mse"]["model"]["persistence"]["by_index"]
            assert compared["ratio"][third] == pytest.approx(model / other, rel=1e-4)
            assert compared["interval"][third][0] < compared["ratio"][third] < compared["interval"][third][1]
        assert found["heatwaves"]["event"]["model"]["by_index"]["brier"]["upper"] > 0
        assert found["probabilities"]["model"]["crps"] == metrics_of(scored)["probabilities"]["model"]["crps"]
    series["2004-03-01"] = -99.99
    series.to_csv(path)
    with pytest.raises(SSTCastError, match=r"--index .*index.csv: has no value for 2004-03-01; add it"):
        sstcast.evaluate(scored, index=path)
    with pytest.raises(SSTCastError, match=r"--index nino34: the scored cells do not cover this box; give a CSV"):
        sstcast.evaluate(scored, index="nino34")


def test_an_ensemble_is_scored_by_its_mean_and_as_one(ensemble: Run) -> None:
    data = Analysis.of(ensemble)
    members = [forecast_of(system_of(member), data)["sst"] for member in ensemble.members]
    stacked = xr.concat(members, "member").astype(float)
    forecasts = xr.open_zarr(ensemble.forecasts)
    np.testing.assert_allclose(forecasts["sst"], stacked.mean("member"), atol=1e-4)

    truth = truth_of(data)["sst"].astype(float)
    weights = area_weights(truth["lat"])
    metrics = metrics_of(ensemble)
    assert metrics["systems"]["model"]["members"] == 2
    scores = metrics["ensemble"]["model"]
    for name, method in (("crps", "ecdf"), ("crps_fair", "fair")):
        whole = crps_for_ensemble(stacked, truth, "member", method=method, preserve_dims="all")
        whole = whole.where(truth.notnull()).weighted(weights)
        assert scores[name] == pytest.approx(float(whole.mean()), rel=1e-3)
        by_lead = whole.mean(["init_time", "lat", "lon"]).values
        assert scores["by_lead"][name] == pytest.approx(by_lead.tolist(), rel=1e-3)
    variance = float(stacked.var("member", ddof=1).weighted(weights).mean())
    assert scores["spread"] == pytest.approx(variance**0.5, rel=1e-3)
    assert scores["rmse"] == metrics["scores"]["model"]["degC"]["rmse"]
    assert scores["spread_skill"] == pytest.approx((3 / 2 * variance) ** 0.5 / scores["rmse"], rel=1e-3)
    seeds = metrics["ratios"]["mse"]["model"]["ridge"]["over_seeds"]
    for member, ratio in zip(members, seeds, strict=True):
        mse = float(((member - truth) ** 2).weighted(weights).mean())
        assert ratio == pytest.approx(mse / metrics["scores"]["ridge"]["degC"]["mse"], rel=1e-3)
    ocean = truth.notnull().values
    ranks = rank_histogram(
        xr.DataArray(stacked.values[:, ocean], dims=("member", "case")),
        xr.DataArray(truth.values[ocean], dims="case"),
        "member",
    )
    assert scores["rank_histogram"] == pytest.approx(ranks.values.tolist(), abs=0.002)  # by area, theirs by cell


def test_comparing_two_runs(ensemble: Run, scored: Run) -> None:
    compared = compare_runs(ensemble, scored)
    ours, theirs = (metrics_of(run)["scores"]["model"]["degC"]["mse"] for run in (ensemble, scored))
    assert compared["ratio"] == pytest.approx(ours / theirs, rel=1e-4)
    assert compared["ratio"] < 1  # the mean of two errs less
    assert len(compared["better"]) == 2
    same = compare_runs(scored, scored)
    assert (same["ratio"], same["interval"], same["p_value"]) == (1, [1, 1], None)


def test_runs_of_other_days_are_refused(ensemble: Run, tmp_path: Path, sst_file: Path) -> None:
    other = Run.create(configure(tmp_path, sst_file, "other", splits=OTHER_DAYS))
    with pytest.raises(
        SSTCastError, match=r"other: its data.splits.test is 2003-07-01..2004-06-30, but .* same days"
    ):
        compare_runs(ensemble, other)
    assert reference("damped") == "damped persistence"
    assert reference(str(ensemble.folder)) == Run(ensemble.folder)
    with pytest.raises(SSTCastError, match=r"--against persistance: neither .*did you mean 'persistence'"):
        reference("persistance")
    like_a_baseline = Path(shutil.copytree(ensemble.folder, tmp_path / "ridge"))
    with pytest.raises(SSTCastError, match=r"--against .*ridge: is named like a baseline; rename the folder"):
        sstcast.evaluate(ensemble, against=like_a_baseline)


def test_what_a_network_adds_is_scored_against_its_own_base(tmp_path: Path, sst_file: Path) -> None:
    """The base forecasts as the same run does once the last layer of its network is zero."""
    steps = {"epochs": 1, "windows_per_epoch": 40, "batch_size": 20, "compile": False}
    model = {"name": "mpnn", "width": 8, "layers": 1, "base": "linear"}
    config = configure(tmp_path, sst_file, model=model, training=steps)
    prepare(config.data)
    run, _ = train(config, training_windows(config))
    metrics, _ = evaluate(run)
    alone = Run(Path(shutil.copytree(run.folder, tmp_path / "alone")))
    state = torch.load(alone.best, weights_only=True)
    for name in ("head.2.weight", "head.2.bias"):
        state["model"][name].zero_()
    torch.save(state, buffer := io.BytesIO())
    replace_weights(alone, buffer.getvalue())
    forecast, truth = fields_of(alone, "degC")
    for name in ("mse", "bias"):
        expected = float(METRICS[name](forecast, truth, None, area_weights(truth["lat"])))
        found = metrics["scores"]["linear base"]["degC"][name]
        assert found == pytest.approx(expected, rel=1e-5, abs=1e-6)  # which is rounded
        assert metrics["scores"]["model"]["degC"][name] != pytest.approx(expected, rel=1e-3)
    assert {"model", "linear base"} <= set(metrics["probabilities"]) & set(metrics["heatwaves"]["event"])
    compared = metrics["ratios"]["mse"]["model"]["linear base"]
    mse = [metrics["scores"][name]["degC"]["mse"] for name in ("model", "linear base")]
    assert compared["ratio"] == pytest.approx(mse[0] / mse[1], rel=1e-4)
    assert f"The {compared['sentence']} By lead in days: 1: " in added(metrics)
    assert "All of its change is added" in added(metrics)
    metrics["systems"]["model"]["share"] = [0.4, 0.0]
    assert "is added: 0.40 in week 1, 0.00 in week 2" in added(metrics)


def test_runs_without_a_linear_base_have_none(scored: Run) -> None:
    assert "linear base" not in metrics_of(scored)["systems"]
    assert added(metrics_of(scored)) == ""


def test_dates_are_counted_on_which_a_run_forecasts_what_is_not_plausible(scored: Run) -> None:
    class Exploding(ForecastSystem):
        def predict(self, anomalies: xr.Dataset, every: int = 1) -> xr.DataArray:
            forecast = persistence(data).predict(anomalies, every)
            forecast[:, 3, -1] *= 1e4
            return forecast

    data = Analysis.of(scored)
    system = Exploding(data.data.box, data.windows.history, data.windows.horizon)
    systems = {"model": ScoredSystem(system, role=RUN), "other": ScoredSystem(system)}
    (_, forecast), (_, other) = forecast_block(systems, data, slice(0, 6))
    assert forecast[IMPLAUSIBLE].values.tolist() == [False] * 3 + [True] + [False] * 2
    assert IMPLAUSIBLE not in other
    times = pd.date_range("2001-01-01", periods=8)
    counts = {IMPLAUSIBLE: ("system", [2.0, np.nan, 0.0])}
    folds = [
        xr.Dataset(counts, {"init_time": times[part], "system": ["model", "ridge", "net"]}).assign(
            of_date=("init_time", np.zeros(len(times[part])))
        )
        for part in (slice(3), slice(3, None))
    ]
    (note,) = of_implausible(join_folds(folds))
    assert note.startswith("4 of 8 forecasts: outside -5..50 degC")
    assert [*of_implausible(join_folds(folds).sel(system=["net"]))] == []
    assert not any("outside" in text for text in metrics_of(scored)["notes"])

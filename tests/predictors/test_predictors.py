"""Every verb with an index as a predictor: what it reads, what it says, and what it refuses."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
import xarray as xr
import yaml
from quick_drawing import draw_quickly
from refusals import refused
from scored_runs import configure, copy_that_reads
from small_hindcast import plan
from small_ocean import make_sst

import sstcast
from sstcast.config import RunConfig, load_config
from sstcast.figures import catalogue
from sstcast.forecasting.system import system_of
from sstcast.hindcasts.hindcast import hindcast
from sstcast.ocean.prepared import Prepared
from sstcast.runs import Run
from sstcast.scores.evaluate import compare_runs
from sstcast.training.data_record import record_of

SPLITS = {"train": [2001, 2004], "validation": ["2005-01-01", "2005-06-30"], "test": ["2005-07-01", "2005-10-31"]}
RIDGE = {"name": "multiscale-ridge"}
DELAY = 5


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an ocean of six years, and an index by month that warms it a month later."""
    folder = tmp_path_factory.mktemp("indices")
    months = pd.period_range("2000-01", "2006-12", freq="M")
    values = pd.Series(np.random.default_rng(0).standard_normal(len(months)).round(2), months)
    ocean = make_sst(years=6)
    days = pd.DatetimeIndex(ocean["time"].values)
    known = days - pd.Timedelta(days=DELAY)
    newest = (known + pd.Timedelta(days=1)).to_period("M") - 1
    ocean["sst"] = ocean["sst"] + 0.8 * xr.DataArray(values.reindex(newest).to_numpy(), {"time": ocean["time"]})
    ocean["sst"].attrs["units"] = "Celsius"
    ocean.to_netcdf(folder / "small.nc", engine="netcdf4")
    write(folder / "soi.csv", values)
    return folder


def write(path: Path, values: pd.Series) -> None:
    table = pd.DataFrame({"date": values.index.astype(str), "value": values.to_numpy()})
    path.write_text("# an index\n" + table.to_csv(index=False))


def read(path: Path) -> pd.Series:
    table = pd.read_csv(path, comment="#")
    return pd.Series(table["value"].to_numpy(), pd.PeriodIndex(table["date"], freq="M"))


def config(
    place: Path, name: str, model: dict[str, Any] | None = None, index: Any = "soi.csv", **keys: Any
) -> RunConfig:
    predictors = {"soi": {"kind": "index", "source": str(place / index), "delay": DELAY, **keys}} if index else {}
    training = {"epochs": 1, "windows_per_epoch": 60}
    data = {"horizon": 8, "splits": SPLITS} | ({"predictors": predictors} if index else {})
    return configure(place, place / "small.nc", name, model or RIDGE, training, **data)


@pytest.fixture(scope="module")
def run(place: Path) -> Run:
    made = sstcast.train(config(place, "soi"))
    shutil.copytree(made.folder, place / "as-trained")
    return made


@pytest.fixture(scope="module")
def alone(place: Path) -> Run:
    return sstcast.train(config(place, "alone", index=None))


def test_a_line_for_each_predictor_says_what_it_is_worth(
    run: Run, alone: Run, command: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone_metrics = sstcast.evaluate(alone).value
    code, out, _ = command("evaluate", run.folder)
    metrics = json.loads(run.metrics.read_text())
    scores = metrics["scores"]
    own, without = (scores[name]["degC"]["mse"] for name in ("model", "without soi"))
    assert code == 0
    assert f"Predictor soi: MSE {own:.4f} °C² with it, {without:.4f} without, ratio" in out
    assert metrics["predictors"] == {"model": "soi: index from soi.csv, known 5 days after its span"}
    assert own < without
    assert alone_metrics["scores"]["model"]["degC"]["mse"] == pytest.approx(without, rel=1e-5)
    assert "predictors" not in alone_metrics
    assert "without soi" not in alone_metrics["systems"]
    assert alone_metrics["scores"]["multiscale ridge"] == scores["multiscale ridge"]  # baselines read SST alone
    assert compare_runs(run, alone)["ratio"] == pytest.approx(own / without, rel=1e-4)
    draw_quickly(monkeypatch)
    monkeypatch.setattr(catalogue, "MAPS", {})
    report = sstcast.report(run).path.read_text()
    assert "soi: index from soi.csv, known 5 days after its span" in report
    assert "Predictor soi: MSE" in report


def test_the_record_tells_penalties_and_days(run: Run, alone: Run) -> None:
    chosen = torch.load(run.best, weights_only=True)["chosen"]
    assert len(chosen["penalty_of_soi"]) == 8
    assert any(np.isfinite(chosen["penalty_of_soi"]))
    assert list(record_of(run).predictors) == ["soi"]  # type: ignore[union-attr]
    assert record_of(alone).predictors == {}  # type: ignore[union-attr]
    assert "predictors" not in alone.config_file.read_text()


def test_unknown_values_change_no_bit_of_any_forecast(place: Path, run: Run) -> None:
    """Of a loaded run, and of one that was trained on an index whose unknown values are others."""
    values = read(place / "soi.csv")
    day = "2005-10-04"  # September is known from 2005-10-05 on
    changed = values.where(values.index < "2005-09", 5.0)
    write(place / "changed.csv", changed)
    history = xr.open_dataset(place / "small.nc")["sst"].sel(time=slice(None, day))
    loaded = sstcast.load(run)
    own, same = (loaded.forecast(history, predictors=of) for of in (None, {"soi": changed}))
    newest = values.where(values.index != pd.Period("2005-08"), 5.0)
    other = loaded.forecast(history, predictors={"soi": newest})
    for name in ("sst", "sst_spread", "sst_quantile", "heatwave_probability"):
        assert same[name].values.tobytes() == own[name].values.tobytes()
    assert not np.array_equal(own["sst"], other["sst"], equal_nan=True)
    forecasts, weights = [], []
    for name in ("soi.csv", "changed.csv"):
        made = config(place, f"until-{name[:-4]}", index=name)
        data = made.data.model_copy(
            update={"splits": made.data.splits.model_validate(SPLITS | {"test": ["2005-07-01", day]})}
        )
        trained = sstcast.train(made.model_copy(update={"data": data}))
        weights.append(torch.load(trained.best, weights_only=True)["model"])
        days = Prepared.of(data).open_anomalies().sel(time=slice("2005-09-01", day))
        forecasts.append(system_of(trained).predict(days).values)
    assert all(torch.equal(of, weights[1][name]) for name, of in weights[0].items())
    assert np.isfinite(forecasts[0]).any()
    assert forecasts[0].tobytes() == forecasts[1].tobytes()


@pytest.mark.slow
def test_a_hindcast_takes_systems_with_and_without(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place)
    systems = config(place, "with"), config(place, "sst", index=None)
    metrics, _ = hindcast(plan(*systems, first=2005, last=2006, fold=1))
    assert metrics["predictors"] == {"with": "soi: index from soi.csv, known 5 days after its span"}
    assert metrics["systems"]["with"]["linear"]
    mse = {name: of["degC"]["mse"] for name, of in metrics["scores"].items()}
    assert mse["with"] != mse["sst"]
    assert len(list((place / "hindcast/baselines").glob("*.nc"))) == 2  # one for each fold, with or without
    assert not hindcast(plan(*systems, first=2005, last=2006, fold=1))[1]
    with refused("data.predictors", "combinations"):
        hindcast(plan(*systems, first=2005, last=2006, fold=1, equal="mean", out="mean"))


def test_a_forecast_needs_todays_value(place: Path, run: Run) -> None:
    values = read(place / "soi.csv")
    write(place / "short.csv", values[values.index < "2005-11"])
    strict = copy_that_reads(place / "short.csv", place / "as-trained")
    known = sstcast.forecast(strict, "2005-12-04").value  # November is known from 2005-12-05 on
    assert known.attrs["predictors"] == "soi: index from short.csv, known 5 days after its span"
    with refused("data.predictors.soi", "short.csv", "2005-11-30", "missing: climatology"):
        sstcast.forecast(strict, "2005-12-05")
    history = xr.open_dataset(place / "small.nc")["sst"].sel(time=slice(None, "2005-12-05"))
    loaded = sstcast.load(strict)
    given = loaded.forecast(history, predictors={"soi": values})
    assert np.isfinite(given["sst"].values[:, :, 4]).all()
    assert "missing" not in given.attrs["predictors"]
    with refused("predictors", "does not read nino"):
        loaded.forecast(history, predictors={"nino": values})
    with refused("predictors: soi is a float"):
        loaded.forecast(history, predictors={"soi": 1.0})
    written = strict.config_file.read_text()
    strict.config_file.write_text(written.replace("delay: 5", "delay: 5\n      missing: climatology"))
    late = sstcast.forecast(strict, "2005-12-05")
    assert "its climatology is read" in late.value.attrs["predictors"]
    assert "its climatology is read" in sstcast.page(late.path).path.read_text()


def test_an_index_may_grow_but_not_change(place: Path, run: Run) -> None:
    values = read(place / "soi.csv")
    write(place / "growing.csv", values[values.index < "2006-01"])
    growing = copy_that_reads(place / "growing.csv", place / "as-trained")
    assert sstcast.forecast(growing, "2006-01-02").new
    write(place / "growing.csv", values)
    assert sstcast.update(growing, "2006-06-20").code == 0
    write(place / "growing.csv", values.where(values.index != pd.Period("2002-05"), 2.5))
    with refused("growing.csv", "soi"):
        sstcast.forecast(growing, "2006-06-21")
    with refused("growing.csv", "soi"):
        sstcast.evaluate(growing)
    with refused("growing.csv", "soi"):
        sstcast.train(load_config(growing.config_file))


@pytest.mark.slow
def test_other_regions_scores_of_files_and_combinations(place: Path, run: Run, alone: Run) -> None:
    sstcast.evaluate(run)
    there = sstcast.evaluate(run, region="170.5,173,-12,-10").value
    assert there["predictors"]["model"].startswith("soi")
    metrics = sstcast.score(run.forecasts, against=[run]).value
    assert metrics["scores"]["soi"]["degC"]["mse"] == pytest.approx(
        metrics["scores"]["model"]["degC"]["mse"], rel=1e-4
    )
    local = sstcast.train(config(place, "local", {"name": "local-ridge", "memory": True}))
    both = sstcast.combine([run, local], "both")
    assert "soi" in sstcast.forecast(both, "2005-12-01").value.attrs["predictors"]
    with refused("data.predictors"):
        sstcast.combine([run, alone], "mixed")
    with refused("data.predictors"):
        sstcast.score(run.forecasts, against=[run, alone])


def test_systems_that_read_sst_alone_refuse_predictors(place: Path) -> None:
    for name in ("lim", "damped-persistence", "climatology"):
        with refused("data.predictors", name):
            sstcast.train(config(place, f"refused-{name}", {"name": name}))


def test_a_network_reads_an_index_beside_its_base(place: Path) -> None:
    model = {"name": "mpnn", "width": 8, "layers": 1, "base": "linear"}
    run = sstcast.train(config(place, "network", model))
    history = xr.open_dataset(place / "small.nc")["sst"].sel(time=slice(None, "2005-10-04"))
    values = read(place / "soi.csv")
    loaded = sstcast.load(run)
    own, same, other = (
        loaded.forecast(history, predictors=of and {"soi": values.where(values.index != pd.Period(of), 5.0)})[
            "sst"
        ]
        for of in (None, "2005-09", "2005-08")
    )
    assert same.values.tobytes() == own.values.tobytes()
    assert not np.array_equal(same, other, equal_nan=True)
    with refused("training.weights", "predictors", "none"):
        plain = config(place, "plain", model, index=None)
        sstcast.train(
            plain.model_copy(update={"training": plain.training.model_copy(update={"weights": str(run.folder)})})
        )


def test_two_indices_that_change_places_in_the_yaml_are_not_mixed_up(place: Path) -> None:
    values = read(place / "soi.csv")
    write(place / "other.csv", values.iloc[::-1].set_axis(values.index))
    model = {"name": "mpnn", "width": 8, "layers": 1}
    made = config(place, "two", model)
    first = made.data.predictors["soi"]
    both = {"soi": first, "other": first.model_copy(update={"source": str(place / "other.csv")})}
    data = made.data.model_copy(update={"predictors": both})
    swapped = data.model_copy(update={"predictors": dict(reversed(both.items()))})
    run = sstcast.train(made.model_copy(update={"data": data}))
    anomalies = Prepared.of(data).open_anomalies().isel(time=slice(0, 40))
    own, of_swapped = (system_of(run, Prepared.of(ocean)).predict(anomalies) for ocean in (data, swapped))
    for name in both:  # the network reads each
        without = system_of(run).predict(
            anomalies.assign({f"predictor_{name}": 0 * anomalies[f"predictor_{name}"]})
        )
        assert not np.array_equal(own, without, equal_nan=True)
    assert own.values.tobytes() == of_swapped.values.tobytes()
    reordered = made.model_copy(update={"data": swapped, "name": "two-reordered"})
    with refused("training.weights", "soi, other", "other, soi"):
        sstcast.train(
            reordered.model_copy(
                update={"training": made.training.model_copy(update={"weights": str(run.folder)})}
            )
        )
    shutil.rmtree(place / "runs" / "two-reordered", ignore_errors=True)
    written = run.config_file.read_text()
    names = [str(place / name) for name in ("soi.csv", "other.csv")]
    run.config_file.write_text(written.replace(names[0], "X").replace(names[1], names[0]).replace("X", names[1]))
    with refused("two", "other values of the predictor soi"):
        sstcast.forecast(run, "2005-10-04")
    text = yaml.safe_load(written)
    text["data"]["predictors"] = dict(reversed(text["data"]["predictors"].items()))
    run.config_file.write_text(yaml.safe_dump(text, sort_keys=False))
    with refused("two", "data.predictors differs"):
        sstcast.forecast(run, "2005-10-04")

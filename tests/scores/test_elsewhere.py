"""A run scored on an ocean it was not trained on: by hand, and in words that claim no training there."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from logged import logged
from quick_drawing import draw_nothing
from scored_runs import configure, make_run, retrain
from small_ocean import make_sst
from whole_fields import forecast_of

import sstcast
from sstcast.config import FieldSource, load_config
from sstcast.errors import SSTCastError
from sstcast.figures.printing import print_scores
from sstcast.figures.results import Results
from sstcast.forecasting.forecast import forecast
from sstcast.forecasting.system import system_of
from sstcast.forecasting.transfer import transferred_run
from sstcast.geo import area_weights
from sstcast.ocean.prepared import Prepared
from sstcast.reports.report import write_report
from sstcast.runs import Run
from sstcast.scores.analysis import Analysis
from sstcast.scores.combine import combine
from sstcast.scores.evaluate import evaluate
from sstcast.scores.leaderboard import leaderboard
from sstcast.storage.artefacts import write_json
from sstcast.training.run_list import list_runs
from sstcast.training.train import plan, train

WEST = "170,171.5,-12,-10"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, scored: Run) -> Run:
    return Run(Path(shutil.copytree(scored.folder, tmp_path_factory.mktemp("here") / "runs" / "small")))


@pytest.fixture(scope="module")
def other_ocean(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Another ocean: warmer, of a wider spread, and a day short at both ends."""
    folder = tmp_path_factory.mktemp("there")
    sst = make_sst(seed=5).isel(time=slice(1, -1)).rename(sst="temperature")
    sst["temperature"] = 5 + 1.2 * sst["temperature"]
    sst["temperature"].attrs["units"] = "Celsius"
    sst.to_netcdf(folder / "other ocean.nc", engine="netcdf4")
    return folder / "other ocean.nc"


@pytest.fixture(scope="module")
def there(run: Run, other_ocean: Path) -> Run:
    made = transferred_run(run, FieldSource(source=other_ocean))
    evaluate(made)
    return made


def test_another_ocean_by_hand(run: Run, there: Run, other_ocean: Path) -> None:
    """Anomalies from that ocean's own seasons, scaled by its own spread, the model's weights as they are."""
    metrics = json.loads(there.metrics.read_text())
    assert metrics["test"] == ["2004-01-01", "2004-12-30"]
    sst = xr.load_dataset(other_ocean)["temperature"]
    train, test = sst.sel(time=slice("2001-01-02", "2002")), sst.sel(time=slice("2004-01-01", "2004-12-30"))

    def seasons(time: xr.DataArray) -> np.ndarray:
        angle = 2 * np.pi * (time.dt.dayofyear.values[:, None] - 1) / 365.2425 * np.arange(1, 4)
        return np.hstack([np.ones((len(time), 1)), np.cos(angle), np.sin(angle)])

    ocean = sst[0].notnull().values
    fitted, *_ = np.linalg.lstsq(seasons(train["time"]), train.values[:, ocean], rcond=None)
    scale = np.sqrt(np.mean((train.values[:, ocean] - seasons(train["time"]) @ fitted) ** 2))
    anomaly = np.full(test.shape, np.nan)
    anomaly[:, ocean] = (test.values[:, ocean] - seasons(test["time"]) @ fitted) / scale
    prepared = Prepared.of(there.config.data).open()[1]
    np.testing.assert_allclose(prepared["anomaly"].sel(time=test["time"]), anomaly, atol=2e-3)

    history, horizon = 10, 8
    past = xr.Dataset(
        {"anomaly": test.copy(data=anomaly.astype(np.float32)), "ocean_mask": (("lat", "lon"), ocean)}
    ).isel(time=slice(0, -horizon - 1))
    found = system_of(run).predict(past)[0].values
    came = np.stack([anomaly[history + n : history + n + horizon] for n in range(len(found))])
    squares = ((found - came) * scale) ** 2
    weights = np.broadcast_to(area_weights(sst["lat"]).values[:, None], ocean.shape)[ocean]
    mse = np.average(squares[..., ocean].mean((0, 1)), weights=weights)
    assert metrics["forecasts"] == len(found)
    assert metrics["scores"]["model"]["degC"]["mse"] == pytest.approx(mse, rel=2e-3)
    last = anomaly[history - 1 : history - 1 + len(found), None]
    mse = np.average((((last - came) * scale) ** 2)[..., ocean].mean((0, 1)), weights=weights)
    assert metrics["scores"]["persistence"]["degC"]["mse"] == pytest.approx(mse, rel=2e-3)


def test_what_is_written_says_what_was_trained_where(
    run: Run, there: Run, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    own, config = run.config, there.config
    assert there.folder.name.startswith("elsewhere-other_ocean-")
    assert (run.label, there.label) == ("small", "small @ other ocean")
    assert (config.trained_on, config.model) == (own.data, own.model)
    assert config.data.source.endswith("other ocean.nc")
    assert str(config.data.splits.train[0]) == "2001-01-02"
    metrics = json.loads(there.metrics.read_text())
    origin = f"{own.data.source} of 2001-01-01..2002-12-31, region 170,173,-12,-10"
    assert metrics["systems"]["model"]["trained_on"] == origin
    assert json.loads(run.metrics.read_text())["systems"]["model"]["trained_on"] is None
    assert f"mpnn, 1 member, trained on {origin}" in xr.open_zarr(there.forecasts).attrs["source"]
    print_scores(metrics, "there")
    assert f"trained on {origin}" in capsys.readouterr().out.replace("\n", "")
    draw_nothing(monkeypatch)
    page = write_report(Results(there.folder))[0].read_text()
    assert f"{origin}; climatology and baselines use the days above" in page
    assert "trained_on:" in page
    contests = leaderboard(run.folder.parent)
    names = [{entry.name for entry in contest.entries if entry.runs} for contest in contests]
    assert sorted(map(sorted, names)) == [["small"], [f"small/{there.folder.name}"]]
    list_runs(run.folder.parent)
    assert "elsewhere" not in capsys.readouterr().out  # no training
    with pytest.raises(
        SSTCastError, match=rf"--resume {there.folder}: nothing is trained there; resume {run.folder}"
    ):
        plan(None, there.folder, None, [])
    with pytest.raises(SSTCastError, match="trained_on: only for runs scored on another ocean"):
        train(load_config(there.config_file), {})


def test_nothing_to_do_until_the_run_changes(run: Run, there: Run, other_ocean: Path, tmp_path: Path) -> None:
    copy = Run(Path(shutil.copytree(run.folder, tmp_path / "copy")))
    with logged() as lines:
        made = transferred_run(copy, FieldSource(source=other_ocean))
        assert transferred_run(made, FieldSource(source=other_ocean)) == made  # it is the run that goes elsewhere
    assert not lines
    assert made.folder == copy.folder / there.folder.name
    assert not evaluate(made)[1]
    before = json.loads(made.metrics.read_text())["scores"]
    retrain(copy)
    found, new = evaluate(made)
    assert new
    assert found["scores"]["model"] != before["model"]
    assert found["scores"]["ridge"] == before["ridge"]
    made.config_file.write_text("a: [")
    assert transferred_run(copy, FieldSource(source=other_ocean)).config == made.config
    write_json(made.data, json.loads(made.data.read_text()) | {"cube": "0"})
    with pytest.raises(SSTCastError, match=rf"{made.folder}: was scored on other data than .*or score again"):
        evaluate(made)


def test_scores_go_when_the_ocean_changes(run: Run, other_ocean: Path, tmp_path: Path) -> None:
    copy = Run(Path(shutil.copytree(run.folder, tmp_path / "copy")))
    source = Path(shutil.copy(other_ocean, tmp_path / "sst.nc"))
    with logged() as lines:
        made = transferred_run(copy, FieldSource(source=source))
    assert len(lines) == 3  # what was prepared
    made.metrics.write_text("{}")
    (xr.load_dataset(other_ocean) * 1.01).assign_attrs(title="x").to_netcdf(source, engine="netcdf4")
    made = transferred_run(copy, FieldSource(source=source))
    assert not made.metrics.exists()
    xr.load_dataset(other_ocean).isel(time=slice(0, -30)).to_netcdf(source, engine="netcdf4")
    made = transferred_run(copy, FieldSource(source=source))
    assert str(made.config.data.splits.test[1]) == "2004-11-30"


def test_another_region_is_that_of_a_forecast(run: Run) -> None:
    made = transferred_run(run, FieldSource(region=WEST))
    data = Analysis.of(made)
    assert data.ocean.sum() == 8 * 6 - 6
    assert made.folder.name.endswith("-170_171.5_-12_-10")
    hindcast = forecast_of(system_of(made), data)["sst"].sel(init_time="2004-05-05")
    one, _ = forecast(run.folder, "2004-05-05", where=FieldSource(region=WEST))
    np.testing.assert_allclose(hindcast, xr.load_dataset(one)["sst"][0], atol=1e-4)
    same, _ = forecast(made.folder, "2004-05-05")  # a folder like any other
    np.testing.assert_allclose(hindcast, xr.load_dataset(same)["sst"][0], atol=1e-4)
    shutil.rmtree(made.folder)


def test_a_combination_goes_elsewhere_with_its_parts(
    run: Run, ensemble: Run, there: Run, other_ocean: Path, tmp_path: Path
) -> None:
    parts = [
        Run(Path(shutil.copytree(one.folder, tmp_path / "runs" / name)))
        for one, name in ((ensemble, "ensemble"), (run, "single"))
    ]
    both, _ = combine(parts, tmp_path / "runs/both")
    made = transferred_run(both, FieldSource(source=other_ocean))
    metrics, _ = evaluate(made)
    assert Run.open(made.folder) == made
    assert metrics["scores"]["ridge"] == json.loads(there.metrics.read_text())["scores"]["ridge"]
    moved = transferred_run(parts[0], FieldSource(source=other_ocean))
    assert len(Run.open(moved.folder).members) == 2
    assert parts[0].members == [Run(parts[0].folder / f"seed-{seed}") for seed in (0, 1)]
    with pytest.raises(SSTCastError, match=r"is a run on another ocean; combine the original runs, then evaluate"):
        combine([parts[1], moved], tmp_path / "runs/n")


def test_what_it_refuses(run: Run, there: Run, tmp_path: Path, sst_file: Path) -> None:
    def refused(words: str, **given: Path | str) -> None:
        before = set(run.folder.iterdir())
        with pytest.raises(SSTCastError, match=words) as error:
            transferred_run(run, FieldSource(**given))
        assert "\n" not in str(error.value)
        assert set(run.folder.iterdir()) == before

    def ocean(first: str, last: str) -> Path:
        path = tmp_path / f"{first}.nc"
        xr.load_dataset(sst_file).sel(time=slice(first, last)).to_netcdf(path, engine="netcdf4")
        return path

    refused(r"--source .*absent.nc: no such file", source=tmp_path / "absent.nc")
    refused(r"--source : no such file", source="")
    refused(
        r"has 2001-01-01..2003-12-31, but no day of the run's data.splits.test, 2004", source=ocean("2001", "2003")
    )
    refused(
        r"too little of the run's data.splits.train: 31 days, but a climatology", source=ocean("2002-12", "2004")
    )
    refused(r"no region 'atlantis'", region="atlantis")
    refused(r"no region ''", region="")
    refused(r"small.nc: data.region", region="10,11.5,-12,-10")
    (tmp_path / "text.nc").write_text("no ocean")
    refused(r"text.nc: cannot be read|text.nc: ", source=tmp_path / "text.nc")


def test_a_model_that_knows_one_shape_of_tile(tmp_path: Path, sst_file: Path) -> None:
    mlp = make_run(configure(tmp_path, sst_file, "mlp", {"name": "mlp", "hidden": 4}))
    with pytest.raises(SSTCastError, match=r"--region tasman: model mlp needs tiles of 8 x 6"):
        transferred_run(mlp, FieldSource(source="sample", region="tasman"))
    both, _ = combine([mlp, make_run(configure(tmp_path, sst_file, "b"))], tmp_path / "runs/both")
    with pytest.raises(SSTCastError, match=r"--region tasman: model mlp needs tiles"):
        sstcast.load(both.folder, "tasman")

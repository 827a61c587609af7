"""A hindcast against plain NumPy, its table, report and leaderboard."""

import csv
import json
import sys
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from scipy.stats import norm, ttest_1samp
from small_hindcast import metrics, plan, quiet, system, write_ocean

from sstcast import cli
from sstcast.errors import SSTCastError
from sstcast.hindcasts.fold import statistics_file
from sstcast.hindcasts.hindcast import hindcast
from sstcast.hindcasts.plan import Hindcast
from sstcast.names import BASELINES
from sstcast.pages.report import write_report
from sstcast.pages.results import Results
from sstcast.runs import Run, write_json
from sstcast.scores.significance import SHORTEST_BLOCK, Lengths, adjust, diebold_mariano, ratio
from sstcast.stores import open_written


def truth() -> xr.DataArray:
    with xr.open_dataset("small.nc") as ocean:
        return ocean["sst"].load()


def shares(field: xr.DataArray) -> np.ndarray:
    """The share of each cell of `field(lat, lon)` in the area, 0 on land."""
    area = np.cos(np.deg2rad(field["lat"].values))[:, None] * np.isfinite(field.values)
    return area / area.sum()


def squares(forecast: np.ndarray, days: np.ndarray) -> np.ndarray:
    """Mean squared error `[dates, lead]` of `forecast [dates, lead, lat, lon]` on `days [dates, lead]`."""
    sst = truth()
    error = (forecast - sst.sel(time=xr.DataArray(days)).values) ** 2
    return np.einsum("dlyx,yx->dl", np.nan_to_num(error), shares(sst[0]))


def test_dates_and_scores_against_numpy_from_the_forecasts(inside: Path) -> None:
    found = metrics()
    forecasts = {name: xr.open_zarr(f"hindcast/{name}/hindcast.zarr") for name in ("one", "two")}
    sst = truth()
    years = sst["time"].dt.year
    dates = []
    for first, last in ((2005, 2006), (2007, 2008)):  # as windows of the years alone, every third
        days = sst["time"].values[(years >= first) & (years <= last)]
        dates.append(days[np.arange(0, len(days) - 10 - 8, 3) + 9])
    one = forecasts["one"]
    np.testing.assert_array_equal(one["init_time"], np.concatenate(dates))
    assert (one["valid_time"] == one["init_time"] + one["lead"] * np.timedelta64(1, "D")).all()
    assert found["forecasts"] == one.sizes["init_time"]
    assert open_written(Path("hindcast/one/hindcast.zarr"), "make it again").sizes
    with xr.open_dataset("hindcast/scores.nc") as tables:
        mse = tables["mse_by_date"].sel(units="degC").load()
    for name, made in forecasts.items():
        errors = squares(made["sst"].values, made["valid_time"].values)
        of = found["scores"][name]["degC"]
        assert of["mse"] == pytest.approx(errors.mean(), rel=1e-4)
        np.testing.assert_allclose(of["by_lead"]["mse"], errors.mean(0), rtol=1e-4)
        np.testing.assert_allclose(of["by_week"]["mse"], [errors[:, :7].mean(), errors[:, 7:].mean()], rtol=1e-4)
        for fold, some in (("2005", errors[: len(dates[0])]), ("2007", errors[len(dates[0]) :])):
            assert of["by_fold"]["mse"][fold] == pytest.approx(some.mean(), rel=1e-4)
        summer = np.isin(made["valid_time"].dt.month.values, (12, 1, 2))
        assert of["by_season"]["mse"]["DJF"] == pytest.approx(errors[summer].mean(), rel=1e-4)
        np.testing.assert_allclose(mse.sel(system=name), errors, rtol=2e-3, atol=1e-5)
        error = made["sst"].values - sst.sel(time=made["valid_time"]).values
        z, width = error / made["sst_spread"].values, made["sst_spread"].values
        crps = width * (z * (2 * norm.cdf(z) - 1) + 2 * norm.pdf(z) - 1 / np.sqrt(np.pi))
        inside = (abs(z) < norm.ppf(0.9)) * 1.0
        scored, second = found["probabilities"][name], slice(len(dates[0]), None)
        for key, field in (("crps", crps), ("covered_80", inside)):
            mean = np.einsum("dlyx,yx->dl", np.nan_to_num(field), shares(sst[0]))
            assert scored[key] == pytest.approx(mean.mean(), rel=1e-3)
            assert scored["by_fold"][key]["2007"] == pytest.approx(mean[second].mean(), rel=1e-3)
            np.testing.assert_allclose(scored["by_lead"][key], mean.mean(0), rtol=2e-3)
    crps = {name: of["crps"] for name, of in found["probabilities"].items()}
    for other in (found["reference"], "climatology"):
        assert found["ratios"]["crps"]["one"][other]["ratio"] == pytest.approx(crps["one"] / crps[other], rel=1e-4)


def test_baselines_know_all_days_before_their_fold_and_none_of_it(inside: Path) -> None:
    sst = truth()
    angle = 2 * np.pi * np.outer(sst["time"].dt.dayofyear, [1, 2, 3]) / 365.2425
    terms = np.hstack([np.ones((len(angle), 1)), np.cos(angle), np.sin(angle)])
    values, years = np.nan_to_num(sst.values.reshape(len(sst), -1)), sst["time"].dt.year.values
    forecasts = xr.open_zarr("hindcast/one/hindcast.zarr")
    errors: dict[str, list[np.ndarray]] = {"climatology": [], "persistence": []}
    for first in (2005, 2007):
        known = years < first
        climatology = (terms @ np.linalg.lstsq(terms[known], values[known], rcond=None)[0]).reshape(sst.shape)
        some = forecasts.sel(init_time=slice(str(first), str(first + 1)))
        normal = sst.copy(data=climatology).sel(time=some["valid_time"]).values
        last = (sst - climatology).sel(time=some["init_time"]).values[:, None]
        days = some["valid_time"].values
        errors["climatology"].append(squares(normal, days))
        errors["persistence"].append(squares(normal + last, days))
    for name, parts in errors.items():
        assert metrics()["scores"][name]["degC"]["mse"] == pytest.approx(np.concatenate(parts).mean(), rel=1e-4)


def test_ratios_are_to_the_best_linear_system_with_its_interval(inside: Path) -> None:
    found = metrics()
    mse = {name: found["scores"][name]["degC"]["mse"] for name in found["systems"]}
    linear = {name: mse[name] for name, of in found["systems"].items() if of["linear"]}
    assert set(linear) == set(BASELINES)
    assert found["reference"] == min(linear, key=linear.__getitem__)
    assert [*mse.values()] == sorted(mse.values())
    with Hindcast(Path("hindcast")).open() as opened:
        tables = opened.load()
    block, lags = Lengths.of(8, 3, SHORTEST_BLOCK)
    assert (block, lags) == (20, 5)  # 60 days, and a fortnight
    parts = tuple(np.unique(tables["fold"], return_counts=True)[1].tolist())
    losses = tables["mse_by_date"].sel(units="degC").astype(float)
    ours, theirs = (losses.sel(system=name).values for name in ("one", found["reference"]))
    of = found["ratios"]["mse"]["one"][found["reference"]]
    assert of["ratio"] == pytest.approx(ours.mean() / theirs.mean(), abs=2e-6)
    assert of["interval"] == pytest.approx(ratio(ours.mean(1), theirs.mean(1), block, parts)[1], abs=2e-6)
    assert of["interval"][0] < of["ratio"] < of["interval"][1]
    np.testing.assert_allclose(of["by_lead"]["interval"], ratio(ours, theirs, block, parts)[1], atol=2e-6)
    assert of["p_value"] == pytest.approx(diebold_mariano((ours - theirs).mean(1), lags, parts), abs=2e-6)
    folds = [ours[dates].mean() / theirs[dates].mean() for dates in (slice(parts[0]), slice(parts[0], None))]
    test = ttest_1samp(folds, 1)
    assert of["over_folds"]["p_value"] == pytest.approx(test.pvalue, abs=1e-4)
    assert of["over_folds"]["interval"] == pytest.approx(list(test.confidence_interval()), abs=1e-4)
    itself = found["ratios"]["mse"][found["reference"]][found["reference"]]
    assert (itself["ratio"], itself["interval"], itself["p_value"]) == (1, [1, 1], None)


def test_maps_are_of_cells_and_their_significance(inside: Path) -> None:
    found = metrics()
    with xr.open_dataset("hindcast/scores.nc") as opened:
        tables = opened.load()
    made = xr.open_zarr("hindcast/two/hindcast.zarr")
    error = (made["sst"] - truth().sel(time=made["valid_time"]).drop_vars("time")) ** 2
    expected = error.isel(lead=slice(7)).mean(("init_time", "lead"))
    mse = tables["mse_by_cell"].sel(units="degC", week=1)
    np.testing.assert_allclose(mse.sel(system="two"), expected, rtol=1e-3)
    p_value, p_fdr = (tables[name].sel(compared="two", week=1)[0].values for name in ("p_value", "p_fdr"))
    np.testing.assert_allclose(p_fdr, adjust(p_value.astype(float)), rtol=1e-5, atol=1e-30)
    told, less = p_fdr <= 0.1, (mse.sel(system="two") < mse.sel(system=found["reference"])).values
    ocean = int(expected.notnull().sum())
    assert found["ocean_cells"] == ocean
    worse = found["ratios"]["mse"]["two"][found["reference"]]["worse"]
    assert worse[0] == pytest.approx((told & ~less).sum() / ocean, abs=1e-6)


def test_maps_are_files_drawn_once(
    inside: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["sstcast", "map", "hindcast"])
    for said in ("hindcast/maps/skill-", "hindcast/maps: nothing to do"):
        with pytest.raises(SystemExit) as end:
            cli.main()
        assert not end.value.code
        assert said in capsys.readouterr().out
    drawn = {file.name for file in Path("hindcast/maps").iterdir()}
    reference = metrics()["reference"]
    skills = {f"skill-{name}.png" for name in ("one", "two") if name != reference}
    assert drawn == {"ratio-by-lead.png", "rmse.png", "bias.png"} | skills


def test_an_ensemble_is_scored_as_its_mean(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_ocean(tmp_path)
    monkeypatch.chdir(tmp_path)
    ridge = system("ridge", "ridge", options={})
    ours = plan(system("one", training={"epochs": 1}), ridge, seeds=(0, 1), every=6)
    found, _ = hindcast(ours, say=quiet)
    assert found["systems"]["one"]["members"] == 2
    assert found["systems"]["ridge"]["members"] == 1  # a seed changes nothing in it
    made = xr.open_zarr("hindcast/one/hindcast.zarr")
    assert float(made["sst_spread"].isel(lead=0).max()) > 0
    errors = squares(made["sst"].values, made["valid_time"].values)
    assert found["scores"]["one"]["degC"]["mse"] == pytest.approx(errors.mean(), rel=1e-4)
    with pytest.raises(SSTCastError, match="holds seed-0, seed-1; give the --seeds it was begun with"):
        hindcast(plan(system("one", training={"epochs": 1})), say=quiet)


def test_the_table_the_report_and_the_leaderboard(
    inside: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = metrics()
    with Path("hindcast/hindcast.csv").open(newline="") as file:
        table = list(csv.DictReader(file))
    parts = {row["part"] for row in table}
    assert {"all", "lead 1", "lead 8", "week 2", "season JJA", "fold 2007"} <= parts
    assert len(table) == len(parts) * len(found["systems"])
    one = next(row for row in table if row["system"] == "one" and row["part"] == "all")
    ours = found["ratios"]["mse"]["one"][found["reference"]]["ratio"]
    assert float(one["ratio"]) == ours
    last = next(row for row in table if row["system"] == "two" and row["part"] == "fold 2007")
    by_fold = found["ratios"]["event"]["two"]["base rate"]["by_fold"]["ratio"]
    assert float(last["event_skill"]) == pytest.approx(1 - by_fold["2007"])
    page, new = write_report(Results(Path("hindcast")))
    assert new
    assert not write_report(Results(Path("hindcast")))[1]
    html = page.read_text(encoding="utf-8")
    assert f"{ours:.3f}" in html
    assert html.count("<img") > 15  # errors, ratios, maps, probabilities, heatwaves, box means
    assert "http" not in html.replace("http://www.w3.org", "")
    monkeypatch.setattr(sys, "argv", ["sstcast", "leaderboard", "."])
    with pytest.raises(SystemExit) as end:
        cli.main()
    assert not end.value.code
    mse = f"{found['scores']['one']['degC']['mse']:.4f}"
    assert mse in capsys.readouterr().out
    assert mse in Path("leaderboard.html").read_text(encoding="utf-8")


def test_scores_of_an_earlier_version_are_not_misread(inside: Path, tmp_path: Path) -> None:
    old, found = Hindcast(tmp_path), metrics()
    write_json(old.metrics, found | {"recipe": found["recipe"] | {"layout": 1}})
    with pytest.raises(SSTCastError, match=r"of another version; run the same .*`sstcast hindcast` again"):
        Results(old.folder)


def test_tables_of_a_fold_say_what_they_are_of(inside: Path) -> None:
    with xr.open_dataset(statistics_file(Run(Path("hindcast/one/fold-2005")))) as opened:
        recipe = json.loads(opened.attrs["recipe"])
    assert set(recipe) == {"layout", "metrics", "baselines", "every", "data", "checkpoints", "base_period"}
    assert recipe["base_period"] == ["2001-01-01", "2004-12-31"]
    config = Run(Path("hindcast/one/fold-2007")).config
    spans = {name: tuple(map(str, span)) for name, span in config.data.splits.given.items()}
    assert spans == {
        "train": ("2001-01-01", "2005-12-31"),
        "validation": ("2006-01-01", "2006-12-31"),
        "test": ("2007-01-01", "2008-12-31"),
        "base_period": ("2001-01-01", "2006-12-31"),
    }

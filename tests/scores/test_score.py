"""Forecasts from files: a run's own as `evaluate` scores them, others by NumPy, whatever their convention."""

import json
import operator
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
import yaml
from logged import logged
from other_conventions import climpred
from quick_drawing import draw_quickly
from scored_runs import SHORT_TEST, configure, make_run, metrics_of
from scores.probability import brier_score_for_ensemble, crps_for_ensemble
from small_files import SPLITS
from whole_fields import forecast_of

import sstcast
from sstcast.config import FieldSource, Region
from sstcast.errors import SSTCastError
from sstcast.extremes.heatwaves import limits_of
from sstcast.figures.printing import print_scores
from sstcast.figures.results import Results
from sstcast.forecasting.system import system_of
from sstcast.geo import area_weights
from sstcast.ocean.prepared import Prepared
from sstcast.reading.days_of_year import on_days
from sstcast.reading.forecast_files import read_forecasts
from sstcast.reading.regrid import on_cells
from sstcast.reports.report import write_report
from sstcast.runs import Run
from sstcast.scores.analysis import Analysis
from sstcast.scores.matching import complete_forecasts
from sstcast.scores.score import data_to_score, score
from sstcast.scores.score_files import ScoreFiles

EVERY = 7
BOX_TEXT = "170,173,-12,-10"
REGION = Region(lon=(170, 173), lat=(-12, -10))


@pytest.fixture(scope="module")
def sparse(scored: Run) -> xr.Dataset:
    """Forecasts of a run every week, without one of them, as plain xarray."""
    sst = xr.open_zarr(scored.forecasts)["sst"].isel(init_time=slice(None, None, EVERY)).load()
    sst = sst.drop_isel(init_time=3).drop_vars("valid_time")
    sst["lead"].attrs, sst["init_time"].attrs = {"units": "days"}, {}
    return xr.Dataset({"sst": sst.drop_attrs(deep=False).assign_attrs(units="degC")})


Own = tuple[Run, ScoreFiles, dict[str, Any]]


@pytest.fixture(scope="module")
def of_run(tmp_path_factory: pytest.TempPathFactory, sst_file: Path) -> Own:
    """A run of a few months, its forecasts scored as a file, and what else both were asked for."""
    run = make_run(configure(folder := tmp_path_factory.mktemp("short"), sst_file, splits=SHORT_TEST))
    (places := folder / "places.csv").write_text("name,lat,lon\npier,-10.6,171.4\n")
    asked: Any = {"places": places, "events": True}
    sstcast.evaluate(run, **asked)
    result = sstcast.score(run.forecasts, against=[run], **asked)
    assert result.new
    return run, ScoreFiles(result.path.parent), asked


def write(dataset: xr.Dataset, path: Path) -> Path:
    dataset.drop_encoding().to_netcdf(path, engine="netcdf4")
    return path


def _close(found: Any, expected: Any) -> None:
    np.testing.assert_allclose(_flat(found), _flat(expected), rtol=1e-5, atol=2e-6)


def _flat(scores: Any) -> list[float]:
    if isinstance(scores, dict):
        scores = list(scores.values())
    return [n for one in scores for n in _flat(one)] if isinstance(scores, list) else [np.float64(scores or 0)]


def seasons(time: xr.DataArray) -> np.ndarray:
    """A mean and three harmonics of the year."""
    phase = 2 * np.pi / 365.2425 * time.dt.dayofyear.values[..., None] * np.arange(1, 4)
    return np.concatenate([np.ones((*phase.shape[:-1], 1)), np.cos(phase), np.sin(phase)], axis=-1)


def test_own_forecasts_have_the_scores_of_evaluate(
    of_run: Own, monkeypatch: pytest.MonkeyPatch, command: Callable[..., tuple[int, str, str]]
) -> None:
    short, of_own, asked = of_run
    own, found = metrics_of(short), json.loads(of_own.metrics.read_text())
    ours, theirs = (_flat(of["scores"].pop("model")) for of in (found, own))
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1.1e-6)  # in a file they are rounded to float32
    for method, expected in own["scores"].items():
        assert found["scores"][method] == expected
    for method in ("model", *own["scores"]):
        assert found["indices"]["region"][method] == own["indices"]["region"][method]
    for kind, expected in own["heatwaves"].items():  # a file has no spread: the run beside it has
        scores = found["heatwaves"][kind]
        assert {m: scores["small" if m == "model" else m] for m in expected} == expected
    for name, expected in own["ratios"]["mse"]["model"].items():
        for key in ("ratio", "interval", "by_lead", "by_season", "better"):
            _close(found["ratios"]["mse"]["model"][name][key], expected[key])
    exceedance = [of["heatwaves"]["exceedance"]["model"]["by_lead"] for of in (found, own)]
    for name, expected in exceedance[1].items():  # values are rounded in the file, and a few rank differently
        np.testing.assert_allclose(exceedance[0][name], expected, rtol=1e-5, atol=5e-4)
    for key in ("crps", "covered_80", "by_lead"):
        _close(found["probabilities"]["model"][key], own["probabilities"]["model"][key])
    assert found["ratios"]["mse"]["model"]["small"]["ratio"] == pytest.approx(1, abs=1e-6)
    for field, expected in zip(Results(of_own.folder).fields(5), Results(short.folder).fields(5), strict=True):
        xr.testing.assert_allclose(field.drop_vars("valid_time"), expected.drop_vars("valid_time"), atol=1e-4)
    against = ["--against", short.folder, "--against", "ridge"]
    code, said, _ = command("score", short.forecasts, *against, "--places", asked["places"], "--events")
    assert code == 0
    for words in ("/ MSE of small", "than ridge: ", f"{of_own.metrics}: nothing to do"):
        assert words in " ".join(said.split())
    draw_quickly(monkeypatch)
    for words in ("written", "nothing to do"):
        assert command("report", of_own.folder)[1] == f"{of_own.report}: {words}\n"
    page = of_own.report.read_text(encoding="utf-8")
    for words in (
        "sst(init_time, lead, lat, lon)",
        own["ratios"]["mse"]["model"]["multiscale ridge"]["sentence"],
    ):
        assert words in page.replace("\u00a0", " ")
    assert page.count("<section") == 10  # those of a run, less training, ensemble, configuration and provenance


def test_weekly_ensembles_of_other_centres_by_hand(sparse: xr.Dataset, sst_file: Path, tmp_path: Path) -> None:
    """Without a run: the climatology of all days before, blocks of dates as far apart as these."""
    path = write(climpred(sparse), tmp_path / "f.nc")
    found, _, _ = score(path, FieldSource(source=sst_file))
    forecast = sparse["sst"].astype(float)
    observed = xr.open_dataset(sst_file, engine="netcdf4")["sst"].astype(float)
    base = observed.sel(time=slice(None, "2003-11-28"))  # before the 42 days before 2004-01-10, the first date
    fit = np.linalg.lstsq(seasons(base["time"]), base.values.reshape(len(base), -1), rcond=None)[0]
    anomaly = observed - (seasons(observed["time"]) @ fit).reshape(observed.shape)
    valid = forecast["init_time"] + forecast["lead"] * np.timedelta64(1, "D")
    came, last = (anomaly.sel(time=days).drop_vars("time") for days in (valid, forecast["init_time"]))
    climatology = observed.sel(time=valid).drop_vars("time") - came
    for method, field in {"model": forecast - climatology, "persistence": last, "climatology": 0 * last}.items():
        squares = ((field - came) ** 2).weighted(area_weights(forecast["lat"]))
        mse = squares.mean(("init_time", "lat", "lon"))
        assert found["scores"][method]["degC"]["by_lead"]["mse"] == pytest.approx(mse.values.tolist(), rel=1e-4)
    assert (found["forecasts"], found["every"], found["block_days"], found["ocean_cells"]) == (49, EVERY, 42, 90)
    compared = found["ratios"]["mse"]["model"]["persistence"]
    low, high = compared["interval"]
    assert low < compared["ratio"] < high
    assert found["systems"]["model"]["members"] == 2
    assert found["ensemble"]["model"]["spread"] == pytest.approx(0.25 * 2**0.5, rel=1e-4)
    near, far = (abs(forecast + side - observed.sel(time=valid).drop_vars("time")) for side in (-0.25, 0.25))
    crps = ((near + far) / 2 - 0.25 / 2).weighted(area_weights(forecast["lat"])).mean()
    assert found["ensemble"]["model"]["crps"] == pytest.approx(float(crps), rel=1e-3)
    assert found["recipe"]["data"]["splits"]["base_period"] == ["2001-01-01", "2003-11-28"]


def test_leads_that_leave_days_out_are_scored_as_they_are(
    scored: Run, sparse: xr.Dataset, sst_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As weekly forecasts do."""
    few = sparse.isel(init_time=slice(0, 12)).sel(lead=[2, 4, 8])
    some, saved, _ = score(write(few, tmp_path / "some.nc"), against=[scored])
    observed = xr.open_dataset(sst_file, engine="netcdf4")["sst"]
    came = observed.sel(time=few["init_time"] + few["lead"] * np.timedelta64(1, "D")).drop_vars("time")
    squares = ((few["sst"].astype(float) - came) ** 2).weighted(area_weights(few["lat"]))
    mse = some["scores"]["model"]["degC"]
    expected = squares.mean(("init_time", "lat", "lon")).reindex(lead=np.arange(1, 9)).values
    np.testing.assert_allclose(np.array(mse["by_lead"]["mse"], float), expected, rtol=1e-4)
    two, four, eight = (mse["by_lead"]["mse"][lead - 1] for lead in (2, 4, 8))
    assert mse["mse"] == pytest.approx((two + four + eight) / 3, rel=1e-5)
    assert mse["by_week"]["mse"] == pytest.approx([(two + four) / 2, eight], rel=1e-5)
    compared = some["ratios"]["mse"]["model"]["persistence"]
    persistence = some["scores"]["persistence"]["degC"]["mse"]
    assert compared["ratio"] == pytest.approx(mse["mse"] / persistence, rel=1e-5)
    assert [ratio is None for ratio in compared["by_lead"]["ratio"]] == [
        lead not in (2, 4, 8) for lead in range(1, 9)
    ]
    assert (some["heatwaves"], some["probabilities"]) == ({}, {})
    assert "leads 2, 4, 8, without heatwaves" in some["notes"][-1]
    draw_quickly(monkeypatch)
    assert "leads 2, 4, 8" in write_report(Results(saved.folder))[0].read_text(encoding="utf-8")


def test_one_forecast_has_scores_without_intervals_and_a_dash_for_an_empty_season(
    scored: Run,
    sparse: xr.Dataset,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    one = sparse.isel(init_time=[4]).copy(deep=True)
    one["sst"][0, 2, 0, 0] = 99  # on land, where the file calls it no value
    one["sst"].attrs["valid_max"] = np.float32(50)
    path = write(one, tmp_path / "f.nc")
    with logged() as lines:
        found, saved, _ = score(path, against=[scored], leads=3)
    assert [
        line
        for line in lines
        if line.endswith("f.nc: sst has 1 value outside its valid_max (-inf..50), taken as missing")
    ]
    compared = found["ratios"]["mse"]["model"]["persistence"]
    assert found["forecasts"] == 1
    assert len(compared["by_lead"]["ratio"]) == 3
    assert (compared["interval"], compared["p_value"], compared["better"]) == ([None, None], None, [None])
    assert compared["ratio"] is not None
    assert compared["by_season"]["ratio"]["JJA"] is None
    print_scores(found, "one")
    table = capsys.readouterr().out.split("RMSE °C by season")[1]
    assert table.split("one")[1].split()[1:4] == ["-", "-", "-"]
    assert Results(saved.folder).weekly("model")["hatched"].sum() == 90
    draw_quickly(monkeypatch)
    assert "too few dates for intervals" in write_report(Results(saved.folder))[0].read_text(encoding="utf-8")
    path.unlink()  # a reader may still hold it
    write(sparse.isel(init_time=[5]), path)
    with pytest.raises(SSTCastError, match=r"f.nc: is missing or has changed since"):
        Results(saved.folder).fields(0)


def test_other_grids(sparse: xr.Dataset, tmp_path: Path) -> None:
    """Cells half as wide are averaged over the ocean; a plane is interpolated exactly."""
    fine = sparse.isel(init_time=slice(2)).interp(
        lat=-11.9375 + 0.125 * np.arange(16),
        lon=170.0625 + 0.125 * np.arange(24),
        method="nearest",
        kwargs={"fill_value": "extrapolate"},
    )
    found, how = on_cells(read_forecasts(write(fine, tmp_path / "fine.nc")).sst, sparse, REGION, tmp_path)
    assert "2 x 2" in how
    np.testing.assert_allclose(found[0], sparse["sst"][:2], atol=1e-4)
    lat, lon = (
        xr.DataArray(values, dims=axis, coords={axis: values})
        for axis, values in (("lat", np.arange(-13.0, -8.5, 0.4)), ("lon", np.arange(168.3, 175, 0.7)))
    )
    plane = (
        xr.zeros_like(sparse["sst"][:2, :, 0, 0].drop_vars(["lat", "lon"])) + 2 * lat + 0.1 * lon + 20
    ).to_dataset(name="sst")
    path = write(plane, tmp_path / "plane.nc")
    found, how = on_cells(read_forecasts(path).sst, sparse, REGION, path)
    assert "interpolated" in how
    np.testing.assert_allclose(found[0, 0, 0], 2 * sparse["lat"] + 0.1 * sparse["lon"] + 20, atol=1e-5)
    path = write(plane.sel(lon=slice(172, None)), tmp_path / "east.nc")
    with pytest.raises(SSTCastError, match=r"east.nc: its cells.*do not contain the region's.*--region"):
        on_cells(read_forecasts(path).sst, sparse, REGION, path)


ONE_CELL = np.arange(96).reshape(8, 12) == 5 * 12 + 7
WRONG: dict[str, Callable[[xr.DataArray], xr.DataArray]] = {
    r"by \+27\d\.\d degC at lat -1\d\.\d+, lon 17\d.*, and by 27\d\.\d degC on average": lambda sst: sst + 273.15,
    r"by \+inf degC at lat -10.625, lon 171.875": lambda sst: sst.where(~ONE_CELL, np.inf),
    r"by -2\d\.\d degC at .*, and by [12]\d\.\d degC on average": lambda sst: sst - 20,
}


@pytest.mark.parametrize("message", WRONG)
def test_no_forecast_may_be_of_something_else(
    message: str, sparse: xr.Dataset, sst_file: Path, tmp_path: Path
) -> None:
    """Whatever the first forecast holds, the third is looked at as well, and named."""
    bad = sparse.isel(init_time=slice(10, 14), lead=slice(3)).copy(deep=True)
    bad["sst"][2:, 1] = WRONG[message](bad["sst"][2:, 1])
    path = write(bad, tmp_path / "bad.nc")
    day = str(bad["init_time"].values[2].astype("M8[D]"))
    with pytest.raises(SSTCastError, match=rf"^{path}: the forecast of {day}, lead 2, .*{message}") as error:
        score(path, FieldSource(source=sst_file, region="170,173,-12,-10"))
    assert "\n" not in str(error.value)
    assert not (tmp_path / "bad.nc-scores" / "metrics.json").exists()


def test_other_forecasts_of_the_same_size_and_time_are_scored_again(
    sparse: xr.Dataset, sst_file: Path, tmp_path: Path
) -> None:
    some, truth = (
        sparse.isel(init_time=slice(10, 14), lead=slice(3)),
        FieldSource(source=sst_file, region=BOX_TEXT),
    )
    path = write(some, tmp_path / "a.nc")
    state = path.stat()
    first, scored, _ = score(path, truth)
    for change, new in ((0, False), (1, True), (1, False)):
        write(some + change, path)
        assert path.stat().st_size == state.st_size
        os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))
        if new:
            with pytest.raises(SSTCastError, match="has changed since it was scored"):
                _ = Results(scored.folder)._of_file
        found, _, made = score(path, truth)
        assert made == new
        assert (found["scores"]["model"] == first["scores"]["model"]) == (change == 0)
    assert Results(scored.folder)._of_file.sst.sizes["lead"] == 3


def test_files_of_others_are_not_replaced(sparse: xr.Dataset, sst_file: Path, tmp_path: Path) -> None:
    path = write(sparse.isel(init_time=slice(10, 14), lead=slice(3)), tmp_path / "own.nc")
    own = tmp_path / "own.nc-scores" / "scores.nc"
    own.parent.mkdir()
    sparse[["lead"]].to_netcdf(own, engine="netcdf4")
    before = own.read_bytes()
    with pytest.raises(SSTCastError, match=r"own.nc-scores/scores.nc: exists and is not a file of sstcast"):
        score(path, FieldSource(source=sst_file, region="170,173,-12,-10"))
    assert own.read_bytes() == before


def test_files_that_do_not_fit_the_truth(scored: Run, sparse: xr.Dataset, sst_file: Path, tmp_path: Path) -> None:
    later = sparse.assign_coords(init_time=sparse["init_time"] + np.timedelta64(3650, "D"))
    path, elsewhere = (
        write(later, tmp_path / "later.nc"),
        write(sparse.assign_coords(lon=sparse["lon"] + 90), tmp_path / "far.nc"),
    )
    two_starts = sparse.isel(init_time=[10, 12])
    lacks = (two_starts["lead"] > 4) == (two_starts["init_time"] == two_starts["init_time"][0])
    uneven = write(two_starts.where(~lacks), tmp_path / "uneven.nc")
    for arguments, words in (
        (
            (path, FieldSource(source=sst_file)),
            r"later.nc: none of its 49 forecasts, 2014-01-07..2014-12-16, can be verified for 8 days",
        ),
        (
            (uneven, FieldSource(source=sst_file)),
            r"uneven.nc: none of its 2 forecasts in the years of the truth has all leads, as some lack .* lead 1;",
        ),
        ((path, FieldSource(), [scored]), r"later.nc: none of its 49 forecasts.*2004-01-01..2004-12-31.*--truth"),
        (
            (elsewhere, FieldSource(source=sst_file)),
            r"far.nc: the truth's box, .*, shares fewer than two rows or columns",
        ),
        ((elsewhere, FieldSource(), [scored]), r"far.nc: its cells.*do not contain the region's"),
        (
            (sst_file, FieldSource(source=sst_file)),
            r"small.nc: sst looks like observations, because it has no initial time and lead",
        ),
        ((path,), "--truth: name the observations"),
        ((path, FieldSource(source="none.nc")), "--truth none.nc: no such file or folder"),
        ((tmp_path / "none.nc", str(sst_file)), r"none.nc: no such file"),
        ((path, FieldSource(), [scored], scored.folder), r"--out .*: is a file, a run's folder, or inside"),
    ):
        with pytest.raises(SSTCastError, match=words):
            score(*arguments)


def test_a_configuration_tells_how_the_truth_is_read(sparse: xr.Dataset, sst_file: Path, tmp_path: Path) -> None:
    with xr.open_dataset(sst_file, engine="netcdf4") as opened:
        both = write(xr.Dataset({"a": opened["sst"], "b": opened["sst"]}), tmp_path / "both.nc")
    data = {"source": str(both), "variable": "b", "units": "degC", "splits": SPLITS}
    config = tmp_path / "both.yaml"
    config.write_text(yaml.safe_dump({"data": data, "model": {"name": "persistence"}}))
    forecasts = read_forecasts(write(sparse, tmp_path / "f.nc"))
    found = data_to_score(forecasts, FieldSource(source=config, region="171,173,-12,-10"), (), 8)
    assert (found.variable, found.box.lon, found.box.tile) == ("b", (171, 173), (8, 8))


def test_each_date_is_scored_by_the_members_that_it_has(
    sparse: xr.Dataset, sst_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Hindcasts with two members, joined with forecasts of five, by `scores` and NumPy."""
    offsets = xr.DataArray([0.3, -0.1, 0.8, -0.5, 0.2], dims="member", coords={"member": np.arange(5)})
    early = sparse["init_time"] < np.datetime64("2004-06-01")
    members = (sparse["sst"] + offsets).where(~early | (offsets["member"] < 2)).transpose("member", ...)
    members[4, -1] = np.nan  # the last date has four
    path = write(xr.Dataset({"sst": members.assign_attrs(units="degC")}), tmp_path / "joined.nc")
    with logged() as lines:
        found, saved, _ = score(path, FieldSource(source=sst_file))
    count = int(early.sum())
    assert found["forecasts"] == 49
    note = f"{count} forecasts with 2 members, 1 forecast with 4 members, {48 - count} forecasts with 5"
    assert any(note in line and "the fair CRPS does not" in line for line in lines)
    valid = members["init_time"] + members["lead"] * np.timedelta64(1, "D")
    truth = xr.open_dataset(sst_file, engine="netcdf4")["sst"].sel(time=valid).drop_vars("time")
    area = area_weights(members["lat"])

    def mean(field: xr.DataArray) -> float:
        return float(field.weighted(area).mean(("lat", "lon")).mean())

    ensemble = found["ensemble"]["model"]
    for key, method in (("crps", "ecdf"), ("crps_fair", "fair")):
        expected = crps_for_ensemble(
            members, truth, "member", method=method, preserve_dims=["init_time", "lead", "lat", "lon"]
        )
        assert ensemble[key] == pytest.approx(mean(expected.where(truth.notnull())), rel=1e-4)
    error = members.mean("member") - truth
    assert found["scores"]["model"]["degC"]["mse"] == pytest.approx(mean(error**2), rel=1e-4)
    assert ensemble["spread"] == pytest.approx(mean(members.var("member", ddof=1).where(truth.notnull())) ** 0.5)
    data = data_to_score(read_forecasts(path), FieldSource(source=sst_file), (), 8)
    threshold = limits_of(Prepared.of(data), "heatwave_threshold")
    above = (members > on_days(threshold["heatwave_threshold"], valid)).where(members.notnull()).mean("member")
    case = (truth > on_days(threshold["heatwave_threshold"], valid)).where(truth.notnull())
    brier = found["heatwaves"]["exceedance"]["model"]["brier"]
    assert brier == pytest.approx(
        mean((above - case) ** 2), rel=5e-4
    )  # rounding may move one value over a threshold
    limits = on_days(threshold["heatwave_threshold"], valid).transpose(*truth.dims)
    fair = brier_score_for_ensemble(
        members - limits, truth - limits, "member", 0, preserve_dims="all", event_threshold_operator=operator.gt
    )
    scores = found["heatwaves"]["exceedance"]
    assert scores["model"]["brier_fair"] == pytest.approx(mean(fair.where(truth.notnull())), rel=2e-3)
    assert scores["persistence"]["brier_fair"] is None
    compared = found["ratios"]["exceedance"]["model"]["base rate"]
    assert compared["ratio"] == pytest.approx(
        scores["model"]["brier_fair"] / scores["base rate"]["brier"], rel=1e-4
    )
    assert "the fair Brier score (exceedance)" in compared["sentence"]
    thirds = found["terciles"]["scores"]
    assert thirds["model"]["rps_fair"] < thirds["model"]["rps"]
    compared = found["ratios"]["rps"]["model"]["base rates of the scored years"]
    assert compared["ratio"] == pytest.approx(
        thirds["model"]["rps_fair"] / thirds["base rates of the scored years"]["rps"], rel=1e-4
    )
    print_scores(found, "joined")
    assert {"fair RPS", "fair Brier"} <= {*re.findall("fair [A-Z]\\w+", capsys.readouterr().out)}
    tables = saved.open()
    own = tables["member_mse_by_date"].sel(system="model")
    expected = ((members - truth) ** 2).weighted(area).mean(("lat", "lon"))
    np.testing.assert_allclose(own.transpose("member", "init_time", "lead"), expected, rtol=1e-3)
    ratios = found["ratios"]["mse"]["model"]["persistence"]["over_seeds"]
    reference = tables["mse_by_date"].sel(system="persistence", units="degC")
    for ratio, errors in zip(ratios, expected, strict=True):
        assert ratio == pytest.approx(float(errors.mean() / reference.where(errors.notnull()).mean()), rel=1e-4)


def test_forecasts_with_holes_are_left_out(sparse: xr.Dataset) -> None:
    sst = sparse["sst"].expand_dims("member").copy()
    ocean = sst[0, 0, 0].notnull()
    sst[0, 5] = np.nan
    sst[0, 7, 2, 6, 5] = np.nan
    dates, known, members = complete_forecasts(sst, ocean)
    np.testing.assert_array_equal(dates, np.delete(sst["init_time"], 5))
    assert members.tolist() == [1] * 48
    assert not known[6, 5]
    assert int(known.sum()) == int(ocean.sum()) - 1


def test_an_ensemble_beside_another_of_another_size(
    ensemble: Run, sparse: xr.Dataset, sst_file: Path, tmp_path: Path
) -> None:
    """Three members in a file and two of a run, with systems of one member between them, by NumPy."""
    offsets = xr.DataArray([0.3, -0.1, 0.8], dims="member")
    sst = (sparse["sst"] + offsets).transpose("member", ...).isel(init_time=slice(20))
    path = write(xr.Dataset({"sst": sst.assign_attrs(units="degC")}), tmp_path / "three.nc")
    found, saved, _ = score(path, against=[ensemble])
    data = Analysis.of(ensemble)
    parts = [forecast_of(system_of(member), data)["sst"] for member in ensemble.members]
    dates = sst["init_time"].values
    of_run = xr.concat([part.sel(init_time=dates) for part in parts], "member")
    truth = xr.open_dataset(sst_file, engine="netcdf4")["sst"]
    truth = truth.sel(time=sst["init_time"] + sst["lead"] * np.timedelta64(1, "D")).drop_vars("time")
    area = np.broadcast_to(area_weights(truth["lat"]).values[:, None], truth.shape)[
        ocean := truth.notnull().values
    ]
    for name, members in (("model", sst), (ensemble.folder.name, of_run)):
        values = members.transpose("member", *truth.dims).values.astype(float)[:, ocean]
        distance = abs(values - truth.values[ocean]).mean(0)
        pairs = abs(values[:, None] - values).sum((0, 1)) / 2
        scores, count = found["ensemble"][name], len(values)
        for key, divisor in (("crps", count**2), ("crps_fair", count * (count - 1))):
            expected = np.average(distance - pairs / divisor, weights=area)
            assert scores[key] == pytest.approx(expected, rel=1e-3), (name, key)
        assert scores["spread"] == pytest.approx(np.average(values.var(0, ddof=1), weights=area) ** 0.5, rel=1e-3)
        rank = np.bincount((values < truth.values[ocean]).sum(0), area, count + 1) / area.sum()
        np.testing.assert_allclose(scores["rank_histogram"], rank, atol=2e-3)
        seeds = found["ratios"]["mse"]["model"]["persistence"]["over_seeds"]
        if name == "model":
            persistence = found["scores"]["persistence"]["degC"]["mse"]
            squares = [np.average((member - truth.values[ocean]) ** 2, weights=area) for member in values]
            assert seeds == pytest.approx([mse / persistence for mse in squares], rel=1e-3)
    assert found["ensemble"].keys() == {"model", ensemble.folder.name}
    assert saved.open()["member_mse_by_date"].sel(system=ensemble.folder.name, member=2).isnull().all()


def test_places_and_warnings_of_a_file_are_those_of_evaluate(of_run: Own, tmp_path: Path) -> None:
    short, of_own, asked = of_run
    own, found = metrics_of(short), json.loads(of_own.metrics.read_text())
    assert found["places"] == own["places"]
    for kind in ("areas", "events"):
        for area in own["areas"] if kind == "areas" else [None]:
            ours, theirs = (of[kind] if area is None else of[kind][area] for of in (found, own))
            assert {"model", "small", "ridge"} <= ours.keys()
            for name, expected in theirs.items():
                assert ours["small" if name == "model" else name] == expected, (kind, name)
    _close(found["areas"]["pier"]["model"]["by_week"], own["areas"]["pier"]["model"]["by_week"])
    with xr.open_zarr(short.forecasts) as forecasts:
        forecasts[["sst"]].load().to_netcdf(tmp_path / "mean.nc", engine="netcdf4")
    alone = sstcast.score(tmp_path / "mean.nc", against=[short], **asked).value
    assert "model" not in alone["areas"]["pier"]
    assert "model" not in alone["events"]
    assert alone["areas"]["pier"]["ridge"] == own["areas"]["pier"]["ridge"]
    assert "areas and warnings of heatwaves are not scored for them, because they have no spread" in alone["notes"]


def test_an_unknown_keyword_is_no_option() -> None:
    for function in (sstcast.evaluate, sstcast.score):
        with pytest.raises(TypeError, match="plces"):
            function("runs/none", plces="a.csv")  # type: ignore[call-arg]

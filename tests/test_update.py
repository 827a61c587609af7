"""The command update: what it makes, only once, also after a kill, and without a source."""

import datetime as dt
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from quick_drawing import draw_no_plots
from scored_runs import configure
from served_days import DAY, LAST, publish, put, serving
from small_ocean import make_sst
from untrained import make_run

from sstcast.api.arguments import read_places
from sstcast.config import load_config
from sstcast.errors import SSTCastError
from sstcast.forecasting.forecast import forecast
from sstcast.forecasting.place_periods import table_beside
from sstcast.ocean.prepare import prepare
from sstcast.reports.page import write_forecast_page
from sstcast.reports.update import MADE, NOTHING_NEW, SOURCE_DOWN, Update, update
from sstcast.runs import Run
from sstcast.sources import remote
from sstcast.sources.noaa import Aws, Ncei
from sstcast.storage.dataset_files import write


@pytest.fixture(autouse=True)
def quick_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    draw_no_plots(monkeypatch)


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("prepared")


@pytest.fixture
def run(run_yaml: Path, stores: Path) -> Run:
    config = load_config(run_yaml, [f"data.directory={stores}"])
    prepare(config.data)
    return make_run(config)


@pytest.fixture
def farm(tmp_path: Path) -> Path:
    path = tmp_path / "farm.csv"
    path.write_text("name,lat,lon\nfarm,-10.3,171.3\n")
    return path


def names(run: Run) -> set[str]:
    return {path.name for path in (run.folder / "forecasts").iterdir() if not path.name.startswith(".")}


@pytest.fixture(scope="module")
def issued(tmp_path_factory: pytest.TempPathFactory, sst_file: Path) -> tuple[Run, dict[str, Update]]:
    """A run with forecasts from two days. Tests that change them change a copy."""
    run = make_run(configure(tmp_path_factory.mktemp("issued"), sst_file, horizon=5))
    prepare(run.config.data)
    return run, {day: update(run.folder, day) for day in ("2004-12-20", "2004-12-28")}


def test_forecasts_are_verified_by_lead(issued: tuple[Run, dict[str, Update]]) -> None:
    """Against the errors computed from the file of the ocean itself."""
    run, days = issued
    for day, done in days.items():
        assert done.code == MADE
        assert "\n" not in done.line
        assert (f"`sstcast evaluate {run.folder}`" in done.line) is (day == "2004-12-20")  # which is said once
    assert "day 5 of 1 forecast alone: RMSE" in done.line
    assert names(run) == {*(f"forecast-{day}.nc" for day in days), "latest.html", "verification.csv"}
    table = pd.read_csv(run.folder / "forecasts/verification.csv", index_col="lead")
    assert table["forecasts"].to_dict() == {1: 2, 2: 2, 3: 2, 4: 1, 5: 1}  # the ocean ends on 2004-12-31
    ocean = make_sst()["sst"]
    page = (run.folder / "forecasts/latest.html").read_text()
    drawing = page[page.index("<svg") : page.index("</svg>")]
    assert drawing.count("<polyline") == 3
    assert len(drawing) < 10_000
    area = np.cos(np.radians(ocean["lat"]))
    errors: dict[str, list] = {"": [], "_persistence": [], "_climatology": []}
    covered = []
    for day in days:
        with xr.open_dataset(run.folder / f"forecasts/forecast-{day}.nc", engine="netcdf4") as forecast:
            two = forecast.isel(init_time=0).sel(lead=2, past=0).load()
        sst, anomaly, quantile = two["sst"], two["sst_anomaly"], two["sst_quantile"]
        last = ocean.sel(time=day) - two["climatology_past"]
        came = ocean.sel(time=np.datetime64(day) + np.timedelta64(2, "D"))
        low, high = (quantile.sel(quantile=q, method="nearest", drop=True) for q in (0.1, 0.9))
        covered.append(((low <= came) & (came <= high)).where(came.notnull()).reset_coords(drop=True))
        fields = {"": sst, "_persistence": sst - anomaly + last, "_climatology": sst - anomaly}
        for name, field in fields.items():
            errors[name].append((field.drop_vars("time", errors="ignore") - came).reset_coords(drop=True))
    for name, parts in errors.items():
        error = xr.concat(parts, "day")
        means = [float(of.weighted(area).mean()) for of in (error**2, abs(error), error)]
        got = table.loc[2, [f"rmse{name}", f"mae{name}", f"bias{name}"]]
        np.testing.assert_allclose(got, [means[0] ** 0.5, *means[1:]], atol=1e-3)
    inside = xr.concat(covered, "day").weighted(area).mean()
    assert table.loc[2, "coverage_80"] == pytest.approx(float(inside), abs=1e-4)


def test_forecasts_are_not_verified_against_another_ocean(run_yaml: Path, tmp_path: Path) -> None:
    """Another file under the same name: refused as `forecast` does, also where there is nothing to forecast."""
    source = tmp_path / "sst.nc"
    make_sst().to_netcdf(source)
    config = load_config(run_yaml, [f"data.source={source}"])
    prepare(config.data)
    run = make_run(config)
    update(run.folder, "2004-12-28")
    table = (run.folder / "forecasts/verification.csv").read_text()
    source.unlink()
    make_sst(seed=1).to_netcdf(source)
    for day in ("2004-12-28", "latest"):
        with pytest.raises(SSTCastError, match=r"sst.nc: has changed since .*cube.zarr was made from it"):
            update(run.folder, day)
    prepare(config.data)
    with pytest.raises(SSTCastError, match=r"was trained on other data than .*cube.zarr holds"):
        update(run.folder)
    assert (run.folder / "forecasts/verification.csv").read_text() == table


def test_a_forecast_that_was_edited_after_it_was_issued_is_not_verified(
    issued: tuple[Run, dict[str, Update]], tmp_path: Path
) -> None:
    run = Run(Path(shutil.copytree(issued[0].folder, tmp_path / "run")))
    update(run.folder)
    first = run.folder / "forecasts/forecast-2004-12-20.nc"
    with xr.open_dataset(first, engine="netcdf4") as opened:
        warmer = opened.load()
    warmer["sst"] += 1
    whole = first.read_bytes()
    newest = run.folder / "forecasts/forecast-2004-12-31.nc"
    page, latest = (run.folder / "forecasts/latest.html").read_text(), newest.read_bytes()
    state = newest.stat()
    newest.write_bytes(whole)  # of another day, as of another project
    with pytest.raises(SSTCastError, match=r"forecast-2004-12-31.nc: has changed since it was written; restore"):
        update(run.folder)
    with pytest.raises(SSTCastError, match=r"forecast-2004-12-31.nc: has changed since it was written; restore"):
        write_forecast_page(run.folder)
    assert (run.folder / "forecasts/latest.html").read_text() == page
    newest.write_bytes(latest)
    os.utime(newest, ns=(state.st_atime_ns, state.st_mtime_ns))
    first.unlink()
    warmer.to_netcdf(first, engine="netcdf4")
    with pytest.raises(
        SSTCastError, match=r"forecast-2004-12-20.nc: has changed since it was written; restore it"
    ):
        update(run.folder)
    first.write_bytes(whole)
    assert update(run.folder).code == NOTHING_NEW


IMPLAUSIBLE: list[tuple[Callable[[xr.DataArray], xr.DataArray], str]] = [
    (lambda sst: sst + 273.15, r"degC on 2004-12-31 at lat .* SST lies in -5..50"),
    (lambda sst: sst + 12, r"2004-12-30 and 2004-12-31 differ by 12.0 degC"),
    (
        lambda sst: sst.where((sst["lat"] < -10.2) | (sst["lon"] > 170.2), 99),
        r"99 degC on 2004-12-31 at lat -10.125, lon 170.125; SST lies in -5..50",
    ),
]


def test_an_implausible_day_verifies_no_forecast(run_yaml: Path, tmp_path: Path) -> None:
    """Also if the forecast from it has been issued: a provider may revise a day for the worse."""
    ocean, source = make_sst(), tmp_path / "sst.nc"
    ocean.to_netcdf(source)
    run = make_run(load_config(run_yaml, [f"data.source={source}", "data.splits.test=[2004-01-01, 2004-11-30]"]))
    prepare(run.config.data)
    for day in ("2004-12-28", "latest"):
        update(run.folder, day)
    table = (run.folder / "forecasts/verification.csv").read_text()
    for change, words in IMPLAUSIBLE:
        spoiled = ocean.copy(deep=True)
        spoiled["sst"][-1:] = change(ocean["sst"][-1:])
        source.unlink()
        spoiled.to_netcdf(source)
        with pytest.raises(SSTCastError, match=words):
            update(run.folder)
        assert (run.folder / "forecasts/verification.csv").read_text() == table
    with pytest.raises(SSTCastError, match=words):
        update(run.folder, "2004-12-27")
    with pytest.raises(SSTCastError, match=words):  # as of all that reads the file
        forecast(run.folder, out=tmp_path / "new.nc")
    assert (run.folder / "forecasts/verification.csv").read_text() == table


def test_only_what_is_not_there_is_made(run: Run, command: Callable[..., tuple[int, str, str]]) -> None:
    html, both = run.folder / "forecasts/latest.html", "made forecast-2004-12-31.nc, latest.html"
    for code, words in ((MADE, both), (NOTHING_NEW, "nothing new"), (MADE, ": made latest.html")):
        if ": made" in words:  # as after a kill
            html.unlink()
        found, out, err = command("update", run.folder)
        assert (found, err, out.count("\n")) == (code, "", 1)
        assert words in out


def test_only_what_the_issued_forecast_does_not_hold_begins_with_the_next(run: Run, farm: Path) -> None:
    given = {"places": read_places(farm), "above": (12.0,), "below": (15.0, 16.0)}
    update(run.folder, **given)

    def begin_later(**given: Any) -> list[str]:
        done = update(run.folder, **given)
        assert done.code == NOTHING_NEW
        return re.findall(r"its (\w+) begin with the next forecast", done.line)

    assert begin_later(**given) == begin_later(places=given["places"]) == begin_later(above=(12.0,)) == []
    assert begin_later(below=(15.0,)) == begin_later(above=()) == ["temperatures"]
    farm.write_text("name,lat,lon\nfarm,-10.3,172.3\n")
    assert begin_later(places=read_places(farm)) == begin_later(places=read_places("none")) == ["places"]
    assert begin_later(**given) == []


def test_a_kill_after_the_forecast_leaves_its_table_and_what_the_run_keeps(
    run: Run, farm: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of `update` and `forecast`; as without a kill."""

    def killed(*arguments: Any, **options: Any) -> None:
        write(*arguments, **options)
        raise KeyboardInterrupt

    given = {"places": read_places(farm), "above": (12.0,), "gaps": 1}
    whole, _ = forecast(run.folder, "2004-12-20", run.folder / "whole.nc", **given)
    kept = (run.places, run.temperatures, run.gaps)
    contents = [file.read_text() for file in kept]
    for place, make in (("forecasts", update), (".", forecast)):
        for file in kept:
            file.unlink()
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr("sstcast.forecasting.forecast.write", killed)
            make(run.folder, "2004-12-20", **given)
        table = run.folder / place / "forecast-2004-12-20-places.csv"
        assert table.read_text() == table_beside(whole).read_text()
        assert [file.read_text() for file in kept] == contents


def test_files_of_others_are_left_alone(run: Run) -> None:
    place = run.folder / "forecasts"
    place.mkdir()
    for name in ("forecast-copy.nc", "forecast-2004-13-45.nc", "forecast-2004-12-30.txt"):
        (place / name).write_text("mine")
    done = update(run.folder)
    assert (done.code, done.forecast.name) == (MADE, "forecast-2004-12-31.nc")
    (place / "forecast-2004-12-30.nc").write_bytes(Path(run.config.data.source).read_bytes())
    with pytest.raises(SSTCastError, match=r"forecast-2004-12-30.nc: is not a forecast.*name another file"):
        update(run.folder)
    with xr.open_dataset(done.forecast, engine="netcdf4") as forecast:
        forecast[["sst"]].to_netcdf(place / "forecast-2004-12-30.nc", engine="netcdf4")
    with pytest.raises(SSTCastError, match=r"forecast-2004-12-30.nc: cannot be read .*sst_anomaly"):
        update(run.folder)


@pytest.fixture
def growing(run_yaml: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """A run whose source is a store that new days are fetched into."""
    splits = "{train: [2001, 2001], validation: [2002-01-01, 2002-06-30], test: [2002-07-01, 2002-12-31]}"
    store = put(tmp_path / "a.zarr", dt.date(2001, 1, 1))
    config = load_config(
        run_yaml, [f"data.source={store}", f"data.splits={splits}", f"data.directory={tmp_path}/p"]
    )
    prepare(config.data)
    monkeypatch.setattr(remote, "ATTEMPTS", 1)
    return make_run(config)


def test_a_source_that_grows_is_replaced_and_fails(growing: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    run, end = growing, LAST + 8 * DAY
    with serving(monkeypatch) as server:
        first = update(run.folder, str(LAST))
        second = update(run.folder, today=end + 2 * DAY)  # a day of which there is no file yet
        assert (first.code, second.code) == (MADE, MADE)
        assert "8 days fetched" in second.line
        assert second.forecast.name == f"forecast-{end}.nc"
        with xr.open_dataset(second.forecast, engine="netcdf4") as made:
            assert made.attrs["data"].endswith(f"preliminary days: {end - 2 * DAY}..{end}")
        assert pd.read_csv(run.folder / "forecasts/verification.csv")["forecasts"].tolist() == [1] * 5
        assert update(run.folder, today=end + 2 * DAY).code == NOTHING_NEW
        issued = second.forecast.read_bytes()
        for n in range(3):
            publish(server, end - n * DAY, False)
        last = update(run.folder, today=end + 2 * DAY)
        assert "3 days fetched" in last.line
        assert second.forecast.read_bytes() == issued  # kept as it was issued
    for server in (Aws, Ncei):
        monkeypatch.setattr(server, "base", "http://127.0.0.1:1")
    down = update(run.folder, today=end + 3 * DAY)
    assert down.code == SOURCE_DOWN
    assert f"made from days up to {end}" in down.line
    assert "\n" not in down.line

"""A forecast of SST that a run reads, as its rival: against plain loops over issues and dates."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from scored_runs import configure
from small_ocean import make_sst

from sstcast.figures.answers import gains
from sstcast.forecasting.system import Fits
from sstcast.ocean.prepare import prepare
from sstcast.ocean.prepared import Prepared
from sstcast.scores.analysis import Analysis
from sstcast.scores.joining import join_folds
from sstcast.scores.kinds.rivals import Rivals
from sstcast.scores.scene import Scene
from sstcast.scores.system_records import RUN
from sstcast.scores.systems import ScoredSystem
from sstcast.scores.verify import verify

DAY = np.timedelta64(1, "D")
HORIZON = 8
MEAN_ERROR = 1 + 0.1 * np.arange(1, 21)  # degC, by lead


@pytest.fixture(scope="module")
def sst() -> xr.DataArray:
    return make_sst()["sst"].load()


def issues(sst: xr.DataArray, every: int, leads: int, error: float = 0.3) -> xr.Dataset:
    """Return forecasts issued every few days, too warm by an error that grows with lead."""
    random = np.random.default_rng(1)
    starts = np.arange(0, sst.sizes["time"], every)
    ahead = (starts[:, None] + np.arange(1, leads + 1)).clip(max=sst.sizes["time"] - 1)
    values = sst.values[ahead] + MEAN_ERROR[:leads, None, None]
    values += random.normal(0, error, (len(starts), leads, 1, 1))
    axes = {"init_time": sst["time"].values[starts], "lead": ("lead", np.arange(1, leads + 1), {"units": "days"})}
    axes |= {axis: sst[axis] for axis in ("lat", "lon")}
    field = xr.DataArray(values, axes, ("init_time", "lead", "lat", "lon"), attrs={"units": "degC"})
    return field.to_dataset(name="sst")


def scored(folder: Path, files: dict[str, xr.Dataset], monkeypatch: pytest.MonkeyPatch, **keys: Any) -> xr.Dataset:
    """Verify persistence as a run that reads forecasts, and a baseline, by the squared errors of rivals alone."""
    source, predictors = folder / "sst.nc", {}
    make_sst().to_netcdf(source)
    for name, dataset in files.items():
        dataset.to_netcdf(folder / f"{name}.nc")
        predictors[name] = {"kind": "forecast", "source": str(folder / f"{name}.nc"), **keys}
    data = configure(folder, source, predictors=predictors).data
    prepare(data)
    truth = Analysis.open(Prepared.of(data), every=3)
    persistence = Fits.of(truth.prepared).system("persistence")
    monkeypatch.setattr("sstcast.scores.verify.KINDS", (Rivals,))
    systems = {"model": ScoredSystem(persistence, role=RUN), "ridge": ScoredSystem(persistence)}
    return verify(Scene(truth, systems))


def expected(sst: xr.DataArray, file: xr.Dataset, delay: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return the squared errors of the file and of persistence, `[init_time, lead]`, by loops."""
    values = file["sst"].mean("member") if "member" in file["sst"].dims else file["sst"]
    table = dict(zip(file["init_time"].values, values.values, strict=True))
    step = int(np.median(np.diff(file["init_time"].values) / DAY))
    at = {day: number for number, day in enumerate(sst["time"].values)}

    def forecast(day: np.datetime64) -> np.ndarray:
        fields = np.full((HORIZON, *sst.shape[1:]), np.nan)
        for age in range(delay, delay + step + 1):
            if (issue := table.get(day - age * DAY)) is not None:
                reached = issue[age : age + HORIZON]
                fields[: len(reached)] = reached
                break
        return fields

    def errors(first: str, last: str) -> np.ndarray:
        days = np.arange(np.datetime64(first), np.datetime64(last) + 1).astype("M8[ns]")
        return np.stack([forecast(day) - sst.values[at[day] + 1 : at[day] + 1 + HORIZON] for day in days])

    ocean = np.isfinite(sst.values[0])
    area = np.cos(np.deg2rad(sst["lat"].values))[:, None] * np.ones_like(sst.values[0])
    training, test = errors("2001-01-01", "2002-12-23"), errors("2004-01-10", "2004-12-22")[::3]
    reached = np.isfinite(test[..., ocean]).all((0, 2))
    known = np.isfinite(training[..., ocean][..., 0])
    mean = np.array(
        [training[known[:, lead], lead].mean(0) if reached[lead] else 0 * area for lead in range(HORIZON)]
    )
    squares = np.average((test - mean)[..., ocean] ** 2, axis=-1, weights=area[ocean])
    return np.where(reached, squares, np.nan), reached


WAYS: dict[str, tuple[int, int, int]] = {  # days between issues, leads, delay
    "each day": (1, 8, 0),
    "every other day": (2, 12, 0),
    "weekly and late": (7, 20, 2),
    "few days": (2, 5, 0),
}


@pytest.mark.parametrize("way", WAYS)
def test_the_rival_is_the_newest_issue_without_its_mean_error(
    sst: xr.DataArray, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    every, leads, delay = WAYS[way]
    file = issues(sst, every, leads)
    tables = scored(tmp_path, {"centre": file}, monkeypatch, delay=delay)
    assert tables["rival_mse"].notnull().any(("rival", "init_time", "lead")).values.tolist() == [True, False]
    of_rival = tables["rival_mse"].sel(system="model", rival="centre")
    errors, reached = expected(sst, file, delay)
    assert reached.sum() == min(HORIZON, leads - (every - 1) - delay)
    np.testing.assert_allclose(of_rival, errors, rtol=2e-3, atol=1e-6)
    assert tables["rival_dates_left_out"].sel(system="model").item() == 0
    of_run = tables["rival_mse_of_run"].sel(system="model", rival="centre")
    assert np.array_equal(np.isfinite(of_run), np.isfinite(of_rival))
    found = Rivals.section(tables, "ridge")["rivals"]["centre"]["model"]
    assert found["leads"] == (1 + np.flatnonzero(reached)).tolist()
    np.testing.assert_allclose(found["ratio"], float(of_run.mean() / of_rival.mean()), rtol=1e-4)
    assert found["by_lead"]["rmse_of_rival"][0] == pytest.approx(float(errors[:, 0].mean() ** 0.5), rel=1e-3)
    (line,) = gains({"rivals": {"centre": {"model": found}}, "ratios": {}, "systems": {}})
    assert line.startswith("The model is worse than the forecast centre: ")
    assert "days ahead" in line


def test_kelvin_and_members_change_nothing_and_a_coarser_grid_little(
    sst: xr.DataArray, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = issues(sst, 1, HORIZON)
    kelvin = (file + 273.15).assign(sst=lambda of: of["sst"].assign_attrs(units="K"))
    members = xr.concat([file - 0.5, file + 0.5], "member").assign(
        sst=lambda of: of["sst"].assign_attrs(units="degC")
    )
    coarse = file.coarsen(lat=2, lon=2).mean().assign(sst=lambda of: of["sst"].assign_attrs(units="degC"))
    other = file.rename(sst="u10").assign(u10=lambda of: of["u10"].assign_attrs(long_name="wind"))
    files = {"plain": file, "kelvin": kelvin, "members": members, "coarse": coarse, "wind": other}
    tables = scored(tmp_path, files, monkeypatch)
    assert tables["rival"].values.tolist() == ["plain", "kelvin", "members", "coarse"]
    plain, *same, near = (
        tables["rival_mse"].sel(system="model", rival=name).values for name in tables["rival"].values
    )
    for one in same:
        np.testing.assert_allclose(one, plain, rtol=1e-2, atol=1e-5)
    assert 1 < near.mean() / plain.mean() < 2


def test_dates_without_a_new_issue_are_left_out_and_folds_joined(
    sst: xr.DataArray, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = issues(sst, 1, HORIZON)
    gap = (file["init_time"] >= np.datetime64("2004-03-01")) & (file["init_time"] < np.datetime64("2004-03-11"))
    tables = scored(tmp_path, {"centre": file.isel(init_time=~gap.values)}, monkeypatch)
    assert (
        tables["rival_dates_left_out"].sel(system="model").item() == 3
    )  # of every third date; an issue of the day before will do
    found = Rivals.section(join_folds([tables.chunk()]), "ridge")["rivals"]
    assert list(found["centre"]) == ["model"]
    assert (found["centre"]["model"]["dates"], found["centre"]["model"]["left_out"]) == (113, 3)
    assert found["centre"]["model"]["leads"] == list(range(1, HORIZON))

"""A forecast of SST that a run reads, as its rival: against plain loops over issues and dates."""

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
HORIZON, EVERY = 8, 3
MEAN_ERROR = 1 + 0.1 * np.arange(1, 21)  # degC, by lead
SPLITS = {"train": [2001, 2001], "validation": ["2002-01-01", "2002-02-28"], "test": ["2002-03-01", "2002-06-30"]}

WAYS: dict[str, tuple[int, int, int]] = {  # days between issues, leads, delay
    "each_day": (1, 8, 0),
    "every_other_day": (2, 12, 0),
    "weekly_and_late": (7, 20, 2),
    "few_days": (2, 5, 0),
}
FROM_WEEKLY = ("members", "coarse", "wind")  # made from the file of "weekly_and_late"


@pytest.fixture(scope="module")
def sst() -> xr.DataArray:
    return make_sst(2)["sst"].sel(time=slice(None, "2002-06-30")).load()


@pytest.fixture(scope="module")
def files(sst: xr.DataArray) -> dict[str, xr.Dataset]:
    """The forecasts that the run reads, by name."""
    files = {way: issues(sst, every, leads) for way, (every, leads, _) in WAYS.items()}
    weekly = files["weekly_and_late"]
    daily = issues(sst, 1, HORIZON)
    in_gap = (daily["init_time"] >= np.datetime64("2002-05-03")) & (
        daily["init_time"] < np.datetime64("2002-05-13")
    )
    files["gap"] = daily.isel(init_time=~in_gap.values)

    def in_units(dataset: xr.Dataset, units: str) -> xr.Dataset:
        return dataset.assign(sst=lambda of: of["sst"].assign_attrs(units=units))

    # A member alone errs by another amount in each issue, which no mean error removes.
    apart = xr.DataArray(np.random.default_rng(2).normal(0, 0.5, weekly.sizes["init_time"]), dims="init_time")
    files["members"] = in_units(273.15 + xr.concat([weekly - apart, weekly + apart], "member"), "K")
    files["coarse"] = in_units(weekly.coarsen(lat=2, lon=2).mean(), "degC")
    files["wind"] = weekly.rename(sst="u10").assign(u10=lambda of: of["u10"].assign_attrs(long_name="wind"))
    return files


@pytest.fixture(scope="module")
def tables(
    sst: xr.DataArray, files: dict[str, xr.Dataset], tmp_path_factory: pytest.TempPathFactory
) -> xr.Dataset:
    """Persistence as a run that reads all the forecasts, and as a baseline, verified by their errors alone."""
    folder, predictors = tmp_path_factory.mktemp("rivals"), {}
    source = folder / "sst.nc"
    sst.to_netcdf(source)
    for name, dataset in files.items():
        dataset.to_netcdf(folder / f"{name}.nc")
        *_, delay = WAYS["weekly_and_late" if name in FROM_WEEKLY else "each_day" if name == "gap" else name]
        predictors[name] = {"kind": "forecast", "source": str(folder / f"{name}.nc"), "delay": delay}
    data = configure(folder, source, predictors=predictors, splits=SPLITS).data
    prepare(data)
    truth = Analysis.open(Prepared.of(data), every=EVERY)
    persistence = Fits.of(truth.prepared).system("persistence")
    systems = {"model": ScoredSystem(persistence, role=RUN), "ridge": ScoredSystem(persistence)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sstcast.scores.verify.KINDS", (Rivals,))
        return verify(Scene(truth, systems))


def issues(sst: xr.DataArray, every: int, leads: int, error: float = 0.2) -> xr.Dataset:
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
    training, test = errors("2001-01-01", "2001-12-23"), errors("2002-03-10", "2002-06-22")[::EVERY]
    reached = np.isfinite(test[..., ocean]).all((0, 2))
    known = np.isfinite(training[..., ocean][..., 0])
    mean = np.array(
        [training[known[:, lead], lead].mean(0) if reached[lead] else 0 * area for lead in range(HORIZON)]
    )
    squares = np.average((test - mean)[..., ocean] ** 2, axis=-1, weights=area[ocean])
    return np.where(reached, squares, np.nan), reached


@pytest.mark.parametrize("way", WAYS)
def test_the_rival_is_the_newest_issue_without_its_mean_error(
    sst: xr.DataArray, files: dict[str, xr.Dataset], tables: xr.Dataset, way: str
) -> None:
    every, leads, delay = WAYS[way]
    assert tables["rival_mse"].sel(rival=way).notnull().any(("init_time", "lead")).values.tolist() == [True, False]
    of_rival = tables["rival_mse"].sel(system="model", rival=way)
    errors, reached = expected(sst, files[way], delay)
    assert reached.sum() == min(HORIZON, leads - (every - 1) - delay)
    np.testing.assert_allclose(of_rival, errors, rtol=2e-3, atol=1e-6)
    assert tables["rival_dates_left_out"].sel(system="model", rival=way).item() == 0
    of_run = tables["rival_mse_of_run"].sel(system="model", rival=way)
    assert np.array_equal(np.isfinite(of_run), np.isfinite(of_rival))
    found = Rivals.section(tables, "ridge")["rivals"][way]["model"]
    assert found["leads"] == (1 + np.flatnonzero(reached)).tolist()
    np.testing.assert_allclose(found["ratio"], float(of_run.mean() / of_rival.mean()), rtol=1e-4)
    assert found["by_lead"]["rmse_of_rival"][0] == pytest.approx(float(errors[:, 0].mean() ** 0.5), rel=1e-3)
    (line,) = gains({"rivals": {way: {"model": found}}, "ratios": {}, "systems": {}})
    assert line.startswith(f"The model is worse than the forecast {way}: ")
    assert "days ahead" in line


def test_members_in_kelvin_change_nothing_and_a_coarser_grid_little(tables: xr.Dataset) -> None:
    assert tables["rival"].values.tolist() == [*WAYS, "gap", "members", "coarse"]
    of_run = tables["rival_mse"].sel(system="model").dropna("lead", how="all")
    plain, same, near = (of_run.sel(rival=name).values for name in ("weekly_and_late", "members", "coarse"))
    np.testing.assert_allclose(same, plain, rtol=1e-2, atol=1e-5)
    assert 1 < np.nanmean(near) / np.nanmean(plain) < 2


def test_dates_without_a_new_issue_are_left_out_and_folds_joined(tables: xr.Dataset) -> None:
    counts = tables["rival_dates_left_out"].sel(system="model")
    assert counts.sel(rival="gap") == 3  # of every third date; an issue of the day before will do
    found = Rivals.section(join_folds([tables.chunk()]), "ridge")["rivals"]["gap"]
    assert list(found) == ["model"]
    assert (found["model"]["dates"], found["model"]["left_out"]) == (32, 3)
    assert found["model"]["leads"] == list(range(1, HORIZON))

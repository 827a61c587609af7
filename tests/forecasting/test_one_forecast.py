"""A run and an initial date give one forecast, whatever function or option asks for it, without any later day."""

import contextlib
import datetime as dt
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
import torch
import xarray as xr
from logged import logged
from refusals import refused
from scored_runs import configure, make_run
from small_ocean import make_sst

import sstcast
from sstcast.config import FieldSource
from sstcast.errors import SSTCastError
from sstcast.extremes.records import Question, events_of_record
from sstcast.forecasting import loaded_run
from sstcast.forecasting.forecast import forecast
from sstcast.forecasting.loaded_run import LoadedRun
from sstcast.forecasting.spread import spread_file
from sstcast.forecasting.stores import splits_to_forecast
from sstcast.forecasting.system import system_of
from sstcast.forecasting.transfer import data_of
from sstcast.ocean.init_config import start
from sstcast.ocean.prepare import prepare
from sstcast.ocean.prepared import Prepared
from sstcast.reports.page import write_forecast_page
from sstcast.runs import Run
from sstcast.storage.artefacts import remove
from sstcast.training.data_record import is_own, is_own_ocean
from sstcast.training.train import train, training_windows

YEARS = 7
DATES = ("2004-06-30", "2005-06-30", "2006-11-30")  # before the test year, in it, and after it: a year goes on
SPLITS = {"train": [2001, 2003], "validation": [2004, 2004], "test": [2005, 2005]}
OWN_BOX = "170,173,-12,-10"
FIELDS = ("sst", "sst_anomaly", "sst_spread", "sst_quantile", "heatwave_threshold", "tercile_probability")


def ocean() -> xr.Dataset:
    """The small ocean, which warms, so that a climatology tells its years."""
    sst = make_sst(YEARS)
    sst["sst"] += 1e-3 * xr.DataArray(np.arange(sst.sizes["time"]), dims="time")
    sst["sst"].attrs["units"] = "Celsius"
    return sst


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of an ocean and a run on it, with its forecasts of three dates and their stores."""
    folder = tmp_path_factory.mktemp("made")
    ocean().to_netcdf(folder / "small.nc", engine="netcdf4")
    config = configure(Path(), "small.nc", model={"name": "multiscale-ridge"}, splits=SPLITS)
    with contextlib.chdir(folder):
        prepare(config.data)
        run, _ = train(config, training_windows(config))
        for date in DATES:
            forecast(run.folder, date)
    return folder


@pytest.fixture(scope="module")
def plain(made: Path) -> dict[str, xr.Dataset]:
    folder = made / "runs/small"
    return {date: xr.load_dataset(folder / f"forecast-{date}.nc", engine="netcdf4") for date in DATES}


@pytest.fixture
def run(made: Path, as_made: Callable[[Path], Run]) -> Run:
    """The run with those forecasts, in its own folder."""
    return as_made(made)


@pytest.fixture
def copy(plain: dict[str, xr.Dataset], run: Run) -> Run:
    """The run with the stores of its forecasts, and without the forecasts."""
    for date in plain:
        remove(run.folder / f"forecast-{date}.nc")
    return run


def same(one: xr.Dataset, other: xr.Dataset) -> None:
    for name in FIELDS:
        np.testing.assert_array_equal(one[name].values, other[name].values, name)


def past(date: str) -> xr.DataArray:
    return ocean()["sst"].sel(time=slice(None, date))


def test_all_ways_give_the_same_bits(run: Run, plain: dict[str, xr.Dataset], tmp_path: Path) -> None:
    (tmp_path / "link.nc").symlink_to(Path(run.config.data.source).absolute())
    loaded = sstcast.load(run)
    options = [{"source": os.path.relpath(tmp_path / "link.nc")}, {"region": OWN_BOX}]
    with patch.object(loaded_run, "stores_for", side_effect=loaded_run.stores_for) as asked:
        for date in DATES:
            same(loaded.forecast(past(date)), plain[date])
        same(loaded.forecast(past(DATES[-1])), plain[DATES[-1]])
    assert asked.call_count == len(DATES)  # a year of histories asks once
    for option, date in zip(options, DATES[1:], strict=True):
        path, new = forecast(run.folder, date, where=FieldSource(**option))
        assert (path.name, new) == (f"forecast-{date}.nc", False)  # and equal recipes give equal forecasts
        same(sstcast.load(run, **option).forecast(past(DATES[-1])), plain[DATES[-1]])
    # A history later than the source reads what the source has.
    later = ocean()["sst"]
    later = later.assign_coords(time=later["time"] + np.timedelta64(2922, "D"))  # eight years, with two leap days
    made = loaded.forecast(later.sel(time=slice(None, "2012-06-30")))
    assert made.attrs["heatwave_years"] == "2001..2006"
    assert made["sst"].notnull().any()


def test_a_planted_link_is_not_followed(copy: Run, tmp_path: Path) -> None:
    """At a default name of a forecast, a page, events and a configuration, which end where they should."""
    thesis = tmp_path / "elsewhere/thesis"
    thesis.parent.mkdir()
    file = copy.folder / f"forecast-{DATES[-1]}.nc"
    for default in (file, file.with_suffix(".html"), Path("small-heatwaves.nc")):
        default.symlink_to(thesis)
    assert forecast(copy.folder, DATES[-1]) == (file, True)
    write_forecast_page(file)
    events_of_record(FieldSource(source=copy.config.data.source), Question())
    Path("small.yaml").symlink_to(thesis)
    with refused("small.yaml: exists already"):
        start(FieldSource(source=copy.config.data.source))
    assert not [*thesis.parent.iterdir()]


def test_an_object_gives_the_bits_of_its_file(run: Run, plain: dict[str, xr.Dataset], tmp_path: Path) -> None:
    held = sstcast.train(
        run.config.model_copy(update={"name": "held", "runs": tmp_path}), source=ocean().chunk(time=300)
    )
    same(sstcast.forecast(held, DATES[-1]).value, plain[DATES[-1]])
    same(sstcast.load(held, source=ocean()).forecast(past(DATES[-1])), plain[DATES[-1]])


def test_no_later_day_changes_a_bit_and_a_forecast_of_other_days_is_not_replaced(
    copy: Run, plain: dict[str, xr.Dataset], tmp_path: Path
) -> None:
    """The same from a record that ends on the initial date, and from another source that goes on."""
    date = DATES[-1]
    first, second = (FieldSource(source=tmp_path / folder / "x.nc") for folder in "ab")
    for where in (first, second):
        Path(where.source).parent.mkdir()
    shutil.copy(copy.config.data.source, first.source)
    past(date).to_dataset(name="sst").to_netcdf(copy.config.data.source, engine="netcdf4")
    shutil.copy(copy.config.data.source, second.source)
    same(xr.load_dataset(forecast(copy.folder)[0]), plain[date])
    made, _ = forecast(copy.folder, date, where=first)  # its record begins like the run's training
    same(xr.load_dataset(made), plain[date])
    before = made.read_bytes()
    with (
        patch.object(LoadedRun, "turn_to", side_effect=AssertionError("computed")),
        pytest.raises(SSTCastError, match=rf"x-{date}.nc: holds .*, source \S+a/x.nc; name another .* --out"),
    ):
        forecast(copy.folder, date, where=second)
    assert made.read_bytes() == before
    assert forecast(copy.folder, date, where=first, samples=0) == (made, True)
    assert forecast(copy.folder, date, tmp_path / "own.nc", where=second)[1]


def test_an_option_says_otherwise_for_the_own_file(run: Run, tmp_path: Path) -> None:
    both = ocean().sel(time=slice("2006-06-30"))
    both["other"] = (both["sst"] + 3).assign_attrs(units="degC")
    both.to_netcdf(tmp_path / "two.nc", engine="netcdf4")
    splits = {"train": [2001, 2004], "validation": [2005, 2005], "test": ["2006-01-01", "2006-06-30"]}
    config = configure(
        tmp_path, tmp_path / "two.nc", model={"name": "multiscale-ridge"}, splits=splits, variable="other"
    )
    prepare(config.data)
    two = train(config, training_windows(config))[0]
    date = "2006-06-30"
    (tmp_path / "link.nc").symlink_to(tmp_path / "two.nc")
    own, linked, other = (
        xr.load_dataset(forecast(two.folder, date, where=FieldSource(**options))[0])["sst"]
        for options in ({}, {"source": tmp_path / "link.nc"}, {"source": tmp_path / "two.nc", "variable": "sst"})
    )
    np.testing.assert_array_equal(own, linked)
    assert abs(float((own - other).mean()) - 3) < 0.1
    named = data_of(two, FieldSource(source=tmp_path / "link.nc", region="170,171.5,-12,-10"))
    assert (named.variable, named.source) == ("other", str(tmp_path / "two.nc"))


@pytest.mark.parametrize("reason", ["gone", "read-only"])
def test_without_a_source_the_stores_of_the_training_serve_and_it_is_told(
    copy: Run, plain: dict[str, xr.Dataset], reason: str
) -> None:
    loaded, trained = sstcast.load(copy), plain["2004-06-30"]
    history = past("2007-06-30")  # of a year whose stores are not there
    with logged() as lines:
        if reason == "gone":
            Path(copy.config.data.source).unlink()
            made = loaded.forecast(history)
        else:
            with patch("os.access", return_value=False):
                made = loaded.forecast(history)
    (line,) = [line for line in lines if reason in line]
    assert "those of its training, of 2001-01-01..2003-12-31" in line
    assert reason in made.attrs["comment"]
    assert made.attrs["heatwave_years"] == trained.attrs["heatwave_years"] == "2001..2003"
    assert reason not in trained.attrs["comment"]


def test_the_stores_of_another_year_tell_the_ocean_of_the_training(copy: Run) -> None:
    """Also if those of the training are gone: the days of the cube tell, and lost ones are refused."""
    forecast(copy.folder, DATES[-1])
    own = Prepared.of(copy.config.data)
    for store in (own.statistics, own.anomalies):
        shutil.rmtree(store)
    changed = ocean()
    changed["sst"].loc[{"time": "2002-03-04"}] += 1
    changed.to_netcdf(copy.config.data.source, engine="netcdf4")
    with pytest.raises(SSTCastError, match=rf"{copy.folder}: was trained on other data .*: cube"):
        forecast(copy.folder, DATES[-1])
    with pytest.raises(SSTCastError, match="was trained on other data"):
        sstcast.load(copy).forecast(past(DATES[-1]))


def turned() -> xr.Dataset:
    """Days of a grid that is turned by ten degrees and covers the small ocean."""
    y, x = np.meshgrid(np.linspace(-2.5, 2.5, 22), np.linspace(-3, 3, 26), indexing="ij")
    cos, sin = np.cos(np.radians(10)), np.sin(np.radians(10))
    places = {"lat": (("y", "x"), -11 + cos * y + sin * x), "lon": (("y", "x"), 171.5 + cos * x - sin * y)}
    sst = 20 + 0.1 * y + np.sin(np.arange(60))[:, None, None]
    time = np.arange("2001-01-01", "2001-03-02", dtype="M8[D]").astype("M8[ns]")
    return xr.Dataset({"sst": (("time", "y", "x"), sst, {"units": "degC"})}, {"time": time, **places})


def test_a_curvilinear_source_needs_no_stores(copy: Run, tmp_path: Path) -> None:
    turned().to_netcdf(tmp_path / "turned.nc", engine="netcdf4")
    days = FieldSource(source=tmp_path / "turned.nc")
    shutil.rmtree(copy.config.data.directory)
    assert data_of(copy, days).grid == 0.25
    there = turned()  # far away: all of it, in whole cells
    there["lon"] += 20.1
    there.to_netcdf(tmp_path / "far.nc", engine="netcdf4")
    far = data_of(copy, FieldSource(source=tmp_path / "far.nc"))
    box = far.box.bounds
    assert bool(box.contains(there["lat"], there["lon"]).all())
    assert box.width < float(there["lon"].max() - there["lon"].min()) + 1
    rows, columns = far.box.tile
    assert (box.width / 0.25 % columns, (box.north - box.south) / 0.25 % rows) == (0, 0)
    Path(copy.config.data.source).unlink()
    with pytest.raises(SSTCastError, match=r"turned.nc: its cells are not on axes .* put that source back"):
        data_of(copy, days)


def test_dates_and_places_are_the_run_s_own_in_any_words(run: Run) -> None:
    own = run.config.data
    for given in ({"region": OWN_BOX}, {"source": own.source, "units": own.units or "degC"}, {"gaps": 0}):
        if given.keys() != {"gaps"} and "units" not in given:
            assert data_of(run, FieldSource(**given)) == own
    assert data_of(run, FieldSource(source=own.source, gaps=0)) == own
    with pytest.raises(SSTCastError, match="--gaps: applies to another source; name it with --source"):
        data_of(run, FieldSource(gaps=0))
    assert dt.date(2004, 1, 1) == own.splits.validation[0]


def test_a_part_in_another_folder_is_the_run_itself(run: Run, tmp_path: Path) -> None:
    """A combination forecasts from the stores of its first part. The base of the second is not fitted to them."""
    (tmp_path / "link.nc").symlink_to(Path(run.config.data.source).absolute())
    model = {"name": "mpnn", "width": 4, "layers": 1, "base": {"name": "linear", "memory": False}}
    first, second = (
        make_run(configure(tmp_path, source, name, model, splits=SPLITS, directory=tmp_path / name))
        for name, source in (("a", run.config.data.source), ("b", tmp_path / "link.nc"))
    )
    there = Prepared.of(first.config.data)
    with patch("sstcast.forecasting.system.fitted", side_effect=AssertionError("fitted")):
        own, part = (system_of(second, stores).models[0].state_dict() for stores in (None, there))
    assert all(torch.equal(weights, part[name]) for name, weights in own.items())
    assert spread_file(second, there)[0] == second.folder / "spread.nc"
    changed = there.data.model_copy(
        update={"splits": splits_to_forecast(first, there.data, dt.date(2006, 11, 30))}
    )
    assert not is_own(second, prepare(changed))
    assert is_own_ocean(second, Prepared.of(changed))

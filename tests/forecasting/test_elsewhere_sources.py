"""Forecasts of an ocean that a run was not trained on: its tiles, its years, a base fitted there."""

import datetime as dt
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
import xarray as xr
from scored_runs import configure, make_run
from small_ocean import make_sst

import sstcast
from sstcast.config import FieldSource, Splits
from sstcast.errors import SSTCastError
from sstcast.forecasting.forecast import forecast
from sstcast.forecasting.stores import stores_for
from sstcast.forecasting.system import BLOCKS, system_of
from sstcast.forecasting.transfer import data_of, splits_to_score
from sstcast.models.base import ForecastModel
from sstcast.models.linear import MultiscaleRidge
from sstcast.ocean.prepare import prepare
from sstcast.ocean.prepared import Prepared
from sstcast.ocean.windows import Windows, cut_windows
from sstcast.runs import Run, run_folder
from sstcast.training.cross_fitting import blocks_of_years, supported_share
from sstcast.training.forecast_task import fit

LAST = dt.date(2016, 2, 29)  # of the seven years


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, sst_file: Path) -> Run:
    model = {"name": "mpnn", "width": 4, "layers": 1, "base": "linear"}
    return make_run(configure(tmp_path_factory.mktemp("here"), sst_file, model=model))


@pytest.fixture(scope="module")
def years(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Seven years of another ocean, of 14 x 9 cells where the run's tiles have 8 x 6."""
    sst = make_sst(rows=14, cols=9, seed=5)["sst"]
    days = np.arange("2009-01-01", "2016-03-01", dtype="datetime64[D]")
    take = np.arange(len(days)) % sst.sizes["time"]
    there = sst.isel(time=take).assign_coords(time=days.astype("datetime64[ns]"))
    path = tmp_path_factory.mktemp("there") / "seven years.nc"
    there.to_dataset(name="sst").to_netcdf(path, engine="netcdf4")
    return path


def test_the_whole_record_and_all_of_its_cells(run: Run, years: Path) -> None:
    data = stores_for(run, FieldSource(source=years), LAST).data
    rows, cols = data.box.tile
    assert (14 % rows, 9 % cols) == (0, 0)
    spans = {name: tuple(map(str, span)) for name, span in data.splits.given.items()}
    assert spans["base_period"] == ("2009-01-01", "2015-12-31")
    assert spans["validation"] == ("2015-01-01", "2015-12-31")
    assert spans["test"] == ("2016-01-01", "2016-02-29")
    splits = splits_to_score(run, data_of(run, FieldSource(source=years)))  # the last years of the record
    assert str(splits.train[0]) == "2009-01-01"
    assert splits.test[1].year == 2016


def test_a_short_record_is_refused(run: Run, years: Path, tmp_path: Path) -> None:
    short = tmp_path / "short.nc"
    xr.load_dataset(years).sel(time=slice("2012", None)).to_netcdf(short, engine="netcdf4")
    with pytest.raises(
        SSTCastError, match=r"short.nc: has 2012.*, but a climatology needs 5 years before 2016-01-01"
    ):
        forecast(run.folder, where=FieldSource(source=short))
    assert not list(run.folder.glob("*.nc"))


def test_a_forecast_from_a_past_day_is_of_the_days_up_to_it(run: Run, years: Path, tmp_path: Path) -> None:
    known = tmp_path / "known.nc"
    xr.load_dataset(years).sel(time=slice(None, "2015-06-30")).to_netcdf(known, engine="netcdf4")
    past, now = (
        xr.load_dataset(
            forecast(run.folder, date, out=tmp_path / f"{date}.nc", where=FieldSource(source=source))[0]
        )
        for date, source in (("2015-06-30", years), ("latest", known))
    )
    for name in ("sst", "sst_anomaly", "sst_spread", "heatwave_probability"):
        xr.testing.assert_equal(past[name].variable, now[name].variable)


@pytest.mark.slow
def test_a_source_is_read_as_the_options_say(run: Run, years: Path, tmp_path: Path) -> None:
    """Errors name the options, and with these the forecast is that of the same days as plain degC."""
    plain = xr.load_dataset(years)["sst"]
    held = plain.isel(time=[*range(len(plain) - 100), *range(len(plain) - 98, len(plain))])
    odd = tmp_path / "odd.nc"
    xr.Dataset({"a": (held + 273.15).drop_attrs(), "b": held}).to_netcdf(odd, engine="netcdf4")
    for options, words in (
        ({}, r"odd.nc: which variable.*--variable"),
        ({"variable": "a"}, r"odd.nc: 2 missing day.*--gaps"),
    ):
        with pytest.raises(SSTCastError, match=words) as error:
            forecast(run.folder, where=FieldSource(source=odd, **options))
        assert "data." not in str(error.value)
    file, _ = forecast(run.folder, where=FieldSource(source=odd, variable="a", units="K", gaps=2))
    filled = tmp_path / "filled.nc"
    held.resample(time="D").interpolate("linear").to_dataset(name="sst").to_netcdf(filled, engine="netcdf4")
    ours, theirs = xr.load_dataset(file)["sst"], sstcast.forecast(run, source=filled).value["sst"]
    np.testing.assert_allclose(ours, theirs, atol=1e-3)
    with pytest.raises(SSTCastError, match="--gaps: applies to another source; name it with --source"):
        sstcast.load(run, gaps=2)


@pytest.mark.parametrize(("rows", "cols"), [(6, 7), (5, 9)])
def test_the_smallest_ocean(run: Run, years: Path, tmp_path: Path, rows: int, cols: int) -> None:
    small = tmp_path / "small.nc"
    xr.load_dataset(years).isel(lat=slice(-rows, None), lon=slice(cols)).to_netcdf(small, engine="netcdf4")
    if rows < 6:
        with pytest.raises(SSTCastError, match=r"small.nc: 5 x 9 cells are too few .* at least 6 on each side$"):
            data_of(run, FieldSource(source=small))
    else:
        assert data_of(run, FieldSource(source=small)).box.tile == (rows, cols)


@pytest.mark.slow
def test_a_linear_base_is_fitted_to_the_other_ocean(run: Run, years: Path) -> None:
    file, new = forecast(run.folder, where=FieldSource(source=years))
    assert new
    assert forecast(run.folder, where=FieldSource(source=years)) == (file, False)
    data = stores_for(run, FieldSource(source=years), LAST).data
    windows = cut_windows(Prepared.of(data).open()[1], data, "train")
    base = MultiscaleRidge(history=data.history, horizon=data.horizon)
    fit(base, windows, cut_windows(Prepared.of(data).open()[1], data, "validation"))
    there, here = (system_of(run, each).models[0] for each in (Prepared.of(data), None))
    assert isinstance(there.linear, MultiscaleRidge)
    assert isinstance(here.linear, MultiscaleRidge)
    for name, weights in base.state_dict().items():
        torch.testing.assert_close(there.linear.state_dict()[name], weights)
    assert not torch.equal(there.linear.weight, here.linear.weight)

    def parts() -> Iterator[tuple[ForecastModel, Windows]]:
        """Yield the network with its base fitted to all but a block of years, and that block."""
        for others, block in blocks_of_years(windows, BLOCKS):
            without = system_of(run).models[0]
            fit(without.linear, others, None)
            yield without, block

    torch.testing.assert_close(there.share, supported_share(parts(), windows.horizon))
    opened = xr.open_dataset(file, engine="netcdf4")
    loaded = sstcast.load(run, source=years).forecast(xr.load_dataset(years)["sst"])
    xr.testing.assert_allclose(opened["sst"], loaded["sst"], atol=1e-3)
    assert "trained on" in opened.attrs["source"]
    assert "its linear base fitted to" in opened.attrs["source"]
    assert "2009-01-01..2015-12-31" in opened.attrs["source"]
    assert opened["sst"].notnull().any()
    few = {"train": ("2009-01-01", "2010-12-31"), "validation": ("2012-01-01", "2012-12-31")}
    for last, supported in (("2010-12-31", True), ("2009-12-31", False)):
        spans = few | {"train": ("2009-01-01", last), "test": ("2013-01-01", "2013-12-31")}
        short = data.model_copy(update={"splits": Splits.model_validate(spans)})
        prepare(short)
        (network,) = system_of(run, Prepared.of(short)).models
        assert bool(network.share.any()) is supported  # from two blocks of years, or none


def test_pretrained_names_the_run_that_ships(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, years: Path) -> None:
    monkeypatch.chdir(tmp_path)
    run = Run.open(Path("pretrained"))
    assert run.folder == Path("runs/pretrained")
    loaded = sstcast.load("pretrained", source=years, region="170,172.25,-13.5,-10")
    assert loaded.data.box.tile == (14, 9)
    run.best.write_bytes(b"other weights")
    with pytest.raises(SSTCastError, match="runs/pretrained: is not the run that ships"):
        Run.open(Path("pretrained"))
    assert run_folder(Path("runs/other")) == Path("runs/other")

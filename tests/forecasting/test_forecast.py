"""The verb forecast on the small ocean: its numbers, its file, and what it refuses."""

import datetime as dt
import shutil
from pathlib import Path

import numpy as np
import pytest
import scipy.stats
import scored_runs
import xarray as xr
from logged import logged
from refusals import refused
from scored_runs import configure
from small_ocean import make_sst
from untrained import make_run, replace_weights

import sstcast
from sstcast.config import FieldSource, load_config
from sstcast.errors import SSTCastError
from sstcast.extremes.heatwaves import short_base_period
from sstcast.forecasting import loaded_run, spread
from sstcast.forecasting.forecast import forecast
from sstcast.forecasting.loaded_run import Extras
from sstcast.forecasting.spread import calibrated
from sstcast.ocean.prepare import prepare
from sstcast.ocean.prepared import Prepared
from sstcast.reports.page import write_forecast_page
from sstcast.runs import Run
from sstcast.storage.yaml_files import save_config

WEST_TILE = "170,171.5,-12,-10"
SHORT = "data.splits.validation=[2003-01-01, 2003-03-31]"


def prepared_run(run_yaml: Path, overrides: tuple[str, ...]) -> Run:
    config = load_config(run_yaml, list(overrides))
    prepare(config.data)
    return make_run(config)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, stores: Path, sst_file: Path) -> Run:
    """A run and the spread of its forecasts, to be copied."""
    run = scored_runs.make_run(configure(tmp_path_factory.mktemp("runs"), sst_file, horizon=5, directory=stores))
    calibrated(run)
    return run


@pytest.fixture
def run(made: Run, tmp_path: Path) -> Run:
    return Run(Path(shutil.copytree(made.folder, tmp_path / "copy")))


@pytest.fixture(scope="module")
def ensemble(tmp_path_factory: pytest.TempPathFactory, stores: Path, sst_file: Path) -> Run:
    """An ensemble of two seeds. Tests write forecasts to it, of other days."""
    model = {"name": "mpnn-vn", "width": 16, "layers": 2}
    config = configure(tmp_path_factory.mktemp("ensemble"), sst_file, model=model, horizon=5, directory=stores)
    prepare(config.data)
    return make_run(config, (3, 4))


def read(run: Run, *options: object, **other: object) -> xr.Dataset:
    path, _ = forecast(run.folder, *options, **other)
    return xr.load_dataset(path, engine="netcdf4")


def test_anomaly_members_and_past_by_hand(ensemble: Run) -> None:
    options = ("2004-02-27", None, True)  # the days ahead cross 29 February
    got = read(ensemble, *options)
    alone = read(ensemble.members[1], "2004-02-27")
    np.testing.assert_allclose(got["sst_member"].sel(member=1), alone["sst"], atol=1e-5)
    np.testing.assert_allclose(got["sst"], got["sst_member"].mean("member"), atol=1e-4)
    assert got["sst_member"].dims == ("member", "init_time", "lead", "lat", "lon")
    days = make_sst()["sst"].sel(time=slice("2003-12-06", "2004-02-27"))
    np.testing.assert_allclose(got["sst_past"][0], days, atol=1e-4)
    assert got["past"].values.tolist() == list(range(-83, 1))
    with pytest.raises(SSTCastError, match="seed-3: is not an ensemble; leave out the members"):
        read(ensemble.members[0], *options)
    statistics = xr.open_zarr(Prepared.of(ensemble.config.data).statistics, chunks=None)
    climatology = statistics["climatology"].sel(dayofyear=got["valid_time"].dt.dayofyear[0].values)
    departure = (got["sst"] - got["sst_anomaly"]).values[0]
    ocean = ~np.isnan(departure)
    np.testing.assert_allclose(departure[ocean], climatology.values[ocean], atol=1e-4)
    past = statistics["climatology"].sel(dayofyear=[340, 58]).values[:, 5, 5]
    np.testing.assert_allclose(got["climatology_past"][0, [0, -1], 5, 5], past, atol=1e-4)


def test_the_past_is_what_the_history_has(run: Run) -> None:
    days, loaded = make_sst()["sst"], sstcast.load(run.folder)
    whole = loaded.forecast(days)
    for history, count in (
        (days[-20:], 20),
        (days.drop_isel(time=-15), 14),  # a day is missing
        (days.where((days["time"] != days["time"][-13]) | (days["lat"] > -11)), 12),  # cells are missing
    ):
        found = loaded.forecast(history)
        assert found["past"].values.tolist() == list(range(1 - count, 1))
        np.testing.assert_array_equal(found["sst"], whole["sst"])
        np.testing.assert_array_equal(found["sst_past"], whole["sst_past"][:, -count:])
    assert whole.sizes["past"] == 84


def test_quantiles_are_gaussian_land_is_nan_and_a_short_base_period_is_stated(run: Run, tmp_path: Path) -> None:
    with logged() as lines:
        path, _ = forecast(run.folder, "2004-03-10", tmp_path / "a.nc")
    got = xr.load_dataset(path, engine="netcdf4")
    quantiles = got["sst_quantile"]
    assert quantiles.dims == ("init_time", "lead", "quantile", "lat", "lon")
    ocean = got["sst"].notnull().values
    assert (quantiles.diff("quantile") > 0).all("quantile").values[ocean].all()
    expected = scipy.stats.norm(got["sst"], got["sst_spread"])
    for level in quantiles["quantile"].values:
        np.testing.assert_allclose(quantiles.sel(quantile=level), expected.ppf(level), atol=1e-4)
    land = make_sst()["sst"][0].isnull().values  # two rows and three columns of one tile
    assert 0 < land.sum() < land.size
    gaps = ["heatwave_start", "heatwave_end", "heatwave_area", "heatwave_area_now"]
    gaps += ["heatwave_area_quantile", "heatwave_area_now_quantile", "freezing_point"]
    for name, field in got.drop_vars(gaps).items():
        np.testing.assert_array_equal(field.isnull(), np.broadcast_to(land, field.shape), err_msg=str(name))
    told = "only 2 years, 2001-01-01..2002-12-31"
    assert f"{path}: the thresholds of heatwaves are from a base period of {told}" in lines
    assert got.attrs["heatwave_base_period"] == told
    assert short_base_period(dt.date(1991, 1, 1), dt.date(2010, 12, 31)) == ""
    assert short_base_period(dt.date(1991, 1, 1), dt.date(2010, 6, 30)).startswith("19 years, ")
    page = write_forecast_page(path)[0].read_text()
    assert "Probability of a marine heatwave, base period of only 2 years" in page


def test_tiles_are_where_their_cells_are(run_yaml: Path) -> None:
    """For a model that sees one cell at a time tiles make no difference, and a change stays in its cell."""
    pointwise = ("model={name: mlp-pointwise, width: 16, layers: 2}", SHORT)
    stitched = prepared_run(run_yaml, pointwise)
    whole = prepared_run(run_yaml, (*pointwise, "name=whole", "data.region.tile=[8, 12]"))
    history, loaded = make_sst()["sst"][-20:], sstcast.load(stitched.folder)
    one, other = loaded.forecast(history), sstcast.load(whole.folder).forecast(history)
    xr.testing.assert_allclose(one[["sst"]].drop_attrs(), other[["sst"]].drop_attrs(), atol=1e-5)
    history[-3, 6, 8] += 1
    changed = abs(loaded.forecast(history)["sst"] - one["sst"]).max(("init_time", "lead"))
    assert np.argwhere(changed.values > 1e-6).tolist() == [[6, 8]]


def test_both_formats_hold_what_python_returns(ensemble: Run, tmp_path: Path) -> None:
    run = ensemble
    got = sstcast.load(run.folder).forecast(xr.open_dataset(run.config.data.source, engine="netcdf4")["sst"])
    for name in ("a.nc", "a.zarr"):
        path, new = forecast(run.folder, out=tmp_path / name)
        assert new
        assert path == tmp_path / name
        held = xr.load_dataset(path, engine="zarr" if name == "a.zarr" else "netcdf4")
        xr.testing.assert_allclose(held, got, rtol=0, atol=0)
        assert held["lead"].values.tolist() == [1, 2, 3, 4, 5]
        for variable in got.variables:
            for key, value in got[variable].attrs.items():
                np.testing.assert_array_equal(held[variable].attrs[key], value)
        for key in got.attrs.keys() - {"date_created", "title", "history", "data", "forecast_recipe"}:
            assert held.attrs[key] == got.attrs[key]
        assert "small.nc" in held.attrs["data"]
        assert "2004-12-22..2004-12-31 (10 days)" in held.attrs["data"]
        assert sstcast.__version__ in held.attrs["code_version"]
        assert "mpnn-vn" in held.attrs["source"]
        assert held.attrs["institution"] == "not stated"


def test_nothing_to_do_until_something_changes(run: Run) -> None:
    path, new = forecast(run.folder)
    assert (path.name, new) == ("forecast-2004-12-31.nc", True)
    before = path.read_bytes()
    assert forecast(run.folder) == (path, False)
    assert path.read_bytes() == before
    replace_weights(run, make_run(run.config.model_copy(update={"name": "other"}), (7,)).best.read_bytes())
    assert forecast(run.folder) == (path, True)
    assert path.read_bytes() != before


def test_a_graph_model_forecasts_another_region(run_yaml: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Statistics of the paper's protocol are a cell's own: half of the region gives half of the forecast.

    From a base period of two years, that forecast is not plausible.
    """
    monkeypatch.setattr("sstcast.forecasting.loaded_run.check_forecast", lambda *_: None)
    run = prepared_run(run_yaml, ("data.protocol=paper", SHORT))
    west = read(run, "2004-03-03", where=FieldSource(region=WEST_TILE))
    assert (run.folder / "forecast-170,171.5,-12,-10-2004-03-03.nc".replace(",", "_")).exists()
    assert west.sizes["lon"] == 6
    whole = read(run, "2004-03-03")
    np.testing.assert_allclose(west["sst"], whole["sst"][..., :6], rtol=1e-5)
    assert west.attrs["region"] == WEST_TILE


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"date": "yesterday"}, ["--date yesterday", "YYYY-MM-DD"]),
        ({"date": "2001-01-09"}, ["small.nc", "2000-12-31..2001-01-09", "2001-01-01..2004-12-31"]),
        ({"date": "1871-01-01"}, ["small.nc", "2001-01-01..2004-12-31"]),
        ({"date": "2135-01-01"}, ["small.nc", "2134-12-23..2135-01-01"]),
        ({"out": Path("a.csv")}, ["--out a.csv", ".nc or .zarr"]),
        ({"where": FieldSource(region="atlantis")}, ["atlantis", "tasman"]),
        ({"where": FieldSource(region="1,2")}, ["--region 1,2", "W,E,S,N"]),
        ({"where": FieldSource(region="10,11.5,-12,-10")}, ["small.nc", "lat: [-12, -10]"]),
        ({"where": FieldSource(region="170,171,-12,-10")}, ["small.nc", "8 x 4 cells are too few", "at least 6"]),
    ],
)
def test_bad_options(run: Run, options: dict[str, object], words: list[str]) -> None:
    with refused(*words):
        forecast(run.folder, **options)
    assert not list(run.folder.glob("forecast*"))


def test_it_writes_over_nothing_but_forecasts(run: Run, tmp_path: Path) -> None:
    for out in (Path(run.config.data.source), tmp_path / "prepared/small-box.zarr", tmp_path / "empty.nc"):
        if out.suffix == ".zarr":
            xr.Dataset({"precious": ("x", [1])}).to_zarr(out, zarr_format=2)
        elif not out.exists():
            out.touch()
        with pytest.raises(SSTCastError, match="exists and is not a forecast"):
            forecast(run.folder, out=out)
        assert out.exists()


def test_a_run_or_its_source_is_not_there(run: Run, run_yaml: Path, tmp_path: Path) -> None:
    with pytest.raises(SSTCastError, match="nowhere: not a run"):
        forecast(tmp_path / "nowhere")
    moved = make_run(load_config(run_yaml, ["name=moved", f"data.source={tmp_path / 'gone.nc'}"]))
    with pytest.raises(SSTCastError, match=r"gone\.nc: no such file"):
        forecast(moved.folder)
    run.best.unlink()
    with pytest.raises(SSTCastError, match=r"best\.pt: no checkpoint"):
        forecast(run.folder)


def test_a_name_is_not_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs/mine").mkdir(parents=True)
    (tmp_path / "runs/mine/config.yaml").touch()
    with pytest.raises(SSTCastError, match=r"^mine: not a run \(no config.yaml\); did you mean runs/mine\?$"):
        Run.open(Path("mine"))
    with pytest.raises(SSTCastError, match=r"^other: not a run \(no config.yaml\); name a folder"):
        Run.open(Path("other"))


def test_the_recipe_of_a_forecast_tells_what_it_depends_on(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded, history = loaded_run.LoadedRun(run.folder), make_sst()["sst"][-100:]
    recipe = loaded.recipe(history, Extras())
    for extras in (Extras(members=True), Extras(samples=9), Extras(above=(28.0,))):
        assert loaded.recipe(history, extras) != recipe, extras
    for other in (history + 1, history.assign_coords(preliminary=("time", np.full(100, True)))):
        assert loaded.recipe(other, Extras()) != recipe
    names = [(loaded_run, name) for name in ("__version__", "CONVENTIONS", "FILE_LAYOUT", "LAYOUT")]
    names.append((loaded_run, "TERCILES_LAYOUT"))
    for module, name in (*names, (spread, "LAYOUT")):
        with monkeypatch.context() as patch:
            patch.setattr(module, name, 0)
            assert loaded.recipe(history, Extras()) != recipe, (module, name)
    learnt = run.config.training.model_copy(update={"include_validation": True, "epochs": 1})
    save_config(run.config.model_copy(update={"training": learnt}), run.config_file)
    before = loaded_run.LoadedRun(run.folder).recipe(history, Extras())
    run.best.write_bytes(b"others, of which the spread of its linear base does not tell")
    assert loaded_run.LoadedRun(run.folder).recipe(history, Extras()) != before

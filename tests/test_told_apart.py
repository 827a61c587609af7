"""Stores, recipes and tables that once were taken for one another: each holds all that it depends on."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from scored_runs import configure, make_run
from small_hindcast import system
from small_ocean import make_sst

import sstcast
from sstcast.config import DataConfig, PredictorConfig, Region
from sstcast.errors import SSTCastError
from sstcast.forecasting.fields import training_of
from sstcast.forecasting.fitted import LinearFit
from sstcast.forecasting.history import RegionStatistics
from sstcast.forecasting.place_periods import table_beside
from sstcast.hindcasts.plan import Hindcast, Plan, Protocol
from sstcast.models import LINEAR
from sstcast.ocean.prepare import prepare
from sstcast.ocean.prepared import Prepared
from sstcast.reading.daily_field import source_of_days
from sstcast.reading.reading import folder_of, open_region
from sstcast.runs import Run
from sstcast.storage.yaml_files import apply_overrides, parse_yaml

REGION = {"lon": [170, 172], "lat": [-12, -10], "tile": [4, 4]}


def of_small(folder: Path, name: str, **data: object) -> DataConfig:
    """Return the data of a configuration on the file `sea.nc` in a folder, with stores called `name` beside it."""
    return configure(folder, folder / "sea.nc", **{"region": REGION, "directory": folder / name, **data}).data


def test_days_corrected_within_a_block_change_the_statistics_of_cells(tmp_path: Path) -> None:
    """Under `paper`, statistics and anomalies are of the source's cells, whose means may stay the same."""
    sst = make_sst()
    sst.to_netcdf(tmp_path / "sea.nc")
    region = REGION | {"coarsen": 2, "tile": [4, 4]}
    before = prepare(data := of_small(tmp_path, "prepared", protocol="paper", region=region))
    record = before.record()
    sst["sst"].loc[{"time": "2002"}] += 0.5 * np.resize([1, -1], 12)[None, None]
    sst.to_netcdf(tmp_path / "sea.nc")
    after, fresh = (prepare(one) for one in (data, data.model_copy(update={"directory": tmp_path / "fresh"})))
    xr.testing.assert_equal(after.open_statistics().load(), fresh.open_statistics().load())
    xr.testing.assert_equal(after.open_anomalies().load(), fresh.open_anomalies().load())
    assert after.record() == fresh.record()
    assert after.record().anomalies != record.anomalies


def test_the_name_of_a_region_does_not_tell_its_box(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_sst().to_netcdf(tmp_path / "sea.nc")
    regions = {"bay": Region(**REGION)}
    monkeypatch.setattr("sstcast.config.load_region", regions.__getitem__)
    data = of_small(tmp_path, "prepared", region="bay")
    assert prepare(data).is_current
    regions["bay"] = Region(**REGION | {"lon": [170.5, 172.5]})
    assert not Prepared.of(data).is_current
    with pytest.raises(SSTCastError, match=r"cube.zarr: was made with another data.region; run `sstcast prepare`"):
        Prepared.of(data).open()
    assert prepare(data).open_cube()["lon"][0] == 170.625


def test_folders_keep_their_names_but_for_the_grid(tmp_path: Path) -> None:
    """The first two are names that folders had before the grid was told."""
    data = configure(Path("/nowhere"), "/nowhere/sea.nc", region=REGION).data
    sample = data.model_copy(update={"source": "sample", "region": "tasman"})
    assert [folder_of(one).name for one in (data, sample)] == ["sea-7ed7a3f1-boxc7739419", "sample-tasman"]
    names = {
        folder_of(one.model_copy(update={"grid": grid})).name for one in (data, sample) for grid in (None, 0.5, 1)
    }
    assert len(names) == 6


def test_a_shipped_predictor_is_read_wherever_it_lies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (shipped := tmp_path / "package" / "soi.csv").parent.mkdir()
    shipped.write_text("0.1")
    monkeypatch.setattr("sstcast.config.packaged", lambda text: tmp_path / "package" / text)
    source = source_of_days(PredictorConfig(kind="index", source="soi.csv"))
    state = source.state(), source.changes()
    assert (source.identity, source.exists()) == ("soi.csv", True)
    shipped.write_text("-3.3")
    assert source.state() != state[0]
    assert source.changes() != state[1]
    Path("soi.csv").write_text("1")  # a file of one's own comes first
    assert source_of_days(PredictorConfig(kind="index", source="soi.csv")).identity == str(tmp_path / "soi.csv")


def test_the_order_of_predictors_is_part_of_a_fit() -> None:
    fits = [LinearFit("local-ridge", dict(order), {}, 0) for order in ([("a", "index"), ("b", "grid")],) * 2]
    other = LinearFit("local-ridge", {"b": "grid", "a": "index"}, {}, 0)
    assert fits[0].file_name == fits[1].file_name != other.file_name


def test_a_hindcast_depends_on_what_was_combined(tmp_path: Path) -> None:
    systems = [system(name, "ridge") for name in ("a", "b", "c")]
    plan = Plan(Hindcast(tmp_path), Protocol(2007, 2008, 1, 1), systems, [])
    changes = ({"select": ("a", "b")}, {"select": ("a", "b", "c")}, {"fitted": "both"}, {"equal": "both"}, {})
    found = [str(Plan(**{**vars(plan), **change}).recipe) for change in changes]
    assert len({*found}) == len(changes)
    with pytest.raises(SSTCastError, match=r"b: its data.grid is 0.5, but a has None"):
        data = systems[1].data.model_copy(update={"grid": 0.5})
        Plan(plan.hindcast, plan.protocol, [systems[0], systems[1].model_copy(update={"data": data})], []).check()


def test_a_forecast_from_a_day_that_it_learnt_from_says_so(
    scored: Run, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The weights were selected on 2003: the days before its last one are not only of the past."""
    words = "learnt from days up to 2003-12-31, which include later ones; its errors will be smaller"
    loaded = sstcast.load(scored)
    early, late = (
        loaded.forecast(make_sst()["sst"].sel(time=slice(None, day))) for day in ("2002-06-30", "2003-12-31")
    )
    assert early.attrs["comment"].startswith(words)
    assert words in caplog.text
    assert "comment" not in late.attrs


def test_a_combination_tells_what_its_linear_parts_are_fitted_to(tmp_path: Path, sst_file: Path) -> None:
    assert "ridge" in LINEAR
    runs = [
        make_run(configure(tmp_path, sst_file, name, model))
        for name, model in (("net", None), ("linear", {"name": "ridge"}))
    ]
    both = sstcast.combine(runs, "both", equal=True)
    told = training_of(both, "sea")
    assert "2001-01-01..2002-12-31" in told.partition("; its linear parts fitted to ")[0]
    assert "2001-01-01..2003-12-31" in told.partition("; its linear parts fitted to ")[2]
    assert ";" not in training_of(runs[0], "sea")


def test_tables_of_others_are_not_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert table_beside(Path("f.nc")) != table_beside(Path("f.zarr"))
    monkeypatch.chdir(tmp_path)
    make_sst().to_netcdf("sea.nc")
    Path("other").mkdir()
    for name in ("sites.csv", "other/sites.csv"):
        Path(name).write_text("name,lat,lon\nbay,-10.5,172\n")
    made = sstcast.heatwaves("sea.nc", places="sites.csv")
    assert sstcast.heatwaves("sea.nc", places=tmp_path / "sites.csv").path == made.path
    with pytest.raises(SSTCastError, match=r"holds .*, places of sites.csv, .*; name another file with --out"):
        sstcast.heatwaves("sea.nc", places="other/sites.csv")


def test_an_object_that_is_given_anew_is_compared_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two arrays of one dask name have one token, which only says where their stores are."""
    monkeypatch.chdir(tmp_path)
    sst, config = make_sst()["sst"], configure(Path(), "sample", region=REGION, directory="prepared")
    import dask.array as da

    first, second = (
        sst.copy(data=da.from_array(sst.values + warmer, name="days", chunks=(400, -1, -1))) for warmer in (0, 1)
    )
    sstcast.prepare(config, source=first)
    name = next(Path("prepared").glob("[!.]*")) / "cube.zarr"
    before = name.stat().st_mtime_ns
    sstcast.prepare(config, source=first)
    assert name.stat().st_mtime_ns == before
    sstcast.prepare(config, source=second)
    assert len([*Path("prepared").iterdir()]) == 2  # with the lock
    cube = xr.open_zarr(name)["sst"].load()
    assert abs(float((cube - sst.sel(lat=cube.lat, lon=cube.lon)).mean()) - 1) < 1e-3


def test_few_observed_days_give_no_events(tmp_path: Path, sst_file: Path) -> None:
    run = make_run(configure(tmp_path, sst_file, history=6))
    days = make_sst()["sst"].sel(time=slice("2004-06-01", "2004-06-30"))
    few, enough = (sstcast.load(run).forecast(days[-count:], above=20) for count in (6, 7))
    missing = {str(name) for name in few if few[name].isnull().all() and enough[name].notnull().any()}
    events = {
        f"{kind}_{of}"
        for kind in ("heatwave", "cold_spell")
        for of in ("probability", "category", "event_probability")
    }
    assert events | {"heatwave_area", "heatwave_area_now", "heatwave_running_probability"} <= missing
    assert not {name for name in missing if "threshold" in name or "exceedance" in name or "above" in name}
    np.testing.assert_array_equal(few["sst"], enough["sst"])
    assert "above_probability" in sstcast.load(run).forecast(days, above=np.float32(0))


def test_an_override_that_drops_another_is_refused() -> None:
    apply_overrides(raw := {}, ["training={epochs: 3}", "training.seed=7"])
    assert raw == {"training": {"epochs": 3, "seed": 7}}
    with pytest.raises(SSTCastError, match=r"--set training={epochs: 3}: would drop --set training.seed=7"):
        apply_overrides({}, ["training.seed=7", "training={epochs: 3}"])


def test_numbers_are_what_they_look_like() -> None:
    for text, value in {"0": 0, "-0": 0, "-7": -7, "+7": 7, "1.5": 1.5, "1.0e-3": 0.001, "'010'": "010"}.items():
        assert parse_yaml(text, "x") == value
    for text in ("010", "0x1F", "1_000", "12:30", "0b1", "1_000.5", "1:30.5"):
        with pytest.raises(SSTCastError, match=r"is no plain number: write only its digits, or put it in quotes"):
            parse_yaml(text, "x")


@pytest.mark.parametrize("coarsen", [1, 2])
def test_the_share_of_sea_is_that_of_the_cells_of_the_source(tmp_path: Path, coarsen: int) -> None:
    """A grid of half a degree is the same as blocks of two cells, whose land enters neither mean nor share."""
    sst = make_sst()
    sst["sst"][:, 2, 3] = np.nan
    sst.to_netcdf(tmp_path / "sea.nc")
    of_blocks, of_grid = (
        prepare(of_small(tmp_path, "prepared", region=REGION | {"coarsen": n, "tile": [2, 2]}, **grid))
        for n, grid in ((2 * coarsen, {}), (coarsen, {"grid": 0.5}))
    )
    expected, found = (made.open_cube()[["ocean_fraction", "ocean_mask"]].load() for made in (of_blocks, of_grid))
    xr.testing.assert_allclose(found, expected)
    assert 0 < float(found["ocean_fraction"].where(found["ocean_mask"]).min()) < 1
    normals, cells = RegionStatistics(of_grid), open_region(of_grid.data)
    history = cells.isel(time=slice(-9, None)).load()
    assert (normals.on_grid(history).notnull().all("time") == normals.ocean).all()
    cells.close()
    if coarsen == 1:
        with pytest.raises(SSTCastError, match=r"history: \d+ cells hold values where the run has land"):
            normals.on_grid(history.fillna(20))


def test_events_of_places_in_a_forecast_are_not_replaced(
    scored: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("other").mkdir()
    for name in ("sites.csv", "other/sites.csv"):
        Path(name).write_text("name,lat,lon\nbay,-10.5,172\n")
    run = shutil.copytree(scored.folder, "run")
    sstcast.forecast(run, "2004-06-30", out="f.nc", places="sites.csv", samples=0)
    made = sstcast.heatwaves("f.nc", places="sites.csv")
    assert sstcast.heatwaves("f.nc", places="sites.csv").path == made.path
    with pytest.raises(SSTCastError, match=r"holds places of sites.csv, .*; name another file with --out"):
        sstcast.heatwaves("f.nc", places="other/sites.csv")

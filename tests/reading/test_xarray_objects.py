"""An xarray object is a source: it gives the numbers of its file, and digests identify its days."""

import gc
import shutil
from collections.abc import Callable
from pathlib import Path
from weakref import ref

import numpy as np
import pytest
import xarray as xr
import yaml
from dask.base import tokenize
from scored_runs import metrics_of
from small_ocean import make_sst

import sstcast
from sstcast.config import load_config
from sstcast.errors import SSTCastError
from sstcast.ocean.prepared import Prepared
from sstcast.reading import xarray_objects
from sstcast.reading.xarray_objects import held
from sstcast.runs import Run

SET = ["data.history=10", "data.horizon=5", "model={name: ridge}"]
Object = xr.Dataset | xr.DataArray


@pytest.fixture
def days(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> xr.Dataset:
    """The small ocean, opened lazily from a file in the current folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sstcast.reading.xarray_objects._held", {})
    make_sst().to_netcdf("days.nc")
    return xr.open_dataset("days.nc")


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run of an object that was evaluated without it, as in another process."""
    folder = tmp_path_factory.mktemp("evaluated")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr(xarray_objects, "_held", {})
        make_sst().to_netcdf("days.nc")
        with xr.open_dataset("days.nc") as opened:
            run = trained(opened)
        xarray_objects._held.clear()
        sstcast.evaluate(Run(run.folder))
    return folder


@pytest.fixture(scope="module")
def of_file(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, str], xr.Dataset]:
    """The digests of the data of a run of the file, and its forecast."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("file"))
        make_sst().to_netcdf("days.nc")
        sstcast.init("days.nc", "file.yaml")
        run = sstcast.train("file.yaml", SET)
        return recorded(run), sstcast.forecast(run).value.load()


@pytest.fixture
def run(evaluated: Path, days: xr.Dataset) -> Run:
    """The run of an object and its stores, copied beside `days`."""
    shutil.copytree(evaluated, Path(), ignore=shutil.ignore_patterns("days.nc"), dirs_exist_ok=True)
    return Run(Path("runs/run"))


def trained(days: Object, name: str = "run") -> Run:
    sstcast.init(days, f"{name}.yaml")
    return sstcast.train(f"{name}.yaml", SET, source=days)


def recorded(run: Run) -> dict[str, str]:
    """Return the digests of the data of a run."""
    return Prepared.of(run.config.data).record().model_dump(exclude={"source"})


def changed(days: xr.Dataset, warmer: float, first: str, last: str) -> xr.Dataset:
    days = days.load().copy(deep=True)
    days["sst"].loc[{"time": slice(first, last)}] += warmer
    return days


def grown(days: xr.Dataset) -> xr.Dataset:
    """The same days and ten more."""
    later = days.isel(time=slice(-10, None))
    return xr.concat([days, later.assign_coords(time=later["time"] + np.timedelta64(10, "D"))], "time")


FORMS: dict[str, Callable[[xr.Dataset], Object]] = {
    "lazy": lambda days: days,
    "array": lambda days: days["sst"].load().rename(None),
    "dask": lambda days: xr.Dataset({"a": days["sst"], "b": days["sst"]}).chunk(time=100),
}


def test_stores_and_forecasts_are_those_of_the_file(
    run: Run, days: xr.Dataset, of_file: tuple[dict[str, str], xr.Dataset]
) -> None:
    """In any form. A run that was trained on one forecasts from another."""
    digests, expected = of_file
    sstcast.init("days.nc", "file.yaml")
    for form, convert in FORMS.items():
        given, keys = convert(xr.open_dataset("days.nc")), {"variable": "a"} if form == "dask" else {}
        sstcast.init(given, f"{form}.yaml", **keys)
        raw, plain = (yaml.safe_load(Path(f"{name}.yaml").read_text())["data"] for name in (form, "file"))
        assert raw.pop("source").startswith("object:")
        assert raw | {"source": "days.nc"} == plain | keys
        config = load_config(Path(f"{form}.yaml"), SET)
        sstcast.prepare(config, source=given)
        assert Prepared.of(config.data).record().model_dump(exclude={"source"}) == digests
        name = keys.get("variable", "sst")
        assert (given if isinstance(given, xr.DataArray) else given[name])[-1].notnull().any()  # still open
    assert recorded(run) == digests
    in_dask = sstcast.forecast(run, source=given["a"].rename("sst")).value
    xr.testing.assert_identical(in_dask.drop_attrs(), expected.drop_attrs())
    np.testing.assert_array_equal(sstcast.load(run).forecast(days["sst"])["sst"], expected["sst"])


@pytest.mark.slow
def test_a_file_is_scored_with_an_object(days: xr.Dataset) -> None:
    run = trained(days)
    sstcast.evaluate(run)
    scores = [
        sstcast.score(run.forecasts, truth=truth, against=against, out=out).value["scores"]["model"]
        for out, truth, against in (("a", days, ()), ("b", "days.nc", ()), ("c", days, [run]), ("d", None, [run]))
    ]
    assert scores[0] == scores[1]
    assert scores[2] == scores[3]


def test_days_decide_whether_an_object_is_the_same(run: Run, days: xr.Dataset) -> None:
    """Opened again, grown or changed after the splits, it is; with another day in them, it is refused."""
    scores, cube = metrics_of(run)["scores"], Prepared.of(run.config.data).cube
    for same in (xr.open_dataset("days.nc"), days.load()):
        sstcast.load(run, source=same)
    before = cube.stat().st_mtime_ns
    other = changed(days, 1, "2003-05-05", "2003-05-05")
    for use in (sstcast.evaluate, sstcast.forecast, sstcast.load):
        with pytest.raises(
            SSTCastError, match=r"object:\w+: has changed since .* on 1 day.*2003-05-05.*a region"
        ) as error:
            use(run, source=other)
        assert "\n" not in str(error.value)
    with pytest.raises(SSTCastError, match="has changed since"):
        sstcast.score(run.forecasts, truth=other, against=[run])
    with pytest.raises(SSTCastError, match="has changed since"):
        sstcast.train("run.yaml", [*SET, "name=more"], source=other)
    assert cube.stat().st_mtime_ns == before
    assert sstcast.evaluate(run, source=grown(days)).value["scores"] == scores
    assert not list(run.folder.glob("elsewhere-*"))


def test_a_run_of_an_object_refuses_stores_of_another(run: Run, days: xr.Dataset) -> None:
    sstcast.prepare(run.config, source=changed(days, 1, "2003-05-05", "2003-05-05"))
    with pytest.raises(SSTCastError, match=r"was trained on other data than .*cube.zarr holds: cube"):
        sstcast.evaluate(run)
    sstcast.prepare(run.config, source=days)
    assert sstcast.evaluate(run).value == metrics_of(run)


def test_an_object_that_has_grown_is_forecast_from(run: Run, days: xr.Dataset) -> None:
    assert sstcast.forecast(run, source=grown(days)).path.name == "forecast-2005-01-10.nc"
    assert sstcast.forecast(run, "2004-12-31").path.name == "forecast-2004-12-31.nc"


@pytest.mark.slow
def test_another_ocean_is_an_object_too(days: xr.Dataset) -> None:
    """For a run made from a file, an object is another source, with the numbers of that file."""
    sstcast.init("days.nc", "run.yaml")
    run = sstcast.train("run.yaml", SET)
    other = changed(days, 1, "2003-05-05", "2003-05-05")
    other.to_netcdf("other.nc")
    scores = [sstcast.evaluate(run, source=source).value["scores"] for source in (other, "other.nc")]
    assert scores[0] == scores[1]
    config = load_config(Path("run.yaml"), SET)
    sstcast.prepare(config, source=other)
    replaced = Prepared.of(config.data.model_copy(update={"source": f"object:{tokenize(other)}"}))
    assert replaced.is_current


def test_the_command_line_goes_on_from_the_stores(
    run: Run, days: xr.Dataset, command: Callable[..., tuple[int, str, str]]
) -> None:
    forecast = sstcast.forecast(run, source=days, out="a.nc").value.load()
    xarray_objects._held.clear()  # as in another process
    for arguments in (("prepare", run.config_file), ("evaluate", run.folder), ("train", "run.yaml", *options())):
        assert command(*arguments)[0] == 0
    assert command("forecast", run.folder, "--out", "b.nc")[0] == 0
    xr.testing.assert_equal(xr.load_dataset("b.nc")["sst"], forecast["sst"])
    for arguments in (
        ("forecast", run.folder, "--date", "2005-01-10"),
        ("train", "run.yaml", *options("data.region={lon: [170, 172], lat: [-12, -10], tile: [8, 8]}")),
        ("init", "object:1"),
    ):
        code, _, error = command(*arguments)
        assert (code, error.count("\n")) == (2, 1)
        assert "use Python" in error


def test_an_object_is_held_as_long_as_its_owner_or_a_loaded_run_keeps_it(days: xr.Dataset) -> None:
    """Also one of which another object took the place, and an array, of which a dataset is made."""
    array, lazy = days["sst"].load(), xr.open_dataset("days.nc")
    run = trained(array)
    kept = held(run.config.data.source)
    assert kept is array
    sstcast.load(run, source=lazy)
    assert held(run.config.data.source) is lazy
    loaded, freed = sstcast.load(run, source=grown(days)), ref(lazy)
    own = ref(array)
    del lazy, array, kept
    gc.collect()
    assert freed() is None
    later = grown(days)["sst"][-10:]
    assert loaded.forecast(later)["init_time"].dt.year.item() == 2005
    assert held(run.config.data.source) is not None
    del loaded
    gc.collect()
    assert held(source := run.config.data.source) is own() is not None  # which `train` was given
    sstcast.forecast(run)
    del run
    gc.collect()
    assert held(source) is None


def options(*more: str) -> list[str]:
    return [word for change in (*SET, "name=next", *more) for word in ("--set", change)]


def test_what_is_no_source(run: Run, days: xr.Dataset) -> None:
    with pytest.raises(SSTCastError, match="source: is a ndarray; give a path, or an xarray Dataset or DataArray"):
        sstcast.init(days["sst"].values)
    with pytest.raises(SSTCastError, match="a resumed run goes on with its own days"):
        sstcast.train(resume=run.folder, source=days)


@pytest.mark.slow
def test_hindcasts_take_an_object(days: xr.Dataset) -> None:
    sstcast.init(days, "run.yaml")
    sstcast.init("days.nc", "file.yaml")
    one, other = (
        sstcast.hindcast([f"{name}.yaml"], "2004:2004", 1, 1, overrides=SET, out=name, source=source).value
        for name, source in (("run", days), ("file", None))
    )
    assert one["scores"]["run"] == other["scores"]["file"]


def test_an_icechunk_repository_as_the_recipe_opens_it(
    evaluated: Path, days: xr.Dataset, of_file: tuple[dict[str, str], xr.Dataset]
) -> None:
    """Scores and forecasts are those of the file, and a repository that is opened again is the same source."""
    icechunk = pytest.importorskip(
        "icechunk", reason="icechunk is not installed: it needs Python 3.12 and zarr 3.4"
    )
    from icechunk.xarray import to_icechunk

    storage = icechunk.local_filesystem_storage("repository")
    session = icechunk.Repository.create(storage).writable_session("main")
    to_icechunk(days.chunk(time=100), session)
    session.commit("days")

    def opened() -> xr.Dataset:
        store = icechunk.Repository.open(storage).readonly_session("main").store
        return xr.open_zarr(store, consolidated=False, chunks={})

    assert tokenize(opened()) == tokenize(opened())
    run = trained(opened())
    assert recorded(run) == of_file[0]
    assert sstcast.evaluate(run).value["scores"] == metrics_of(Run(evaluated / "runs/run"))["scores"]
    np.testing.assert_array_equal(sstcast.forecast(run, source=opened()).value["sst"], of_file[1]["sst"])

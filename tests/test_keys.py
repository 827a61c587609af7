"""Kept files are found by all that they depend on: each key of `data` and of a predictor is changed in turn.

Every file has a path and a recipe. Where both are those of the first configuration, the file would be used again,
so the numbers must be the same. Where the numbers are the same although one differs, the file is made again
needlessly: `CHANGES` lists which.
"""

import hashlib
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from scored_runs import configure
from small_ocean import make_sst

from sstcast.config import DataConfig, PredictorConfig, Region, RunConfig
from sstcast.errors import SSTCastError
from sstcast.extremes.heatwaves import limits_of
from sstcast.extremes.terciles import terciles_of
from sstcast.forecasting.fitted import fitted, linear_part
from sstcast.forecasting.spread import calibrated
from sstcast.ocean.prepare import prepare
from sstcast.runs import Run
from sstcast.storage.artefacts import read_recipe

Kept = dict[str, tuple[str, Any, str]]  # kind: (path, recipe, digest of the numbers)
REGION = {"lon": [170, 172], "lat": [-12, -10], "tile": [4, 4]}
SPLITS = {"train": [2001, 2002], "validation": ["2003-01-01", "2003-03-31"], "test": ["2003-04-01", "2003-06-30"]}
WIND = {"kind": "grid", "source": "wind.nc", "variable": "u"}
SOI = {"kind": "index", "source": "sea.nc", "region": "170,171,-11,-10"}
STORES = {"cube", "statistics", "anomalies", "limits", "thirds", "spread", "fit"}
OF_WIND, OF_SOI = ({name, f"{name} statistics"} for name in ("wind", "soi"))
ALL = STORES | OF_WIND | OF_SOI
FITTED = {"spread", "fit"}  # are also made again for days and keys that happen to give the same fit
# Changed keys, what they are changed to, and which files are made again although their numbers are the same.
CHANGES: dict[str, tuple[dict[str, Any], set[str]]] = {
    "source": ({"source": "copy.nc"}, ALL),
    "variable": ({"variable": "sst"}, ALL),
    "units, gaps": ({"units": "degC", "gaps": 1}, ALL),
    "grid": ({"grid": 0.5}, {"soi statistics"}),
    "protocol": ({"protocol": "paper"}, {"limits"}),
    "directory": ({"directory": "elsewhere"}, set()),
    "history": ({"history": 6}, set()),
    "horizon": ({"horizon": 4}, set()),
    "splits": ({"splits": SPLITS | {"train": ["2001-02-01", "2002-12-31"]}}, set()),
    "splits.validation": ({"splits": SPLITS | {"validation": ["2003-01-01", "2003-02-28"]}}, set()),
    "splits.base_period": ({"splits": SPLITS | {"base_period": ["2001-01-01", "2003-03-31"]}}, set()),
    "region.lon, region.lat": ({"region": REGION | {"lon": [170.5, 172.5]}}, {"soi statistics"}),
    "region.coarsen": ({"region": REGION | {"coarsen": 2}}, {"soi statistics"}),
    "region.min_ocean, region.land_tiles, region.tile, region.skip": (
        {"region": REGION | {"min_ocean": 0.6, "land_tiles": "keep", "tile": [8, 4], "skip": [1]}},
        ALL,
    ),
    "predictors": ({"predictors": {"soi": SOI, "wind": WIND}}, set()),
    "predictors.source": ({"wind": {"source": "copy of wind.nc"}}, OF_WIND),
    "predictors.variable": ({"wind": {"variable": "v"}}, set()),
    "predictors.units": ({"wind": {"units": "knots"}}, OF_WIND),
    "predictors.kind, predictors.perfect": ({"wind": {"kind": "forecast", "perfect": True}}, OF_WIND),
    "predictors.delay": ({"wind": {"delay": 40}}, set()),
    "predictors.implausible, predictors.missing": (
        {"wind": {"implausible": "keep", "missing": "climatology"}},
        OF_WIND,
    ),
    "predictors.region": ({"soi": {"region": "171,172,-11,-10"}}, set()),
    "predictors.span": ({"soi": {"source": "monthly.csv", "region": "", "span": 3}}, set()),
}


@pytest.fixture(scope="module")
def sea(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("keys")
    sst = make_sst(years=3).sel(time=slice("2003-06-30"))
    for name in ("sea.nc", "copy.nc"):
        sst.to_netcdf(folder / name, engine="netcdf4")
    random = np.random.default_rng(1)
    wind = xr.Dataset({name: sst["sst"].copy(data=random.normal(size=sst["sst"].shape)) for name in "uv"})
    for name in "uv":
        wind[name].attrs["units"] = "m s-1"
    for name in ("wind.nc", "copy of wind.nc"):
        wind.to_netcdf(folder / name, engine="netcdf4")
    months = pd.date_range("2000-01-01", "2003-06-01", freq="MS")
    values = pd.Series(random.normal(size=len(months)), months.strftime("%Y-%m"), name="value")
    values.to_csv(folder / "monthly.csv", index_label="month")
    return folder


def configured(sea: Path, change: dict[str, Any]) -> RunConfig:
    """Return the first configuration with a change, in a folder of its own."""
    given = change.get("predictors", {"wind": WIND, "soi": SOI})
    predictors = {name: keys | change.get(name, {}) for name, keys in given.items()}
    folder = Path(change.get("directory", "prepared"))
    data = {"region": REGION, "splits": SPLITS, "history": 5, "horizon": 3}
    data |= {key: value for key, value in change.items() if key not in predictors}
    data |= {"predictors": predictors, "directory": folder}
    return configure(Path(), data.pop("source", "sea.nc"), model={"name": "local-ridge"}, **data)


def kept(config: RunConfig) -> Kept:
    """Make all files of a configuration, and return each by its kind."""
    made, data = prepare(config.data), config.data
    run = Run.create(config)
    limits_of(made)
    terciles_of(made)
    calibrated(run, made)
    system = linear_part(run, data)
    assert system is not None

    def fit() -> dict[str, Any]:
        from sstcast.forecasting.system import Fits

        model = Fits.of(made).model(system.name, predictors=system.predictors, **system.options)
        return {name: weight.numpy() for name, weight in model.state_dict().items()}

    fitted(made, system, data.box.tile, fit)
    kinds = {made.cube: "cube", made.statistics: "statistics", made.anomalies: "anomalies"}
    kinds |= {made.limits: "limits", made.terciles: "thirds"}
    found: Kept = {}
    for path in sorted(made.cube.parent.glob("[!.]*")):
        if path.suffix not in (".zarr", ".nc") or path.name == "ocean.nc":
            continue
        kind = kinds.get(path) or next(
            end for end in ("spread", "fit", "zarr") if path.name.endswith(("." + end, f".{end}.nc"))
        )
        if kind == "zarr":
            _, name, *_ = path.name.split("-")
            kind = f"{name} statistics" if ".statistics." in path.name else name
        open_file = xr.open_zarr if path.suffix == ".zarr" else xr.open_dataset
        with open_file(path) as opened:
            variables = {str(name): opened[name].values for name in sorted(map(str, opened.variables))}
            texts = {name: values.astype(str) for name, values in variables.items() if values.dtype == object}
            numbers = [(name, values.tobytes()) for name, values in (variables | texts).items()]
        where = str(path.relative_to(data.directory))
        found[kind] = where, read_recipe(path), hashlib.sha256(repr(numbers).encode()).hexdigest()
    assert found.keys() == ALL
    return found


@pytest.fixture(scope="module")
def first(sea: Path) -> Kept:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(sea)
        return kept(configured(sea, {}))


def test_each_key_is_changed() -> None:
    never = {"predictors.gaps", "predictors.grid"}  # are refused
    keys = {*DataConfig.model_fields} - {"region"} | {f"region.{key}" for key in Region.model_fields}
    keys |= {f"predictors.{key}" for key in PredictorConfig.model_fields}
    assert keys - never <= {key for changed in CHANGES for key in changed.split(", ")}
    for key in never:
        with pytest.raises(SSTCastError):
            configured(Path(), {"wind": {key.removeprefix("predictors."): 1}})


@pytest.mark.parametrize("key", CHANGES)
def test_a_file_is_used_again_only_where_its_numbers_are_the_same(
    sea: Path, first: Kept, key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for file in sea.glob("*.*"):
        (tmp_path / file.name).symlink_to(file)
    monkeypatch.chdir(tmp_path)
    change, needless = CHANGES[key]
    if change.keys() <= {"wind", "soi", "predictors"}:  # those that know of no predictor need not be made again
        of_predictors = shutil.ignore_patterns("*predictor-*", "*.spread.nc*", "*.fit.nc*")
        shutil.copytree(sea / "prepared", tmp_path / "prepared", ignore=of_predictors)
    again, made = set(), kept(configured(sea, change))
    for kind, (path, recipe, numbers) in made.items():
        is_used = (path, recipe) == first[kind][:2]
        assert numbers == first[kind][2] or not is_used, kind
        again |= {kind} if numbers == first[kind][2] and not is_used else set()
    assert again - FITTED == needless - FITTED

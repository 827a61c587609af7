"""Rows of a scored file: perfect forecasts on finer cells, with a spread, and runs named like other rows."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from logged import logged

from sstcast.config import FieldSource
from sstcast.figures.answers import added, gains
from sstcast.figures.catalogue import heatwaves, reliability, tercile_reliability
from sstcast.figures.printing import print_scores
from sstcast.figures.results import Results
from sstcast.figures.sheets.errors import errors
from sstcast.figures.tables import bases
from sstcast.names import BASELINES
from sstcast.places.places import Places
from sstcast.places.point_observations import PointObservations
from sstcast.runs import Run
from sstcast.scores.asked import Asked
from sstcast.scores.score import score
from sstcast.scores.score_files import comparison, skill_of
from sstcast.scores.system_records import climatologies, record

# Latitudes. The place called `region` must not be the region, and twins have the same scores.
PLACES = {"farm": -11.5, "region": -11, "park": -11, "bay": -10.5, "a, b (c)": -10.5, "last": -10.5}
# Of observations. An interval depends on the order of the platforms, which stays under plain names.
PLATFORMS = sorted(
    [
        *("model", "region", "climatology", "a third each", "base rates of the scored years", "truth"),
        *("ridge, bias removed", "persistence of state (best)", "without wind", "all", "platform", "net-1"),
    ]
)
SECTIONS = ("scores", "probabilities", "heatwaves", "terciles", "ensemble", "indices", "ratios", "points", "areas")
DATES = np.arange("2004-01-10", "2004-12-10", 14, "datetime64[D]").astype("datetime64[ns]")


@pytest.fixture(autouse=True)
def inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="module")
def perfect(sst_file: Path) -> xr.Dataset:
    """Cells in blocks of 3 x 3, whose means are the truth, though none has its value; a spread of 0.4 to 0.6."""
    with xr.open_dataset(sst_file, engine="netcdf4") as truth:
        days = xr.DataArray(DATES, dims="init_time") + np.arange(1, 9) * xr.DataArray(
            np.ones(8, "m8[D]"), dims="lead"
        )
        values = truth["sst"].sel(time=days).drop_vars("time").transpose("init_time", "lead", "lat", "lon").values
    pattern = np.array([[3, -1, -1], [1, -3, -1], [-1, 2, 1]], np.float32)
    values = values.repeat(3, 2).repeat(3, 3) + np.tile(pattern, (8, 12))
    dims = ("init_time", "lead", "lat", "lon")
    lat, lon = -12 + (np.arange(24) + 0.5) / 12, 170 + (np.arange(36) + 0.5) / 12
    spread = np.broadcast_to(0.5 + np.tile(pattern / 30, (8, 12)), values.shape).astype(np.float32)
    data = {"sst": (dims, values, {"units": "degC"}), "sst_spread": (dims, spread, {"units": "degC"})}
    coordinates = {
        "init_time": DATES,
        "lead": ("lead", np.arange(1, 9), {"units": "days"}),
        "lat": lat,
        "lon": lon,
    }
    return xr.Dataset(data, coordinates)


def asked(sst_file: Path, plain: bool) -> Asked:
    """Ask for places and for observations of platforms, by their names or by plain ones in the same order."""
    random, count = np.random.default_rng(0), 900
    places = {f"place-{number}" if plain else name: lat for number, (name, lat) in enumerate(PLACES.items())}
    pd.DataFrame(places.items(), columns=["name", "lat"]).assign(lon=171).to_csv("places.csv", index=False)
    names = [f"platform-{number:02}" if plain else name for number, name in enumerate(PLATFORMS)]
    days = pd.Timestamp("2004-01-11") + pd.to_timedelta(random.integers(0, 330, count), "D")
    where = {"lat": random.uniform(-12, -10, count), "lon": random.uniform(170, 173, count)}
    with xr.open_dataset(sst_file, engine="netcdf4") as truth:
        at = {"time": days, **where}
        sst = truth["sst"].sel({key: xr.DataArray(of, dims="row") for key, of in at.items()}, method="nearest")
        values = sst.values + random.normal(0, 0.3, count)
    table = pd.DataFrame(at | {"sst": values, "platform": random.choice(names, count)}).dropna()
    table.to_csv("observations.csv", index=False)
    return Asked(Places.read(Path("places.csv")), PointObservations.read(Path("observations.csv")))


def renamed(value: Any, names: dict[str, str | None]) -> Any:
    """Rename keys of nested dictionaries; those without a name are left out, and sentences, which hold names."""
    if not isinstance(value, dict):
        return value
    new = {key: names.get(key, key) for key in value if key not in ("sentence", "file")}
    return {name: renamed(value[key], names) for key, name in new.items() if name is not None}


def test_perfect_forecasts_keep_their_row_beside_runs_of_any_name(
    scored: Run, perfect: xr.Dataset, sst_file: Path, tmp_path: Path
) -> None:
    odd = ("model", "climatology", "base rate", "ridge, bias removed")
    names = (*odd, "a climatology", "climatology (best)", "without wind", "net, new")
    for name in (*names, "other/a climatology", "plain"):
        shutil.copytree(scored.folder, tmp_path / name)
    perfect.to_netcdf("f.nc", engine="netcdf4")
    runs = [Run(Path(name)) for name in (*names, "other/a climatology")]
    with logged() as lines:
        found, _, _ = score(Path("f.nc"), against=runs, asked=asked(sst_file, plain=False))
    assert any("means of 3 x 3 cells" in line and "its spread" not in line for line in lines)
    assert any("its spread: means of 3 x 3 cells" in line for line in lines)
    assert found["scores"]["model"]["degC"]["rmse"] == pytest.approx(0, abs=1e-5)
    assert found["probabilities"]["model"]["spread"] == pytest.approx(0.5, rel=1e-5)
    rows = {name: str(tmp_path / name) for name in odd}
    rows |= {name: name for name in (*names[len(odd) :], "other/a climatology")}
    assert found["references"] == rows
    assert set(found["scores"]) == {"model", *BASELINES, *rows.values()}
    for row in rows.values():
        assert found["scores"][row] == found["scores"]["a climatology"] != found["scores"]["climatology"]
        assert found["systems"][row]["role"] == "against"
    climates = climatologies(found["systems"], "model")
    assert climates == ["climatology", "trend climatology", "recent climatology"]
    assert (gains(found), added(found), bases(found)) == ([], "", ["multiscale ridge"])
    shown = [name for name, _ in errors(found, "f.nc")[0].rows]
    assert len({*shown}) == len(found["scores"])
    assert {"model", "f.nc", "climatology", "other/a climatology", str(tmp_path / "climatology")} < {*shown}
    assert errors(found, "ridge")[0].rows[0][0] == "ridge (file)"
    areas = found["areas"]
    assert [*areas] == ["region", *(area if area != "region" else "region (place)" for area in PLACES)]
    for area, twin in (("region (place)", "park"), ("bay", "last"), ("a, b (c)", "last")):
        assert areas[area] == areas[twin]
    assert areas["region"]["model"]["crps"] != areas["park"]["model"]["crps"]
    also = asked(sst_file, plain=True)
    plainly, _, _ = score(Path("f.nc"), against=[Run(Path("plain"))], asked=also, out=Path("plain-scores"))
    assert plainly["points"]["platforms"] == len(PLATFORMS)
    assert plainly["points"]["scores"]["ridge"]["ratio_interval"][0] is not None
    found["areas"] = dict(zip(plainly["areas"], areas.values(), strict=True))
    for row in rows.values():
        one = dict.fromkeys(rows.values()) | {row: "plain"}
        for section in SECTIONS:
            assert renamed(found[section], one) == renamed(plainly[section], {}), (row, section)
    climate = found["climate"]
    assert comparison(found, "mse", "ridge", climate) == found["ratios"]["mse"]["ridge"][climate]
    assert comparison(found, "mse", "ridge", "a climatology") == {}  # only a baseline is a climate
    assert comparison(found, "mse", "no row", "ridge") == comparison(found, "no loss", "model", "ridge") == {}
    assert skill_of({}) is None
    assert "a climatology" not in found["climate"]


def test_a_system_is_a_climatology_if_its_model_is_and_whatever_its_name() -> None:
    models = {"model": "trend-climatology", "seasons": "recent-climatology", "climatology-net": "mpnn"}
    systems = {name: record("run", model=model) for name, model in models.items()}
    systems |= {
        "climatology": record("baseline", model=None),
        "trend climatology (east)": record("baseline", "east", "trend climatology", model=None),
        "ridge": record("baseline", model=None),
        "climatology, bias removed": record("corrected", "climatology", model=None),
        "climatology (best)": record("against", model=None),
    }
    baselines = ["climatology", "trend climatology (east)"]
    assert climatologies(systems, "model") == ["seasons", *baselines]
    assert climatologies(systems, None) == ["model", "seasons", *baselines]


def test_a_spread_that_covers_other_cells_is_told_and_never_makes_a_forecast_certain(
    perfect: xr.Dataset, sst_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A quarter of the region has a spread: the errors stay, the model has no probabilities, and all else has."""
    spread = perfect["sst_spread"].isel(lat=slice(12), lon=slice(18)).rename(lat="y", lon="x")
    spread["y"].attrs, spread["x"].attrs = {"standard_name": "latitude"}, {"standard_name": "longitude"}
    perfect.assign(sst_spread=spread).to_netcdf(tmp_path / "f.nc", engine="netcdf4")
    with logged() as lines:
        found, saved, _ = score(tmp_path / "f.nc", FieldSource(source=sst_file))
    assert any("distributions are not scored" in line and "do not contain" in line for line in lines)
    assert found["scores"]["model"]["degC"]["rmse"] == pytest.approx(0, abs=1e-5)
    assert "model" not in found["probabilities"]
    for kind in ("exceedance", "event"):
        assert "model" not in found["heatwaves"][kind]
        assert "model" not in found["ratios"][kind]
        assert found["heatwaves"][kind]["ridge"]["brier"] > 0
    assert "model" not in found["terciles"]["scores"]
    assert "model" not in found["ratios"]["rps"]
    print_scores(found, "f.nc")
    capsys.readouterr()
    results = Results(saved.folder)
    assert not list(tercile_reliability(results))
    assert not list(reliability(results))
    assert list(heatwaves(results))  # of the others

"""A hindcast scored at points as well: all folds together, and not again without a change."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from small_hindcast import metrics, plan, system, write_ocean

from sstcast.figures.catalogue import indices
from sstcast.figures.results import Results
from sstcast.hindcasts.hindcast import hindcast
from sstcast.places.point_observations import PointObservations
from sstcast.scores.asked import Asked
from sstcast.scores.indices import thirds
from sstcast.scores.score_files import ScoreFiles

DAYS = pd.date_range("2005-02-01", "2006-11-30", freq="7D")


def test_points_of_all_folds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with xr.open_dataset(write_ocean(Path(), years=6)) as ocean:
        sst = ocean["sst"].sel(time=DAYS).load()
    cells = [(number % 4 + 3, number % 12) for number in range(len(DAYS))]
    values = [
        float(day[cell]) + 1 for day, cell in zip(sst, cells, strict=True)
    ]  # 1 degC warmer than the analysis
    lat, lon = ([sst[axis].values[cell[place]] for cell in cells] for place, axis in enumerate(("lat", "lon")))
    platform = [f"p{number % 5}" for number in range(len(DAYS))]
    table = pd.DataFrame({"time": DAYS, "lat": lat, "lon": lon, "sst": values, "platform": platform})
    extra = table[:3].assign(time=["2001-05-01", "2005-05-02", "2006-05-03"], lat=[-11, 40, 40])
    table = pd.concat([table.astype({"time": str}), extra])
    table.to_csv("points.csv", index=False)
    planned = replace(
        plan(system("wide", "multiscale-ridge", options={}), every=20, last=2006, fold=1),
        asked=Asked(observations=PointObservations.read(Path("points.csv"))),
    )
    assert hindcast(planned)[1]
    found = metrics()["points"]
    assert found["platforms"] == 5
    forecasts = xr.open_zarr("hindcast/wide/hindcast.zarr")["sst"].load()
    days = pd.to_datetime(table["time"].astype(str), format="ISO8601").to_numpy()
    others = int((~np.isin(days, forecasts["valid_time"].values)).sum())
    assert found["left_out"][0] == f"{others} observations left out: on other days"
    assert found["analysis"]["rmse"] == pytest.approx(1, abs=1e-3)
    assert found["analysis"]["bias"] == pytest.approx(-1, abs=1e-3)
    errors = []
    for day, cell, value in zip(DAYS, cells, values, strict=True):
        rows, leads = np.nonzero(forecasts["valid_time"].values == np.datetime64(day))
        errors += [float(forecasts.values[row, lead][cell]) - value for row, lead in zip(rows, leads, strict=True)]
    assert found["pairs"] == len(errors)
    assert found["scores"]["wide"]["mse"] == pytest.approx(np.square(errors).mean(), rel=5e-3)  # in hundredths
    low, high = found["scores"]["wide"]["interval"]
    assert low < found["scores"]["wide"]["mse"] < high
    assert metrics()["terciles"]["scores"]["wide"]["by_fold"]["rps"].keys() == {"2005", "2006"}
    assert not hindcast(planned)[1]


def test_systems_of_different_records_keep_their_own_anomalies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two systems on an ocean that warms. The second is trained on later, warmer years.

    Their box means err by what their fields do. All systems are scored at the same points, of which some are too
    far from the climatology of the later years alone.
    """
    monkeypatch.chdir(tmp_path)
    with xr.open_dataset(write_ocean(Path(), years=5)) as opened:
        ocean = opened.load()
    ocean["sst"] += 2 * (ocean["time"] - ocean["time"][0]) / np.timedelta64(365, "D")
    Path("small.nc").unlink()  # a reader may still hold it
    ocean.to_netcdf("small.nc", engine="netcdf4")
    cell = ocean["sst"].sel(time="2005").isel(lat=4, lon=5)[::9]
    values = cell.values - np.where(np.arange(len(cell)) % 2, 0, 10.5)
    table = pd.DataFrame(
        {"time": cell["time"], "lat": float(cell["lat"]), "lon": float(cell["lon"]), "sst": values}
    )
    table.assign(platform=np.arange(len(cell)) % 4).to_csv("points.csv", index=False)
    late = {"train": [2003, 2003], "validation": [2004, 2004], "test": [2005, 2005]}
    systems = system("early", "persistence", options={}), system("late", "persistence", options={}, splits=late)
    points = PointObservations.read(Path("points.csv"))
    assert hindcast(replace(plan(*systems, every=20, last=2005, fold=1), asked=Asked(observations=points)))[1]
    found, area = metrics(), np.cos(np.deg2rad(ocean["lat"]))
    for name in ("early", "late"):
        sst = xr.open_zarr(f"hindcast/{name}/hindcast.zarr")["sst"].load()
        error = sst - ocean["sst"].sel(time=sst["valid_time"]).drop_vars("time")
        rmse = float((error.weighted(area).mean(("lat", "lon")) ** 2).mean() ** 0.5)
        assert found["indices"]["region"][name]["rmse"] == pytest.approx(rmse, rel=5e-3), name
        row, column = np.nonzero(np.isin(sst["valid_time"], cell["time"]))
        measured = pd.Series(values, cell["time"].values)[sst["valid_time"].values[row, column]].to_numpy()
        errors = sst.values[row, column, 4, 5] - measured
        assert found["points"]["pairs"] == len(errors)
        assert found["points"]["scores"][name]["mse"] == pytest.approx(np.square(errors).mean(), rel=5e-3)
    with ScoreFiles(Path("hindcast")).open() as tables:
        observed = tables["observed_index"].sel(box="region").mean(("init_time", "lead")).load()
        assert set(thirds(tables, "region").values) == {"lower", "middle", "upper"}
    assert 1 < float(observed.sel(system="early") - observed.sel(system="late")) < 3
    results = Results(Path("hindcast"))
    [lines] = [next(indices(results)).figure.axes[0].lines]
    truth, *drawn = (np.asarray(line.get_ydata(), float) for line in lines)
    names = dict.fromkeys([results.system, results.reference])
    for name, values in zip(names, drawn, strict=True):  # of the last lead
        rmse = found["indices"]["region"][name]["by_lead"]["rmse"][-1]
        assert np.sqrt(np.square(values - truth).mean()) == pytest.approx(rmse, rel=1e-4)

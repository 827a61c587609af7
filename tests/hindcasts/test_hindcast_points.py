"""A hindcast scored at points as well: all folds together, and not again without a change."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from small_hindcast import metrics, plan, system, write_ocean

from sstcast.hindcasts.hindcast import hindcast
from sstcast.ocean.point_observations import PointObservations
from sstcast.scores.asked import Asked

DAYS = pd.date_range("2005-02-01", "2008-11-30", freq="7D")


def test_points_of_all_folds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with xr.open_dataset(write_ocean(Path())) as ocean:
        sst = ocean["sst"].sel(time=DAYS).load()
    cells = [(number % 4 + 3, number % 12) for number in range(len(DAYS))]
    values = [
        float(day[cell]) + 1 for day, cell in zip(sst, cells, strict=True)
    ]  # 1 degC warmer than the analysis
    lat, lon = ([sst[axis].values[cell[place]] for cell in cells] for place, axis in enumerate(("lat", "lon")))
    platform = [f"p{number % 5}" for number in range(len(DAYS))]
    table = pd.DataFrame({"time": DAYS, "lat": lat, "lon": lon, "sst": values, "platform": platform})
    table.to_csv("points.csv", index=False)
    planned = replace(
        plan(system("wide", "multiscale-ridge", options={}), every=20, fold=2),
        asked=Asked(observations=PointObservations.read(Path("points.csv"))),
    )
    assert hindcast(planned)[1]
    found = metrics()["points"]
    assert found["platforms"] == 5
    assert found["analysis"]["rmse"] == pytest.approx(1, abs=1e-3)
    assert found["analysis"]["bias"] == pytest.approx(-1, abs=1e-3)
    forecasts = xr.open_zarr("hindcast/wide/hindcast.zarr")["sst"].load()
    errors = []
    for day, cell, value in zip(DAYS, cells, values, strict=True):
        rows, leads = np.nonzero(forecasts["valid_time"].values == np.datetime64(day))
        errors += [float(forecasts.values[row, lead][cell]) - value for row, lead in zip(rows, leads, strict=True)]
    assert found["pairs"] == len(errors)
    assert found["scores"]["wide"]["mse"] == pytest.approx(np.square(errors).mean(), rel=5e-3)  # in hundredths
    low, high = found["scores"]["wide"]["interval"]
    assert low < found["scores"]["wide"]["mse"] < high
    assert metrics()["terciles"]["scores"]["wide"]["by_fold"]["rps"].keys() == {"2005", "2007"}
    assert not hindcast(planned)[1]

"""A hindcast of systems with different records, scored at points as well."""

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

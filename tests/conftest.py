"""A small ocean, for tests that need one."""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before NumPy: its threads only fight for small arrays

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
import xarray as xr
import yaml

torch.set_num_threads(2)


def make_sst(years: int = 4, rows: int = 8, cols: int = 12, seed: int = 0) -> xr.Dataset:
    """Seasons, a slow anomaly that drifts east, noise; land in the south-west corner."""
    random = np.random.default_rng(seed)
    time = pd.date_range("2001-01-01", f"{2000 + years}-12-31")
    lat, lon = -10.125 - 0.25 * np.arange(rows)[::-1], 170.125 + 0.25 * np.arange(cols)
    phase = 2 * np.pi * time.day_of_year.values[:, None, None] / 365.25
    wave = np.sin(2 * np.pi * (np.arange(len(time))[:, None, None] / 60 - np.arange(cols) / cols))
    noise = random.normal(0, 0.2, (len(time), rows, cols))
    sst = 20 + 4 * np.cos(phase) + 0.5 * np.arange(rows)[:, None] + wave + noise
    sst[:, :2, :3] = np.nan
    data = xr.Dataset({"sst": (("time", "lat", "lon"), sst.round(2))}, {"time": time, "lat": lat, "lon": lon})
    data["sst"].attrs["units"] = "Celsius"
    return data


@pytest.fixture(scope="session")
def sst_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The small ocean as a NetCDF file."""
    path = tmp_path_factory.mktemp("ocean") / "small.nc"
    make_sst().to_netcdf(path, engine="h5netcdf")
    return path


@pytest.fixture
def run_yaml(tmp_path: Path, sst_file: Path) -> Path:
    """A run on the small ocean: two tiles of 8 x 6, ten days of history, five ahead."""
    raw = {
        "name": "small",
        "runs": str(tmp_path / "runs"),
        "data": {
            "source": str(sst_file),
            "region": {"lon": [170, 173], "lat": [-12, -10], "tile": [8, 6]},
            "directory": str(tmp_path / "prepared"),
            "history": 10,
            "horizon": 5,
            "splits": {"train": [2001, 2002], "validation": [2003, 2003], "test": [2004, 2004]},
        },
        "model": {"name": "mpnn-vn", "width": 16, "layers": 2},
        "training": {"epochs": 2, "windows_per_epoch": 200, "device": "cpu"},
    }
    path = tmp_path / "small.yaml"
    path.write_text(yaml.safe_dump(raw))
    return path

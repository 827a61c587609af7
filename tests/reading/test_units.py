"""Units of temperature in all their spellings."""

from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from small_files import netcdf
from small_ocean import make_sst

from sstcast.config import FieldSource
from sstcast.reading.reading import open_sst

SST = make_sst(1)["sst"]

SPELLED = ["deg C", "degrees C", "Degrees Celsius", "°C", "degree_Celsius", "celsius", "C", "deg_C", "degreesC"]
SPELLED += ["ºC", "℃", "oC", "Deg. C", "degrees Celsius (ITS-90)", "degree celcius", "degrees centigrade"]
SPELLED += ["Celsius degrees", "degrees (Celsius)"]


@pytest.mark.parametrize("units", [*SPELLED, "K", "Kelvin", "degK", "degF", "Fahrenheit", "degrees F", "mK"])
def test_units(tmp_path: Path, units: str) -> None:
    written = {"k": SST + 273.15, "f": SST * 1.8 + 32, "c": SST}
    kind = next((letter for letter in "kf" if letter in units.lower()), "c")
    values = written[kind] * (1000 if units == "mK" else 1)
    path = netcdf(xr.Dataset({"sst": values.isel(time=slice(9)).assign_attrs(units=units)}))(tmp_path)
    np.testing.assert_allclose(open_sst(FieldSource(source=path)), SST[:9], atol=1e-4)

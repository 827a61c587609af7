"""One SIMULATED day as a NetCDF file in the exact layout of NOAA Daily OISST v2.1.

Dimensions, types, packing, chunks and attribute names are NOAA's, so that whatever reads the one reads the
other; every attribute that describes the content says that it is simulated.
"""

import datetime as dt
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from sstcast.files import atomic
from sstcast.ocean.land import GLOBE
from sstcast.ocean.simulated_climate import FREEZING
from sstcast.sources.simulator import Simulator

EPOCH = dt.date(1978, 1, 1)  # at 12:00
FILL = -999
WHOLE_GLOBE = (slice(None), slice(None))


def canonical_name(day: dt.date, preliminary: bool = False) -> str:
    """Return the name NOAA gives to a day's file, which is also its global attribute `id`."""
    return f"oisst-avhrr-v02r01.{day:%Y%m%d}{'_preliminary' if preliminary else ''}.nc"


def write_day(
    path: Path,
    day: dt.date,
    simulator: Simulator,
    preliminary: bool = False,
    box: tuple[slice, slice] = WHOLE_GLOBE,
) -> None:
    """Write the file of a simulated day to `path`.

    `box` holds the rows and columns of the global 720 x 1440 grid to write, for small files. The same
    arguments give the same values and attributes.
    """
    lat, lon = GLOBE.lat[box[0]], GLOBE.lon[box[1]]
    dataset = xr.Dataset(
        {
            name: (("time", "zlev", "lat", "lon"), packed[None, None], _variable_attributes(name))
            for name, packed in _packed(simulator, day, lat, lon).items()
        },
        {
            "time": ("time", np.array([(day - EPOCH).days], np.float32), _TIME),
            "zlev": ("zlev", np.zeros(1, np.float32), _ZLEV),
            "lat": ("lat", lat.astype(np.float32), _axis("Latitude", "degrees_north", lat)),
            "lon": ("lon", lon.astype(np.float32), _axis("Longitude", "degrees_east", lon)),
        },
        _global_attributes(day, preliminary, simulator.notice, lat, lon),
    )
    deflate = {"zlib": True, "complevel": 4, "shuffle": True}
    encoding: dict[str, dict[str, Any]] = {axis: {"_FillValue": None} for axis in ("zlev", "lat", "lon")}
    encoding["time"] = {"_FillValue": None, "chunksizes": (1,), **deflate}
    encoding |= {str(name): {"chunksizes": (1, 1, lat.size, lon.size), **deflate} for name in dataset.data_vars}
    with atomic(path) as partial:
        dataset.to_netcdf(partial, engine="netcdf4", unlimited_dims=["time"], encoding=encoding)


def _packed(
    simulator: Simulator, day: dt.date, lat: NDArray[Any], lon: NDArray[Any]
) -> dict[str, NDArray[np.int16]]:
    """Return the four variables `[lat, lon]` in hundredths."""
    sst = simulator.field([day], lat, lon)[0].astype(float)
    # Sea ice spreads as the water nears its freezing point; like NOAA, leave out what is below 15 %.
    cover = np.clip((-0.8 - sst) / (-0.8 - FREEZING), 0, 1)
    fields = {
        "sst": sst,
        "anom": sst - simulator.climatology([day], lat, lon)[0],
        "err": 0.12 + 0.18 * cover,
        "ice": np.where(cover >= 0.15, cover, np.nan),
    }
    return {
        name: np.where(np.isnan(field), FILL, np.rint(100 * np.nan_to_num(field))).astype(np.int16)
        for name, field in fields.items()
    }


_TIME = {"long_name": "Center time of the day", "units": "days since 1978-01-01 12:00:00"}
_ZLEV = {"long_name": "Sea surface height", "units": "meters", "positive": "down", "actual_range": "0, 0"}

# Name -> long name, units, smallest and largest valid number. NOAA's `ice` is a fraction, its units say %.
_VARIABLES = {
    "sst": ("daily sea surface temperature", "Celsius", -300, 4500),
    "anom": ("daily sea surface temperature anomalies", "Celsius", -1200, 1200),
    "err": ("estimated error standard deviation of sst", "Celsius", 0, 1000),
    "ice": ("sea ice concentration", "%", 0, 100),
}


def _variable_attributes(name: str) -> dict[str, Any]:
    long_name, units, smallest, largest = _VARIABLES[name]
    return {
        "long_name": f"SIMULATED {long_name}",
        "units": units,
        "_FillValue": np.int16(FILL),
        "add_offset": np.float32(0),
        "scale_factor": np.float32(0.01),
        "valid_min": np.int16(smallest),
        "valid_max": np.int16(largest),
    }


def _axis(name: str, units: str, values: NDArray[Any]) -> dict[str, str]:
    grid = f"Uniform grid from {values[0]} to {values[-1]} by 0.25"
    return {"long_name": name, "units": units, "grids": grid}


def _global_attributes(
    day: dt.date, preliminary: bool, notice: str, lat: NDArray[Any], lon: NDArray[Any]
) -> dict[str, Any]:
    # A fixed time of creation, as NOAA's delays would have it, keeps the file a function of its arguments.
    created = f"{day + dt.timedelta(days=1 if preliminary else 15)}T09:12:00Z"
    stage = "Preliminary" if preliminary else "Final"
    described = {
        "references": "The layout alone is that of Huang et al. (2021), doi:10.1175/JCLI-D-20-0166.1",
        "source": "sums of seeded random waves on an analytic climatology",
        "naming_authority": "none",
        "summary": "An invented ocean on the grid and in the layout of NOAA Daily OISST v2.1, for tests, "
        "demonstrations and work without a network. Nothing can be learnt from it about the real ocean.",
        "history": f"{stage} file written by sstcast's simulator",
        "product_version": "Version v02r01",
        "processing_level": "none",
        "institution": "none",
        "creator_url": "none",
        "creator_email": "none",
        "keywords": "Earth Science > Oceans > Ocean Temperature > Sea Surface Temperature",
        "platform": "none",
        "instrument": "none",
        "metadata_link": "none",
        "comment": "the coastlines are Natural Earth's, everything else is invented",
        "sensor": "none",
    }
    return {
        "Conventions": "CF-1.6, ACDD-1.3",
        "title": f"{notice}. Daily sea surface temperature in the layout of OISST, Version 2.1 - {stage}",
        "id": canonical_name(day, preliminary),
        **{name: f"{notice}; {text}" for name, text in described.items()},
        "cdm_data_type": "Grid",
        "date_modified": created,
        "date_created": created,
        "keywords_vocabulary": "Global Change Master Directory (GCMD) Earth Science Keywords",
        "platform_vocabulary": "Global Change Master Directory (GCMD) Platform Keywords",
        "instrument_vocabulary": "Global Change Master Directory (GCMD) Instrument Keywords",
        "standard_name_vocabulary": "CF Standard Name Table (v40, 25 January 2017)",
        "geospatial_lat_min": np.float32(lat[0] - 0.125),
        "geospatial_lat_max": np.float32(lat[-1] + 0.125),
        "geospatial_lon_min": np.float32(lon[0] - 0.125),
        "geospatial_lon_max": np.float32(lon[-1] + 0.125),
        "geospatial_lat_units": "degrees_north",
        "geospatial_lat_resolution": np.float32(0.25),
        "geospatial_lon_units": "degrees_east",
        "geospatial_lon_resolution": np.float32(0.25),
        "time_coverage_start": f"{day}T00:00:00Z",
        "time_coverage_end": f"{day}T23:59:59Z",
        "ncei_template_version": "NCEI_NetCDF_Grid_Template_v2.0",
    }

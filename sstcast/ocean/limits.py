"""What heatwaves are measured by, computed once from a prepared ocean and kept beside it."""

import os

import xarray as xr

from sstcast import __version__
from sstcast.cf import describe, write
from sstcast.config import DataConfig
from sstcast.errors import SSTCastError
from sstcast.files import alone
from sstcast.ocean.heatwaves import FREQUENCIES, LIMITS, frequencies, limits
from sstcast.ocean.prepared import Prepared
from sstcast.stores import open_netcdf

VALUES_AT_ONCE = 2**27  # of a band of latitudes: half a GiB


def limits_of(data: DataConfig) -> xr.Dataset:
    """Return `limits(dayofyear, lat, lon)` in degC and `frequencies(lat, lon)` of heatwaves in the base period.

    They follow from the stores of `prepare`, and are read from a file beside them, which is written if it is not
    there, is damaged, or is of other days; not where nobody may write.

    Raises SSTCastError if the stores are absent or damaged.
    """
    prepared = Prepared.of(data)
    cube, statistics = prepared.open_statistics()
    sst, recipe = cube["sst"].sel(time=slice(*map(str, data.splits.base))), statistics.attrs["recipe"]
    if not os.access(prepared.limits.parent, os.W_OK):
        known = _read(prepared, recipe)
        return _by_bands(sst) if known is None else known
    with alone(prepared.limits):
        if (known := _read(prepared, recipe)) is not None:
            return known
        found = _by_bands(sst)
        first, last = data.splits.base
        described = describe(
            found,
            title="Climatology and thresholds of marine heatwaves and cold spells",
            summary=f"Mean, 90th and 10th percentile of each day of the year in {first}..{last}, in an 11-day "
            "window, smoothed over 31 days (Hobday et al. 2016); NaN on land",
            source=str(cube.attrs["source"]),
            history=f"sstcast {__version__}",
            recipe=recipe,
        )
        write(described, prepared.limits)
        return found


def _read(prepared: Prepared, recipe: str) -> xr.Dataset | None:
    if not prepared.limits.exists():
        return None
    try:
        with open_netcdf(prepared.limits, "delete it") as found:
            return found[[*LIMITS, *FREQUENCIES]].load() if found.attrs.get("recipe") == recipe else None
    except (SSTCastError, KeyError):  # damaged, or without a variable
        return None


def _by_bands(sst: xr.DataArray) -> xr.Dataset:
    rows = max(1, VALUES_AT_ONCE // (sst.sizes["time"] * sst.sizes["lon"]))
    parts = []
    for start in range(0, sst.sizes["lat"], rows):
        band = sst.isel(lat=slice(start, start + rows)).load()
        found = limits(band)
        parts.append(found.merge(frequencies(band, found["heatwave_threshold"])))
    return xr.concat(parts, "lat").transpose("dayofyear", "lat", "lon")

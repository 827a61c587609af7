"""What heatwaves are measured by, computed once from a prepared ocean and kept beside it."""

import json
import os
from collections.abc import Sequence

import numpy as np
import xarray as xr

from sstcast import __version__
from sstcast.artefacts import is_made_of, locked
from sstcast.cf import describe, write
from sstcast.config import DataConfig
from sstcast.errors import reading
from sstcast.ocean.anomalies import DAYS_OF_YEAR
from sstcast.ocean.heatwaves import FREQUENCIES, LIMITS, frequencies, limits
from sstcast.ocean.prepared import Prepared
from sstcast.scratch import in_scratch, release, scratch_array
from sstcast.stores import open_netcdf

VALUES_AT_ONCE = 2**25  # of a band of latitudes
ALL = (*LIMITS, *FREQUENCIES)


def limits_of(data: DataConfig, *names: str) -> xr.Dataset:
    """Return `limits(dayofyear, lat, lon)` in degC and `frequencies(lat, lon)` of heatwaves in the base period.

    `names` are those wanted, by default all. They follow from the stores of `prepare`, and are read from a file
    beside them, which is written if it is not there, is damaged, or is of other days; not where nobody may write.

    Raises SSTCastError if the stores are absent or damaged.
    """
    prepared = Prepared.of(data)
    cube, statistics = prepared.open_statistics()
    sst, recipe = cube["sst"].sel(time=slice(*map(str, data.splits.base))), statistics.attrs["recipe"]
    wanted = list(names or ALL)
    if not os.access(prepared.limits.parent, os.W_OK):
        known = is_made_of(prepared.limits, json.loads(recipe))
        return _read(prepared, wanted) if known else _by_bands(sst)[wanted]
    with locked(prepared.limits):
        if is_made_of(prepared.limits, json.loads(recipe)):
            return _read(prepared, wanted)
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
        return found[wanted]


def _read(prepared: Prepared, names: Sequence[str]) -> xr.Dataset:
    with reading(prepared.limits, "delete it"), open_netcdf(prepared.limits, "delete it") as found:
        return found[[]].assign({name: in_scratch(found[name]) for name in names})


def _by_bands(sst: xr.DataArray) -> xr.Dataset:
    sst = in_scratch(sst)  # as a chunk of the store is of all latitudes
    rows = max(1, VALUES_AT_ONCE // (sst.sizes["time"] * sst.sizes["lon"]))
    fields = {name: scratch_array((len(DAYS_OF_YEAR), *sst.shape[1:])) for name in LIMITS}
    fields |= {name: np.empty(sst.shape[1:], np.float32) for name in FREQUENCIES}
    for start in range(0, sst.sizes["lat"], rows):
        band = sst.isel(lat=slice(start, start + rows)).copy()
        found = limits(band)
        for name, values in found.merge(frequencies(band, found["heatwave_threshold"])).items():
            fields[str(name)][..., start : start + rows, :] = values
        release()
    dims = ("dayofyear", "lat", "lon")
    cells = {"lat": sst["lat"], "lon": sst["lon"]}
    return xr.Dataset({n: (dims[-v.ndim :], v) for n, v in fields.items()}, {"dayofyear": DAYS_OF_YEAR, **cells})

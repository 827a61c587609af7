"""The public functions for data: fetch, examine, prepare and open."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from sstcast.api.arguments import as_config, expand_path, field_source, listed
from sstcast.errors import SSTCastError
from sstcast.log import reporting
from sstcast.storage.paths import expand_user

if TYPE_CHECKING:
    import xarray as xr

    from sstcast.config import RunConfig
    from sstcast.ocean.windows import Windows
    from sstcast.reading.raw import RawContents
    from sstcast.sources.fetch import FetchReport


def load_config(path: Path | str, overrides: Sequence[str] = ()) -> RunConfig:
    """Read the YAML of a run.

    Args:
        path: a YAML file. Files in `configs/` are also found outside a checkout.
        overrides: change the YAML with `key.sub=value`, for instance `training.epochs=3`.

    Returns:
        The configuration, with `data`, `model`, `training` and the run's `folder`.

    Raises:
        SSTCastError: the file is absent or invalid.

    Examples:
        >>> config = sstcast.load_config("my.yaml", ["training.epochs=1"])
        >>> config.data.history, config.data.horizon
        (10, 5)
    """
    from sstcast.config import load_config

    return load_config(expand_user(path), listed(overrides))


@reporting()
def fetch(
    source: str = "aws",
    start: dt.date | None = None,
    end: dt.date | None = None,
    region: str | None = None,
    out: Path | str | None = None,
    concurrency: int = 16,
    variables: str = "sst",
) -> FetchReport:
    """Download the days that a store lacks. The command exits with code 3 if some could not be downloaded.

    Args:
        source: a name listed by `sstcast fetch --help`, a URL, or a folder of downloaded files.
        start: first day, by default 1982-01-01.
        end: last day, by default yesterday or the last day of the source.
        region: a name in `configs/regions.yaml`, `W,E,S,N` in degrees, or `global`. By default, the source's.
        out: the store, by default in `data/` and named after source and region.
        concurrency: number of parallel downloads.
        variables: `sst`, or `sst,ice,err` to keep OISST's ice and error too, on all days of a new store.

    Returns:
        A report with the store's `path`, the number of days `fetched`, and the `missing` days with their reasons.

    Raises:
        SSTCastError: an argument or the store is unusable. Days that cannot be downloaded raise no error.

    Examples:
        >>> sstcast.fetch("sample", end=date(1982, 1, 3), out="data/days.zarr").complete
        data/days.zarr: 3 days fetched, 0 already present
        True
    """
    from sstcast.sources import find_source
    from sstcast.sources.fetch import fetch
    from sstcast.sources.source import FetchRequest

    last = end or find_source(source).end or dt.date.today() - dt.timedelta(days=1)
    first = start or dt.date(1982, 1, 1)
    names = tuple(dict.fromkeys(["sst", *(name.strip() for name in variables.split(","))]))
    return fetch(FetchRequest(first, last, source, region, expand_path(out), concurrency, names))


def status(folder: Path | str = "data") -> list[RawContents]:
    """Describe the days on disk: source, years, gaps, preliminary days, size.

    Args:
        folder: a store made by `fetch`, or a folder of stores.

    Returns:
        A description per store, with its `path`, `gaps` and `lines()` of text.

    Raises:
        SSTCastError: a store is damaged.

    Examples:
        >>> sstcast.status("data")[0].path.name
        'days.zarr'
    """
    from sstcast.reading.raw import raw_stores

    return raw_stores(expand_user(folder))


def init(
    source: str | Path | xr.Dataset | xr.DataArray,
    out: Path | str | None = None,
    variable: str | None = None,
    units: str | None = None,
) -> list[str]:
    """Examine SST data and write a configuration to train on them.

    Args:
        source: a NetCDF file, a Zarr store, a folder of them, the URL of a Zarr store, or `sample`; in Python also
            an xarray object.
        out: the YAML to write, by default named after the source.
        variable: name of the SST variable, if it is not found automatically.
        units: units of SST, for instance `K`, in place of those that the file or store states.

    Returns:
        Lines that describe the source and the chosen region and splits.

    Raises:
        SSTCastError: `out` exists already, or the source is unreadable or too short.

    Examples:
        >>> sstcast.init(config.data.source, "own.yaml")[0]
        '...days of sst, ...'
    """
    from sstcast.ocean.init_config import start

    return start(field_source(source, variable=variable, units=units), expand_path(out))


def prepare(
    config: RunConfig | Path | str,
    overrides: Sequence[str] = (),
    scheduler: str | None = None,
    source: xr.Dataset | xr.DataArray | None = None,
    predictors: Mapping[str, xr.Dataset | xr.DataArray] | None = None,
) -> None:
    """Crop SST to the region and compute standardised anomalies, unless the stores are up to date.

    Args:
        config: a run's YAML, for instance `configs/demo.yaml`; in Python also a configuration.
        overrides: change the YAML with `key.sub=value`, for instance `training.epochs=3`.
        scheduler: address of a dask cluster that sees the same files, for instance `tcp://host:8786`.
        source: an xarray object in place of the source that the configuration names (`docs/own-data.md`).
        predictors: xarray objects by name in place of the sources of `data.predictors` (`docs/predictors.md`).

    Returns:
        Nothing. `open` opens the stores.

    Raises:
        SSTCastError: the source is unusable, a tile is all land, or a split has too few days.

    Source:
        Cai et al. (2023), D.4, for the protocol `paper`.

    Examples:
        >>> sstcast.prepare(config)
    """
    from sstcast.dask_schedulers import cluster
    from sstcast.log import LOG
    from sstcast.ocean.prepare import prepare

    data = as_config(config, overrides, source, predictors).data
    with cluster(scheduler):
        if not (prepared := prepare(data)).written:
            LOG.info(f"{prepared.cube.parent}: nothing to do")


def open(config: RunConfig | Path | str) -> tuple[xr.Dataset, xr.Dataset]:
    """Open the stores made by `prepare`, lazily.

    Args:
        config: a run's YAML, for instance `configs/demo.yaml`; in Python also a configuration.

    Returns:
        The cube, `sst(time, lat, lon)` in degC, NaN on land, and the anomalies, `anomaly(time, lat, lon)` in
        standardised units with `climatology` and `scale(dayofyear, lat, lon)` in degC.

    Raises:
        SSTCastError: the stores are absent or damaged.

    Examples:
        >>> cube, anomalies = sstcast.open(config)
        >>> anomalies["anomaly"].dims
        ('time', 'lat', 'lon')
    """
    from sstcast.ocean.prepared import Prepared

    return Prepared.of(as_config(config).data).open()


def windows(config: RunConfig | Path | str, split: Literal["train", "validation", "test"]) -> Windows:
    """Cut a split into windows of history and future, T - history - horizon per tile for T days.

    Args:
        config: a run's YAML, for instance `configs/demo.yaml`; in Python also a configuration.
        split: `train`, `validation` or `test`.

    Returns:
        Windows with a method `batch(index)`. A batch has `history [B, nodes, history]` and
        `target [B, nodes, horizon]` in standardised units, the mask `ocean [B, nodes]` and the `graph`. The method
        `dataset()` returns them as a data set of PyTorch Geometric (see `docs/extending.md`).

    Raises:
        SSTCastError: the stores are absent, or the split has too few days.

    Source:
        Cai et al. (2023), Table 9, for the number of windows.

    Examples:
        >>> train = sstcast.windows(config, "train")
        >>> train.batch(torch.arange(3)).history.shape
        torch.Size([3, 48, 10])
        >>> train.dataset()[0].y.shape  # of the ocean of the first tile
        torch.Size([42, 5])
    """
    from sstcast.ocean.prepared import Prepared
    from sstcast.ocean.windows import cut_windows

    run, name = as_config(config), _split(split)
    cut = cut_windows(Prepared.of(run.data).open_anomalies(), run.data, name)
    return replace(cut, origin=(run.data, partial(windows, run, split)))


def as_forecasts(
    config: RunConfig | Path | str,
    predictions: Any,
    split: Literal["train", "validation", "test"] = "test",
    windows: Any = None,
) -> xr.Dataset:
    """Return an own model's predictions for windows as forecasts on the map, which `score` reads from a file.

    Args:
        config: a run's YAML, for instance `configs/demo.yaml`; in Python also a configuration.
        predictions: standardised anomalies `[n, horizon]` of the n ocean nodes of each window, as `y` of its graph
            in `windows(config, split).dataset()`: a list, or an array if all tiles have as many nodes.
        split: `train`, `validation` or `test`.
        windows: the numbers of the windows, in the order of the predictions (`window` of a graph); by default all.

    Returns:
        The forecasts `sst(init_time, lead, lat, lon)` in degC, NaN on land and outside the windows. `init_time` is
        the last day of history, and `lead` counts days after it from 1.

    Raises:
        SSTCastError: the stores are absent, a window repeats, or a prediction has another shape or is not finite.

    Examples:
        >>> graphs = sstcast.windows(config, "test").dataset()
        >>> persistence = [graph.x[:, -1:].expand(-1, 5) for graph in graphs]
        >>> forecasts = sstcast.as_forecasts(config, persistence)
        >>> forecasts["sst"].dims
        ('init_time', 'lead', 'lat', 'lon')
    """
    from sstcast.forecasting.own_predictions import as_forecasts

    return as_forecasts(as_config(config).data, predictions, _split(split), windows)


def _split(split: str) -> str:
    """Return the name of a split. Raises SSTCastError for any other text."""
    if split not in ("train", "validation", "test"):
        raise SSTCastError(f"split: no {split!r}; give train, validation or test")
    return split

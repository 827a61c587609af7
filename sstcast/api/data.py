"""The public functions for data: fetch, examine, prepare, open, and train on graph data sets."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, TypeVar

from sstcast.errors import SSTCastError
from sstcast.log import reporting
from sstcast.storage.artefacts import expand_user

if TYPE_CHECKING:
    import xarray as xr
    from torch_geometric.data import Data

    from sstcast.config import FieldSource, RunConfig
    from sstcast.ocean.places import Places
    from sstcast.ocean.point_observations import PointObservations
    from sstcast.ocean.windows import Windows
    from sstcast.reading.raw import RawContents
    from sstcast.sources.fetch import FetchReport

T = TypeVar("T")
Seeds = str | int | Sequence[int] | None


class Result(NamedTuple, Generic[T]):
    """The result of a function: its value, the file that holds it, and whether this call wrote the file."""

    value: T
    path: Path
    new: bool


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
        variables: `sst`, or `sst,ice,err` to keep OISST's ice and error too. Days without them are fetched again.

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
        '...days, ...'
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
    from sstcast.ocean.prepare import prepare_all

    oceans = as_config(config, overrides, source, predictors).oceans
    with cluster(scheduler):
        prepare_all(oceans)


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
        `target [B, nodes, horizon]` in standardised units, the mask `ocean [B, nodes]` and the `graph`.

    Raises:
        SSTCastError: the stores are absent, or the split has too few days.

    Source:
        Cai et al. (2023), Table 9, for the number of windows.

    Examples:
        >>> train = sstcast.windows(config, "train")
        >>> train.batch(torch.arange(3)).history.shape
        torch.Size([3, 48, 10])
    """
    from sstcast.ocean.prepared import Prepared
    from sstcast.ocean.windows import cut_windows

    if split not in ("train", "validation", "test"):
        raise SSTCastError(f"split: no {split!r}; give train, validation or test")
    data = as_config(config).data
    return cut_windows(Prepared.of(data).open_anomalies(), data, split)


def datasets(root: Path | str | None = None) -> list[str]:
    """List the graph data sets: name, task, metric, split, size, and whether the raw files are present.

    Args:
        root: the folder of raw files, `data/graphs` by default.

    Returns:
        A line of text per data set.

    Examples:
        >>> any(line.split()[0] == "ZINC" for line in sstcast.datasets())
        True
    """
    from sstcast.benchmarks.registry import dataset_lines

    return list(dataset_lines(expand_user(root or "data/graphs")))


@reporting()
def benchmark(
    dataset: str | Path | Data | Iterable[Data] | Mapping[str, Any],
    model: str | Path,
    root: Path | str | None = None,
    seeds: Seeds = None,
    overrides: Sequence[str] = (),
    trust: bool = False,
    evaluate: bool = False,
) -> list[dict[str, Any]]:
    """Train a model on a graph data set, seed by seed, and score it on the test samples.

    For graphs in memory, task and metric are inferred from the labels. The overrides `data.task=...` and
    `data.metric=...` replace them. Their data set is named after a hash of the graphs.

    Args:
        dataset: a name listed by `sstcast datasets`, or the YAML that describes your own data; in Python also a
            PyG data set, a PyG `Data` with `edge_index` and `y`, a list of them, or, to set the split, a
            dictionary with the list `graphs` and the numbers or masks of the `train`, `validation` and `test`
            graphs, or with a list of graphs for each of the three.
        model: a model, a preset or a local layer (`gps`, `gcn-vn`, ...), or the YAML of your own preset.
        root: the folder of raw files, `data/graphs` by default.
        seeds: one run per seed, for instance `0..3`; by default 0, or all folds of a split `folds:N`; in Python
            also numbers.
        overrides: change the YAML with `key.sub=value`, for instance `training.epochs=3`.
        trust: accept classes and raw files that can run arbitrary code.
        evaluate: score trained runs without training.

    Returns:
        A dictionary per seed with `test` and `validation` scores, `metric`, `best_epoch`, `parameters` and
        `seconds`.

    Raises:
        SSTCastError: raw files are damaged or cannot be downloaded, or an option is invalid.

    Examples:
        >>> [result] = sstcast.benchmark("rings.yaml", "gin", overrides=["training.epochs=1"])
        runs/benchmarks/rings/gin/seed-0: 40 of 40 graphs equal another, ...
        >>> result["metric"]
        'accuracy'
    """
    from sstcast.benchmarks.registry import find_dataset

    folder, numbers, changes = expand_path(root), seeds_of(seeds), listed(overrides)
    dataset, model = str(dataset) if isinstance(dataset, Path) else dataset, str(model)
    if isinstance(dataset, str) and not dataset.endswith((".yaml", ".yml")):
        find_dataset(dataset).check_reviewed(trust)  # before PyTorch is imported, which takes seconds
    from sstcast.benchmarks.config import load_benchmark
    from sstcast.benchmarks.load import load
    from sstcast.benchmarks.run import result_lines, run_benchmark

    name = str(expand_user(dataset)) if isinstance(dataset, str) else None
    config, loaded = load_benchmark(name, model, folder, changes), None
    if config.data is not None:  # the defaults for your own data depend on the labels
        loaded = load(config.declaration, config.root, config.cache, trust, dataset)
        config = load_benchmark(name, model, folder, changes, loaded.dataset)
    results = run_benchmark(config, numbers, trust, evaluate, loaded)
    for line in result_lines(config, results):
        print(line)
    return results


def as_config(
    config: RunConfig | Path | str,
    overrides: Sequence[str] = (),
    source: xr.Dataset | xr.DataArray | None = None,
    predictors: Mapping[str, xr.Dataset | xr.DataArray] | None = None,
) -> RunConfig:
    """Return a configuration unchanged, or read it from a path with `overrides`.

    An object as `source` stands for the one that the configuration names, or replaces its source, and so do those
    of the `predictors`. Raises SSTCastError if overrides come with a configuration, or a predictor is unknown.
    """
    if isinstance(config, (str, Path)):
        config = load_config(config, overrides)
    elif overrides:
        raise SSTCastError(f"overrides: {overrides[0]}: pass it to load_config, which made this configuration")
    if predictors is not None:
        config = _with_sources(config, predictors)
    if source is None:
        return config
    from sstcast.reading.objects import hold, is_object, name_of

    name, old_source = name_of(source), config.data.source
    if is_object(config.data.source) and not isinstance(source, (str, PathLike)):
        name = hold(source, old_source)
    oceans = [
        ocean.model_copy(update={"source": name}) if ocean.source == old_source else ocean for ocean in config.also
    ]
    data = config.data.model_copy(update={"source": name})
    return config.model_copy(update={"data": data, "also": tuple(oceans)})


def trainable(
    config: RunConfig | Path | str,
    overrides: Sequence[str] = (),
    source: xr.Dataset | xr.DataArray | None = None,
    predictors: Mapping[str, xr.Dataset | xr.DataArray] | None = None,
) -> RunConfig:
    """Return the configuration as `as_config` does. Raises SSTCastError also if its model cannot be built."""
    from sstcast.training.train import check_model

    run_config = as_config(config, overrides, source, predictors)
    try:
        check_model(run_config)
    except SSTCastError as error:
        name = config if isinstance(config, (str, Path)) else run_config.name
        raise SSTCastError(f"{name}: {error}") from None
    return run_config


def _with_sources(config: RunConfig, predictors: Mapping[str, xr.Dataset | xr.DataArray]) -> RunConfig:
    """Return a configuration whose predictors have the given objects as sources, in all oceans."""
    from sstcast.reading.objects import check_by_name, hold, is_object, name_of
    from sstcast.storage.yaml_files import suggest

    check_by_name(predictors)
    known = dict(config.data.predictors)
    for name, values in predictors.items():
        if name not in known:
            raise SSTCastError(f"predictors: data.predictors has no {name}{suggest(name, known)}; add it")
        is_held = is_object(known[name].source) and not isinstance(values, (str, PathLike))
        source = hold(values, known[name].source) if is_held else name_of(values)
        known[name] = known[name].model_copy(update={"source": source})
    oceans = [
        ocean.model_copy(
            update={
                "predictors": {
                    name: known[name] if own == config.data.predictors[name] else own
                    for name, own in ocean.predictors.items()
                }
            }
        )
        for ocean in config.oceans
    ]
    return config.model_copy(update={"data": oceans[0], "also": tuple(oceans[1:])})


def listed(values: Any) -> list[Any]:
    """Return one text, path or run as a list of one, and several as a list."""
    return [values] if isinstance(values, (str, PathLike)) else list(values)


def expand_path(path: PathLike[str] | str | None) -> Path | None:
    """Expand `~` in a path, and pass None through."""
    return None if path is None else expand_user(path)


def field_source(
    source: Path | str | xr.Dataset | xr.DataArray | None = None, **keys: str | int | None
) -> FieldSource:
    """Describe where days come from, with the region and how to read them, by the keys that are not None."""
    from sstcast.config import FieldSource
    from sstcast.storage.yaml_files import validate

    options: dict[str, Any] = {key: value for key, value in keys.items() if value is not None}
    if source is not None:
        from sstcast.reading.objects import name_of

        options = {"source": name_of(source), **options}
    return validate(FieldSource, options, ", ".join(f"--{key} {value}" for key, value in options.items()))


def seeds_of(seeds: Seeds) -> list[int] | None:
    """Parse seeds such as `0..4`, or check those given as numbers. Pass None through."""
    from sstcast.storage.yaml_files import parse_seeds

    if seeds is None:
        return None
    return parse_seeds(str(seeds) if isinstance(seeds, (str, int)) else ",".join(map(str, seeds)))


def read_places(file: Path | str | None) -> Places | None:
    from sstcast.ocean.places import Places

    return None if file is None else Places.read(expand_user(file))


def read_observations(
    file: Path | str | None,
    error: float,
    platforms: str | None = None,
    hours: str | None = None,
    units: str | None = None,
) -> PointObservations | None:
    """Read observations at points, and log what is left out. Return None without a file."""
    if file is None:
        return None
    from sstcast.ocean.point_observations import PointObservations, parse_hours

    if not 0 <= error < math.inf:
        raise SSTCastError(f"--observation-error {error}: give a standard deviation in degC, for instance 0.3")
    names = [name.strip() for name in platforms.split(",")] if platforms else []
    span = None if hours is None else parse_hours(hours)
    found = PointObservations.read(expand_user(file), names, span, units, error)
    found.tell()
    return found

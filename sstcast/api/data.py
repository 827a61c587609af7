"""The public functions for data: load a configuration, prepare and open data, make windows; graph data sets."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from sstcast.artefacts import at_home

if TYPE_CHECKING:
    import xarray as xr
    from torch_geometric.data import Data

    from sstcast.config import RunConfig
    from sstcast.ocean.windows import Windows


def load_config(path: Path | str, overrides: Sequence[str] = ()) -> "RunConfig":
    """Read the YAML of a run.

    Args:
        path: a YAML file; files in `configs/` are found outside a checkout too.
        overrides: strings `key.sub=value`, as for `--set` on the command line.

    Raises:
        SSTCastError: the file is absent, or something in it is wrong; the message names the key.

    Examples:
        >>> config = sstcast.load_config("my.yaml", ["training.epochs=1"])
        >>> config.data.history, config.data.horizon
        (10, 5)
    """
    from sstcast.config import load_config

    return load_config(at_home(path), list(overrides))


def prepare(config: "RunConfig | Path | str") -> None:
    """Crop the source to the region and compute anomalies; do nothing if that has been done.

    Raises:
        SSTCastError: the source cannot be read, lacks days or values, or does not fit the region or the splits.

    Source:
        Cai et al. (2023), D.4, for the protocol `paper`.

    Examples:
        >>> sstcast.prepare(config)
    """
    from sstcast.ocean.prepare import prepare_all

    prepare_all(as_config(config).oceans, say=quiet)


def open(config: "RunConfig | Path | str") -> "tuple[xr.Dataset, xr.Dataset]":
    """Open the stores that `prepare` made, lazily.

    Returns:
        The cube, `sst(time, lat, lon)` in degC, NaN on land; and the anomalies, `anomaly(time, lat, lon)` in
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


def windows(config: "RunConfig | Path | str", split: Literal["train", "validation", "test"]) -> "Windows":
    """Return a split's windows of history and future, T - history - horizon per tile for T days.

    Returns:
        Windows whose `batch(index)` gives `history [B, nodes, history]`, `target [B, nodes, horizon]`, both in
        standardised units, `ocean [B, nodes]` and their `graph`.

    Raises:
        SSTCastError: the stores are absent, or the split is too short for a single window.

    Source:
        Cai et al. (2023), Table 9, for their number.

    Examples:
        >>> train = sstcast.windows(config, "train")
        >>> train.batch(torch.arange(3)).history.shape
        torch.Size([3, 48, 10])
    """
    from sstcast.ocean.windows import cut_windows

    config = as_config(config)
    return cut_windows(open(config)[1], config.data, split)


def benchmark(
    dataset: "str | Data | Iterable[Data] | Mapping[str, Any]",
    model: str,
    seeds: Sequence[int] | None = None,
    root: Path | str | None = None,
    overrides: Sequence[str] = (),
    trust: bool = False,
) -> list[dict[str, Any]]:
    """Train a model on a graph data set, seed by seed, and score it on the test samples.

    Args:
        dataset: a name as for `sstcast benchmark`, a YAML that describes your own data, or the graphs themselves:
            a data set of PyG, a list of `torch_geometric.data.Data` with `edge_index` and `y`, or a single one.
            With your own split, a dictionary: the list `graphs`, and for `train`, `validation` and `test` their
            numbers or masks; or a list of graphs for each of the three.
        model: a model, a preset or a local layer (`gps`, `gcn-vn`, ...), or the YAML of a preset of your own.
        seeds: seeds of the runs, one run per seed; by default 0, or all folds of a split `folds:N`.
        root: the folder of raw files, `data/graphs` by default.
        overrides: strings `key.sub=value`; for graphs in memory, whose task is otherwise inferred from the labels,
            also `data.task=...` and `data.metric=...`. Their run is named by their content.
        trust: use classes and raw files that may run any code.

    Returns:
        A dictionary per seed: `test` and `validation` scores, `metric`, `best_epoch`, `parameters`, `seconds`.

    Raises:
        SSTCastError: raw files are missing or damaged, or an option is wrong.

    Examples:
        >>> [result] = sstcast.benchmark("rings.yaml", "gin", overrides=["training.epochs=1"])
        runs/benchmarks/rings/gin/seed-0: 40 graphs of ...
        >>> result["metric"]
        'accuracy'
    """
    from sstcast.benchmarks.config import load_benchmark
    from sstcast.benchmarks.run import run_benchmark

    folder = None if root is None else at_home(root)
    chosen = None if seeds is None else list(seeds)
    if isinstance(dataset, str):
        return run_benchmark(load_benchmark(str(at_home(dataset)), model, folder, list(overrides)), chosen, trust)
    from sstcast.benchmarks.load import load_memory

    loaded = load_memory(dataset, list(overrides))
    config = load_benchmark(loaded.dataset.name, model, folder, list(overrides), loaded.dataset)
    return run_benchmark(config, chosen, loaded=loaded)


def as_config(config: "RunConfig | Path | str") -> "RunConfig":
    """Return a configuration unchanged, or read it from a path."""
    return load_config(config) if isinstance(config, (str, Path)) else config


def quiet(line: str) -> None:
    """Print nothing."""

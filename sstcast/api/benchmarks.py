"""The public functions for graph data sets: list them, and train on them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sstcast.api.arguments import Seeds, expand_path, listed, seeds_of
from sstcast.log import reporting
from sstcast.storage.paths import expand_user

if TYPE_CHECKING:
    from torch_geometric.data import Data


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
        A dictionary per seed with `test` and `validation` scores, `metric`, `epoch`, `parameters` and
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

"""The public functions for graph data sets: list them, and train on them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sstcast.api.arguments import Seeds, expand_path, listed, names_in, seeds_of
from sstcast.errors import SSTCastError, aligned, message_of
from sstcast.log import LOG, reporting, show
from sstcast.storage.paths import expand_user

if TYPE_CHECKING:
    from torch_geometric.data import Data

    from sstcast.models.base import Backbone


def datasets(root: Path | str | None = None) -> list[str]:
    """List the graph data sets by task and metric: name, size, and whether the raw files are at hand.

    Args:
        root: the folder of raw files, `data/graphs` by default.

    Returns:
        A line of text per data set, after one for its task and metric.

    Examples:
        >>> any(line.split()[0] == "ZINC" for line in sstcast.datasets())
        True
    """
    from sstcast.benchmarks.registry import dataset_lines

    return list(dataset_lines(expand_user(root or "data/graphs")))


@reporting()
def benchmark(
    dataset: str | Path | Data | Iterable[Data] | Mapping[str, Any],
    model: Sequence[str | Path | type[Backbone]] | str | Path | type[Backbone],
    root: Path | str | None = None,
    seeds: Seeds = None,
    overrides: Sequence[str] = (),
    trust: bool = False,
    evaluate: bool = False,
) -> list[dict[str, Any]]:
    """Train models on a graph data set, seed by seed, and score them on the test samples.

    For graphs in memory, task and metric are inferred from the labels. The overrides `data.task=...` and
    `data.metric=...` replace them. Their data set is named after a hash of the graphs. Of several models, one that
    cannot be trained does not stop the others. The command then exits with code 3.

    Args:
        dataset: a name listed by `sstcast datasets`, or the YAML that describes your own data; in Python also a
            PyG data set, a PyG `Data` with `edge_index` and `y`, a list of them, or, to set the split, a
            dictionary with the list `graphs` and the numbers or masks of the `train`, `validation` and `test`
            graphs, or with a list of graphs for each of the three.
        model: models, presets or local layers (`gps`, `gcn-vn`, ...), or the YAMLs of your own presets: one, or
            several with commas between them or given one by one; in Python also a list, and your own class of a
            `Backbone`.
        root: the folder of raw files, `data/graphs` by default.
        seeds: one run per seed, for instance `0..3`; by default 0, or all folds of a split `folds:N`; in Python
            also numbers.
        overrides: change the YAML with `key.sub=value`, for instance `training.epochs=3`.
        trust: accept classes and raw files that can run arbitrary code.
        evaluate: score trained runs without training.

    Returns:
        A dictionary per model and seed with `test` and `validation` scores, `metric`, the best `epoch`,
        `parameters`, `seconds`, the number of `test_samples` and their score with the best `constant`.

    Raises:
        SSTCastError: raw files are damaged or cannot be downloaded, or an option is invalid.

    Examples:
        >>> [result] = sstcast.benchmark("rings.yaml", "gin", overrides=["training.epochs=1"])
        runs/benchmarks/rings/gin/seed-0: 40 of 40 graphs equal another, ...
        >>> result["metric"]
        'accuracy'
    """
    from sstcast.benchmarks.registry import find_dataset

    folder, numbers, changes, models = expand_path(root), seeds_of(seeds), listed(overrides), _models(model)
    dataset = str(dataset) if isinstance(dataset, Path) else dataset
    if isinstance(dataset, str) and not dataset.endswith((".yaml", ".yml")):
        find_dataset(dataset).check_reviewed(trust)  # before PyTorch is imported, which takes seconds
    from sstcast.benchmarks.config import load_benchmark
    from sstcast.benchmarks.graph_model import check_model
    from sstcast.benchmarks.load import load
    from sstcast.benchmarks.results import SplitScore, tables_of
    from sstcast.benchmarks.run import result_lines, run_benchmark

    name = str(expand_user(dataset)) if isinstance(dataset, str) else None
    configs = [load_benchmark(name, one, folder, changes) for one in models]
    for config in configs:
        check_model(config)  # before a download
    results: list[dict[str, Any]] = []
    loaded, source = None, None
    for one, config in zip(models, configs, strict=True):
        if loaded is None or (config.declaration, config.root, config.cache) != source:
            source = config.declaration, config.root, config.cache
            loaded = load(*source, trust, dataset)
        try:
            if config.data is not None:  # the defaults for your own data depend on the labels
                config = load_benchmark(name, one, folder, changes, loaded.dataset)
            of_model = run_benchmark(config, numbers, trust, evaluate, loaded)
        except Exception as error:
            if one == models[-1] and not results:
                raise
            LOG.warning(f"{config.label}: no result: {message_of(error)}")
            continue
        results += of_model
        show(*result_lines(config, of_model))
    if len(models) > 1:
        for title, header, rows in tables_of((r["model"], SplitScore.model_validate(r)) for r in results):
            show(title, *aligned([("", *header), *((row, *cells) for row, cells in rows)]))
    return results


def _models(model: Any) -> list[str]:
    """Return the names of models, and of own classes, which are registered.

    Raises SSTCastError for a class that is no backbone, or an object that is neither.
    """
    from sstcast.models.factory import register

    names: list[Any] = []
    for one in model if isinstance(model, (list, tuple)) else [model]:
        if not isinstance(one, (str, PathLike, type)):
            raise SSTCastError(
                f"model: an object of {type(one).__name__}, not a name; give one that `sstcast models` lists, or "
                "a class of your own (docs/extending.md)"
            )
        names.append(register(one) if isinstance(one, type) else one)
    return names_in(names)

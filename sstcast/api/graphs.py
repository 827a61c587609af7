"""The public function for graph data sets."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sstcast.files import at_home

if TYPE_CHECKING:
    from torch_geometric.data import Data


def benchmark(
    dataset: "str | Sequence[Data]",
    model: str,
    seeds: Sequence[int] | None = None,
    root: Path | str | None = None,
    overrides: Sequence[str] = (),
) -> list[dict[str, Any]]:
    """Train a model on a graph data set, seed by seed, and score it on the test samples.

    Args:
        dataset: a name as for `sstcast benchmark`, a YAML that describes your own data, or the graphs themselves:
            a data set of PyG, or a list of `torch_geometric.data.Data` with `edge_index` and `y`.
        model: a model, a preset or a local layer: `gps`, `gcn-vn`, ...
        seeds: seeds of the runs, one run per seed; by default 0, or all folds of a split `folds:N`.
        root: the folder of raw files, `data/graphs` by default.
        overrides: strings `key.sub=value`; for graphs in memory, whose task is otherwise inferred from the labels,
            also `data.task=...` and `data.metric=...`.

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
        return run_benchmark(load_benchmark(str(at_home(dataset)), model, folder, list(overrides)), chosen)
    name = str(
        getattr(dataset, "name", None) or ("graphs" if isinstance(dataset, list) else type(dataset).__name__)
    )
    config = load_benchmark(name, model, folder, list(overrides), dataset)
    return run_benchmark(config, chosen, data=dataset)

"""The commands for graph data sets: `datasets` and `benchmark`."""

from pathlib import Path
from typing import Annotated

import typer

from sstcast.verbs import Set

Root = Annotated[Path | None, typer.Option(help="Folder of raw files; data/graphs by default.", metavar="FOLDER")]


def datasets(root: Root = None) -> None:
    """List the graph data sets of `benchmark`, and whether their raw files are there."""
    from sstcast.benchmarks.registry import dataset_lines

    print(*dataset_lines(root or Path("data/graphs")), sep="\n")


def benchmark(
    dataset: Annotated[str, typer.Argument(help="A name as in `sstcast datasets`, CLASS:NAME of PyG, or a YAML.")],
    model: Annotated[str, typer.Option(help="A model, a preset, a local layer or a YAML: gps, gcn-vn, ...")],
    root: Root = None,
    seeds: Annotated[
        str | None, typer.Option(help="For instance 0..3; by default 0, or one per fold.", show_default=False)
    ] = None,
    set_: Set = None,
    trust: Annotated[
        bool, typer.Option("--trust", help="Use classes and raw files that may run any code.")
    ] = False,
    evaluate: Annotated[bool, typer.Option("--evaluate", help="Only score what is trained.")] = False,
) -> None:
    """Train a model on a graph data set, downloaded if it is missing, and score it on the test split."""
    from sstcast.benchmarks.registry import find_dataset
    from sstcast.yaml_files import parse_seeds

    chosen = None if seeds is None else parse_seeds(seeds)
    if not dataset.endswith((".yaml", ".yml")):
        find_dataset(dataset)  # before PyTorch is imported, which takes seconds
    from sstcast.benchmarks.config import load_benchmark

    config = load_benchmark(dataset, model, root, set_)
    from sstcast.benchmarks.run import result_lines, run_benchmark

    print(*result_lines(config, run_benchmark(config, chosen, trust, evaluate)), sep="\n")

"""The commands for graph data sets and the papers' experiments: `datasets`, `benchmark` and `study`."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from sstcast.errors import SSTCastError
from sstcast.files import PACKAGE
from sstcast.verbs import Set

Root = Annotated[Path | None, typer.Option(help="Folder of raw files; data/graphs by default.", metavar="FOLDER")]


def datasets(root: Root = None) -> None:
    """List the graph data sets of `benchmark`, and whether their raw files are there."""
    from sstcast.benchmarks.table import dataset_lines

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
    from sstcast.benchmarks.table import result_lines
    from sstcast.validation import parse_seeds

    chosen = None if seeds is None else parse_seeds(seeds)
    if not dataset.endswith((".yaml", ".yml")):
        find_dataset(dataset)  # before PyTorch is imported, which takes seconds
    from sstcast.benchmarks.config import load_benchmark

    config = load_benchmark(dataset, model, root, set_)
    from sstcast.benchmarks.run import run_benchmark

    print(*result_lines(config, run_benchmark(config, chosen, trust, evaluate)), sep="\n")


def study(
    name: Annotated[
        str,
        typer.Argument(
            help="attention-cost, kernel-speedup, equivariant-basis, vn-approximates-attention, wl, "
            "global-attention, attention-distance or kernel-assumption; the last two train on NCI1."
        ),
    ],
    root: Root = None,
    out: Annotated[Path, typer.Option(help="The folder of studies.", metavar="FOLDER")] = Path("runs/studies"),
) -> None:
    """Repeat an experiment from the papers: a table and a figure."""
    home = PACKAGE.parent
    if not (home / "studies/study.py").exists():
        raise SSTCastError("study: the studies are not in the installed package; clone sstcast's repository")
    sys.path.append(str(home))
    from studies import build_study
    from studies.study import run_study

    folder = out / name
    page, new = run_study(build_study(name, root), folder)
    print(page)
    print(f"{folder}: {'written' if new else 'nothing to do'}")

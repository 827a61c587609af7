"""The commands for graph data sets and the papers' experiments: `datasets`, `benchmark` and `study`."""

import sys
from glob import escape
from pathlib import Path
from typing import Annotated

import typer

from sstcast.errors import SSTCastError
from sstcast.files import PACKAGE
from sstcast.finished import Finished
from sstcast.verbs import Set

Root = Annotated[Path | None, typer.Option(help="Folder of raw files; data/graphs by default.", metavar="FOLDER")]


def datasets(root: Root = None) -> None:
    """List the graph data sets of `benchmark`, and whether their raw files are there."""
    from sstcast.benchmarks.table import dataset_lines
    from sstcast.verbs.watched import below

    done = Finished(*below(place := root or Path("data/graphs"), "**"))
    text = "\n".join(dataset_lines(place)) + "\n"
    print(text, end="")
    done.remember(text)


def benchmark(
    dataset: Annotated[str, typer.Argument(help="A name as in `sstcast datasets`, CLASS:NAME of PyG, or a YAML.")],
    model: Annotated[str, typer.Option(help="A model, a preset, a local layer or a YAML: gps, gcn-vn, ...")],
    root: Root = None,
    seeds: Annotated[
        str | None, typer.Option(help="For instance 0..3; by default 0, or one per fold.", show_default=False)
    ] = None,
    set_: Set = None,
    trust: Annotated[
        bool, typer.Option("--trust", help="Open unknown raw files that are pickles; they may run any code.")
    ] = False,
    evaluate: Annotated[bool, typer.Option("--evaluate", help="Only score what is trained.")] = False,
) -> None:
    """Train a model on a graph data set, downloaded if it is missing, and score it on the test split."""
    from sstcast.benchmarks.config import YAML, load_benchmark
    from sstcast.benchmarks.run import run_benchmark
    from sstcast.benchmarks.table import result_lines
    from sstcast.validation import parse_seeds
    from sstcast.verbs.watched import below, config_files

    written = [Path(name) for name in (dataset, model) if name.endswith(YAML)]
    done = Finished(*(file for path in written for file in config_files(path)))
    config = load_benchmark(dataset, model, root, set_)
    declared = config.declaration
    done.watch(*(escape(str(config.root / declared.folder / name)) for name in declared.names))
    done.watch(*below(config.root / declared.folder, "*.txt"))  # of those that a folder may have or lack
    results = run_benchmark(config, None if seeds is None else parse_seeds(seeds), trust, evaluate)
    text = "\n".join(result_lines(config, results)) + "\n"
    print(text, end="")
    if not evaluate:  # which scores again whatever there is
        runs = [config.folder / f"seed-{result['seed']}" for result in results]
        found = "".join(f"{run}: nothing to do\n" for run in runs)
        done.remember(found + text, *(file for run in runs for file in below(run, "**")))


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

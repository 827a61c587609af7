"""The output of the commands `datasets` and `benchmark`."""

from collections.abc import Iterator
from pathlib import Path
from statistics import mean, stdev
from typing import TYPE_CHECKING, Any

from sstcast.benchmarks.registry import find_dataset, named
from sstcast.errors import SSTCastError

if TYPE_CHECKING:
    from sstcast.benchmarks.config import BenchmarkConfig


def dataset_lines(root: Path) -> Iterator[str]:
    """Yield a line per data set: name, task, metric, split, size, licence, and whether it is below `root`."""
    columns = ("name", "task", "metric", "split", "size", "licence", f"below {root}")
    rows = [columns]
    for name in named():
        try:
            d = find_dataset(name)
        except SSTCastError as error:  # ogb is not installed
            rows.append((name, "", "", "", "", "", str(error)))
            continue
        folder = root / d.folder
        inside = folder.iterdir() if folder.is_dir() else ()
        wanted = str(d.part or d.folder).lower().replace("-", "_")
        there = any(path.name.lower().replace("-", "_") == wanted for path in inside) or (
            d.part is None and folder.is_dir()
        )
        rows.append((d.name, d.task, d.metric, d.split, d.size, d.licence, "yes" if there else "no"))
    widths = [max(len(row[i]) for row in rows) for i in range(len(columns))]
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def result_lines(config: "BenchmarkConfig", results: list[dict[str, Any]]) -> Iterator[str]:
    """Yield a line per seed and one for all seeds, with the paper's number and the best if they are known."""
    from sstcast.benchmarks.config import published

    for r in results:
        yield (
            f"seed {r['seed']}: test {r['metric']} {r['test']:.4f}, validation {r['validation']:.4f} "
            f"at epoch {r['best_epoch'] + 1} of {r['epochs']}, {r['seconds']:.0f} s"
        )
    scores = [r["test"] for r in results]
    spread = f" ± {stdev(scores):.4f}" if len(scores) > 1 else ""
    theirs = ", on its own split" if config.split is not None else ""
    known = {f"published{theirs}": published(config), f"best known{theirs}": published(config, "best")}
    papers = "".join(f"; {what}: {found[0]:g} ({found[1]})" for what, found in known.items() if found is not None)
    first = results[0]
    what = "folds" if config.declaration.split.startswith("folds:") else "seeds"
    yield (
        f"{first['dataset']}, {first['model']}: test {first['metric']} {mean(scores):.4f}{spread} over "
        f"{len(scores)} {what}, {first['parameters']:,} parameters{papers}"
    )

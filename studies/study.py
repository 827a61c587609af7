"""Runs a study case by case, saving each; and what studies share: graphs, a short training, axes."""

import datetime as dt
import platform
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
import torch
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullLocator, StrMethodFormatter
from rich import get_console
from rich import progress as bar
from torch import Tensor, nn

from sstcast import __version__
from sstcast.errors import SSTCastError
from sstcast.graphs.sparse import SparseGraph
from sstcast.progress import hides_progress
from sstcast.storage.artefacts import atomic, locked

Case = Mapping[str, Any]
Row = dict[str, Any]


@dataclass(frozen=True)
class Study:
    """`measure(**case)` returns rows of results. The rows of all cases make up the study.

    `tabulate` makes of them the table for the reader, its cells ready to print, and `draw` the figure.
    """

    cases: Sequence[Case]
    measure: Callable[..., Iterable[Row]]
    tabulate: Callable[[pd.DataFrame], pd.DataFrame]
    draw: Callable[[pd.DataFrame], Figure]

    def rows_of(self, case: Case) -> pd.DataFrame:
        """Measure one case; each row begins with the parameters of the case."""
        return pd.DataFrame([{**case, **row} for row in self.measure(**case)])

    def rows(self) -> pd.DataFrame:
        """Measure all cases."""
        return pd.concat([self.rows_of(case) for case in self.cases], ignore_index=True)


def run_study(study: Study, folder: Path) -> tuple[str, bool]:
    """Measure what `folder` lacks; return the study's table as Markdown, and whether there was anything to do.

    Writes `rows.csv` after each case, so that an interrupted study goes on where it was, then `figure.png` and
    `table.md`.

    Raises SSTCastError if `rows.csv` is no table of this study.
    """
    csv, figure, page = folder / "rows.csv", folder / "figure.png", folder / "table.md"
    with locked(csv):
        known = _read(csv, study)
        missing = [case for case in study.cases if _select(known, case).empty]
        made = figure.exists() and page.exists()
        if made and not missing and page.stat().st_mtime >= csv.stat().st_mtime:
            with suppress(UnicodeDecodeError, IsADirectoryError):  # damaged: it is written anew
                return page.read_text(encoding="utf-8"), False
        read = not known.empty
        with _progress() as shown:
            task = shown.add_task("", total=len(missing))
            for case in missing:
                shown.update(task, description=", ".join(f"{key} {value}" for key, value in case.items()))
                rows = study.rows_of(case)
                known = rows if known.empty else pd.concat([known, rows], ignore_index=True)
                with atomic(csv) as temporary:
                    known.to_csv(temporary, index=False)
                shown.advance(task)
        rows = pd.concat([_select(known, case) for case in study.cases], ignore_index=True)
        try:
            drawn, table = study.draw(rows), study.tabulate(rows)
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            if read:  # rows of this study's cases, but not its results
                raise _no_rows(csv) from error
            raise
        with atomic(figure) as temporary:
            drawn.savefig(temporary, format="png", dpi=120)
        text = f"{markdown(table)}\n\n{surroundings()}\n"
        with atomic(page) as temporary:
            temporary.write_text(text, encoding="utf-8")
    return text, True


def markdown(table: pd.DataFrame) -> str:
    """Return a table as Markdown."""
    lines = [table.columns, ["---"] * len(table.columns), *table.itertuples(index=False)]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)


def surroundings() -> str:
    """Return the versions, the processor, the number of threads and the day."""
    return (
        f"sstcast {__version__}, torch {torch.__version__}, {platform.machine()}, "
        f"{torch.get_num_threads()} threads, {dt.date.today()}"
    )


def spread(values: pd.Series, form: str = ".3f") -> str:
    """Return mean ± standard deviation, the latter only if there is one."""
    mean = format(values.mean(), form)
    return mean if len(values) < 2 else f"{mean} ± {format(values.std(), form)}"


def batch_graphs(graphs: Sequence[nx.Graph]) -> SparseGraph:
    """Join graphs, the nodes of each numbered from 0; every edge goes both ways."""
    sizes = [len(graph) for graph in graphs]
    starts = np.cumsum([0, *sizes[:-1]])
    pairs = np.concatenate(
        [start + np.array(graph.edges).reshape(-1, 2) for start, graph in zip(starts, graphs, strict=True)]
    )
    edge_index = torch.from_numpy(np.concatenate([pairs.T, pairs.T[::-1]], axis=1).astype(np.int64))
    return SparseGraph(edge_index, torch.arange(len(graphs)).repeat_interleave(torch.tensor(sizes)), len(graphs))


def fit(model: nn.Module, loss: Callable[[int], Tensor], steps: int, rate: float) -> None:
    """Minimise `loss(step)` by Adam; the learning rate goes up to `rate` and down to 0 in one cycle."""
    optimizer = torch.optim.Adam(model.parameters())
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=rate, total_steps=steps)
    for step in range(steps):
        optimizer.zero_grad()
        loss(step).backward()
        optimizer.step()
        schedule.step()


def label_decades(axis: Axis) -> None:
    """Label a logarithmic axis at 1, 2 and 5 of every decade, in plain numbers."""
    axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axis.set_minor_locator(NullLocator())


def _read(csv: Path, study: Study) -> pd.DataFrame:
    if not csv.exists():
        return pd.DataFrame(columns=list(study.cases[0]))
    try:
        known = pd.read_csv(csv, keep_default_na=False, na_values=[""])
    except (ValueError, OSError):
        known = pd.DataFrame()
    if not set(study.cases[0]) <= set(known.columns):
        raise _no_rows(csv)
    return known


def _no_rows(csv: Path) -> SSTCastError:
    return SSTCastError(f"{csv}: not the rows of this study; delete the file, or choose another folder by --out")


def _select(rows: pd.DataFrame, case: Case) -> pd.DataFrame:
    return rows[(rows[list(case)] == pd.Series(case)).all(axis=1)]


def _progress() -> bar.Progress:
    return bar.Progress(
        bar.BarColumn(bar_width=None),
        bar.MofNCompleteColumn(),
        bar.TextColumn("{task.description}"),
        bar.TimeElapsedColumn(),
        bar.TextColumn("left"),
        bar.TimeRemainingColumn(),
        expand=True,
        disable=hides_progress(get_console()),
    )

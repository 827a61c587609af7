"""CSV files: molecules as SMILES with targets, or the nodes and the edges of one graph."""

import json
import pickle
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.utils import coalesce, remove_self_loops, to_undirected

from sstcast.benchmarks.dataset import Dataset
from sstcast.benchmarks.packed import Split
from sstcast.benchmarks.raw import check_raw
from sstcast.errors import SSTCastError, reading, shorten

HEADER = 2  # the first row's line in the file
HELD_OUT = 150_000  # training molecules of PCQM4Mv2 used for validation, as its test labels are secret
QUICK = 2000  # molecules for which no bar is shown


def read_table(path: Path, columns: Sequence[str | None]) -> pd.DataFrame:
    """Read a CSV; the index holds line numbers in the file.

    Raises SSTCastError if it is missing or empty, or lacks one of `columns`, of which None are left out.
    """
    if not path.exists():
        raise SSTCastError(f"{path} is missing")
    with reading(path, "save it as comma-separated text"), warnings.catch_warnings():
        warnings.simplefilter("error", pd.errors.ParserWarning)  # about lines longer than the first
        try:
            table = pd.read_csv(path, index_col=False, skip_blank_lines=False)
        except pd.errors.EmptyDataError as error:
            raise SSTCastError(f"{path}: empty; its first line must name the columns") from error
        except pd.errors.ParserWarning as error:
            raise SSTCastError(f"{path}: its lines have more columns than the first line names") from error
    for name in columns:
        if name is not None and name not in table:
            raise SSTCastError(f"{path}: no column {name!r}; it has {', '.join(map(str, table.columns))}")
    table.index += HEADER
    table = table.dropna(how="all")
    if not len(table):
        raise SSTCastError(f"{path}: no rows after the first line")
    return table


def read_smiles(dataset: Dataset, paths: Sequence[Path], trust: bool) -> tuple[list[Data], list[Split], list[str]]:
    """Read molecules with the features of the Open Graph Benchmark, the splits, and what cannot be parsed.

    `options` of the declaration: `smiles` and `targets` name columns; a single target may hold a list,
    `[0, 1, 0]`, and an empty target is unknown. `id` names a column of unique values, `split_column` one of train,
    validation and test. A second path is the official split: a dictionary of rows.
    """
    path, options = paths[0], dataset.options
    own, part = options.get("id"), options.get("split_column")
    table = read_table(path, [options["smiles"], *options["targets"], own, part])
    _number(table, own, path)
    labels = _labels(table, options["targets"], path, dataset)

    def where(row: int, column: int) -> str:
        name = options["targets"][column if len(options["targets"]) > 1 else 0]
        return f"{path}: line {table.index[row]}, column {name!r}"

    dataset.objective.check(labels, dataset, where)
    graphs, skipped = featurise(table[options["smiles"]])
    kept = torch.tensor([graph is not None for graph in graphs])
    if not kept.any():
        raise SSTCastError(f"{path}: no molecule can be parsed; check the column {options['smiles']!r}")
    splits = _file_splits(paths[1], dataset, trust) if len(paths) > 1 else column_split(table, part, path)
    place = kept.cumsum(0) - 1
    splits = [Split(*(place[rows[kept[rows]]] for rows in split)) for split in splits]
    data = []
    for graph, y in zip(graphs, labels, strict=True):
        if graph is not None:
            graph.y = y
            data.append(graph)
    return data, splits, skipped


def featurise(smiles: "pd.Series[str]") -> tuple[list[Data | None], list[str]]:
    """Return a graph for each molecule, None if it cannot be parsed, and a line of text for each of those.

    The index of `smiles` holds line numbers in the file. Raises SSTCastError if ogb or rdkit is not installed.
    """
    try:
        from ogb.utils import smiles2graph
        from rdkit import rdBase
    except ImportError as error:
        raise SSTCastError("SMILES need ogb and rdkit; python -m pip install 'sstcast[benchmarks]'") from error
    from rich import get_console
    from rich.progress import track

    from sstcast.progress import hides_progress

    graphs: list[Data | None] = []
    skipped = []
    hidden = len(smiles) < QUICK or hides_progress(get_console())
    for line, text in track(smiles.items(), "reading molecules", len(smiles), disable=hidden, transient=True):
        try:
            with rdBase.BlockLogs():
                raw = smiles2graph(text)
            if not raw["num_nodes"]:
                raise ValueError("no atoms")
        except (AttributeError, TypeError, ValueError):  # raised where rdkit returns None
            graphs.append(None)
            skipped.append(f"line {line}: {text!r} cannot be parsed")
            continue
        arrays = {"x": raw["node_feat"], "edge_attr": raw["edge_feat"], "edge_index": raw["edge_index"]}
        graphs.append(Data(**{name: torch.from_numpy(array) for name, array in arrays.items()}, smiles=text))
    return graphs, skipped


def read_nodes(dataset: Dataset) -> tuple[list[Data], list[Split]]:
    """Read one graph from a CSV of its nodes and a CSV of its edges, and the split that a column holds."""
    options = dataset.options
    path, edges = options["path"], options["path"].parent / options["edges"]
    wanted = [options["target"], options["id"], options["split_column"], *(options["features"] or ())]
    table = read_table(path, wanted)
    others = [name for name in table.select_dtypes(["number", "bool"]).columns if name not in wanted]
    features = _numbers(table[options["features"] or others], path).float()
    numbers = _number(table, options["id"], path)
    links = read_table(edges, [options["source"], options["to"], *options["edge_features"]])
    ends = pd.concat([links[name].map(numbers) for name in (options["source"], options["to"])], axis=1)
    if (lost := np.flatnonzero(ends.isna().any(axis=1))).size:
        source, to = links[[options["source"], options["to"]]].iloc[lost[0]]
        raise SSTCastError(f"{edges}: line {links.index[lost[0]]}: {source} - {to}: no such node in {path}")
    index = torch.from_numpy(ends.to_numpy(np.int64).T.copy())
    index, attributes = remove_self_loops(index, _numbers(links[options["edge_features"]], edges).float())
    join = coalesce if options["directed"] else to_undirected
    index, attributes = join(index, attributes, num_nodes=len(table), reduce="mean")
    y = _labels(table, [options["target"]], path, dataset)
    if bool(((y == y.floor()) | y.isnan()).all()):  # whole numbers are classes, unless declared
        y = y if dataset.task else y.nan_to_num(-1).long()
    data = Data(edge_index=index, y=y.squeeze(-1), num_nodes=len(table))
    data.x = features if features.shape[1] else None
    data.edge_attr = attributes if attributes.shape[1] else None
    return [data], column_split(table, options["split_column"], path)


def column_split(table: pd.DataFrame, name: str | None, path: Path) -> list[Split]:
    """Return the split that a column of `train`, `validation` and `test` holds, if there is one."""
    if not name:
        return []
    column = table[name].replace({"valid": "validation", "val": "validation"})
    wrong = np.flatnonzero(~column.isin(Split._fields) & column.notna())
    if len(wrong):
        line, part = table.index[wrong[0]], column.iloc[wrong[0]]
        raise SSTCastError(f"{path}: line {line}: {part!r} is no part of a split")
    return [Split(*(torch.from_numpy(np.flatnonzero(column == part)) for part in Split._fields))]


def _number(table: pd.DataFrame, name: str | None, path: Path) -> "pd.Series[int]":
    """Return the rows' numbers by their ids, or by themselves; raise SSTCastError if an id has come before."""
    ids = table[name] if name else pd.Series(np.arange(len(table)), table.index)
    if len(again := np.flatnonzero(ids.duplicated())):
        line, value = table.index[again[0]], ids.iloc[again[0]]
        raise SSTCastError(f"{path}: line {line}: the id {value!r} has come before")
    return pd.Series(np.arange(len(table)), index=ids)


def _numbers(columns: pd.DataFrame, path: Path) -> Tensor:
    """Return columns of numbers, NaN where empty; raise SSTCastError, naming line and column, for others."""
    numbers = columns.apply(pd.to_numeric, errors="coerce")
    wrong = numbers.isna() & columns.notna()
    bad = np.flatnonzero(wrong.any(axis=1))
    if len(bad):
        column = columns.columns[int(np.argmax(wrong.iloc[bad[0]]))]
        place = f"line {columns.index[bad[0]]}, column {column!r}"
        raise SSTCastError(f"{path}: {place}: {str(columns[column].iloc[bad[0]])!r} is not a number")
    return torch.from_numpy(numbers.to_numpy(np.float64))


def _labels(table: pd.DataFrame, names: Sequence[str], path: Path, dataset: Dataset) -> Tensor:
    """Return the labels `[rows, columns]`; those of one column may be written as lists."""
    columns = table[list(names)]
    if len(names) > 1 or not str(columns.iloc[0, 0]).startswith("["):
        numbers = _numbers(columns, path)
        return numbers.nan_to_num(-1) if dataset.task and dataset.objective.classes else numbers
    rows = [_listed(text, path, line) for line, text in columns.iloc[:, 0].items()]
    other = next((i for i, row in enumerate(rows) if len(row) != len(rows[0])), None)
    if other is not None:
        problem = f"{len(rows[other])} numbers, unlike the {len(rows[0])} of the first row"
        raise SSTCastError(f"{path}: line {table.index[other]}: {problem}")
    return torch.tensor(rows, dtype=torch.float64)


def _listed(text: Any, path: Path, line: int) -> list[float]:
    try:
        return [float(value) for value in json.loads(text)]
    except (ArithmeticError, RecursionError, TypeError, ValueError) as error:
        raise SSTCastError(f"{path}: line {line}: {shorten(str(text))!r} is not a list of numbers") from error


def _file_splits(path: Path, dataset: Dataset, trust: bool) -> list[Split]:
    if not trust:
        check_raw([path], dataset.sha256)
    with reading(path, "get it again"):  # `check_raw` or the user allows what it may run
        if path.suffix == ".pt":
            found: dict[str, NDArray[Any]] = torch.load(path, weights_only=False)
        else:
            found = pickle.loads(path.read_bytes())
        rows = {name: torch.tensor(np.asarray(part), dtype=torch.long) for name, part in found.items()}
        if "test" in rows:
            return [Split(rows["train"], rows["val"], rows["test"])]
        order = rows["train"][torch.randperm(len(rows["train"]), generator=torch.Generator().manual_seed(0))]
        held_out = min(HELD_OUT, len(order) // 10)
        return [Split(order[held_out:], order[:held_out], rows["valid"])]

"""CSV files: molecules as SMILES with targets, or the nodes and the edges of one graph."""

import json
import pickle
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch_geometric.data import Data
from torch_geometric.utils import coalesce, remove_self_loops, to_undirected

from sstcast.benchmarks.dataset import Dataset
from sstcast.benchmarks.packed import Graphs, Split, pack
from sstcast.benchmarks.raw import check_raw
from sstcast.benchmarks.splits import scaffold_split
from sstcast.errors import SSTCastError, reading, shorten

HEADER = 2  # the first row's line in the file
HELD_OUT = 150_000  # training molecules of PCQM4Mv2 used for validation, as its test labels are secret


def read_table(path: Path, columns: Sequence[str]) -> pd.DataFrame:
    """Read a CSV; the index holds line numbers in the file.

    Raises SSTCastError if it is missing or empty, or lacks one of `columns`.
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
        if name not in table:
            raise SSTCastError(f"{path}: no column {name!r}; it has {', '.join(map(str, table.columns))}")
    table.index += HEADER
    table = table.dropna(how="all")
    if not len(table):
        raise SSTCastError(f"{path}: no rows after the first line")
    return table


def read_smiles(dataset: Dataset, root: Path, trust: bool) -> tuple[Graphs, list[Split], list[str]]:
    """Read molecules with the features of the Open Graph Benchmark, the splits, and what cannot be parsed.

    `options` of the declaration: `smiles` and `targets` name columns; a single target may hold a list,
    `[0, 1, 0]`, and an empty target is unknown. `id` names a column of unique values, `split` a column of train,
    validation and
    test. A second file is the official split: a dictionary of rows.
    """
    options = dataset.options
    path, *second = (root / dataset.folder / name for name in dataset.files)
    wanted = [options["smiles"], *options["targets"], *(options[k] for k in ("id", "split") if options.get(k))]
    table = read_table(path, wanted)
    if options.get("id"):
        _check_unique(table[options["id"]], path)
    labels = _labels(table, path, dataset)
    names = options["targets"]

    def where(row: int, column: int) -> str:
        column_name = f"column {names[column]!r}" if len(names) > 1 else f"{names[0]!r}"
        return f"{path}: line {table.index[row]}, {column_name}"

    dataset.objective.check(torch.tensor(labels), dataset, where)
    graphs, skipped = featurise(table[options["smiles"]])
    kept = torch.tensor([graph is not None for graph in graphs])
    if not kept.any():
        raise SSTCastError(f"{path}: no molecule can be parsed; check the column {options['smiles']!r}")
    if dataset.split == "scaffold":
        splits = [scaffold_split(table[options["smiles"]][kept.numpy()].tolist())]
    else:
        place = kept.cumsum(0) - 1
        given = (
            _file_splits(second[0], dataset, trust) if second else column_split(table, options.get("split"), path)
        )
        splits = [Split(*(place[part[kept[part]]] for part in split)) for split in given]
    y = torch.tensor(labels)[kept]
    return pack([g for g in graphs if g is not None], "graph", y), splits, skipped


def featurise(smiles: "pd.Series[str]") -> tuple[list[dict[str, Any] | None], list[str]]:
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

    graphs: list[dict[str, Any] | None] = []
    skipped = []
    quick = len(smiles) < 2000
    shown = track(smiles, "reading molecules", disable=quick or hides_progress(get_console()), transient=True)
    for line, text in zip(smiles.index, shown, strict=True):
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
        graphs.append({name: torch.from_numpy(array) for name, array in arrays.items()})
    return graphs, skipped


def read_nodes(dataset: Dataset) -> tuple[Data, list[Split]]:
    """Read one graph from a CSV of its nodes and a CSV of its edges, and the split that a column holds."""
    options = dataset.options
    path, edges = options["path"], options["edges"]
    wanted = [
        options["target"],
        *(options["features"] or ()),
        *(options[k] for k in ("id", "split") if options[k]),
    ]
    table = read_table(path, wanted)
    others = [name for name in table.select_dtypes(["number", "bool"]).columns if name not in wanted]
    features = _numbers(table[options["features"] or others], path).astype(np.float32)
    links = read_table(edges, [options["source"], options["to"], *options["edge_features"]])
    if options["id"]:
        _check_unique(table[options["id"]], path)
    numbers = pd.Series(
        np.arange(len(table)), index=table[options["id"]] if options["id"] else np.arange(len(table))
    )
    ends = pd.concat([links[name].map(numbers) for name in (options["source"], options["to"])], axis=1)
    if (lost := np.flatnonzero(ends.isna().any(axis=1))).size:
        source, to = links[[options["source"], options["to"]]].iloc[lost[0]]
        raise SSTCastError(f"{edges}: line {links.index[lost[0]]}: {source} - {to}: no such node in {path}")
    index = torch.from_numpy(ends.to_numpy(np.int64).T.copy())
    attributes = torch.from_numpy(_numbers(links[options["edge_features"]], edges).astype(np.float32))
    index, attributes = remove_self_loops(index, attributes)
    join = coalesce if options["directed"] else to_undirected
    index, attributes = join(index, attributes, num_nodes=len(table), reduce="mean")
    y = torch.from_numpy(_labels(table, path, dataset))
    y = y.long() if bool((y == y.floor()).all()) else y  # whole numbers are classes, unless declared
    data = Data(edge_index=index, y=y.squeeze(-1), num_nodes=len(table))
    if features.shape[1]:
        data.x = torch.from_numpy(features)
    if attributes.shape[1]:
        data.edge_attr = attributes
    return data, column_split(table, options["split"], path)


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


def _check_unique(column: "pd.Series[Any]", path: Path) -> None:
    again = np.flatnonzero(column.duplicated())
    if len(again):
        value = column.iloc[again[0]]
        raise SSTCastError(f"{path}: line {column.index[again[0]]}: the id {value!r} has come before")


def _numbers(columns: pd.DataFrame, path: Path) -> NDArray[Any]:
    """Return columns of numbers, NaN where empty; raise SSTCastError, naming line and column, for others."""
    numbers = columns.apply(pd.to_numeric, errors="coerce")
    wrong = numbers.isna() & columns.notna()
    bad = np.flatnonzero(wrong.any(axis=1))
    if len(bad):
        column = columns.columns[int(np.argmax(wrong.iloc[bad[0]]))]
        place = f"line {columns.index[bad[0]]}, column {column!r}"
        raise SSTCastError(f"{path}: {place}: {str(columns[column].iloc[bad[0]])!r} is not a number")
    return numbers.to_numpy(np.float64)


def _labels(table: pd.DataFrame, path: Path, dataset: Dataset) -> NDArray[Any]:
    columns = table[list(dataset.options.get("targets", (dataset.options.get("target"),)))]
    if columns.shape[1] == 1 and str(columns.iloc[0, 0]).startswith("["):
        rows = [_listed(text, path, line) for line, text in columns.iloc[:, 0].items()]
        other = next((i for i, row in enumerate(rows) if len(row) != len(rows[0])), None)
        if other is not None:
            problem = f"{len(rows[other])} numbers, unlike the {len(rows[0])} of the first row"
            raise SSTCastError(f"{path}: line {table.index[other]}: {problem}")
        return np.array(rows)
    numbers = _numbers(columns, path)
    classes = bool(dataset.task) and dataset.objective.classes
    return np.nan_to_num(numbers[:, 0], nan=-1) if classes else numbers


def _listed(text: Any, path: Path, line: int) -> list[float]:
    try:
        return [float(value) for value in json.loads(text)]
    except (ArithmeticError, RecursionError, TypeError, ValueError) as error:
        raise SSTCastError(f"{path}: line {line}: {shorten(str(text))!r} is not a list of numbers") from error


def _file_splits(path: Path, dataset: Dataset, trust: bool) -> list[Split]:
    if not trust:
        check_raw([path], dataset.sha256)
    load: Callable[[Path], Any] = _torch if path.suffix == ".pt" else _unpickled
    with reading(path, "get it again"):
        rows = {name: torch.tensor(np.asarray(part), dtype=torch.long) for name, part in load(path).items()}
        if "test" in rows:
            return [Split(rows["train"], rows["val"], rows["test"])]
        order = rows["train"][torch.randperm(len(rows["train"]), generator=torch.Generator().manual_seed(0))]
        held_out = min(HELD_OUT, len(order) // 10)
        return [Split(order[held_out:], order[:held_out], rows["valid"])]


def _torch(path: Path) -> Any:
    return torch.load(path, weights_only=False)  # `check_raw` or the user allows it


def _unpickled(path: Path) -> Any:
    return pickle.loads(path.read_bytes())  # `check_raw` or the user allows it

"""Molecules as SMILES in a CSV file, with the features of the Open Graph Benchmark (`ogb.utils.smiles2graph`).

`options`: `smiles` and `targets` name columns; a single target may hold a list, `[0, 1, 0]`, and an empty target
is unknown. `id` names a column of unique values, `split` a column of train, validation and test. A second file is
the official split: a dictionary of rows.
"""

import json
import sys
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from sstcast.benchmarks.checks import wrong_label
from sstcast.benchmarks.dataset import Dataset
from sstcast.benchmarks.packed import Loaded, Split, pack
from sstcast.benchmarks.pickles import load_torch, unpickle
from sstcast.errors import SSTCastError, reading, shorten
from sstcast.terminal import hides_progress

HEADER = 2  # the first molecule's line in the file
HELD_OUT = 150_000  # training molecules of PCQM4Mv2 used for validation, as its test labels are secret


def read(root: Path, dataset: Dataset) -> Loaded:
    """Read the molecules; leave out and report those that cannot be parsed."""
    folder = root / dataset.folder
    path = folder / dataset.names[0]
    table = read_table(path, dataset)
    labels = _labels(table, path, dataset)
    if found := wrong_label(torch.tensor(labels).double().reshape(len(labels), -1), dataset):
        row, column, problem = found
        targets = dataset.options["targets"]
        name = f"column {targets[column]!r}" if len(targets) > 1 else f"{targets[0]!r}"
        raise SSTCastError(f"{path}: line {table.index[row]}, {name}: {problem}")
    graphs, skipped = featurise(table[dataset.options["smiles"]])
    if not any(graphs):
        raise SSTCastError(f"{path}: no molecule can be parsed; check the column {dataset.options['smiles']!r}")
    for graph, label in zip(graphs, labels, strict=True):
        if graph is not None:
            graph["y"] = torch.tensor(label, dtype=None if dataset.classes else torch.float32)[None]
    kept = torch.tensor([graph is not None for graph in graphs])
    if dataset.split == "scaffold":
        splits = [scaffold_split(table[dataset.options["smiles"]][kept.numpy()].tolist())]
    else:
        place = kept.cumsum(0) - 1
        given = _splits(folder, table, path, dataset)
        splits = [Split(*(place[part[kept[part]]] for part in split)) for split in given]
    return Loaded(pack([g for g in graphs if g is not None], "graph"), splits, tuple(skipped))


def read_table(path: Path, dataset: Dataset) -> pd.DataFrame:
    """Read the CSV; the index holds line numbers in the file.

    Raises SSTCastError if it is empty, lacks a column or repeats an id.
    """
    options = dataset.options
    with reading(path, "save it as comma-separated text"), warnings.catch_warnings():
        warnings.simplefilter("error", pd.errors.ParserWarning)  # about lines longer than the first
        try:
            table = pd.read_csv(path, index_col=False, skip_blank_lines=False)
        except pd.errors.EmptyDataError as error:
            raise SSTCastError(f"{path}: empty; its first line must name the columns") from error
        except pd.errors.ParserWarning as error:
            raise SSTCastError(f"{path}: its lines have more columns than the first line names") from error
    wanted = [options["smiles"], *options["targets"], *(options[k] for k in ("id", "split") if options.get(k))]
    for name in wanted:
        if name not in table:
            raise SSTCastError(f"{path}: no column {name!r}; it has {', '.join(map(str, table.columns))}")
    table.index += HEADER
    table = table.dropna(how="all")
    if not len(table):
        raise SSTCastError(f"{path}: no molecules after the first line")
    if options.get("id"):
        again = np.flatnonzero(table[options["id"]].duplicated())
        if len(again):
            value = table[options["id"]].iloc[again[0]]
            raise SSTCastError(f"{path}: line {table.index[again[0]]}: the id {value!r} has come before")
    return table


def featurise(smiles: "pd.Series[str]") -> tuple[list[dict[str, Any] | None], list[str]]:
    """Return a graph for each molecule, None if it cannot be parsed, and a line of text for each of those.

    The index of `smiles` holds line numbers in the file.
    """
    from rich import get_console
    from rich.progress import track

    smiles2graph = _featuriser()
    graphs: list[dict[str, Any] | None] = []
    skipped = []
    quick = len(smiles) < 2000
    shown = track(smiles, "reading molecules", disable=quick or hides_progress(get_console()), transient=True)
    for line, text in zip(smiles.index, shown, strict=True):
        try:
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


def scaffold_split(smiles: Sequence[str]) -> Split:
    """Divide molecules 80/10/10 so that those with the same ring systems and linkers stay together.

    The commonest scaffolds are for training, as in MoleculeNet (Wu et al. 2018, arXiv:1703.00564).
    """
    from rdkit import rdBase
    from rdkit.Chem.Scaffolds.MurckoScaffold import MurckoScaffoldSmiles

    groups: dict[str, list[int]] = {}
    with rdBase.BlockLogs():
        for row, text in enumerate(smiles):
            groups.setdefault(MurckoScaffoldSmiles(smiles=text), []).append(row)
    parts: tuple[list[int], list[int], list[int]] = ([], [], [])
    for group in sorted(groups.values(), key=lambda rows: (-len(rows), rows[0])):
        done = sum(map(len, parts[:2])) + len(group)
        part = 0 if len(parts[0]) + len(group) <= 0.8 * len(smiles) else 1 if done <= 0.9 * len(smiles) else 2
        parts[part].extend(group)
    return Split(*(torch.tensor(part, dtype=torch.long) for part in parts))


def _featuriser() -> Callable[[str], dict[str, Any]]:
    """Return ogb's function, without rdkit's log about molecules that it cannot parse."""
    kept = sys.modules.get("outdated")
    sys.modules["outdated"] = None  # type: ignore[assignment]  # or ogb asks PyPI for a newer version of itself
    try:
        from ogb.utils import smiles2graph
        from rdkit import rdBase
    except ImportError as error:
        raise SSTCastError("SMILES need ogb and rdkit; python -m pip install 'sstcast[benchmarks]'") from error
    finally:
        if kept is None:
            del sys.modules["outdated"]
        else:
            sys.modules["outdated"] = kept

    def quietly(smiles: str) -> dict[str, Any]:
        with rdBase.BlockLogs():
            return smiles2graph(smiles)

    return quietly


def _labels(table: pd.DataFrame, path: Path, dataset: Dataset) -> NDArray[Any]:
    columns = table[list(dataset.options["targets"])]
    if columns.shape[1] == 1 and str(columns.iloc[0, 0]).startswith("["):
        rows = [_listed(text, path, line) for line, text in columns.iloc[:, 0].items()]
        other = next((i for i, row in enumerate(rows) if len(row) != len(rows[0])), None)
        if other is not None:
            problem = f"{len(rows[other])} numbers, unlike the {len(rows[0])} of the first molecule"
            raise SSTCastError(f"{path}: line {table.index[other]}: {problem}")
        return np.array(rows)
    numbers = columns.apply(pd.to_numeric, errors="coerce")
    wrong = numbers.isna() & columns.notna()
    bad = np.flatnonzero(wrong.any(axis=1))
    if len(bad):
        column = columns.columns[int(np.argmax(wrong.iloc[bad[0]]))]
        place = f"line {table.index[bad[0]]}, column {column!r}"
        raise SSTCastError(f"{path}: {place}: {str(columns[column].iloc[bad[0]])!r} is not a number")
    if dataset.classes:
        return numbers.iloc[:, 0].fillna(-1).to_numpy()
    return numbers.to_numpy(np.float64)


def _listed(text: Any, path: Path, line: int) -> list[float]:
    try:
        return [float(value) for value in json.loads(text)]
    except (ArithmeticError, RecursionError, TypeError, ValueError) as error:
        raise SSTCastError(f"{path}: line {line}: {shorten(str(text))!r} is not a list of numbers") from error


def _splits(folder: Path, table: pd.DataFrame, path: Path, dataset: Dataset) -> list[Split]:
    if len(dataset.names) > 1:
        second = folder / dataset.names[1]
        raw = (load_torch if second.suffix == ".pt" else unpickle)(second, dataset.trust)
        rows = {name: torch.tensor(np.asarray(part), dtype=torch.long) for name, part in raw.items()}
        if "test" in rows:
            return [Split(rows["train"], rows["val"], rows["test"])]
        order = rows["train"][torch.randperm(len(rows["train"]), generator=torch.Generator().manual_seed(0))]
        held_out = min(HELD_OUT, len(order) // 10)
        return [Split(order[held_out:], order[:held_out], rows["valid"])]
    if not dataset.options.get("split"):
        return []
    column = table[dataset.options["split"]].replace({"valid": "validation", "val": "validation"})
    wrong = np.flatnonzero(~column.isin(Split._fields))
    if len(wrong):
        line, part = table.index[wrong[0]], column.iloc[wrong[0]]
        raise SSTCastError(f"{path}: line {line}: {part!r} is no part of a split")
    return [Split(*(torch.from_numpy(np.flatnonzero(column == part)) for part in Split._fields))]

"""Reads CSV files of molecules as SMILES with targets, or of the nodes and the edges of one graph."""

import hashlib
import json
import pickle
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from warnings import catch_warnings, simplefilter

import numpy as np
import pandas as pd
import torch
from torch import Tensor
from torch_geometric.data import Data, InMemoryDataset

from sstcast.benchmarks.cache import cached
from sstcast.benchmarks.edges import listed_edges
from sstcast.benchmarks.objectives import objective_of
from sstcast.benchmarks.packed import ConcatenatedGraphs, Split, narrow
from sstcast.benchmarks.reading import check_raw, fetch, join
from sstcast.benchmarks.registry import ATOMS, BONDS, MANY_GRAPHS, Dataset
from sstcast.benchmarks.splits import MASKS, NAMES, splits_in
from sstcast.errors import SSTCastError, reading
from sstcast.log import LOG
from sstcast.progress import tracked
from sstcast.storage.artefacts import atomic
from sstcast.storage.csv_files import check_csv

QUOTED = "feat"  # a column of DGL's CSVDataset
WEIGHTS = "weight", "edge_weight"  # columns of edges, in any case
FIRST_ROW_LINE = 2  # line of the first row in the file
VALIDATION_MOLECULES = 150_000  # training molecules of PCQM4Mv2 used for validation, as its test labels are secret
LISTED = 5  # printed molecules that cannot be parsed


def read_table(path: Path, columns: Sequence[str | None], text: Sequence[str | None]) -> pd.DataFrame:
    """Read a CSV. The index holds line numbers in the file.

    The columns `text` hold text, whatever it looks like: `035` and `NA` are kept. An empty cell is missing.

    Raises SSTCastError if the file is missing or empty, is not separated by commas, or lacks one of `columns` or
    `text` that is not None.
    """
    with reading(path, "give comma-separated text whose first line names the columns"), catch_warnings():
        check_csv(path)
        simplefilter("error", pd.errors.ParserWarning)  # about lines longer than the first
        table = pd.read_csv(path, index_col=False, skip_blank_lines=False, dtype_backend="numpy_nullable")
        exact = pd.read_csv(
            path, index_col=False, skip_blank_lines=False, usecols=text.__contains__, dtype=str, na_filter=False
        )
    for name in (*text, *columns):
        if name is not None and name not in table:
            raise SSTCastError(f"{path}: no column {name!r}; it has {', '.join(map(str, table.columns))}")
    for name in exact:
        table[name] = exact[name].str.strip().replace("", None)
    table.index += FIRST_ROW_LINE
    table = table.dropna(how="all")
    if not len(table):
        raise SSTCastError(f"{path}: no rows after the first line")
    return table


def read_smiles(dataset: Dataset, root: Path, cache: Path, trust: bool) -> tuple[ConcatenatedGraphs, list[Split]]:
    """Read molecules with the features of the Open Graph Benchmark, which `cache` keeps, and the splits.

    The declaration's `options` name columns: `smiles`, `targets`, `id` (unique values) and `split_column` (train,
    validation and test). A single target may hold a list, `[0, 1, 0]`, and an empty target is unknown. The second
    of the declared `files` is the official split, a dictionary of rows. Molecules that cannot be parsed are left
    out. The first are printed, and a file in `cache` lists all.
    """
    options = dataset.options
    id_column, split_column = options.get("id"), options.get("split_column")
    path, *split_files = [options["path"]] if "path" in options else fetch(dataset, root)
    table = read_table(path, [*options["targets"], split_column], [options["smiles"], id_column])
    _number(table, id_column, path)
    labels = _labels(table, options["targets"], path, dataset.task)

    def where(row: int, column: int) -> str:
        name = options["targets"][column if len(options["targets"]) > 1 else 0]
        return f"{path}: line {table.index[row]}, column {name!r}"

    objective_of(dataset).check(labels, dataset, where)
    splits = (
        _file_splits(split_files[0], dataset, len(table), trust)
        if split_files
        else column_split(table, split_column, path)
    )
    smiles = table[options["smiles"]]
    name = f"{dataset.name}-{hashlib.sha256(smiles.to_csv().encode()).hexdigest()[:12]}.pt"
    graphs = join(cached(cache / name, lambda: featurise(smiles)))
    readable = graphs.nodes > 0
    if not readable.any():
        raise SSTCastError(f"{path}: no molecule can be parsed; check the column {options['smiles']!r}")
    if not readable.all():
        skipped = [f"line {line}: {text!r} cannot be parsed" for line, text in smiles[~readable.numpy()].items()]
        report = (cache / name).with_suffix(".skipped.txt")
        with atomic(report) as temporary:
            temporary.write_text("".join(f"{path}: {line}\n" for line in skipped))
        notice = f"{len(skipped):,} of {len(readable):,} molecules cannot be parsed and are left out; see {report}"
        LOG.warning("; ".join([notice, *skipped[:LISTED]]))
    graphs.data.update({"y": labels[readable], "smiles": smiles[readable.numpy()].tolist()})
    new_row = readable.cumsum(0) - 1
    splits = [Split(*(new_row[rows[readable[rows]]] for rows in split)) for split in splits]
    # A molecule that cannot be parsed has no rows in the tensors.
    counts = {name: count[readable] for name, count in graphs.counts.items()} | {"y": readable[readable].long()}
    return ConcatenatedGraphs(graphs.data, graphs.nodes[readable], counts), splits


def featurise(smiles: "pd.Series[str]") -> Any:
    """Return the graphs of molecules as an `InMemoryDataset` stores them. An unreadable molecule has no nodes.

    Raises SSTCastError if ogb or rdkit is not installed.
    """
    try:
        from ogb.utils import smiles2graph
        from rdkit import rdBase
    except ImportError as error:
        raise SSTCastError("SMILES need ogb and rdkit; python -m pip install 'sstcast[benchmarks]'") from error
    empty = {"node_feat": np.zeros((0, len(ATOMS)), int), "edge_feat": np.zeros((0, len(BONDS)), int)}
    empty["edge_index"] = np.zeros((2, 0), int)
    graphs = []
    for text in tracked(smiles, "reading molecules"):
        try:
            with rdBase.BlockLogs():
                raw = smiles2graph(text)
        except (AttributeError, TypeError, ValueError):  # raised because rdkit returns None
            raw = empty
        x, attr, index = (torch.from_numpy(raw[name]) for name in ("node_feat", "edge_feat", "edge_index"))
        graphs.append(Data(x=x, edge_attr=attr, edge_index=index))
    data, slices = InMemoryDataset.collate(graphs)
    return data.to_dict(), slices


def read_nodes(dataset: Dataset) -> tuple[ConcatenatedGraphs, list[Split]]:
    """Read one graph from a CSV of its nodes and a CSV of its edges, and its split from a column or masks."""
    options = dataset.options
    path, edges = options["path"], options["path"].parent / options["edges"]
    role_names = [options["target"], options["id"], options["split_column"], *(options["features"] or ())]
    table = read_table(path, role_names, [options["id"]])
    links = read_table(edges, options["edge_features"], [options["source"], options["to"]])
    if "graph_id" in table and "graph_id" in links:
        raise SSTCastError(f"{path}: has many graphs, by graph_id; {MANY_GRAPHS}")
    mask_names = [name for name in MASKS.values() if name in table and name not in role_names]
    used = {*role_names, *mask_names}
    numeric_names = [name for name in table.select_dtypes(["number", "bool"]).columns if name not in used]
    table, feature_names = _spread(table, options["features"] or [*numeric_names, *_quoted(table, used)], path)
    masks = {} if options["split_column"] else {name: _mask(table, name, path) for name in mask_names}
    _tell_columns(path, table, feature_names, role_names, split=[*masks])
    ends_names = [options["source"], options["to"]]
    links, edge_names = _spread(links, options["edge_features"] or _quoted(links, set(ends_names)), edges)
    weight_names = [n for n in links if str(n).lower() in WEIGHTS and n not in ends_names]
    _tell_columns(edges, links, edge_names, ends_names, weights=weight_names)
    features = narrow(_numbers(table[feature_names], path), f"{path}: features")
    _check_filled(table[[options["id"]] if options["id"] else []], path)
    numbers = _number(table, options["id"], path)
    end_names = links[ends_names]
    _check_filled(end_names, edges)
    ends = end_names if options["id"] else end_names.apply(pd.to_numeric, errors="coerce")
    ends = (
        _matched(ends, numbers, path, edges) if options["id"] else ends.apply(lambda column: column.map(numbers))
    )
    if (unmatched := np.flatnonzero(ends.isna().any(axis=1))).size:
        source, to = end_names.iloc[unmatched[0]]
        raise SSTCastError(f"{edges}: line {links.index[unmatched[0]]}: {source} - {to}: no such node in {path}")
    index = torch.from_numpy(ends.to_numpy(np.int64).T.copy())
    attributes = narrow(_numbers(links[edge_names], edges), f"{edges}: features")
    weights = _numbers(links[weight_names], edges).float()
    if not torch.equal(weights[:, :1].expand_as(weights).nan_to_num(-1), weights.nan_to_num(-1)):
        raise SSTCastError(f"{edges}: {' and '.join(weight_names)} are not the same numbers; keep one column")
    values = torch.cat([attributes, weights], dim=1)
    index, values = listed_edges(index, values, len(table), options["directed"], edges)
    attributes, weights = values.tensor_split([len(edge_names)], dim=1)
    y = _labels(table, [options["target"]], path, dataset.task)
    if not dataset.task and bool(((y == y.floor()) | y.isnan()).all()):  # whole numbers are classes
        y = y.nan_to_num(-1).long()
    data = Data(edge_index=index, y=y.squeeze(-1), num_nodes=len(table), **masks)
    data.x = features if features.shape[1] else None
    data.edge_attr = attributes if attributes.shape[1] else None
    data.edge_weight = weights[:, 0] if weights.shape[1] else None
    return join(data), column_split(table, options["split_column"], path)


def _quoted(table: pd.DataFrame, used: set[Any]) -> list[str]:
    """Return the column `feat` of DGL's CSVDataset if its cells are quoted numbers, such as "0.5, 0.1"."""
    if QUOTED not in table or QUOTED in used or table[QUOTED].dtype != "string":
        return []
    return [QUOTED] if re.match(r"[\[(\s]*[-+.\d]", str(table[QUOTED].iloc[0])) else []


def _spread(table: pd.DataFrame, names: Sequence[str], path: Path) -> tuple[pd.DataFrame, list[str]]:
    """Replace columns of lists by a column for each number, and return the table and the names of all features.

    Cells of the column `feat`, and others that begin with a bracket, hold lists. Raises SSTCastError if one is not
    a list of numbers, or lists differ in length.
    """
    spread = []
    for name in names:
        if table[name].dtype != "string" or not (name == QUOTED or str(table[name].iloc[0]).startswith("[")):
            spread.append(name)
            continue
        with reading(path, f"give each row of {name} as many numbers, as in 0.5, 0.1"):
            rows = [json.loads(f"[{str(text).strip('[]() ')}]") for text in table[name]]
            numbers = torch.tensor(rows, dtype=torch.float64)
        columns = [f"{name}[{i}]" for i in range(numbers.shape[1])]
        table = table.drop(columns=name).join(pd.DataFrame(numbers.numpy(), table.index, columns))
        spread += columns
    return table, spread


def _mask(table: pd.DataFrame, name: str, path: Path) -> Tensor:
    """Return a mask of the nodes. Raises SSTCastError for values other than 0, 1, True and False."""
    values = _numbers(table[[name]], path)[:, 0]
    if len(wrong := (~((values == 0) | (values == 1))).nonzero()):
        raise SSTCastError(f"{path}: line {table.index[int(wrong[0])]}, column {name!r}: give 0 or 1")
    return values > 0


def _tell_columns(
    path: Path, table: pd.DataFrame, features: Sequence[str], others: Sequence[str], **told: Sequence[str]
) -> None:
    """Print the columns that are features, those that are not used, and any that are `told` by what they are."""
    used = {*features, *others, *(name for names in told.values() for name in names)}
    columns = {"features": features, "not used": [str(name) for name in table.columns if name not in used]}
    parts = [f"{what}: {', '.join(names) or 'none'}" for what, names in columns.items()]
    LOG.info("; ".join([f"{path}: {parts[0]}", parts[1], *(f"{k}: {', '.join(v)}" for k, v in told.items() if v)]))


def column_split(table: pd.DataFrame, name: str | None, path: Path) -> list[Split]:
    """Return the split in a column of `train`, `validation` and `test`, if there is such a column."""
    if not name:
        return []
    part_names = [part for names in NAMES for part in names]
    if len(invalid := np.flatnonzero(~table[name].isin(part_names) & table[name].notna())):
        line, part = table.index[invalid[0]], table[name].iloc[invalid[0]]
        raise SSTCastError(f"{path}: line {line}: {part!r} is not a part of a split; give {', '.join(part_names)}")
    return [Split(*(torch.from_numpy(np.flatnonzero(table[name].isin(names))) for names in NAMES))]


def _number(table: pd.DataFrame, name: str | None, path: Path) -> "pd.Series[int]":
    """Map the id of each row, or its number if `name` is None, to its number. Raises SSTCastError if an id
    repeats.
    """
    ids = table[name] if name else pd.Series(np.arange(len(table)), table.index)
    if len(again := np.flatnonzero(ids.duplicated())):
        line, value = table.index[again[0]], ids.iloc[again[0]]
        raise SSTCastError(f"{path}: line {line}: the id {value!r} is not unique")
    return pd.Series(np.arange(len(table)), index=ids)


def _matched(ends: pd.DataFrame, numbers: "pd.Series[int]", path: Path, edges: Path) -> pd.DataFrame:
    """Return the numbers of the nodes at the ends of edges, `<NA>` for an end that is no id.

    If there is such an end, all ids and ends are tried without a trailing `.0`, which a program adds that took
    them as numbers.
    """
    found = ends.apply(lambda column: column.map(numbers))
    if found.isna().to_numpy().any():
        plain = numbers.set_axis(numbers.index.str.removesuffix(".0"))
        if plain.index.is_unique:
            others = ends.apply(lambda column: column.str.removesuffix(".0").map(plain))
            if not others.isna().to_numpy().any():
                LOG.info(f"{edges}: ids are matched with those of {path} without a trailing .0")
                return others
    return found


def _check_filled(ids: pd.DataFrame, path: Path) -> None:
    """Raise SSTCastError, naming line and column, if an id is missing."""
    if len(empty := np.argwhere(ids.isna().to_numpy())):
        line, column = ids.index[empty[0, 0]], ids.columns[empty[0, 1]]
        raise SSTCastError(f"{path}: line {line}: no id in the column {column!r}; give one, or remove the line")


def _numbers(columns: pd.DataFrame, path: Path, remedy: str = "") -> Tensor:
    """Return numeric columns, NaN where empty. Raises SSTCastError, naming line and column, for a word."""
    numbers = columns.apply(pd.to_numeric, errors="coerce")
    not_numeric = numbers.isna() & columns.notna()
    bad_rows = np.flatnonzero(not_numeric.any(axis=1))
    if len(bad_rows):
        column = columns.columns[int(np.argmax(not_numeric.iloc[bad_rows[0]]))]
        position = f"line {columns.index[bad_rows[0]]}, column {column!r}"
        word = str(columns[column].iloc[bad_rows[0]])
        remedy = "; write numbers with a decimal point and without commas" if "," in word else remedy
        raise SSTCastError(f"{path}: {position}: {word!r} is not a number{remedy}")
    return torch.tensor(numbers.to_numpy(np.float64, na_value=np.nan))


def _labels(table: pd.DataFrame, names: Sequence[str], path: Path, task: str) -> Tensor:
    """Return the labels `[rows, columns]`. The cells of a single column may hold lists."""
    columns = table[list(names)]
    if len(names) > 1 or not str(columns.iloc[0, 0]).startswith("["):
        return _numbers(columns, path, "" if "regression" in task else "; number the classes from 0")
    with reading(path, f"give every row of {names[0]} the same number of labels, as in [0, 1, 0]"):
        return torch.tensor([json.loads(text) for text in columns.iloc[:, 0]], dtype=torch.float64)


def _file_splits(path: Path, dataset: Dataset, samples: int, trust: bool) -> list[Split]:
    """Read a dictionary of rows. Without test rows, as in PCQM4Mv2, the validation rows are for testing."""
    check_raw([path], dataset.sha256, trust)
    with reading(path, "get it again"):  # allowed by `check_raw` or the user
        rows = torch.load(path, weights_only=False) if path.suffix == ".pt" else pickle.loads(path.read_bytes())
        if "test" not in rows:
            order = torch.as_tensor(rows["train"])
            order = order[torch.randperm(len(order), generator=torch.Generator().manual_seed(0))]
            held_out = min(VALIDATION_MOLECULES, len(order) // 10)
            rows = {"train": order[held_out:], "validation": order[:held_out], "test": rows["valid"]}
        return splits_in(rows, samples)

"""The data sets known by name: those of `configs/benchmarks/datasets.yaml`, OGB's, and all of PyG's classes.

A name is one of the papers' (`Cora`), a class of PyG with the name of a set (`Planetoid:CiteSeer`, `TU:NCI109`,
`WikiCS`), or OGB's (`ogbg-molbace`, `ogbn-arxiv`). Nothing here imports PyTorch.
"""

import re
from collections.abc import Iterator
from dataclasses import fields, replace
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pandas as pd

from sstcast.artefacts import packaged
from sstcast.benchmarks.dataset import ATOMS, BONDS, Dataset
from sstcast.errors import SSTCastError, shorten
from sstcast.yaml_files import read_config, suggest

SETS = "configs/benchmarks/datasets.yaml"
FEATURES = {"atoms": ATOMS, "bonds": BONDS}
FIELDS = {field.name for field in fields(Dataset)} - {"name"}
OGB_METRICS = {"rocauc": "roc-auc", "ap": "ap", "rmse": "rmse", "acc": "accuracy", "F1": "f1"}


@cache
def named() -> dict[str, Dataset]:
    """Return the papers' data sets by their names in lower case."""
    found = {}
    for group, keys in read_config(packaged(SETS)).items():
        shared = {key: value for key, value in keys.items() if key != "sets"}
        for name, own in keys["sets"].items():
            found[name.lower()] = _declare(
                name, {"of": group.partition(" ")[0], "part": name} | shared | (own or {})
            )
    return found


def find_dataset(name: str) -> Dataset:
    """Return the declaration of the data set called `name`; upper or lower case matters only to OGB and TUDataset.

    Raises SSTCastError, suggesting a similar name, if there is no such data set.
    """
    if (known := named().get(name.lower())) is not None:
        return _from_ogb(known) if known.reader == "ogb" else known
    if name.startswith(("ogbg-", "ogbn-")):
        return _from_ogb(Dataset(name, "ogb"))
    of, colon, part = name.partition(":")
    classes = _classes()
    of = classes.get(of.lower()) or classes.get(f"{of.lower()}dataset", "")
    if of:
        return _of_class(of, part if colon else None)
    near = suggest(name.partition(":")[0].lower(), classes if colon else [*named(), *classes])
    raise SSTCastError(
        f"no data set {shorten(name)!r}{near}; see `sstcast datasets`, name a class of PyG and its set as in "
        "Planetoid:CiteSeer, or your own YAML file"
    )


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
        there = "yes" if d.folder_in(root).is_dir() else "no"
        rows.append((d.name, d.task, d.metric, d.split, d.size, d.licence, there))
    widths = [max(len(row[i]) for row in rows) for i in range(len(columns))]
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def _of_class(of: str, part: str | None) -> Dataset:
    """Return the declaration of a class of PyG; one that the table lists has only the sets that stand there."""
    known = [dataset for dataset in named().values() if dataset.of == of]
    for dataset in known:
        if _plain_name(dataset.part) == _plain_name(part):
            return dataset
    if of == "TUDataset" and part:
        return replace(known[0], name=f"TU:{part}", part=part, size="size not stated")
    if not known:
        return Dataset(f"{of}:{part}" if part else of, "class", of, of, part, reviewed=False)
    name = of if part is None else f"{of}:{part}"
    near = suggest(str(part), [str(dataset.part) for dataset in known])
    raise SSTCastError(
        f"no data set {shorten(name)!r}{near}; known: {', '.join(dataset.name for dataset in known)}"
    )


def _plain_name(part: str | None) -> str:
    return str(part or "").lower().replace("_", "-")


def _declare(name: str, keys: dict[str, Any]) -> Dataset:
    values = {key: _plain(value) for key, value in keys.items() if key in FIELDS}
    if keys["of"] not in ("ogb", "smiles_csv"):
        split = "official" if "task" in keys else ""
        return Dataset(name, **({"reader": "class", "folder": keys["of"], "split": split} | values))
    values |= {"reader": keys["of"], "of": "", "part": None, "split": "official"}
    values["files"] = {path: address for address, paths in keys.get("files", {}).items() for path in paths}
    return Dataset(name, **values)


def _plain(value: Any) -> Any:
    """Convert a YAML value to the type that a declaration uses."""
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    return tuple(value) if isinstance(value, list) else FEATURES.get(value, value)


@cache
def _classes() -> dict[str, str]:
    """Return the names of PyG's classes of data sets by their lower case, without importing PyG."""
    spec = find_spec("torch_geometric")
    assert spec is not None
    assert spec.origin is not None
    text = (Path(spec.origin).parent / "datasets/__init__.py").read_text()
    return {name.lower(): name for name in re.findall(r"^from \.\w+ import (\w+)", text, re.MULTILINE)}


def _from_ogb(dataset: Dataset) -> Dataset:
    """Complete a declaration by OGB's own table of its data sets.

    Raises SSTCastError if ogb is not installed, or does not know the data set, or has it in another form.
    """
    level = "graph" if dataset.name.startswith("ogbg") else "node"
    table = _table(level)
    if dataset.name not in table:
        raise SSTCastError(f"no data set {shorten(dataset.name)!r}{suggest(dataset.name, table)}; OGB has no such")
    known = table[dataset.name]
    if known["binary"] == "True" or known.get("is hetero") == "True":
        raise SSTCastError(f"{dataset.name}: not supported: it is not a single kind of nodes in CSV files")
    kind, molecules = known["task type"].split()[0], known.get("data type") == "mol"
    task = f"{level}-{'regression' if kind == 'regression' else 'classification'}"
    if kind == "binary" and level == "graph" and int(known["num tasks"]) > 1:
        task = "multi-label"
    has = [what for what in ("node", "edge") if known[f"has_{what}_attr"] == "True"]
    if kind == "subtoken":
        task = "next-tokens"
    return replace(
        dataset,
        folder=dataset.name.replace("-", "_"),
        task=task,
        metric=OGB_METRICS[known["eval metric"]],
        split="official",
        single=level == "node",
        node=dataset.node or (ATOMS if molecules else "linear" if "node" in has else "none"),
        edge=dataset.edge or (BONDS if molecules else "linear" if "edge" in has and level == "graph" else "none"),
        options={"version": known["version"]},
    )


@cache
def _table(level: str) -> dict[str, dict[str, str]]:
    spec = find_spec("ogb")  # without importing it, which takes seconds
    if spec is None or spec.origin is None:
        raise SSTCastError("OGB's data sets need ogb; python -m pip install 'sstcast[benchmarks]'")
    path = Path(spec.origin).parent / f"{level}proppred/master.csv"
    return pd.read_csv(path, index_col=0, dtype=str, keep_default_na=False).to_dict()

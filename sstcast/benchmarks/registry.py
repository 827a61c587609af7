"""The data sets known by name: those of `configs/benchmarks/datasets.yaml`, and all that PyG or OGB have.

A name is one of the papers' (`Cora`), a class of PyG with the name of a set (`Planetoid:CiteSeer`, `TU:NCI109`,
`WikiCS`), or OGB's (`ogbg-molbace`, `ogbn-arxiv`).
"""

from dataclasses import fields, replace
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any

import torch_geometric.datasets

from sstcast.benchmarks.dataset import ATOMS, BONDS, METRICS_OF, Dataset
from sstcast.benchmarks.formats import ogb
from sstcast.benchmarks.formats.pyg import raw_files
from sstcast.benchmarks.formats.tudataset import with_features
from sstcast.errors import SSTCastError, shorten
from sstcast.files import packaged
from sstcast.plain_yaml import read_config
from sstcast.validation import suggest

SETS = "configs/benchmarks/datasets.yaml"
FEATURES = {"atoms": ATOMS, "bonds": BONDS}
FIELDS = {field.name for field in fields(Dataset)} - {"name", "files"}
CLASSES = {name.lower(): name for name in torch_geometric.datasets.__all__}


@cache
def named() -> dict[str, tuple[str, dict[str, Any]]]:
    """Return the papers' data sets: in lower case, the name and the keys of its declaration."""
    groups = read_config(packaged(SETS))
    known = {
        name: (name, {"of": of.partition(" ")[0], "set": name} | shared | (own or {}))
        for of, group in groups.items()
        for name, own in group["sets"].items()
        for shared in [{key: value for key, value in group.items() if key != "sets"}]
    }
    return {name.lower(): entry for name, entry in known.items()}


def find_dataset(name: str, root: Path | None = None) -> Dataset:
    """Return the declaration of the data set called `name`; upper or lower case matters only to OGB and TUDataset.

    The files that a folder in TUDataset's form may lack are those that are below `root`. Raises SSTCastError,
    suggesting a similar name, if there is no such data set.
    """
    dataset = _find(name)
    if root is not None and dataset.reader == "tudataset":
        return with_features(dataset, root / dataset.folder)
    return dataset


@cache
def _find(name: str) -> Dataset:
    of, _, one = name.partition(":")
    of = CLASSES.get(of.lower()) or CLASSES.get(f"{of.lower()}dataset", "")
    if of == "LRGBDataset" and one.lower() in named():  # for peptides, PyG's class wants other files
        return _find(one)
    for other, keys in named().values():  # Planetoid:Cora is Cora
        if (keys["of"], str(keys["set"] or "").lower()) == (of, one.lower()):
            return _declare(other, keys)
    if name.lower() in named():
        return _declare(*named()[name.lower()])
    if name.startswith(("ogbg-", "ogbn-")):
        return _declare(name, {"of": "ogb"})
    if of:
        groups = read_config(packaged(SETS))
        known = groups.get(of, {}) | groups.get(f"{of}:{one.lower()}", {})
        known.pop("sets", None)
        if of == "TUDataset" and one:
            return _declare(f"TU:{one}", known | {"of": of, "set": one})
        return _declare(f"{of}:{one}" if one else of, known | {"of": of, "set": one or None})
    near = suggest(name.partition(":")[0].lower(), CLASSES if one else [*named(), *CLASSES])
    raise SSTCastError(
        f"no data set {shorten(name)!r}{near}; see `sstcast datasets`, name a class of PyG and its set as in "
        "Planetoid:CiteSeer, or your own YAML file"
    )


def _declare(name: str, keys: dict[str, Any]) -> Dataset:
    of, one = keys["of"], keys.get("set")
    values = {key: _plain(value) for key, value in keys.items() if key in FIELDS}
    usual = {"metric": METRICS_OF[keys["task"]][0], "split": "official"} if "task" in keys else {}
    declared = Dataset(name, **{"reader": of, "folder": "", "files": {}} | usual | values)
    files = {
        path: address.replace("*", PurePosixPath(path).name)
        for address, paths in keys.get("files", {}).items()
        for path in paths
    }
    if of == "ogb":
        return ogb.complete(declared)
    if of == "TUDataset":
        address = f"https://www.chrsmrrs.com/graphkerneldatasets/{one}.zip"
        target = "graph_attributes" if keys["task"] == "graph-regression" else "graph_labels"
        needed = dict.fromkeys((f"{one}_{part}.txt" for part in ("A", "graph_indicator", target)), address)
        return replace(declared, reader="tudataset", folder=f"TUDataset/{one}/raw", files=needed)
    if of in ("smiles", "pokec"):
        return replace(declared, files=files)
    place = keys.get("place", of)
    below, paths, address = raw_files(of, one, Path(place))
    folder = Path(keys["folder"]) if "folder" in keys else below
    raw = dict.fromkeys((str(path.relative_to(folder)) for path in paths), address)
    options = {"of": of, "set": one, "place": place, **declared.options}
    return replace(declared, reader="classes", folder=str(folder), files=raw | files, options=options)


def _plain(value: Any) -> Any:
    """Convert a YAML value to the type that a declaration uses."""
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    return tuple(value) if isinstance(value, list) else FEATURES.get(value, value)

"""Declarations of data sets: those known by name, and the YAML keys of a user's own data.

A name is one of `configs/benchmarks/datasets.yaml` (`Cora`), a class of PyG with the name of a set
(`Planetoid:CiteSeer`, `TU:NCI109`, `WikiCS`), or a set of OGB (`ogbg-molbace`). Nothing here imports PyTorch.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import field, replace
from functools import cache
from importlib.util import find_spec
from itertools import chain, islice
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import pandas as pd
from pydantic import AfterValidator, BeforeValidator, Field
from pydantic.dataclasses import dataclass

from sstcast.config import Folder
from sstcast.errors import SSTCastError, aligned, shorten
from sstcast.storage.paths import packaged
from sstcast.storage.yaml_files import Strict, read_config, suggest

Categories = tuple[Annotated[int, Field(ge=1, le=10**7)], ...]  # number of categories in each column

ATOMS: Categories = (119, 5, 12, 12, 10, 6, 6, 2, 2)  # of ogb.utils.features
BONDS: Categories = (5, 6, 2)

# Of features; empty until inferred. Only the table of known sets uses `atoms` and `bonds`.
Kind = Annotated[
    Categories | Literal["linear", "none", ""],
    BeforeValidator(lambda kind: {"atoms": ATOMS, "bonds": BONDS}.get(str(kind), kind)),
]

BY_ROWS = "rows:"  # begins the name of a split that does not keep equal graphs together


@dataclass(frozen=True)
class Dataset:
    """The declaration of a data set, with everything that differs between data sets.

    `reader` is the class of PyG that reads the set `part`, or `ogb`, or a kind of a user's own data: `smiles_csv`,
    `graph_csv`, `pyg` or `memory`. `folder` is below the root. A class of PyG gets it as its own root. `files`
    maps paths below the root to addresses, for the files that no class downloads (SMILES, a paper's splits).
    `sha256` lists the digests of pickles that are known to be harmless. `node` and `edge` describe the
    features: `linear` (real numbers), the number of categories in each column, or `none`. `split` is `official`,
    `scaffold`, `folds:N`, `random:0.8/0.1/0.1` or `random:N-per-class`, the last three perhaps after `rows:`.
    `load.complete` infers empty fields. The samples of a `single` graph are its nodes. With `words`, features
    count words. With `few`, the usual split trains on only some nodes of each class. A class that is not
    `reviewed` may run code that it downloads.
    """

    name: str
    reader: str
    folder: str = ""
    part: str | None = None
    files: Mapping[str, str] = field(default_factory=dict)
    sha256: tuple[str, ...] = ()
    task: str = ""
    metric: str = ""
    size: str = "size not stated"
    split: str = ""
    licence: str = "not stated"
    node: Kind = ""
    edge: Kind = ""
    balanced: bool = False  # classes count equally in the loss
    single: bool = False
    words: bool = False
    few: bool = False
    options: Mapping[str, Any] = field(default_factory=dict)
    reviewed: bool = True

    def folder_in(self, root: Path) -> Path:
        """Return the set's folder below `root`, where a class of PyG has its folders `raw` and `processed`."""
        folder = root / self.folder
        if self.part is None:
            return folder
        subfolders = sorted(folder.iterdir()) if folder.is_dir() else []
        return next((p for p in subfolders if _plain_name(p.name) == _plain_name(self.part)), folder / self.part)

    def at_hand(self, root: Path) -> bool:
        """Return whether there are files of the set below `root`."""
        folder = self.folder_in(root)
        return folder.is_dir() and any(folder.iterdir())

    @property
    def own(self) -> bool:
        """Whether these are a user's own data, not a set with a name."""
        return self.reader in ("memory", "pyg", "graph_csv") or "path" in self.options

    @property
    def by_rows(self) -> bool:
        """Whether the split does not keep equal graphs together."""
        return self.split.startswith(BY_ROWS)

    @property
    def kind(self) -> str:
        """The section of `configs/benchmarks/defaults.yaml` for this data set."""
        if not self.single:
            return self.task
        return "few-labels" if self.few or self.split.endswith("-per-class") else "one-graph"

    def check_reviewed(self, trust: bool) -> None:
        """Raise SSTCastError if the class of PyG may run what it downloads, unless the user trusts it."""
        if not (self.reviewed or trust):
            raise SSTCastError(
                f"{self.name}: PyG's {self.reader} is not reviewed, and a class may run code that it downloads; "
                "if you trust it, use --trust (trust=True in Python)"
            )


def parse_split(text: str) -> str:
    """Return the split that `text` names in the form of a declaration. Raises ValueError for any other text.

    `public` is `official`, and `70/15/15` is `random:0.7/0.15/0.15`. After `rows:`, equal graphs of a user's own
    data may be in several parts.
    """
    if text in ("official", "public"):
        return "official"
    if re.match(r"rows:(folds|random|[\d.])", text):
        return BY_ROWS + parse_split(text.removeprefix(BY_ROWS))
    if re.fullmatch(r"scaffold|folds:([3-9]|[1-9]\d{1,5})|random:[1-9]\d{0,5}-per-class", text):
        return text
    shares = [float(s) for s in text.removeprefix("random:").split("/") if re.fullmatch(r"\d{0,9}\.?\d{1,9}", s)]
    total = 100 if sum(shares) > 1.5 else 1
    if len(shares) != 3 or text.count("/") != 2 or abs(sum(shares) / total - 1) > 1e-6 or min(shares) <= 0:
        raise ValueError(
            "write official, scaffold, folds:N (3 or more), random:N-per-class or random:0.8/0.1/0.1, "
            "where the three shares must be above 0 and add up to 1, or one of the last three after rows:"
        )
    return f"random:{'/'.join(f'{s / total:g}' for s in shares)}"


SplitName = Annotated[str, AfterValidator(parse_split)]


class _Own(Strict):
    """The keys of every kind of a user's own data. `load.complete` infers missing ones.

    `classes` is the number of classes, by default one more than the largest.
    """

    known: ClassVar[Mapping[str, Any]] = {}  # fields of the declaration that depend on the kind alone

    kind: Any
    task: str = ""
    metric: str = ""
    split: SplitName | None = None
    classes: int | None = Field(default=None, ge=2, le=10**6)

    def declare(self, name: str) -> Dataset:
        """Return the declaration. Its options are `classes` and the keys of this kind alone."""
        shared = self.model_dump(include={"task", "metric", "node", "edge"})
        options = self.model_dump(exclude={"kind", "split", *shared})
        return Dataset(name, self.kind, split=self.split or "", options=options, **shared, **self.known)


class Memory(_Own):
    """Graphs that a Python program passed. `node` and `edge` describe the features."""

    kind: Literal["memory"]
    node: Kind = ""
    edge: Kind = ""


class PyG(Memory):
    """A file of `torch_geometric.data.Data` as for `reading.graphs_in`, or an npz, relative to the YAML."""

    kind: Literal["pyg"]  # type: ignore[assignment]
    path: Folder


class SmilesCSV(_Own):
    """Molecules, one per row, with columns `smiles` and `targets`, and optionally `id` and `split_column`."""

    known: ClassVar = {"node": ATOMS, "edge": BONDS}

    kind: Literal["smiles_csv"]
    path: Folder
    task: str = Field(min_length=1)
    smiles: str = "smiles"
    targets: list[str] = Field(min_length=1)
    id: str | None = None
    split_column: str | None = None


class GraphCSV(_Own):
    """One graph with labelled nodes: a CSV of nodes, and a CSV `edges` beside it.

    `target`, `id`, `features` and `split_column` are columns of the nodes. Without `id`, nodes are numbered from 0
    on. `features` are all other columns of numbers by default, and a column `feat` of quoted numbers, but not the
    masks of a split. `source`, `to` and `edge_features` are columns of the edges. Those called weight or
    edge_weight, in any case, are the weights of the edges, which go both ways unless the graph is `directed`.
    """

    known: ClassVar = {"single": True}

    kind: Literal["graph_csv"]
    path: Folder
    edges: Path
    target: str
    id: str | None = None
    features: list[str] | None = None
    source: str = "source"
    to: str = "target"
    edge_features: list[str] = Field(default=[])
    directed: bool = False
    split_column: str | None = None


OwnData = Annotated[SmilesCSV | GraphCSV | PyG | Memory, Field(discriminator="kind")]
MANY_GRAPHS = (
    "save a list of torch_geometric.data.Data with torch.save, and write a YAML with kind: pyg and its path"
)
DGL_GRAPH = (
    "write a YAML with kind: graph_csv, its nodes as path, its edges, id: node_id, source: src_id, to: dst_id and "
    "a target"
)
OWN_FILES = {  # what the YAML of such a file may be
    **dict.fromkeys((".pt", ".pth", ".npz"), "kind: pyg, path: {}"),
    ".csv": "kind: smiles_csv, path: {0}, task: graph-regression, targets: [COLUMN]}}, or for one graph {{kind: "
    "graph_csv, path: {0}, edges: EDGES.csv, target: COLUMN",
}
OWN_DATA_KINDS = ("smiles_csv", "graph_csv", "pyg")  # that a YAML may name


SETS = "configs/benchmarks/datasets.yaml"
OGB_METRICS = {"rocauc": "roc-auc", "ap": "ap", "rmse": "rmse", "acc": "accuracy", "F1": "f1"}


@cache
def named() -> dict[str, Dataset]:
    """Return the papers' data sets by their names in lower case."""
    datasets = {}
    for group, keys in read_config(packaged(SETS)).items():
        reader = group.partition(" ")[0]
        for name, overrides in keys.pop("sets").items():
            values = {"reader": reader, "folder": reader, "part": name} | keys | (overrides or {})
            values.setdefault("split", "official" if "task" in values else "")
            datasets[name.lower()] = Dataset(name, **values)
    return datasets


def find_dataset(name: str) -> Dataset:
    """Return the declaration of the data set called `name`. Case matters only for sets of OGB and TUDataset.

    Raises SSTCastError, suggesting a similar name, if there is no such data set.
    """
    if (dataset := named().get(name.lower())) is not None:
        return _from_ogb(dataset) if dataset.reader == "ogb" else dataset
    if name.startswith(("ogbg-", "ogbn-")):
        return _from_ogb(Dataset(name, "ogb"))
    if name.startswith("ogbl-"):
        raise SSTCastError(f"{shorten(name)}: not supported, because it is a set for link prediction")
    class_name, colon, part = name.partition(":")
    classes = _classes()
    class_name = classes.get(class_name.lower()) or classes.get(f"{class_name.lower()}dataset", "")
    if class_name:
        return _of_class(class_name, part if colon else None)
    path = Path(name)
    if keys := OWN_FILES.get(path.suffix.lower()):
        raise SSTCastError(
            f"{shorten(name)}: describe the file in a YAML, and give its path; write to {path.stem}.yaml the line "
            f"{{{keys.format(path.name)}}}"
        )
    hint = suggest(name.partition(":")[0].lower(), classes if colon else [*named(), *classes])
    raise SSTCastError(
        f"no data set {shorten(name)!r}{hint}; see `sstcast datasets`, name a class of PyG and its set as in "
        "Planetoid:CiteSeer, or your own YAML file"
    )


def dataset_lines(root: Path) -> Iterator[str]:
    """Yield a line per data set, at most 100 wide: its name, size, and whether `root` has it.

    A line with their task and metric stands before them.
    """
    by_task: dict[str, list[tuple[str, str, str]]] = defaultdict(list)
    for name, declared in named().items():
        try:
            dataset = find_dataset(name)
            heading = f"{dataset.task}, {dataset.metric}:"
        except SSTCastError as error:  # ogb is not installed
            dataset, heading = declared, f"{error}:"
        by_task[heading].append((dataset.name, dataset.size, "yes" if dataset.at_hand(root) else "no"))
    lines = aligned([("name", "size", "at hand"), *chain.from_iterable(by_task.values())])
    yield next(lines)
    for heading, rows in by_task.items():
        yield heading
        yield from islice(lines, len(rows))


def _of_class(class_name: str, part: str | None) -> Dataset:
    """Return the declaration of a set of a class of PyG. A class in the table has only the sets listed there."""
    datasets = [dataset for dataset in named().values() if dataset.reader == class_name]
    for dataset in datasets:
        if _plain_name(dataset.part) == _plain_name(part):
            return dataset
    if class_name == "TUDataset" and part:
        return replace(datasets[0], name=f"TU:{part}", part=part, size="size not stated")
    if not datasets:
        return Dataset(
            f"{class_name}:{part}" if part else class_name, class_name, class_name, part, reviewed=False
        )
    name = class_name if part is None else f"{class_name}:{part}"
    hint = suggest(str(part), [str(dataset.part) for dataset in datasets])
    raise SSTCastError(
        f"no data set {shorten(name)!r}{hint}; known: {', '.join(dataset.name for dataset in datasets)}"
    )


def _plain_name(part: str | None) -> str:
    return str(part or "").lower().replace("_", "-")


@cache
def _classes() -> dict[str, str]:
    """Return the names of PyG's classes of data sets by their lower case, without importing PyG."""
    spec = find_spec("torch_geometric")
    assert spec is not None
    assert spec.origin is not None
    text = (Path(spec.origin).parent / "datasets/__init__.py").read_text()
    return {name.lower(): name for name in re.findall(r"^from \.\w+ import (\w+)", text, re.MULTILINE)}


def _from_ogb(dataset: Dataset) -> Dataset:
    """Complete a declaration from OGB's own table of its data sets.

    Raises SSTCastError if ogb is not installed, or the data set is unknown or of a form that is not supported.
    """
    level = "graph" if dataset.name.startswith("ogbg") else "node"
    table = _table(level)
    if dataset.name not in table:
        raise SSTCastError(f"OGB has no data set {shorten(dataset.name)!r}{suggest(dataset.name, table)}")
    properties = table[dataset.name]
    if properties["binary"] == "True" or properties.get("is hetero") == "True":
        raise SSTCastError(f"{dataset.name}: not supported; only sets in CSV files with nodes of one type are")
    kind, molecules = properties["task type"].split()[0], properties.get("data type") == "mol"
    task = f"{level}-{'regression' if kind == 'regression' else 'classification'}"
    if kind == "binary" and level == "graph" and int(properties["num tasks"]) > 1:
        task = "multi-label"
    if kind == "subtoken":
        task = "next-tokens"
    return replace(
        dataset,
        folder=dataset.name.replace("-", "_"),
        task=task,
        metric=OGB_METRICS[properties["eval metric"]],
        split="official",
        single=level == "node",
        node=dataset.node or (ATOMS if molecules else ""),
        edge=dataset.edge or (BONDS if molecules else ""),
        options={"version": properties["version"]},
    )


@cache
def _table(level: str) -> dict[str, dict[str, str]]:
    spec = find_spec("ogb")  # without importing it, which takes seconds
    if spec is None or spec.origin is None:
        raise SSTCastError("OGB's data sets need ogb; python -m pip install 'sstcast[benchmarks]'")
    path = Path(spec.origin).parent / f"{level}proppred/master.csv"
    return pd.read_csv(path, index_col=0, dtype=str, keep_default_na=False).to_dict()

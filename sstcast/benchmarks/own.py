"""Users' own data: a CSV of SMILES, an npz, a folder in TUDataset's form, a file saved by PyG, or in memory."""

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from sstcast.benchmarks.dataset import ATOMS, BONDS, METRICS_OF, Dataset, Kind, Metric, TaskName
from sstcast.benchmarks.formats.tudataset import with_features
from sstcast.benchmarks.splits import SplitName
from sstcast.config import Folder
from sstcast.errors import SSTCastError
from sstcast.validation import Strict

Kinds = Annotated[int, Field(ge=1, le=10**7)]  # number of categories in a column


class _Own(Strict):
    """The keys that all kinds share.

    `path` is relative to the YAML. By default, `metric` is the usual one for the `task`. `split` is
    `random:0.8/0.1/0.1`, `folds:N`, or `official` for a split in the data. `classes` is the number of classes, by
    default one more than the largest. Graphs without edges are refused unless `edgeless` is `keep`.
    """

    path: Folder
    task: TaskName
    metric: Metric | None = None
    split: SplitName = "random:0.8/0.1/0.1"
    classes: int | None = Field(default=None, ge=2, le=10**6)
    edgeless: Literal["refuse", "keep"] = "refuse"

    @model_validator(mode="after")
    def _fits(self) -> "_Own":
        allowed = METRICS_OF[self.task]
        if self.metric is not None and self.metric not in allowed:
            raise ValueError(f"metric: {self.task} is judged by {' or '.join(allowed)}")
        return self

    def _declare(self, name: str, reader: str, file: Path, **rest: Any) -> Dataset:
        options = {"classes": self.classes, "edgeless": self.edgeless == "keep"} | rest.pop("options", {})
        return Dataset(
            name=name,
            reader=reader,
            folder=str(file.parent),
            files={file.name: ""} | dict.fromkeys(rest.pop("extra", ()), ""),
            task=self.task,
            metric=self.metric or METRICS_OF[self.task][0],
            split=self.split,
            size="",
            options=options,
            **rest,
        )


class SmilesCSV(_Own):
    """Molecules, one per row: columns `smiles` and `targets`, optionally `id` and `split_column`."""

    kind: Literal["smiles_csv"]
    task: Literal["graph-regression", "graph-classification", "multi-label"]
    smiles: str = "smiles"
    targets: list[str] = Field(min_length=1)
    id: str | None = None
    split_column: str | None = None

    def declare(self, name: str) -> Dataset:
        columns = {
            "smiles": self.smiles,
            "targets": tuple(self.targets),
            "id": self.id,
            "split": self.split_column,
            "edgeless": True,  # a molecule may have a single atom
        }
        declared = self._declare(name, "smiles", self.path, node=ATOMS, edge=BONDS, options=columns)
        if declared.classes and len(self.targets) > 1:
            raise SSTCastError(f"{name}: targets: {self.task} has one column of classes; several are multi-label")
        return declared


class NPZ(_Own):
    """One graph whose nodes are labelled; `edges`, `features`, `labels` and the masks name arrays.

    `edge_features` names one too. Edges go both ways unless the graph is `directed`.
    """

    kind: Literal["npz"]
    task: Literal["node-regression", "node-classification"]
    edges: str = "edges"
    edge_features: str | None = None
    directed: bool = False
    features: str = "features"
    labels: str = "labels"
    train: str = "train_mask"
    validation: str = "val_mask"
    test: str = "test_mask"

    def declare(self, name: str) -> Dataset:
        arrays = self.model_dump(include={"edges", "features", "labels", "train", "validation", "test"})
        more = {"edge_features": self.edge_features, "directed": self.directed}
        arrays |= {key: value for key, value in more.items() if value}
        edge: Kind = "linear" if self.edge_features else "none"
        return self._declare(name, "npz", self.path, node="linear", edge=edge, options=arrays)


class TU(_Own):
    """A folder with `NAME_A.txt`, `NAME_graph_indicator.txt`, `NAME_graph_labels.txt`, optionally features."""

    kind: Literal["tudataset"]
    task: Literal["graph-regression", "graph-classification", "multi-label"]

    def declare(self, name: str) -> Dataset:
        """Return the declaration; raise SSTCastError if the folder holds no or several data sets."""
        found = sorted(self.path.glob("*_A.txt"))
        if len(found) != 1:
            raise SSTCastError(f"{self.path}: {len(found)} files NAME_A.txt; give a folder with one")
        prefix = found[0].name.removesuffix("_A.txt")
        target = "graph_attributes" if self.task == "graph-regression" else "graph_labels"
        needed = [f"{prefix}_graph_indicator.txt", f"{prefix}_{target}.txt"]
        return with_features(self._declare(name, "tudataset", found[0], extra=needed), self.path)


class PyG(_Own):
    """A file with a list of `torch_geometric.data.Data`; `node` and `edge` describe their features."""

    kind: Literal["pyg"]
    task: Literal[
        "graph-regression", "graph-classification", "multi-label", "node-regression", "node-classification"
    ]
    node: tuple[Kinds, ...] | Literal["linear", "none"] = "linear"
    edge: tuple[Kinds, ...] | Literal["linear", "none"] = "none"

    def declare(self, name: str) -> Dataset:
        return self._declare(name, "pyg", self.path, node=self.node, edge=self.edge)


class Memory(Strict):
    """Graphs that a Python program passed; what is empty is inferred from them."""

    kind: Literal["memory"]
    task: TaskName | Literal[""] = ""
    metric: Metric | Literal[""] = ""
    split: SplitName | None = None
    classes: int | None = Field(default=None, ge=2, le=10**6)
    node: tuple[Kinds, ...] | Literal["linear", "none", ""] = ""
    edge: tuple[Kinds, ...] | Literal["linear", "none", ""] = ""

    def declare(self, name: str) -> Dataset:
        rest = self.model_dump(include={"task", "metric", "node", "edge"})
        return Dataset(name, "memory", "", {}, split=self.split or "", options={"classes": self.classes}, **rest)


OwnData = Annotated[SmilesCSV | NPZ | TU | PyG | Memory, Field(discriminator="kind")]

"""Users' own data, described in a YAML: CSV files of molecules, or of nodes and edges, or a file saved by PyG."""

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from sstcast.benchmarks.dataset import ATOMS, BONDS, Dataset, SplitName
from sstcast.config import Folder
from sstcast.errors import SSTCastError
from sstcast.yaml_files import Strict

Kinds = Annotated[int, Field(ge=1, le=10**7)]  # number of categories in a column


class _Own(Strict):
    """The keys that all kinds share.

    `path` is relative to the YAML. `split` is `random:0.8/0.1/0.1`, `folds:N`, or `official` for a split in the
    data. `classes` is the number of classes, by default one more than the largest. `infer.complete` decides what
    is left out: the task (but for molecules), the metric, and the split, which is the data's own if there is one.
    """

    path: Folder
    task: str = ""
    metric: str = ""
    split: SplitName | None = None
    classes: int | None = Field(default=None, ge=2, le=10**6)

    @model_validator(mode="after")
    def _fits(self) -> "_Own":
        from sstcast.benchmarks.objectives import check_task

        check_task(self.task, self.metric)
        return self

    def _declare(self, name: str, reader: str, **rest: Any) -> Dataset:
        options = {"classes": self.classes} | rest.pop("options", {})
        return Dataset(
            name, reader, task=self.task, metric=self.metric, split=self.split or "", options=options, **rest
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
        }
        place = {"folder": str(self.path.parent), "files": {self.path.name: ""}}
        declared = self._declare(name, "smiles", node=ATOMS, edge=BONDS, options=columns, **place)
        if self.task == "graph-classification" and len(self.targets) > 1:
            raise SSTCastError(f"{name}: targets: {self.task} has one column of classes; several are multi-label")
        return declared


class GraphCSV(_Own):
    """One graph whose nodes are labelled: a CSV of nodes, and a CSV `edges` beside it.

    `target` is the column of the labels and `id` that of the nodes' names, by default their row number from 0 on.
    `features` are columns of the nodes, by default all other numbers. `source` and `to` are columns of the edges,
    as are `edge_features`. Edges go both ways unless the graph is `directed`. `split_column` is a column of the
    nodes.
    """

    kind: Literal["graph_csv"]
    edges: Path
    target: str
    id: str | None = None
    features: list[str] | None = None
    source: str = "source"
    to: str = "target"
    edge_features: list[str] = Field(default=[])
    directed: bool = False
    split_column: str | None = None

    def declare(self, name: str) -> Dataset:
        keys = {"target", "id", "features", "source", "to", "edge_features", "directed"}
        options = {key: value for key, value in self.model_dump().items() if key in keys}
        options |= {"path": self.path, "edges": self.path.parent / self.edges, "split": self.split_column}
        return self._declare(name, "nodes", single=True, options=options)


class PyG(_Own):
    """A file with `torch_geometric.data.Data`, as `given.graphs_in` describes it.

    `node` and `edge` describe the features; whole numbers are categories by default.
    """

    kind: Literal["pyg"]
    node: tuple[Kinds, ...] | Literal["linear", "none", ""] = ""
    edge: tuple[Kinds, ...] | Literal["linear", "none", ""] = ""

    def declare(self, name: str) -> Dataset:
        return self._declare(name, "file", node=self.node, edge=self.edge, options={"path": self.path})


class Memory(Strict):
    """Graphs that a Python program passed."""

    kind: Literal["memory"]
    task: str = ""
    metric: str = ""
    split: SplitName | None = None
    classes: int | None = Field(default=None, ge=2, le=10**6)
    node: tuple[Kinds, ...] | Literal["linear", "none", ""] = ""
    edge: tuple[Kinds, ...] | Literal["linear", "none", ""] = ""

    def declare(self, name: str) -> Dataset:
        rest = self.model_dump(include={"task", "metric", "node", "edge"})
        return Dataset(name, "memory", split=self.split or "", options={"classes": self.classes}, **rest)


OwnData = Annotated[SmilesCSV | GraphCSV | PyG | Memory, Field(discriminator="kind")]
KINDS = ("smiles_csv", "graph_csv", "pyg")  # that a YAML may name

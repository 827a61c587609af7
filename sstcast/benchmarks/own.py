"""Users' own data: CSV files of molecules, or of nodes and edges, a file saved by PyG, or graphs in memory."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from sstcast.benchmarks.dataset import ATOMS, BONDS, Dataset, SplitName
from sstcast.config import Folder
from sstcast.errors import SSTCastError
from sstcast.yaml_files import Strict

Kinds = Annotated[int, Field(ge=1, le=10**7)]  # number of categories in a column
Features = tuple[Kinds, ...] | Literal["linear", "none", ""]


class _Own(Strict):
    """The keys that all kinds share; `complete.complete` decides those that are left out.

    `split` is `random:0.8/0.1/0.1`, `folds:N`, or `official` for a split in the data. `classes` is the number of
    classes, by default one more than the largest.
    """

    kind: Any
    task: str = ""
    metric: str = ""
    split: SplitName | None = None
    classes: int | None = Field(default=None, ge=2, le=10**6)

    @model_validator(mode="after")
    def _fits(self) -> "_Own":
        from sstcast.benchmarks.objectives import check_task

        check_task(self.task, self.metric)
        return self

    def declare(self, name: str) -> Dataset:
        """Return the declaration; its options are the keys that only this kind has, and `classes`."""
        shared = self.model_dump(include={"task", "metric", "node", "edge"})
        options = self.model_dump(exclude={"kind", "split", *shared})
        return Dataset(name, self.kind, split=self.split or "", options=options, **shared)


class Memory(_Own):
    """Graphs that a Python program passed; `node` and `edge` describe the features."""

    kind: Literal["memory"]
    node: Features = ""
    edge: Features = ""


class PyG(Memory):
    """A file, relative to the YAML, with `torch_geometric.data.Data`, as `given.graphs_in` describes it."""

    kind: Literal["pyg"]  # type: ignore[assignment]
    path: Folder


class SmilesCSV(_Own):
    """Molecules, one per row: columns `smiles` and `targets`, optionally `id` and `split_column`."""

    kind: Literal["smiles_csv"]
    path: Folder
    task: Literal["graph-regression", "graph-classification", "multi-label"]
    smiles: str = "smiles"
    targets: list[str] = Field(min_length=1)
    id: str | None = None
    split_column: str | None = None

    def declare(self, name: str) -> Dataset:
        if self.task == "graph-classification" and len(self.targets) > 1:
            raise SSTCastError(f"{name}: targets: {self.task} has one column of classes; several are multi-label")
        return replace(super().declare(name), node=ATOMS, edge=BONDS)


class GraphCSV(_Own):
    """One graph whose nodes are labelled: a CSV of nodes, and a CSV `edges` beside it.

    `target` is the column of the labels and `id` that of the nodes' names, by default their row number from 0 on.
    `features` are columns of the nodes, by default all other numbers. `source` and `to` are columns of the edges,
    as are `edge_features`. Edges go both ways unless the graph is `directed`. `split_column` is a column of the
    nodes.
    """

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

    def declare(self, name: str) -> Dataset:
        return replace(super().declare(name), single=True)


OwnData = Annotated[SmilesCSV | GraphCSV | PyG | Memory, Field(discriminator="kind")]
KINDS = ("smiles_csv", "graph_csv", "pyg")  # that a YAML may name

"""Users' own data: a CSV of SMILES, an npz, a folder in TUDataset's form, or a file saved by PyG."""

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from sstcast.benchmarks.dataset import ATOMS, BONDS, METRICS_OF, Dataset, Metric, TaskName
from sstcast.config import Folder
from sstcast.errors import SSTCastError
from sstcast.validation import Strict

SPLIT = r"^(official|folds:([3-9]|[1-9]\d{1,5})|random:[0-9.]{1,20}/[0-9.]{1,20}/[0-9.]{1,20})$"
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
    split: str = Field(default="random:0.8/0.1/0.1", pattern=SPLIT)
    classes: int | None = Field(default=None, ge=2, le=10**6)
    edgeless: Literal["refuse", "keep"] = "refuse"

    @model_validator(mode="after")
    def _fits(self) -> "_Own":
        allowed = METRICS_OF[self.task]
        if self.metric is not None and self.metric not in allowed:
            raise ValueError(f"metric: {self.task} is judged by {' or '.join(allowed)}")
        if self.split.startswith("random"):
            shares = [float(share) for share in self.split.partition(":")[2].split("/")]
            if abs(sum(shares) - 1) > 1e-6 or min(shares) <= 0:
                raise ValueError("split: the three shares must be above 0 and add up to 1")
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
        """Return the declaration."""
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
    """One graph whose nodes are labelled; `edges`, `features`, `labels` and the masks name arrays."""

    kind: Literal["npz"]
    task: Literal["node-regression", "node-classification"]
    edges: str = "edges"
    features: str = "features"
    labels: str = "labels"
    train: str = "train_mask"
    validation: str = "val_mask"
    test: str = "test_mask"

    def declare(self, name: str) -> Dataset:
        """Return the declaration."""
        arrays = self.model_dump(include={"edges", "features", "labels", "train", "validation", "test"})
        return self._declare(name, "npz", self.path, options=arrays)


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

        def features(of: str) -> Literal["linear", "none"]:
            there = (self.path / f"{prefix}_{of}_{kind}.txt" for kind in ("labels", "attributes"))
            return "linear" if any(path.exists() for path in there) else "none"

        target = "graph_attributes" if self.task == "graph-regression" else "graph_labels"
        extra = [f"{prefix}_graph_indicator.txt", f"{prefix}_{target}.txt"]
        kinds = (f"{prefix}_{of}_{kind}.txt" for of in ("node", "edge") for kind in ("labels", "attributes"))
        extra += [file for file in kinds if (self.path / file).exists()]
        return self._declare(
            name, "tudataset", found[0], extra=extra, node=features("node"), edge=features("edge")
        )


class PyG(_Own):
    """A file with a list of `torch_geometric.data.Data`; `node` and `edge` describe their features."""

    kind: Literal["pyg"]
    task: Literal[
        "graph-regression", "graph-classification", "multi-label", "node-regression", "node-classification"
    ]
    node: tuple[Kinds, ...] | Literal["linear", "none"] = "linear"
    edge: tuple[Kinds, ...] | Literal["linear", "none"] = "none"

    def declare(self, name: str) -> Dataset:
        """Return the declaration."""
        return self._declare(name, "pyg", self.path, node=self.node, edge=self.edge)


OwnData = Annotated[SmilesCSV | NPZ | TU | PyG, Field(discriminator="kind")]

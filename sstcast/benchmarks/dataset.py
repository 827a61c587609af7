"""Declarations of data sets: where they come from and what to predict; and the keys of one's own data in YAML.

Nothing here imports PyTorch.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from sstcast.config import Folder
from sstcast.yaml_files import Strict

Categories = tuple[int, ...]  # number of categories in each column
Kind = Categories | Literal["linear", "none"]  # of features

ATOMS: Categories = (119, 5, 12, 12, 10, 6, 6, 2, 2)  # of ogb.utils.features
BONDS: Categories = (5, 6, 2)


@dataclass(frozen=True)
class Dataset:
    """The declaration of a data set, with everything that differs between data sets.

    `reader` is `class` (the class `of` of PyG, for its set `part`), `ogb` (OGB's class), or a kind of one's own
    data: `smiles_csv`, `graph_csv`, `pyg` or `memory`. `folder` is below the root: for a class of PyG, its own
    root. `files` are the raw files of SMILES, each with its address. `sha256` are digests of raw files that may
    run code and are known. `node` and `edge` describe the features: `linear` (real numbers), the number of
    categories in each column, or `none`. `split` is `official`, `scaffold`, `folds:N`, `random:0.8/0.1/0.1` or
    `random:N-per-class`. `load.complete` decides what is empty here. `single` is one graph whose nodes are
    the samples; `words` are features that count words, and the usual split of a set with `few` trains on some
    nodes of each class only. A class that is not `reviewed` may run what it downloads.
    """

    name: str
    reader: str
    folder: str = ""
    of: str = ""
    part: str | None = None
    files: Mapping[str, str] = field(default_factory=dict)
    sha256: tuple[str, ...] = ()
    task: str = ""
    metric: str = ""
    size: str = "size not stated"
    split: str = ""
    licence: str = "not stated"
    node: Kind | Literal[""] = ""
    edge: Kind | Literal[""] = ""
    balanced: bool = False  # classes count equally in the loss
    single: bool = False
    words: bool = False
    few: bool = False
    options: Mapping[str, Any] = field(default_factory=dict)
    reviewed: bool = True

    def folder_in(self, root: Path) -> Path:
        """Return the set's folder below `root`, which for a class holds its folders `raw` and `processed`."""
        place = root / self.folder
        if self.part is None:
            return place
        name = self.part.lower().replace("-", "_")
        inside = sorted(place.iterdir()) if place.is_dir() else []
        return next((p for p in inside if p.name.lower().replace("-", "_") == name), place / self.part)

    @property
    def kind(self) -> str:
        """Which of the defaults of `configs/benchmarks/defaults.yaml` suit the data set."""
        return ("few-labels" if self.few else "one-graph") if self.single else self.task


def parse_split(text: str) -> str:
    """Return the split that `text` names, as a declaration has it; raise ValueError if it names none.

    `public` is `official`, and `70/15/15` is `random:0.7/0.15/0.15`.
    """
    if text in ("official", "public"):
        return "official"
    if re.fullmatch(r"scaffold|folds:([3-9]|[1-9]\d{1,5})|random:[1-9]\d{0,5}-per-class", text):
        return text
    shares = [float(s) for s in text.removeprefix("random:").split("/") if re.fullmatch(r"\d{0,9}\.?\d{1,9}", s)]
    whole = 100 if sum(shares) > 1.5 else 1
    if len(shares) != 3 or text.count("/") != 2 or abs(sum(shares) / whole - 1) > 1e-6 or min(shares) <= 0:
        raise ValueError(
            "write official, scaffold, folds:N (3 or more), random:N-per-class or random:0.8/0.1/0.1, "
            "where the three shares must be above 0 and add up to 1"
        )
    return (
        text
        if text.startswith("random:") and whole == 1
        else f"random:{'/'.join(f'{s / whole:g}' for s in shares)}"
    )


SplitName = Annotated[str, AfterValidator(parse_split)]


Kinds = Annotated[int, Field(ge=1, le=10**7)]  # number of categories in a column
Features = tuple[Kinds, ...] | Literal["linear", "none", ""]


class _Own(Strict):
    """The keys that all kinds of one's own data share; `load.complete` decides those that are left out.

    `classes` is the number of classes, by default one more than the largest.
    """

    kind: Any
    task: str = ""
    metric: str = ""
    split: SplitName | None = None
    classes: int | None = Field(default=None, ge=2, le=10**6)

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
    """A file, relative to the YAML, of `torch_geometric.data.Data`, as `load.graphs_in` describes it."""

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

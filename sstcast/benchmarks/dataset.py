"""Declarations of data sets: where the files come from, how to open them, and what to predict."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from sstcast.errors import SSTCastError

TaskName = Literal[
    "graph-regression",
    "graph-classification",
    "multi-label",
    "node-regression",
    "node-classification",
    "link-ranking",
    "next-tokens",
]
Metric = Literal["mae", "accuracy", "balanced-accuracy", "macro-f1", "roc-auc", "ap", "mrr", "f1"]
Categories = tuple[int, ...]  # number of categories in each column

ATOMS: Categories = (119, 5, 12, 12, 10, 6, 6, 2, 2)  # of ogb.utils.features
BONDS: Categories = (5, 6, 2)

METRICS_OF: dict[TaskName, tuple[Metric, ...]] = {  # the usual one first
    "graph-regression": ("mae",),
    "graph-classification": ("accuracy", "balanced-accuracy", "macro-f1", "roc-auc", "ap"),
    "multi-label": ("ap", "roc-auc"),
    "node-regression": ("mae",),
    "node-classification": ("accuracy", "balanced-accuracy", "macro-f1", "roc-auc", "ap"),
    "link-ranking": ("mrr",),
    "next-tokens": ("f1",),
}
BINARY = ("roc-auc", "ap")

# How many words a model for ogbg-code2 knows, and how many it predicts, as in its authors' baselines.
WORDS = 5000
UNKNOWN, END = WORDS, WORDS + 1
LENGTH = 5


@dataclass(frozen=True)
class Dataset:
    """The declaration of a data set, with everything that differs between data sets.

    `reader` is a module of `formats`; `folder` is below the root; `files` are in it, each with the address where
    it (or the archive that contains it) can be downloaded. `node` and `edge` describe the features: `linear` (real
    numbers), the number of categories in each column, or `none`. `split` is `official`, `folds:N` or
    `random:TRAIN/VALIDATION/TEST`. `single` is one graph whose nodes are the samples; `words` are features that
    count words. `beside` are patterns of further files to read. With `trust`, which only the
    user may set, unknown pickles among the files are opened.
    """

    name: str
    reader: str
    folder: str
    files: Mapping[str, str]
    task: TaskName
    metric: Metric
    size: str
    split: str = "official"
    licence: str = "not stated"
    node: Categories | Literal["linear", "none"] = "linear"
    edge: Categories | Literal["linear", "none"] = "none"
    balanced: bool = False  # classes count equally in the loss
    single: bool = False
    words: bool = False
    options: Mapping[str, Any] = field(default_factory=dict)
    beside: tuple[str, ...] = ()
    trust: bool = False

    @property
    def names(self) -> list[str]:
        """The raw files, as paths below `folder`."""
        return list(self.files)

    @property
    def classes(self) -> bool:
        """Whether labels are classes; with a rank metric they are yes-or-no questions instead."""
        return self.task in ("graph-classification", "node-classification") and self.metric not in BINARY

    def missing(self, root: Path) -> list[Path]:
        """Return the raw files that are not below `root`."""
        return [root / self.folder / name for name in self.files if not (root / self.folder / name).exists()]

    def check_files(self, root: Path) -> None:
        """Raise SSTCastError, saying which file goes where and from which address, if one is missing."""
        for path in self.missing(root):
            address = self.files[str(path.relative_to(root / self.folder))]
            source = f"get it from {address}" if address else "it is not there"
            inside = (
                " (an archive that holds it)"
                if address.split("?")[0].endswith((".zip", ".gz"))
                and (Path(address.split("?")[0]).name != path.name)
                else ""
            )
            raise SSTCastError(f"{self.name}: {path} is missing; {source}{inside}")

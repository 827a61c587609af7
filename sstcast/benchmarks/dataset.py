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
Metric = Literal["mae", "rmse", "accuracy", "balanced-accuracy", "macro-f1", "roc-auc", "ap", "mrr", "f1"]
Categories = tuple[int, ...]  # number of categories in each column
Kind = Categories | Literal["linear", "none"]  # of features

ATOMS: Categories = (119, 5, 12, 12, 10, 6, 6, 2, 2)  # of ogb.utils.features
BONDS: Categories = (5, 6, 2)

METRICS_OF: dict[TaskName, tuple[Metric, ...]] = {  # the usual one first
    "graph-regression": ("mae", "rmse"),
    "graph-classification": ("accuracy", "balanced-accuracy", "macro-f1", "roc-auc", "ap"),
    "multi-label": ("ap", "roc-auc"),
    "node-regression": ("mae", "rmse"),
    "node-classification": ("accuracy", "balanced-accuracy", "macro-f1", "roc-auc", "ap"),
    "link-ranking": ("mrr",),
    "next-tokens": ("f1",),
}
BINARY = ("roc-auc", "ap")
BY_HAND = "https://drive.google.com/drive/folders/"  # pages with a list of files

# How many words a model for ogbg-code2 knows, and how many it predicts, as in its authors' baselines.
WORDS = 5000
UNKNOWN, END = WORDS, WORDS + 1
LENGTH = 5


@dataclass(frozen=True)
class Dataset:
    """The declaration of a data set, with everything that differs between data sets.

    `reader` is a module of `formats`, or `classes` for a class of PyG; `folder` is below the root; `files` are in
    it, each with the address where it (or the archive that contains it) can be downloaded. `node` and `edge`
    describe the features: `linear` (real numbers), the number of categories in each column, or `none`. `split` is
    `official`, `folds:N`, `random:TRAIN/VALIDATION/TEST` or `random:N-per-class`. What is empty is inferred from
    the graphs (`infer.py`). `single` is one graph whose nodes are the samples; `words` are features that count
    words, and the usual split of a set with `few` trains on some nodes of each class only. With `trust`, which
    only the user may set, unknown pickles among the files are opened.
    """

    name: str
    reader: str
    folder: str
    files: Mapping[str, str]
    task: TaskName | Literal[""] = ""
    metric: Metric | Literal[""] = ""
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
    trust: bool = False

    @property
    def names(self) -> list[str]:
        """The raw files, as paths below `folder`."""
        return list(self.files)

    @property
    def kind(self) -> str:
        """Which of the defaults of `configs/benchmarks/defaults.yaml` suit the data set."""
        return ("few-labels" if self.few else "one-graph") if self.single else self.task

    @property
    def classes(self) -> bool:
        """Whether labels are classes; with a rank metric they are yes-or-no questions instead."""
        return self.task in ("graph-classification", "node-classification") and self.metric not in BINARY

    @property
    def of_nodes(self) -> bool:
        return self.task.startswith("node")

    def missing(self, root: Path) -> list[Path]:
        """Return the raw files that are not below `root`."""
        return [root / self.folder / name for name in self.files if not (root / self.folder / name).exists()]

    def check_files(self, root: Path) -> None:
        """Raise SSTCastError, saying which file is missing and how to get it."""
        for path in self.missing(root):
            address = self.files[str(path.relative_to(root / self.folder))]
            by = (
                "get it by hand"
                if address.startswith(BY_HAND)
                else f"`sstcast benchmark {self.name}` downloads it"
            )
            get = f"{by} from {address}" if address else "it is not there"
            about = f" ({self.size}; licence: {self.licence})" if address else ""
            raise SSTCastError(f"{self.name}: {path} is missing; {get}{about}")

"""What several groups of declarations need."""

from typing import Any

from sstcast.benchmarks.dataset import Dataset

DROPBOX = "https://www.dropbox.com/s/"
OGB = "http://snap.stanford.edu/ogb/data/"


def ogb(name: str, archive: str, split: str, size: str, licence: str, *extra: str, **rest: Any) -> Dataset:
    """Declare a data set of the Open Graph Benchmark; `extra` are files beside edges, counts, labels and split."""
    kind, level = ("nodeproppred", "node") if name.startswith("ogbn") else ("graphproppred", "graph")
    raw = ("edge", "num-node-list", "num-edge-list", f"{level}-label", *extra)
    names = [f"raw/{part}" for part in raw] + [f"split/{split}/{part}" for part in ("train", "valid", "test")]
    files = {f"{file}.csv.gz": f"{OGB}{kind}/{archive}.zip" for file in names}
    folder = name.replace("-", "_")
    return Dataset(name, "ogb", folder, files, size=size, licence=licence, split="official", **rest)

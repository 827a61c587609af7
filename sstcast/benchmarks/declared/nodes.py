"""Graphs whose nodes are the samples."""

from sstcast.benchmarks.dataset import RANDOM, Dataset
from sstcast.benchmarks.declared.common import ogb

PLANETOID = "https://github.com/kimiyoung/planetoid/raw/master/data/"
YANDEX = "https://github.com/yandex-research/heterophilous-graphs/raw/main/data/"
SHCHUR = "https://github.com/shchur/gnn-benchmark/raw/master/data/npz/"
POLYNORMER_SPLITS = "https://github.com/cornell-zhang/Polynormer/raw/main/data/"


def planetoid(name: str, size: str) -> Dataset:
    """Declare a citation network."""
    parts = ("x", "y", "tx", "ty", "allx", "ally", "graph", "test.index")
    files = {f"ind.{name.lower()}.{part}": f"{PLANETOID}ind.{name.lower()}.{part}" for part in parts}
    return Dataset(
        name, "planetoid", f"Planetoid/{name}/raw", files, "node-classification", "accuracy", "official", size
    )


def heterophilous(name: str, size: str, binary: bool = False) -> Dataset:
    """Declare a heterophilous graph."""
    raw = name.replace("-", "_")
    arrays = {"edges": "edges", "features": "node_features", "labels": "node_labels"}
    masks = {"train": "train_masks", "validation": "val_masks", "test": "test_masks"}
    return Dataset(
        name,
        "npz",
        f"HeterophilousGraphDataset/{raw}/raw",
        {f"{raw}.npz": f"{YANDEX}{raw}.npz"},
        "node-classification",
        "roc-auc" if binary else "accuracy",
        "official",
        size,
        licence="MIT",
        options=arrays | masks,
    )


def shchur(name: str, folder: str, file: str, split: str, size: str) -> Dataset:
    """Declare a network of Amazon's or of co-authors, with the split that Polynormer uses."""
    files = {f"{folder}/raw/{file}.npz": f"{SHCHUR}{file}.npz"}
    files[f"splits/{split}_split.npz"] = f"{POLYNORMER_SPLITS}{split}_split.npz"
    options = {"sparse": True, "labels": "labels", "train": "train", "validation": "valid", "test": "test"}
    return Dataset(
        name, "npz", "", files, "node-classification", "accuracy", "official", size, "MIT", options=options
    )


NODES = (
    planetoid("Cora", "2,708 nodes, 5,278 edges, 7 classes"),
    planetoid("CiteSeer", "3,327 nodes, 4,552 edges, 6 classes"),
    planetoid("PubMed", "19,717 nodes, 44,324 edges, 3 classes"),
    Dataset(
        "LastFM-Asia",
        "npz",
        "LastFMAsia/raw",
        {"lastfm_asia.npz": "https://graphmining.ai/datasets/ptg/lastfm_asia.npz"},
        "node-classification",
        "accuracy",
        RANDOM,
        "7,624 nodes, 27,806 edges, 18 classes",
        options={"edges": "edges", "features": "features", "labels": "target"},
    ),
    heterophilous("roman-empire", "22,662 nodes, 32,927 edges, 18 classes"),
    heterophilous("amazon-ratings", "24,492 nodes, 93,050 edges, 5 classes"),
    heterophilous("minesweeper", "10,000 nodes, 39,402 edges, 2 classes", binary=True),
    heterophilous("tolokers", "11,758 nodes, 519,000 edges, 2 classes", binary=True),
    heterophilous("questions", "48,921 nodes, 153,540 edges, 2 classes", binary=True),
    shchur(
        "amazon-computers",
        "Amazon/Computers",
        "amazon_electronics_computers",
        "amazon-computer",
        "13,752 nodes, 245,861 edges, 10 classes",
    ),
    shchur(
        "amazon-photo",
        "Amazon/Photo",
        "amazon_electronics_photo",
        "amazon-photo",
        "7,650 nodes, 119,081 edges, 8 classes",
    ),
    shchur(
        "coauthor-cs", "Coauthor/CS", "ms_academic_cs", "coauthor-cs", "18,333 nodes, 81,894 edges, 15 classes"
    ),
    shchur(
        "coauthor-physics",
        "Coauthor/Physics",
        "ms_academic_phy",
        "coauthor-physics",
        "34,493 nodes, 247,962 edges, 5 classes",
    ),
    Dataset(
        "wikics",
        "wikics",
        "WikiCS/raw",
        {"data.json": "https://github.com/pmernyei/wiki-cs-dataset/raw/master/dataset/data.json"},
        "node-classification",
        "accuracy",
        "official",
        "11,701 nodes, 215,863 edges, 10 classes",
        "MIT",
    ),
    ogb(
        "ogbn-arxiv",
        "arxiv",
        "time",
        "169,343 nodes, 1,166,243 edges, 40 classes",
        "ODC-BY",
        "node-feat",
        task="node-classification",
        metric="accuracy",
    ),
    ogb(
        "ogbn-products",
        "products",
        "sales_ranking",
        "2,449,029 nodes, 61,859,140 edges, 47 classes",
        "Amazon's own",
        "node-feat",
        task="node-classification",
        metric="accuracy",
    ),
    Dataset(
        "pokec",
        "pokec",
        "pokec/raw",
        {
            "pokec.mat": "https://drive.google.com/drive/folders/1rr3kewCBUvIuVxA6MJ90wzQuF-NnCRtf",
            "pokec-splits.npy": "https://github.com/CUAI/Non-Homophily-Large-Scale/raw/master/data/splits/"
            "pokec-splits.npy",
        },
        "node-classification",
        "accuracy",
        "official",
        "1,632,803 nodes, 30,622,564 edges, 2 classes",
    ),
)

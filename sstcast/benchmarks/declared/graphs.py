"""Small and synthetic graphs, call graphs, syntax trees and proteins."""

from typing import Any

from sstcast.benchmarks.dataset import RANDOM, Categories, Dataset
from sstcast.benchmarks.declared.common import DROPBOX, ogb

TU = "https://www.chrsmrrs.com/graphkerneldatasets/"
MALNET = "http://malnet.cc.gatech.edu/"
SYNTAX: Categories = (98, 10030, 21)  # kind of node, its attribute, depth


def tudataset(name: str, size: str, *parts: str, edge: Any = "none") -> Dataset:
    """Declare graphs of TUDataset; `parts` are the files beside the edges, graphs and classes."""
    kinds = ("A", "graph_indicator", "graph_labels", *parts)
    files = {f"{name}_{kind}.txt": f"{TU}{name}.zip" for kind in kinds}
    return Dataset(
        name,
        "tudataset",
        f"TUDataset/{name}/raw",
        files,
        "graph-classification",
        "accuracy",
        RANDOM,
        size,
        edge=edge,
        options={"edgeless": True},
    )


GRAPHS = (
    tudataset(
        "MUTAG", "188 graphs, 17.9 nodes, 39.6 edges, 2 classes", "node_labels", "edge_labels", edge="linear"
    ),
    tudataset("PROTEINS", "1,113 graphs, 39.1 nodes, 145.6 edges, 2 classes", "node_labels", "node_attributes"),
    tudataset("NCI1", "4,110 graphs, 29.9 nodes, 64.6 edges, 2 classes", "node_labels"),
    tudataset(
        "COX2_MD",
        "303 graphs, 26.3 nodes, 670.3 edges, 2 classes",
        "node_labels",
        "edge_labels",
        "edge_attributes",
        edge="linear",
    ),
    Dataset(
        "CSL",
        "benchmarking",
        "GNNBenchmarkDataset/CSL/raw",
        {
            f"{file}_Kary_Deterministic_Graphs.{end}": f"{DROPBOX}rnbkp5ubgk82ocu/CSL.zip?dl=1"
            for file, end in (("graphs", "pkl"), ("y", "pt"))
        },
        "graph-classification",
        "accuracy",
        "folds:5",
        "150 graphs, 41 nodes, 164 edges, 10 classes",
        "MIT",
        node="none",
        options={"layout": "csl"},
    ),
    Dataset(
        "MalNet-Tiny",
        "malnet",
        "MalNetTiny/raw",
        {
            f"split_info_tiny/type/{part}.txt": f"{MALNET}split-info/split_info_tiny.zip (the graphs: "
            f"{MALNET}graph-data/malnet-graphs-tiny.tar.gz)"
            for part in ("train", "val", "test")
        },
        "graph-classification",
        "accuracy",
        "official",
        "5,000 graphs, 1,410.3 nodes, 2,859.9 edges, 5 classes",
        "CC BY 4.0",
        node="none",
        beside=("malnet-graphs-tiny/**/*.edgelist",),
    ),
    ogb(
        "ogbg-ppa",
        "ogbg_ppi_medium",
        "species",
        "158,100 graphs, 243.4 nodes, 4,532.2 edges, 37 classes",
        "CC0",
        "edge-feat",
        task="graph-classification",
        metric="accuracy",
        node="none",
        edge="linear",
        options={"inverse": True},
    ),
    ogb(
        "ogbg-code2",
        "code2",
        "project",
        "452,741 graphs, 125.2 nodes",
        "MIT",
        "node-feat",
        "node_is_attributed",
        "node_depth",
        task="next-tokens",
        metric="f1",
        node=SYNTAX,
        edge=(2, 2),
        options={"syntax": True},
    ),
)

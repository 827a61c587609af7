"""Molecules and peptides, atom by atom."""

from typing import Any

from sstcast.benchmarks.dataset import ATOMS, BONDS, Dataset
from sstcast.benchmarks.declared.common import DROPBOX, ogb

SHAPES = (
    *(f"{kind}_{axis}" for kind in ("Inertia_mass", "Inertia_valence", "length") for axis in "abc"),
    "Spherocity",
    "Plane_best_fit",
)


def molecules(name: str, archive: str, size: str, task: Any, metric: Any) -> Dataset:
    """Declare molecules of the Open Graph Benchmark."""
    return ogb(
        name,
        f"csv_mol_download/{archive}",
        "scaffold",
        size,
        "MIT",
        "node-feat",
        "edge-feat",
        task=task,
        metric=metric,
        node=ATOMS,
        edge=BONDS,
        options={"inverse": True},
    )


def peptides(name: str, files: dict[str, str], task: Any, metric: Any, targets: tuple[str, ...]) -> Dataset:
    """Declare peptides, atom by atom."""
    return Dataset(
        name,
        "smiles",
        name,
        {file: f"{DROPBOX}{address}/{file}?dl=1" for file, address in files.items()},
        task,
        metric,
        "official",
        "15,535 graphs, 150.9 nodes, 307.3 edges",
        "CC BY-NC 4.0",
        node=ATOMS,
        edge=BONDS,
        options={"smiles": "smiles", "targets": targets},
    )


MOLECULES = (
    Dataset(
        "ZINC",
        "benchmarking",
        "ZINC/raw",
        {
            **{f"{p}.pickle": f"{DROPBOX}feo9qle74kg48gy/molecules.zip?dl=1" for p in ("train", "val", "test")},
            **{
                f"{p}.index": "https://github.com/graphdeeplearning/benchmarking-gnns/raw/master/data/molecules/"
                f"{p}.index"
                for p in ("train", "val", "test")
            },
        },
        "graph-regression",
        "mae",
        "official",
        "12,000 graphs, 23.2 nodes, 49.8 edges",
        node=(28,),
        edge=(4,),
        options={"layout": "zinc"},
    ),
    Dataset(
        "PCQM-Contact",
        "superpixels",
        "pcqm-contact/raw",
        {f"{part}.pt": f"{DROPBOX}qdag867u6h6i60y/pcqmcontact.zip?dl=1" for part in ("train", "val", "test")},
        "link-ranking",
        "mrr",
        "official",
        "529,434 graphs, 30.1 nodes, 61.1 edges",
        "CC BY 4.0",
        node=ATOMS,
        edge=BONDS,
    ),
    peptides(
        "peptides-func",
        {
            "peptide_multi_class_dataset.csv.gz": "ol2v01usvaxbsr8",
            "splits_random_stratified_peptide.pickle": "j4zcnx2eipuo0xz",
        },
        "multi-label",
        "ap",
        ("labels",),
    ),
    peptides(
        "peptides-struct",
        {
            "peptide_structure_normalized_dataset.csv.gz": "0d4aalmq4b4e2nh",
            "splits_random_stratified_peptide_structure.pickle": "9dfifzft1hqgow6",
        },
        "graph-regression",
        "mae",
        SHAPES,
    ),
    molecules("ogbg-molhiv", "hiv", "41,127 graphs, 25.5 nodes, 54.9 edges", "graph-classification", "roc-auc"),
    molecules("ogbg-molpcba", "pcba", "437,929 graphs, 26.0 nodes, 56.2 edges, 128 labels", "multi-label", "ap"),
    Dataset(
        "PCQM4Mv2",
        "smiles",
        "pcqm4m-v2",
        dict.fromkeys(
            ("raw/data.csv.gz", "split_dict.pt"),
            "https://dgl-data.s3-accelerate.amazonaws.com/dataset/OGB-LSC/pcqm4m-v2.zip",
        ),
        "graph-regression",
        "mae",
        "official",
        "3,746,620 graphs, 14.1 nodes, 29.1 edges",
        "CC BY 4.0",
        node=ATOMS,
        edge=BONDS,
        options={"smiles": "smiles", "targets": ("homolumogap",)},
    ),
)

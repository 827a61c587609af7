"""Images cut into regions, and stochastic block models."""

from typing import Any

from sstcast.benchmarks.dataset import Dataset
from sstcast.benchmarks.declared.common import DROPBOX

BENCHMARKING = "https://data.pyg.org/datasets/benchmarking-gnns/"


def superpixels(name: str, archive: str, size: str, licence: str, **options: Any) -> Dataset:
    """Declare images cut into regions."""
    files = {f"{part}.pickle": f"{DROPBOX}{archive}.zip?dl=1" for part in ("train", "val", "test")}
    return Dataset(
        name,
        "superpixels",
        f"{name.lower()}/raw",
        files,
        "node-classification",
        "macro-f1",
        "official",
        size,
        licence,
        edge="linear",
        balanced=True,
        options=options,
    )


def block_model(name: str, size: str) -> Dataset:
    """Declare nodes of stochastic block models."""
    files = {f"{name}_v2.pt": f"{BENCHMARKING}{name}_v2.zip"}
    return Dataset(
        name,
        "benchmarking",
        f"GNNBenchmarkDataset/{name}/raw",
        files,
        "node-classification",
        "balanced-accuracy",
        "official",
        size,
        "MIT",
        balanced=True,
        options={"layout": "lists"},
    )


def image(name: str, size: str) -> Dataset:
    """Declare images as graphs of superpixels."""
    files = {f"{name}_v2.pt": f"{BENCHMARKING}{name}_v2.zip"}
    return Dataset(
        name,
        "benchmarking",
        f"GNNBenchmarkDataset/{name}/raw",
        files,
        "graph-classification",
        "accuracy",
        "official",
        size,
        "MIT",
        edge="linear",
        options={"layout": "lists"},
    )


IMAGES = (
    image("MNIST", "70,000 graphs, 70.6 nodes, 564.5 edges, 10 classes"),
    image("CIFAR10", "60,000 graphs, 117.6 nodes, 941.2 edges, 10 classes"),
    block_model("PATTERN", "14,000 graphs, 118.9 nodes, 6,098.9 edges, 2 classes"),
    block_model("CLUSTER", "12,000 graphs, 117.2 nodes, 4,303.9 edges, 6 classes"),
    superpixels(
        "PascalVOC-SP",
        "8x722ai272wqwl4/pascalvocsp",
        "11,355 graphs, 479.4 nodes, 2,710.5 edges, 21 classes",
        "Pascal VOC's own",
    ),
    superpixels(
        "COCO-SP",
        "r6ihg1f4pmyjjy0/cocosp",
        "123,286 graphs, 476.9 nodes, 2,693.7 edges, 81 classes",
        "CC BY 4.0",
        coco=True,
    ),
)

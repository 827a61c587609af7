"""sstcast's message passing beside plain PyTorch Geometric: the same recipe, splits, seeds and epochs.

    python perf/beside_pyg.py [--sets Cora ZINC] [--convs gcn gin] [--seeds 5] [--epochs 20] [--root data/graphs]

With `gcn weighted`, each edge has a weight, drawn between 0 and 1.

Prints a Markdown table: the test score at the best validation score, mean and deviation over seeds, and seconds an
epoch with its validation. Runs go to runs/parity/; finished ones are not repeated.
"""

import argparse
import json
import platform
import statistics
import time
from dataclasses import asdict, dataclass, replace
from inspect import signature
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
import torch_geometric
from sklearn.metrics import roc_auc_score
from torch import Tensor, nn
from torch.nn import functional as F
from torch_geometric import nn as pyg
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader
from torch_geometric.transforms import NormalizeFeatures

from sstcast import __version__
from sstcast.benchmarks.config import BenchmarkConfig
from sstcast.benchmarks.load import LoadedDataset, load
from sstcast.benchmarks.objectives import objective_of
from sstcast.benchmarks.registry import Dataset, find_dataset
from sstcast.benchmarks.run import run_benchmark
from sstcast.benchmarks.splits import choose_split

RUNS = Path("runs/parity")
CONVS = ("gcn", "sage", "gin", "gat", "gcn weighted")


@dataclass(frozen=True)
class Recipe:
    """What both sides are built and trained by. Without `head`, the last layer returns the classes."""

    epochs: int
    width: int = 64
    layers: int = 4
    heads: int = 8  # of gat
    norm: str = "batch"
    dropout: float = 0.0
    rate: float = 1e-3
    decay: float = 0.0
    head: bool = True
    words: bool = False
    batch_size: int = 128


RECIPES = {
    "Cora": Recipe(200, 16, 2, norm="none", dropout=0.5, rate=0.01, decay=5e-4, head=False, words=True),
    "amazon-photo": Recipe(60, layers=2, dropout=0.5, rate=0.01, decay=5e-4, words=True),
    "minesweeper": Recipe(80, dropout=0.2, rate=0.01),
    "NCI1": Recipe(15),
    "ZINC": Recipe(10),
}


class Plain(nn.Module):
    """A network as PyG's examples write it; `categories` of nodes are embedded, `pool` sums a graph's nodes."""

    def __init__(
        self, recipe: Recipe, conv: str, features: int, outputs: int, categories: int = 0, pool: bool = False
    ) -> None:
        super().__init__()
        self.recipe, self.pool, width = recipe, pool, recipe.width
        self.embed = nn.Embedding(categories, width) if categories else None
        if self.embed is not None:
            nn.init.xavier_uniform_(self.embed.weight)
        widths = [width if categories else features] + recipe.layers * [width]
        if not recipe.head:
            widths[-1] = outputs
        last = None if recipe.head else recipe.layers - 1
        self.convs = nn.ModuleList(
            build(conv, *pair, 1 if i == last else recipe.heads, recipe) for i, pair in enumerate(pairwise(widths))
        )
        normed = widths[1:] if recipe.head else widths[1:-1]
        self.norms = nn.ModuleList(nn.BatchNorm1d(w) if recipe.norm == "batch" else nn.Identity() for w in normed)
        hidden = [nn.Linear(width, width), nn.ReLU()] if pool else []
        self.head = nn.Sequential(*hidden, nn.Linear(width, outputs)) if recipe.head else nn.Sequential()

    def forward(
        self, x: Tensor, edge_index: Tensor, batch: Tensor | None = None, edge_weight: Tensor | None = None
    ) -> Tensor:
        """Return outputs for each node, or each graph of a `batch`."""
        dropout = self.recipe.dropout
        x = F.dropout(x, dropout, self.training) if self.embed is None else self.embed(x.squeeze(1))
        for i, conv in enumerate(self.convs):
            x = conv(x, edge_index) if edge_weight is None else conv(x, edge_index, edge_weight)
            if i < len(self.norms):
                x = F.dropout(self.norms[i](x).relu(), dropout, self.training)
        return self.head(pyg.global_add_pool(x, batch) if self.pool else x)


def build(conv: str, inputs: int, outputs: int, heads: int, recipe: Recipe) -> nn.Module:
    """Return PyG's layer."""
    if conv == "gat":
        return pyg.GATConv(inputs, outputs // heads, heads)
    if conv == "gin":
        norm = "batch_norm" if recipe.norm == "batch" else None
        return pyg.GINConv(pyg.MLP([inputs, outputs, outputs], norm=norm), train_eps=True)
    return {"gcn": pyg.GCNConv, "sage": pyg.SAGEConv}[conv.split()[0]](inputs, outputs)


def configure(
    name: str, conv: str, recipe: Recipe, root: Path, seed: int = 0, real: bool = True
) -> BenchmarkConfig:
    """Return sstcast's configuration of the same network and training; `real` features are not embedded."""
    one = find_dataset(name).single
    model: dict[str, Any] = {"name": "mpnn", "conv": conv.split()[0], "residual": False}
    model |= {key: getattr(recipe, key) for key in ("width", "layers", "heads", "norm", "dropout")}
    return BenchmarkConfig.model_validate(
        {
            "dataset": name,
            "label": f"{conv.replace(' ', '-')}-{recipe.epochs}",
            "model": model,
            "predictor": {
                "encoder": not real,
                "head": recipe.head,
                "head_layers": 0 if one else 1,
                "readout": "sum",
                "input_dropout": recipe.dropout,
                "normalise": "row" if recipe.words else "none",
            },
            "training": {
                "epochs": recipe.epochs,
                "learning_rate": recipe.rate,
                "weight_decay": recipe.decay,
                "batch_size": recipe.batch_size,
                "compile": False,
                "precision": "32-true",
                "device": "cpu",
                "seed": seed,
            },
            "root": root,
            "runs": RUNS / "sstcast",
        }
    )


def edges_of_class(dataset: Dataset, root: Path) -> list[Tensor]:
    """Return the edges of each graph as PyG's own class reads them."""
    cls = getattr(torch_geometric.datasets, dataset.reader)
    arguments = {"root": str(root / dataset.folder)} | dict(dataset.options.get("arguments", {}))
    arguments |= {} if dataset.part is None else {"name": dataset.part}
    split, graphs = signature(cls).parameters.get("split"), cls(**arguments)
    if split is not None and split.default in ("train", None) and len(graphs.processed_paths) > 1:
        graphs = (graph for part in ("train", "val", "test") for graph in cls(**arguments, split=part))
    return [graph.edge_index for graph in graphs]


def as_pyg(loaded: LoadedDataset, edges: list[Tensor], words: bool) -> list[Data]:
    """Return the graphs as PyG's, with the `edges` of its class."""
    graphs, found = loaded.graphs, []
    for i, index in enumerate(edges):
        batch = graphs.batch(torch.tensor([i]))
        data = Data(x=batch.x, edge_index=index, y=batch.y)
        if batch.graph.edge_weight is not None:  # of the same edges, perhaps in another order
            ours, theirs = ((s * len(batch.x) + t).argsort() for s, t in (batch.graph.edge_index, index))
            weight = batch.graph.edge_weight[0].squeeze(1)
            data.edge_weight = torch.empty_like(weight).index_copy(0, theirs, weight[ours])
        found.append(NormalizeFeatures()(data) if words else data)
    return found


def train_plain(
    name: str, conv: str, recipe: Recipe, loaded: LoadedDataset, graphs: list[Data], seed: int
) -> dict:
    """Train a network of PyG alone; return its test score and seconds an epoch, from disk if it was trained."""
    path = RUNS / "pyg" / name / f"{conv}-{recipe.epochs}" / f"seed-{seed}.json"
    if path.exists() and (kept := json.loads(path.read_text()))["recipe"] == asdict(recipe):
        return kept
    dataset, one = loaded.dataset, len(graphs) == 1
    assert dataset is not None
    split = choose_split(dataset, loaded.graphs, loaded.splits, seed)
    torch.manual_seed(seed)
    y = loaded.graphs.y
    mean, scale = (
        (y[split.train].mean(), y[split.train].std(unbiased=False)) if dataset.metric == "mae" else (0, 1)
    )
    outputs = int(y.max()) + 1 if objective_of(dataset).classes else 1
    categories = dataset.node[0] if isinstance(dataset.node, tuple) else 0
    model = Plain(recipe, conv, graphs[0].x.shape[1], outputs, categories, pool=not one)
    optimizer = torch.optim.Adam(model.parameters(), lr=recipe.rate, weight_decay=recipe.decay)

    def batches(part: Tensor, shuffle: bool = False) -> Any:
        return graphs if one else DataLoader([graphs[i] for i in part], recipe.batch_size, shuffle=shuffle)

    def outputs_of(data: Data, part: Tensor) -> tuple[Tensor, Tensor]:
        if one:
            return model(data.x, data.edge_index, None, data.edge_weight)[part], data.y[part]
        return model(data.x, data.edge_index, data.batch, data.edge_weight), data.y

    def loss_of(out: Tensor, target: Tensor) -> Tensor:
        if dataset.metric == "mae":
            return F.l1_loss(out, (target - mean) / scale)
        if objective_of(dataset).classes:
            return F.cross_entropy(out, target)
        return F.binary_cross_entropy_with_logits(out, target)

    @torch.no_grad()
    def judge(part: Tensor) -> tuple[float, float]:
        model.eval()
        results = [outputs_of(data, part) for data in batches(part)]
        out, target = (torch.cat(each) for each in zip(*results, strict=True))
        if dataset.metric == "mae":
            score = -float((out * scale + mean - target).abs().mean())
        elif dataset.metric == "roc-auc":
            score = float(roc_auc_score(target, out))
        else:
            score = float((out.argmax(1) == target).float().mean())
        return score, -float(loss_of(out, target))

    best, test, seconds = (-float("inf"), 0.0), 0.0, 0.0
    for _ in range(recipe.epochs):
        started = time.monotonic()
        model.train()
        for data in batches(split.train, shuffle=True):
            optimizer.zero_grad()
            loss_of(*outputs_of(data, split.train)).backward()
            optimizer.step()
        found = judge(split.validation)
        seconds += time.monotonic() - started
        if found > best:
            best, test = found, judge(split.test)[0]
    result = {"recipe": asdict(recipe), "test": abs(test), "epoch": seconds / recipe.epochs}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(result))
    return result


def compare(name: str, conv: str, recipe: Recipe, root: Path, seeds: int) -> str:
    """Train both sides; return a row of the table."""
    cache = configure(name, conv, recipe, root).cache
    loaded = load(find_dataset(name), root, cache)
    assert loaded.dataset is not None
    if conv == "gcn weighted":
        edges, generator = loaded.graphs.edge_index.shape[1], torch.Generator().manual_seed(0)
        weighted = replace(loaded.graphs, edge_weight=torch.rand(edges, generator=generator))
        loaded = loaded._replace(graphs=weighted)
    real = loaded.dataset.node == "linear"
    graphs = as_pyg(loaded, edges_of_class(loaded.dataset, root), recipe.words)
    ours, theirs = [], []
    for seed in range(seeds):  # in turn, so that other work on the machine slows both
        (found,) = run_benchmark(configure(name, conv, recipe, root, seed, real), [seed], loaded=loaded)
        ours.append((found["test"], found["seconds"] / found["epochs"]))
        plain = train_plain(name, conv, recipe, loaded, graphs, seed)
        theirs.append((plain["test"], plain["epoch"]))
    cells = [name, conv]
    for side in (ours, theirs):
        scores = [score for score, _ in side]
        spread = f" ± {statistics.stdev(scores):.4f}" if seeds > 1 else ""
        cells.append(f"{statistics.mean(scores):.4f}{spread}")
    times = [1000 * statistics.median(seconds for _, seconds in side) for side in (ours, theirs)]
    return f"| {' | '.join([*cells, *(f'{t:.0f}' for t in times)])} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", choices=RECIPES, default=list(RECIPES))
    parser.add_argument("--convs", nargs="+", choices=CONVS, default=list(CONVS))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--epochs", type=int, help="instead of each set's own")
    parser.add_argument("--root", type=Path, default=Path("data/graphs"))
    options = parser.parse_args()
    rows = []
    for name in options.sets:
        recipe = RECIPES[name]
        if options.epochs is not None:
            recipe = replace(recipe, epochs=options.epochs)
        for conv in options.convs:
            wide = replace(recipe, width=64) if conv == "gat" else recipe  # 8 channels a head
            rows.append(compare(name, conv, wide, options.root, options.seeds))
    versions = f"sstcast {__version__}, torch {torch.__version__}, PyG {torch_geometric.__version__}"
    print(f"\n{versions}, {platform.machine()}, {torch.get_num_threads()} threads\n")
    print("| set | layer | sstcast | PyG | ms an epoch, sstcast | PyG |\n|---|---|---|---|---|---|")
    print("\n".join(rows))


if __name__ == "__main__":
    main()

"""Which identifiers let one layer of attention learn the 15 second-order equivariant bases: TokenGT, section 5.1.

A linear map from n x n matrices to n x n matrices that does not depend on the numbering of nodes is a sum of 15
basis tensors, one for each way in which the four indices of an entry may coincide. One layer with 15 heads is
trained so that the weights of each head, from every token (i, j) to every token (k, l), become one of them, its
rows divided by their sums. The tokens are those of the model `tokengt`, on complete graphs (`dense`: all pairs of
nodes), or on the graphs as they are (`sparse`: nodes and edges alone).
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache, partial
from typing import NamedTuple

import networkx as nx
import numpy as np
import pandas as pd
import torch
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from torch import Tensor, nn
from torch.nn import functional as F

from sstcast.graphs.positions import node_identifiers
from sstcast.graphs.sparse import SparseGraph
from sstcast.models.attention import split_heads
from sstcast.models.transformers import TokenGT, laplacian_identifiers, orthogonal_identifiers
from studies.study import Row, Study, batch_graphs, fit, spread

NODES = {"dense": (4, 6), "sparse": (6, 10)}
SIZE = 10  # of a node identifier: no graph has more nodes, so that they can be orthonormal
IDENTIFIERS = ("none", "random", "orf of tokens", "orf", "laplacian")
TYPES = ("no", "yes")


def equality_patterns() -> list[tuple[int, ...]]:
    """Return the 15 ways in which four indices may coincide, each index given the number of its class."""
    patterns: list[tuple[int, ...]] = [()]
    for _ in range(4):
        patterns = [(*p, label) for p in patterns for label in range(max(p, default=-1) + 2)]
    return patterns


def basis_name(pattern: tuple[int, ...]) -> str:
    """Return the indices of a query and a key, for instance `ij → ik`."""
    first, second, third, fourth = ("ijkl"[label] for label in pattern)
    return f"{first}{second} → {third}{fourth}"


BASES = {basis_name(pattern): pattern for pattern in equality_patterns()}


class Tokens(NamedTuple):
    """B graphs as TokenGT has them: padded to n nodes, then to e edges, T = n + e tokens in all."""

    graph: SparseGraph  # whose nodes and edges are the tokens
    laplacian: Tensor  # the nodes' Laplacian identifiers, [nodes of all graphs, SIZE]
    ends: Tensor  # the two nodes of each token, [B, T, 2]
    mask: Tensor  # True on tokens, [B, T]
    bases: Tensor  # the basis tensors, [B, 15, T, T], False on padding


class BasisAttention(nn.Module):
    """The weights of one layer of 15 heads on TokenGT's tokens without features (equation 3)."""

    def __init__(self, identifiers: str, types: bool, width: int = 64, head: int = 32) -> None:
        super().__init__()
        self.identifiers = identifiers
        self.tokengt = TokenGT(width, layers=0, identifier_size=SIZE, edge_dim=0)
        if not types:
            kinds = self.tokengt.type_identifiers
            assert kinds is not None
            nn.init.zeros_(kinds.requires_grad_(False))
        self.qk = nn.Linear(width, 2 * len(BASES) * head)

    def forward(self, tokens: Tokens) -> Tensor:
        """Return `[B, 15, T, T]`."""
        nothing = torch.zeros(len(tokens.laplacian), self.tokengt.width)
        x = self.tokengt.embed(nothing, tokens.graph, self.identify(tokens))[0][:, 1:]
        if self.identifiers == "orf of tokens":
            assert self.tokengt.node_identifiers is not None
            x = x + self.tokengt.node_identifiers(node_identifiers(tokens.mask, 2 * SIZE))
        q, k = (split_heads(part, len(BASES)) for part in self.qk(x).chunk(2, dim=-1))
        scores = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
        return scores.masked_fill(~tokens.mask[:, None, None], -torch.inf).softmax(-1)

    def identify(self, tokens: Tokens) -> Tensor:
        """Draw the node identifiers, `[nodes, SIZE]`; only Laplacian ones tell where a node is."""
        graph, nothing = tokens.graph, torch.zeros_like(tokens.laplacian)
        if self.identifiers == "orf":
            return orthogonal_identifiers(nothing, graph, SIZE, None)
        if self.identifiers == "random":
            return F.normalize(torch.randn_like(nothing), dim=-1)
        if self.identifiers == "laplacian":
            return tokens.laplacian * graph.broadcast(2 * torch.randint(2, (graph.graphs, SIZE)) - 1)
        return nothing


def study(
    seeds: Sequence[int] = (0, 1, 2), steps: int = 200, representations: Sequence[str] = tuple(NODES)
) -> Study:
    """Every kind of identifier with and without type identifiers, `steps` of training each."""
    cases = [
        {"tokens": tokens, "identifiers": identifiers, "types": types, "seed": seed}
        for seed in seeds
        for tokens in representations
        for identifiers in IDENTIFIERS
        for types in TYPES
    ]
    return Study(cases, partial(measure_case, steps), tabulate, draw)


def measure_case(steps: int, tokens: str, identifiers: str, types: str, seed: int) -> Iterator[Row]:
    """Train one layer; give the error of each basis on the graphs it was trained on and on others."""
    data = draw_graphs(tokens, seed)
    train, test = data[:16], data[16:]
    torch.manual_seed(seed)
    model = BasisAttention(identifiers, types == "yes")

    def loss(step: int) -> Tensor:
        batch = train[step % len(train)]
        return errors(model(batch), batch.bases).mean()

    fit(model, loss, steps, rate=0.01)
    with torch.no_grad():
        seen, unseen = (torch.stack([errors(model(b), b.bases) for b in part]).mean(0) for part in (train, test))
    for basis, *both in zip(BASES, seen.tolist(), unseen.tolist(), strict=True):
        yield {"basis": basis, "train": both[0], "test": both[1]}


def errors(weights: Tensor, bases: Tensor) -> Tensor:
    """Return the mean squared distance of each basis' rows, `[15]`: 0 is perfect, 2 the worst.

    Rows of zeros, which no softmax can be, do not count.
    """
    rows = bases.any(-1)
    distance = (weights - bases / bases.sum(-1, keepdim=True).clamp(min=1)).square().sum(-1)
    return (distance * rows).sum((0, 2)) / rows.sum((0, 2)).clamp(min=1)


@lru_cache(maxsize=8)
def draw_graphs(tokens: str, seed: int, batches: int = 20, size: int = 16) -> list[Tokens]:
    """Draw batches of Barabasi-Albert graphs, every new node with two edges."""
    low, high = NODES[tokens]
    numbers = np.random.default_rng(seed).integers([low, 0], [high + 1, 2**31], (batches, size, 2)).tolist()
    return [
        make_tokens([nx.barabasi_albert_graph(n, 2, each) for n, each in batch], tokens == "dense")
        for batch in numbers
    ]


def make_tokens(graphs: Sequence[nx.Graph], dense: bool) -> Tokens:
    """Return the graphs' tokens: nodes and edges, both ways; with `dense` every pair of nodes is an edge."""
    sparse = batch_graphs(graphs)
    laplacian = laplacian_identifiers(torch.ones(len(sparse.batch), 1), sparse, SIZE)
    graph = batch_graphs([nx.complete_graph(len(g)) for g in graphs]) if dense else sparse
    place = torch.cat([torch.arange(len(g)) for g in graphs]).unsqueeze(-1)
    (nodes, node_mask), edges = graph.dense(place), graph.dense_edges(place)
    ends = torch.cat([nodes.expand(-1, -1, 2), torch.cat([edges.source, edges.target], dim=-1)], dim=1)
    mask = torch.cat([node_mask, edges.mask], dim=1)
    queries, keys = ends.unsqueeze(2), ends.unsqueeze(1)
    indices = torch.cat(torch.broadcast_tensors(queries, keys), dim=-1)  # [B, T, T, 4]
    coincide = indices.unsqueeze(-1) == indices.unsqueeze(-2)
    patterns = torch.tensor(list(BASES.values()))
    wanted = (patterns.unsqueeze(-1) == patterns.unsqueeze(-2))[:, None, None]
    bases = (coincide.unsqueeze(1) == wanted).all(-1).all(-1)
    return Tokens(graph, laplacian, ends, mask, bases & mask[:, None, :, None] & mask[:, None, None])


def tabulate(rows: pd.DataFrame) -> pd.DataFrame:
    """Give the errors, means over the bases, over the seeds."""
    means = rows.groupby(["tokens", "identifiers", "types", "seed"])[["train", "test"]].mean().reset_index("seed")
    table = []
    for identifiers in IDENTIFIERS:
        for types in TYPES:
            line = {"node identifiers": identifiers, "type identifiers": types}
            for tokens in rows["tokens"].unique():
                for part in ("train", "test"):
                    line[f"{tokens}, {part}"] = spread(means.loc[[(tokens, identifiers, types)], part], ".4f")
            table.append(line)
    return pd.DataFrame(table)


def draw(rows: pd.DataFrame) -> Figure:
    """Plot the error of each basis on graphs not seen in training, a panel a representation."""
    kinds = [(identifiers, types) for identifiers in IDENTIFIERS for types in TYPES]
    representations = list(rows["tokens"].unique())
    figure = Figure(figsize=(6.5 * len(representations), 5.5), layout="constrained")
    grid = figure.subplots(1, len(representations), squeeze=False)[0]
    for axes, tokens in zip(grid, representations, strict=True):
        own = rows[rows["tokens"] == tokens].pivot_table("test", "basis", ["identifiers", "types"])
        heights = own.reindex(index=list(BASES), columns=kinds)
        image = axes.imshow(heights, norm=LogNorm(1e-4, 1), cmap="viridis_r", aspect="auto")
        names = [f"{node}{' + types' if types == 'yes' else ''}" for node, types in kinds]
        axes.set_xticks(range(len(kinds)), names, rotation=45, ha="right", rotation_mode="anchor")
        axes.set_yticks(range(len(BASES)), list(BASES))
        axes.set(title=f"{tokens} tokens", ylabel="basis: query → key")
    figure.colorbar(image, ax=grid, label="squared distance of a row, unseen graphs", extend="min")
    return figure

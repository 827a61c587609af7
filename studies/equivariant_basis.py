"""Which identifiers let one layer of attention learn the 15 second-order equivariant bases: TokenGT, section 5.1.

A linear map from n x n matrices to n x n matrices that does not depend on the numbering of nodes is a sum of 15
basis tensors, one for each way in which the four indices of an entry may coincide. One layer with 15 heads is
trained so that the weights of each head, from every token (i, j) to every token (k, l), become one of them, its
rows divided by their sums. Tokens are all pairs of nodes (`dense`), or nodes and edges alone (`sparse`).
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
from torch.nn.utils.rnn import pad_sequence

from sstcast.graphs.positions import node_identifiers
from sstcast.models.attention import split_heads
from sstcast.models.tokengt import laplacian_identifiers
from studies.fit import fit
from studies.graphs import batch_graphs
from studies.study import Row, Study, spread

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
    """B graphs, padded to T tokens and n nodes."""

    ends: Tensor  # the two nodes of each token, [B, T, 2]
    mask: Tensor  # True on tokens, [B, T]
    nodes: Tensor  # True on nodes, [B, n]
    bases: Tensor  # the basis tensors, [B, 15, T, T], False on padding
    laplacian: Tensor  # eigenvectors of length 1, the trivial one first, [B, n, SIZE]


class BasisAttention(nn.Module):
    """The weights of one layer of 15 heads on tokens that hold nothing but identifiers (equation 3)."""

    def __init__(self, identifiers: str, types: bool, width: int = 64, head: int = 32) -> None:
        super().__init__()
        self.identifiers, self.types = identifiers, types
        self.embed = nn.Linear(2 * SIZE + 2, width, bias=False)
        self.qk = nn.Linear(width, 2 * len(BASES) * head)

    def forward(self, tokens: Tokens) -> Tensor:
        """Return `[B, 15, T, T]`."""
        same = tokens.ends[..., 0] == tokens.ends[..., 1]
        types = torch.stack([same, ~same], dim=-1).float() * self.types
        x = torch.cat([self.identify(tokens), types], dim=-1)
        q, k = (split_heads(part, len(BASES)) for part in self.qk(self.embed(x)).chunk(2, dim=-1))
        scores = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
        return scores.masked_fill(~tokens.mask[:, None, None], -torch.inf).softmax(-1)

    def identify(self, tokens: Tokens) -> Tensor:
        """Draw both identifiers of each token, `[B, T, 2 SIZE]`; only Laplacian ones tell where a node is."""
        shape = (*tokens.nodes.shape, SIZE)
        if self.identifiers == "orf of tokens":
            return node_identifiers(tokens.mask, 2 * SIZE)
        if self.identifiers == "orf":
            p = node_identifiers(tokens.nodes, SIZE)
        elif self.identifiers == "random":
            p = F.normalize(torch.randn(shape), dim=-1)
        elif self.identifiers == "laplacian":
            p = tokens.laplacian * (2 * torch.randint(2, (len(tokens.nodes), 1, SIZE)) - 1)
        else:
            p = torch.zeros(shape)
        first, second = (p.gather(1, end.unsqueeze(-1).expand(-1, -1, SIZE)) for end in tokens.ends.unbind(-1))
        return torch.cat([first, second], dim=-1)


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
    """Return the graphs' tokens: all pairs of nodes, or each node and each edge, both ways."""
    sparse = batch_graphs(graphs)
    x = torch.ones(len(sparse.batch), 1)
    length_one = laplacian_identifiers(x, sparse, SIZE) / sparse.spread(sparse.pool(x, "sum")).sqrt()
    laplacian, nodes = sparse.dense(length_one)
    pairs = [[(i, j) for i in graph for j in graph if dense or i == j or graph.has_edge(i, j)] for graph in graphs]
    mask = pad_sequence([torch.ones(len(p), dtype=torch.bool) for p in pairs], batch_first=True)
    ends = pad_sequence([torch.tensor(p) for p in pairs], batch_first=True)
    queries, keys = ends.unsqueeze(2), ends.unsqueeze(1)
    indices = torch.cat(torch.broadcast_tensors(queries, keys), dim=-1)  # [B, T, T, 4]
    coincide = indices.unsqueeze(-1) == indices.unsqueeze(-2)
    patterns = torch.tensor(list(BASES.values()))
    wanted = (patterns.unsqueeze(-1) == patterns.unsqueeze(-2))[:, None, None]
    bases = (coincide.unsqueeze(1) == wanted).all(-1).all(-1)
    return Tokens(ends, mask, nodes, bases & mask[:, None, :, None] & mask[:, None, None], laplacian)


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

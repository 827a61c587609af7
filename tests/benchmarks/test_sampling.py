"""Neighbour sampling: how many are drawn, and that all neighbours give the outputs of the whole graph."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from lightning_fabric import Fabric
from torch_geometric.utils import k_hop_subgraph

from sstcast.benchmarks.config import BenchmarkConfig
from sstcast.benchmarks.load import load
from sstcast.benchmarks.run import build_task, run_benchmark
from sstcast.benchmarks.tasks import SampledNeighbours, sample
from sstcast.errors import SSTCastError
from sstcast.training.checkpoint import load_checkpoint

SEEDS = torch.tensor([7, 2, 11])


def random_edges(nodes: int, edges: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return directed edges between random nodes, their order by target, and where each target's edges end."""
    index = torch.randint(nodes, (2, edges), generator=torch.Generator().manual_seed(0))
    return index, index[1].argsort(), torch.bincount(index[1], minlength=nodes).cumsum(0)


def test_all_neighbours_are_the_k_hop_neighbourhood() -> None:
    index, incoming, ends = random_edges(30, 70)
    kept, drawn = sample(SEEDS, index, incoming, ends, [-1, -1])
    near, _, _, inside = k_hop_subgraph(SEEDS, 1, index, num_nodes=30)
    assert kept[:3].tolist() == SEEDS.tolist()
    assert sorted(kept.tolist()) == k_hop_subgraph(SEEDS, 2, index, num_nodes=30)[0].tolist()
    assert set(inside.nonzero().flatten().tolist()) <= set(drawn.tolist())
    assert sorted(drawn.tolist()) == torch.isin(index[1], near).nonzero().flatten().tolist()


def test_draws_are_without_replacement_and_even() -> None:
    index, incoming, ends = random_edges(20, 300)
    degrees = torch.bincount(index[1], minlength=20)
    times = torch.zeros(300)
    torch.manual_seed(0)
    for _ in range(600):
        kept, drawn = sample(SEEDS, index, incoming, ends, [4, 2])
        assert len(drawn.unique()) == len(drawn)
        assert len(kept.unique()) == len(kept)
        got, reached = torch.bincount(index[1, drawn], minlength=20), len(SEEDS)
        assert torch.equal(got[SEEDS], degrees[SEEDS].clamp(max=4))
        others = kept[reached:][torch.isin(kept[reached:], index[0, drawn[: int(got[SEEDS].sum())]])]
        assert torch.equal(got[others], degrees[others].clamp(max=2))
        times[drawn[torch.isin(index[1, drawn], SEEDS)]] += 1
    of_seeds = torch.isin(index[1], SEEDS)
    expected = 600 * 4 / degrees[index[1, of_seeds]]
    assert ((times[of_seeds] - expected).abs() < 5 * expected.sqrt()).all()


@pytest.mark.parametrize("conv", ["mean", "sage", "gin", "gat", "gatedgcn", "gcn"])
def test_a_complete_neighbourhood_gives_the_whole_graphs_outputs_and_gradients(
    conv: str, configure: Callable[..., BenchmarkConfig], fabric: Fabric
) -> None:
    hops = 3 if conv == "gcn" else 2  # as it also needs its neighbours' degrees
    options = (f"model.conv={conv}", "model.norm=layer", "predictor.positional=rwse")
    found = []
    for extra in (f"neighbours={[-1] * hops}", "part=40"):
        config = configure("minesweeper", "mpnn", *options, extra)
        task, model = build_task(config, load(config.declaration, config.root, config.cache), fabric)
        batch = task.batch(SEEDS) if isinstance(task, SampledNeighbours) else task.batches(SEEDS)[0]
        out = model.eval()(batch)
        task.objective.loss(out, batch).backward()
        found.append([out, *(p.grad for p in model.parameters() if p.grad is not None)])
    assert len(batch.graph.batch) == 40
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6)


def test_a_sampled_run_resumes_to_the_bit(configure: Callable[..., BenchmarkConfig], tmp_path: Path) -> None:
    def train(epochs: int, folder: str) -> BenchmarkConfig:
        settings = ("neighbours=[2, 1]", "model.norm=batch", "model.dropout=0.5", f"training.epochs={epochs}")
        config = configure("minesweeper", "mpnn", "model.conv=sage", *settings, f"runs={tmp_path / folder}")
        run_benchmark(config, [0])
        return config

    train(2, "parts")
    weights = [
        load_checkpoint(max((config.folder / "seed-0/checkpoints").glob("step-*.pt")))["model"]
        for config in (train(4, "parts"), train(4, "whole"))
    ]
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])
    assert any("running_mean" in name for name in weights[0])


@pytest.mark.parametrize(
    ("dataset", "extra", "words"),
    [
        ("MUTAG", "model.width=8", "neighbours: MUTAG has many graphs"),
        ("minesweeper", "part=15", "neighbours: not together with part"),
        ("minesweeper", "predictor.degree=true", "predictor.degree: wrong"),
    ],
)
def test_what_sampling_cannot_do_is_refused(
    dataset: str, extra: str, words: str, configure: Callable[..., BenchmarkConfig]
) -> None:
    with pytest.raises(SSTCastError, match=words):
        run_benchmark(configure(dataset, "mpnn", "neighbours=[2, 1]", extra), [0])

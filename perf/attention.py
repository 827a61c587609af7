"""Time and memory of every attention by the number of nodes: prints two Markdown tables.

    python perf/attention.py [--width 64] [--heads 4] [--most 65536] [--only linear bigbird ...]

One layer on one random graph of degree 6, forward and backward. Time is the best of several passes, memory the
most that tensors took at once beyond input and weights. A layer whose pass takes longer than `LIMIT` seconds is
not measured on larger graphs. The last row is no attention but a bare gather and scatter along the edges of that
graph, whose nodes have no order: what costs more than in proportion there is the memory's doing. The allocator is
told to keep what was released (see `ALLOCATOR`).
"""

import argparse
import datetime as dt
import os
import platform
import sys
import time
from collections.abc import Callable
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.profiler import ProfilerActivity, profile

from sstcast import __version__
from sstcast.graphs.sparse import SparseGraph
from sstcast.models.attention import Attention, OnGraph
from sstcast.models.kdlgt import AnchorAttention, StructureAwareAttention
from sstcast.models.layers import ATTENTIONS, build_attention
from sstcast.models.polynormer import GlobalLayer

LIMIT = 3.0  # seconds
PASSES = 3  # at least
ANCHORS = 8  # of sapdgt, whose cost is nodes x anchors
# glibc hands arrays above 32 MiB back to the kernel at every release, and the next pass faults their pages in
# anew: a jump in every layer's time, at a size of its own. Here it keeps them.
ALLOCATOR = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(2**36), "MALLOC_TOP_PAD_": str(2**28)}
Layer = Callable[[Tensor], Tensor]


def random_graph(nodes: int) -> SparseGraph:
    """Return the union of three random cycles, both ways."""
    cycles = [torch.randperm(nodes) for _ in range(3)]
    edges = torch.cat([torch.stack([cycle, cycle.roll(1)]) for cycle in cycles], dim=1)
    edges = torch.cat([edges, edges.flip(0)], dim=1)
    return SparseGraph(edges, torch.zeros(nodes, dtype=torch.long), 1, torch.randn(edges.shape[1], 2))


def layers(width: int, heads: int) -> dict[str, Callable[[SparseGraph], tuple[nn.Module, Layer]]]:
    """Return for each attention what makes it for a graph: the module, and its call."""

    def in_gps(module: nn.Module, graph: SparseGraph) -> tuple[nn.Module, Layer]:
        layer = OnGraph(module) if isinstance(module, Attention) else module
        return layer, lambda x: layer(x, graph, None, None)[0]

    def with_hops(module: nn.Module, graph: SparseGraph) -> tuple[nn.Module, Layer]:
        hops = torch.randint(0, 9, (1, len(graph.batch), ANCHORS)).float()
        return module, lambda x: module(x, graph, hops)

    def polynormer(graph: SparseGraph) -> tuple[nn.Module, Layer]:
        module = GlobalLayer(width, heads, None)
        return module, lambda x: module(x, graph)

    sizes = {"width": width, "heads": heads}
    return {name: lambda g, name=name: in_gps(build_attention(name, None, **sizes), g) for name in ATTENTIONS} | {
        "polynormer": polynormer,
        "lsat": lambda g: with_hops(StructureAwareAttention(width, heads, 2, 2, 64), g),
        "sapdgt": lambda g: with_hops(AnchorAttention(width, heads, 64), g),
        "sat": lambda g: with_hops(StructureAwareAttention(width, heads, 2, 2, 0), g),
        "(sum of neighbours)": lambda g: (nn.Identity(), g.neighbors),
    }


def seconds(step: Callable[[], None]) -> float:
    """Return the time of the fastest pass in a second, after one to warm up; of one alone where it takes long."""
    times: list[float] = []
    while len(times) <= PASSES or sum(times) < 1:
        started = time.perf_counter()
        step()
        times.append(time.perf_counter() - started)
        if times[0] > LIMIT / 2:
            return times[0]
    return min(times[1:])


def peak(step: Callable[[], None]) -> float:
    """Return the most MiB that the pass held at once: the highest sum of its allocations less releases."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        step()
    events = [e for e in profiler.profiler.kineto_results.events() if e.name() == "[memory]"]
    held = torch.tensor([e.nbytes() for e in sorted(events, key=lambda e: e.start_ns())]).cumsum(0)
    return float(held.max()) / 2**20


def measure(make: Callable[[SparseGraph], tuple[nn.Module, Layer]], nodes: int, width: int) -> tuple[float, float]:
    """Return seconds and MiB of a pass over `nodes` nodes."""
    torch.manual_seed(0)
    module, call = make(random_graph(nodes))
    x = torch.randn(nodes, width, requires_grad=True)

    def step() -> None:
        module.zero_grad()
        x.grad = None
        call(x).square().sum().backward()

    return seconds(step), peak(step)


def table(found: dict[str, list[float]], sizes: list[int], digits: int) -> str:
    """Return a Markdown table with the ratio of each value to the one before."""
    rows = ["| attention | " + " | ".join(f"{n:,}" for n in sizes) + " | ratio of each doubling |"]
    rows.append("|---" * (len(sizes) + 2) + "|")
    for name, values in found.items():
        ratios = " ".join(f"{b / a:.2f}" for a, b in pairwise(values))
        cells = [f"{value:.{digits}f}" for value in values] + [""] * (len(sizes) - len(values))
        rows.append(f"| {name} | " + " | ".join(cells) + f" | {ratios} |")
    return "\n".join(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--least", type=int, default=1024)
    parser.add_argument("--most", type=int, default=65536)
    parser.add_argument("--only", nargs="+", metavar="NAME")
    options = parser.parse_args()
    if not ALLOCATOR.items() <= os.environ.items():  # the allocator reads them when a process starts
        os.execve(sys.executable, [sys.executable, *sys.argv], os.environ | ALLOCATOR)
    sizes = [options.least]
    while 2 * sizes[-1] <= options.most:
        sizes.append(2 * sizes[-1])

    times: dict[str, list[float]] = {}
    memory: dict[str, list[float]] = {}
    for name, make in layers(options.width, options.heads).items():
        if options.only and name not in options.only:
            continue
        times[name], memory[name] = [], []
        for nodes in sizes:
            second, mebibytes = measure(make, nodes, options.width)
            times[name].append(1000 * second)
            memory[name].append(mebibytes)
            if second > LIMIT:
                break

    print(f"sstcast {__version__}, torch {torch.__version__}, {platform.machine()}, ", end="")
    print(f"{torch.get_num_threads()} threads, {dt.date.today()}; ", end="")
    print(f"width {options.width}, {options.heads} heads, {ANCHORS} anchors\n")
    print(f"Milliseconds, forward and backward:\n\n{table(times, sizes, 1)}\n")
    print(f"MiB at most:\n\n{table(memory, sizes, 1)}")


if __name__ == "__main__":
    main()

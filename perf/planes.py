"""One message-passing layer with edge features on a grid: messages as eight planes, and stacked.

    python perf/planes.py [--width 64]

B = 20, 30 x 30 nodes, forward and backward, eager and compiled; prints a Markdown table of medians in ms.
"""

import argparse
import datetime as dt
import statistics
import time
from collections.abc import Callable

import torch
from torch import Tensor

from sstcast.graphs.grid import GridGraph
from sstcast.models.convs import MessagePassing


def stacked(layer: MessagePassing, x: Tensor, graph: GridGraph) -> Tensor:
    """Compute the layer on one tensor `[B, 8, N, d]` of messages."""
    # Offsets come in pairs, so the targets in reverse order are the sources, seen from their targets.
    messages = torch.stack(graph.target(layer.neighbor(x))[::-1], dim=1)
    messages = (messages + layer.edge(torch.stack(graph.edge_attr, dim=1))).relu()
    total = (messages * torch.stack(graph.target(graph.mask.unsqueeze(-1))[::-1], dim=1)).sum(1)
    return layer.root(x) + total / graph.degree.clamp(min=1)


def milliseconds(run: Callable[[Tensor], Tensor], x: Tensor, repeats: int = 15) -> float:
    """Return the median time of a forward and backward pass, after two to warm up."""
    times = []
    for _ in range(repeats + 2):
        started = time.perf_counter()
        run(x).square().sum().backward()
        times.append(1000 * (time.perf_counter() - started))
    return statistics.median(times[2:])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--width", type=int, default=64)
    width = parser.parse_args().width
    torch.manual_seed(0)
    graph, layer = GridGraph(30, 30, torch.rand(20, 900) < 0.9), MessagePassing(width)
    x = torch.randn(20, 900, width, requires_grad=True)
    ways = {"planes": lambda x: layer(x, graph, graph.edge_attr)[0], "stacked": lambda x: stacked(layer, x, graph)}
    torch.testing.assert_close(ways["planes"](x), ways["stacked"](x))
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads, width {width}, {dt.date.today()}\n")
    print("| messages | eager, ms | compiled, ms |\n|---|---|---|")
    for name, way in ways.items():
        print(
            f"| {name} | {milliseconds(way, x):.0f} | {milliseconds(torch.compile(way, dynamic=False), x):.0f} |"
        )


if __name__ == "__main__":
    main()

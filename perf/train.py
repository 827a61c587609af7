"""Training beside the same mathematics in plain PyTorch Geometric: prints a Markdown table.

    python perf/train.py [--threads 2] [--repeats 5] [--only mpnn-vn gat ...]

20 tiles of 30 x 30 nodes, all ocean, 256 wide, 3 layers, 42 days of history, 28 ahead, single precision. A step is
forward, backward and Adam; a layer alone, forward and backward. On the other side (`reference/`) messages are
gathered along edges, batches come from PyG's loader, and nothing is compiled. Both have the same weights, and that
they agree to 1e-5 is asserted. Timings take turns (ours, reference, products, ours, ...); the table shows medians.
`products` are the matrix products of our step alone; `bound` is the ratio if the step did nothing else.
"""

import argparse
import datetime as dt
import platform
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch_geometric
from reference.pairs import SYSTEMS, Pair, Size, assembly, layer, random_windows, system
from torch.utils._python_dispatch import TorchDispatchMode

from sstcast import __version__
from sstcast.ocean.windows import Windows

aten = torch.ops.aten

AT_LEAST = {"mpnn-vn": 4.0, "gat": 4.0, "polynormer": 2.5, "gatedgcn": 3.0, "primphormer": 2.5, "batch": 30.0}
AT_MOST = {"mpnn-vn": 2.5}  # times the matrix products
OPERANDS = {aten.mm.default: slice(0, 2), aten.addmm.default: slice(1, 3), aten.bmm.default: slice(0, 2)}
COLUMNS = [
    "ours, ms",
    "reference, ms",
    "ratio",
    "wanted",
    "products, ms",
    "bound",
    "ours by products",
]
CALLS = {"batch": 20}  # a repeat, where one call is too short to time


def turns(ways: Sequence[Callable[[], Any]], repeats: int, calls: int) -> list[float]:
    """Return each way's median time in ms, after a first call to warm up."""
    times: list[list[float]] = [[] for _ in ways]
    for _ in range(repeats + 1):
        for way, mine in zip(ways, times, strict=True):
            started = time.perf_counter()
            for _ in range(calls):
                way()
            mine.append(1000 * (time.perf_counter() - started) / calls)
    return [statistics.median(mine[1:]) for mine in times]


class MatrixProducts(TorchDispatchMode):
    """Notes the shapes of all matrix products, forward and backward."""

    def __init__(self) -> None:
        super().__init__()
        self.shapes: list[tuple[torch.Size, torch.Size]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in OPERANDS:
            first, second = args[OPERANDS[func]]
            self.shapes.append((first.shape, second.shape))
        return func(*args, **(kwargs or {}))


def matrix_products(step: Callable[[], Any]) -> Callable[[], None]:
    """Return what only multiplies as `step` does."""
    with MatrixProducts() as noted:
        step()
    operands = [(torch.randn(first), torch.randn(second)) for first, second in noted.shapes]

    def run() -> None:
        for first, second in operands:
            first @ second

    return run


def rates() -> str:
    """Return the rate of large matrix products and of copies, in and out counted."""
    square, large, other = torch.randn(2048, 2048), torch.randn(2**26), torch.zeros(2**26)
    times = turns([lambda: square @ square, lambda: other.copy_(large)], 5, 1)
    products, copies = 2 * 2048**3 / times[0] / 1e6, 2 * 4 * 2**26 / times[1] / 1e6
    return f"matrix products {products:.0f} Gflop/s, copies {copies:.0f} GB/s"


def build(name: str, size: Size, windows: Windows, compiled: bool = True) -> Pair:
    """Return the pair called `name`."""
    if name in SYSTEMS:
        return system(name, size, windows, compiled)
    return assembly(size, windows) if name == "batch" else layer(name, size, compiled)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--only", nargs="+", choices=AT_LEAST, default=list(AT_LEAST), metavar="NAME")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    size = Size()
    windows = random_windows(size)
    print(
        f"sstcast {__version__}, torch {torch.__version__}, torch-geometric {torch_geometric.__version__}, Python "
        f"{platform.python_version()}, {platform.machine()}, {options.threads} threads, {dt.date.today()}; "
        f"{rates()}\n"
    )
    print(f"| | {' | '.join(COLUMNS)} |\n{'|---' * (len(COLUMNS) + 1)}|", flush=True)
    for name in options.only:
        pair = build(name, size, windows)
        ways = [pair.ours, pair.reference] + (
            [] if name == "batch" else [matrix_products(build(name, size, windows, compiled=False).ours)]
        )
        ours, reference, *products = turns(ways, options.repeats, CALLS.get(name, 1))
        cells = [f"{ours:.3g}", f"{reference:.4g}", f"{reference / ours:.1f}", f"at least {AT_LEAST[name]:g}"]
        for alone in products:
            limit = f", at most {AT_MOST[name]:g}" if name in AT_MOST else ""
            cells += [f"{alone:.3g}", f"{reference / alone:.1f}", f"{ours / alone:.2f}{limit}"]
        print(f"| {name} | {' | '.join(cells + [''] * (len(COLUMNS) - len(cells)))} |", flush=True)


if __name__ == "__main__":
    main()

"""Training beside the same mathematics in plain PyTorch Geometric: prints a Markdown table.

    python benchmarks/train.py [--threads 2] [--repeats 5] [--only mpnn-vn gat ...]

20 tiles of 30 x 30 nodes, all ocean, 256 wide, 3 layers, 42 days of history, 28 ahead, single precision. A step is
forward, backward and Adam; a layer alone, forward and backward. On the other side (`reference/`) messages are
gathered along edges, batches come from PyG's loader, and nothing is compiled. Both have the same weights, and that
they agree to 1e-5 is asserted. Timings take turns (ours, reference, ours, ...); the table shows medians.
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
from reference.pairs import SYSTEMS, Pair, Size, assembly, build_system, layer, random_windows, system
from torch import Tensor, nn

from sstcast import __version__
from sstcast.ocean.windows import Windows

STEP, PRODUCTS = "mpnn-vn", "matrix products"
AT_LEAST = {STEP: 4.0, "gat": 4.0, "polynormer": 2.5, "gatedgcn": 3.0, "primphormer": 2.5, "batch": 30.0}
AT_MOST = 2.5  # a step of MPNN+VN against its bare matrix products
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


def matrix_products(model: nn.Module, windows: Windows, batch: int) -> Callable[[], None]:
    """Return what only multiplies as every `nn.Linear` of `model` does in a step, forward and backward."""
    shapes: list[tuple[int, int, int, bool]] = []

    def note(linear: nn.Module, inputs: tuple[Tensor], output: Tensor) -> None:
        rows, columns = inputs[0].numel() // linear.in_features, linear.out_features
        shapes.append((rows, linear.in_features, columns, inputs[0].requires_grad))

    hooks = [m.register_forward_hook(note) for m in model.modules() if isinstance(m, nn.Linear)]
    sample = windows.batch(torch.arange(batch))
    model(sample.history, sample.graph)
    for hook in hooks:
        hook.remove()
    operands = [
        (torch.randn(rows, k), torch.randn(n, k), torch.randn(rows, n), needed) for rows, k, n, needed in shapes
    ]

    def run() -> None:
        for x, weight, gradient, needed in operands:
            x @ weight.T
            gradient.T @ x
            if needed:
                gradient @ weight

    return run


def build(name: str, size: Size, windows: Windows) -> Pair:
    """Return the pair called `name`."""
    if name in SYSTEMS:
        return system(name, size, windows)
    return assembly(size, windows) if name == "batch" else layer(name, size)


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
        f"{platform.python_version()}, {platform.machine()}, {options.threads} threads, {dt.date.today()}\n"
    )
    print("| | ours, ms | reference, ms | ratio | wanted | compile, s |\n|---|---|---|---|---|---|", flush=True)
    for name in options.only:
        pair = build(name, size, windows)
        ways = [pair.ours, pair.reference]
        if name == STEP:
            ways.append(matrix_products(build_system(name, size)[0], windows, size.batch))
        ours, reference, *products = turns(ways, options.repeats, CALLS.get(name, 1))
        wanted, seconds = f"at least {AT_LEAST[name]:g}", f"{pair.compile_seconds:.0f}" if name != "batch" else ""
        print(
            f"| {name} | {ours:.3g} | {reference:.4g} | {reference / ours:.1f} | {wanted} | {seconds} |",
            flush=True,
        )
        if products:
            cells = [f"{ours:.3g}", f"{products[0]:.4g}", f"{ours / products[0]:.2f}", f"at most {AT_MOST:g}", ""]
            print("| " + " | ".join([f"{name} by its {PRODUCTS}", *cells]) + " |")


if __name__ == "__main__":
    main()

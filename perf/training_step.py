"""Training beside the same mathematics in plain PyTorch Geometric: prints a Markdown table.

    python perf/training_step.py [--threads 2] [--repeats 5] [--only mpnn-vn gat ...] [--device cuda]

20 tiles of 30 x 30 nodes, all ocean, 256 wide, 3 layers, 42 days of history, 28 ahead, single precision. A step is
forward, backward and Adam; a layer alone, forward and backward. Ours stands beside three others (`reference/`):
- eager PyG: messages are gathered along edges, batches come from PyG's loader, nothing is compiled; it has our
  weights, and that its outputs are ours to 1e-5 is asserted;
- compiled PyG: the same module, compiled with the settings of ours (asserted too);
- convolutions: three residual 3 x 3 convolutions of the same width between our encoder and head, or one alone.
Each `ratio` is that time by ours, with the least that is wanted in brackets. Timings take turns (ours, eager PyG,
and so on, then ours again); the table shows medians. `products` are the matrix products of our step alone; `bound`
is the ratio to eager PyG if the step did nothing else.
"""

import argparse
import datetime as dt
import platform
import statistics
import time
from collections.abc import Callable, Sequence
from itertools import zip_longest
from typing import Any

import torch
import torch_geometric
from reference.pairs import SYSTEMS, Pair, Size, assembly, layer, random_windows, system
from torch.utils._python_dispatch import TorchDispatchMode

from sstcast import __version__
from sstcast.ocean.windows import Windows

aten = torch.ops.aten

# The least ratios wanted, to eager and to compiled PyG.
WANTED: dict[str, tuple[float, ...]] = {
    "mpnn-vn": (4.0, 1.0),
    "gat": (4.0, 1.0),
    "polynormer": (2.5, 1.0),
    "gatedgcn": (3.0, 1.0),
    "primphormer": (2.5, 1.0),
    "batch": (30.0,),
}
AT_MOST = {"mpnn-vn": 2.5}  # times the matrix products
OPERANDS = {aten.mm.default: slice(0, 2), aten.addmm.default: slice(1, 3), aten.bmm.default: slice(0, 2)}
COLUMNS = [
    "ours, ms",
    "eager PyG, ms",
    "ratio (wanted)",
    "compiled PyG, ms",
    "ratio (wanted)",
    "convolutions, ms",
    "ratio",
    "products, ms",
    "bound",
    "ours by products",
]
RIVALS = ("eager", "compiled", "convolutions")
CALLS = {"batch": 20}  # a repeat, where one call is too short to time


def turns(ways: Sequence[Callable[[], Any]], repeats: int, calls: int) -> list[float]:
    """Return each way's median time in ms, after a first call to warm up."""
    times: list[list[float]] = [[] for _ in ways]
    for _ in range(repeats + 1):
        for way, mine in zip(ways, times, strict=True):
            started = time.perf_counter()
            for _ in range(calls):
                way()
            if torch.cuda.is_available():
                torch.cuda.synchronize()
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


def matrix_products(step: Callable[[], Any], device: torch.device) -> Callable[[], None]:
    """Return what only multiplies as `step` does."""
    with MatrixProducts() as noted:
        step()
    operands = [
        (torch.randn(first, device=device), torch.randn(second, device=device)) for first, second in noted.shapes
    ]

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


def row(name: str, size: Size, windows: Windows, repeats: int) -> tuple[list[str], str]:
    """Return a row's cells, and a note."""
    pair = build(name, size, windows)
    ways = dict(zip(("ours", *RIVALS), pair[:4], strict=True))
    if name != "batch":
        ways["products"] = matrix_products(build(name, size, windows, compiled=False).ours, windows.device)
    there = {key: way for key, way in ways.items() if way is not None}
    times = dict(zip(there, turns(list(there.values()), repeats, CALLS.get(name, 1)), strict=True))
    ours = times["ours"]
    cells = [f"{ours:.3g}"]
    for rival, wanted in zip_longest(RIVALS, WANTED[name]):
        least = "" if wanted is None else f" ({wanted:g})"
        cells += [f"{times[rival]:.4g}", f"{times[rival] / ours:.2f}{least}"] if rival in times else ["-", "-"]
    if name != "batch":
        products = times["products"]
        limit = f" (at most {AT_MOST[name]:g})" if name in AT_MOST else ""
        cells += [f"{products:.3g}", f"{times['eager'] / products:.1f}", f"{ours / products:.2f}{limit}"]
    return cells + ["-"] * (len(COLUMNS) - len(cells)), pair.note


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--device", default="cpu", help="whole systems run on another device too")
    parser.add_argument("--only", nargs="+", choices=WANTED, default=list(WANTED), metavar="NAME")
    options = parser.parse_args()
    if options.device != "cpu" and not set(options.only) <= SYSTEMS.keys():
        parser.error(f"--device {options.device}: give --only {' '.join(SYSTEMS)}, or some of them")
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    size = Size()
    windows = random_windows(size).to(options.device)
    print(
        f"sstcast {__version__}, torch {torch.__version__}, torch-geometric {torch_geometric.__version__}, Python "
        f"{platform.python_version()}, {platform.machine()}, {options.device}, {options.threads} threads, "
        f"{dt.date.today()}; {rates()}\n"
    )
    print(f"| | {' | '.join(COLUMNS)} |\n{'|---' * (len(COLUMNS) + 1)}|", flush=True)
    notes = []
    for name in options.only:
        cells, note = row(name, size, windows, options.repeats)
        print(f"| {name} | {' | '.join(cells)} |", flush=True)
        notes += [f"{name}: {note}"] if note else []
    print("\n" + "\n".join(notes))


if __name__ == "__main__":
    main()

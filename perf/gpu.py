"""Training speed of every forecaster at its paper's size on one GPU: prints Markdown tables.

    python perf/gpu.py [--seconds 500] [--only mpnn-vn ...] [--presets configs/models/paper]

Windows are noise of the data's shape and lie on the device. A step cuts a batch, and is forward, backward and
Adam, in bf16 with fp32 weights, compiled. First every model runs with its batch of 20, then larger ones follow for
as long as there is time. Beside each step stand its two limits: the operations of its matrix products over the
device's rate; and over its bandwidth the bytes of their operands and results, each moved once, and of Adam's. Both
rates are measured.
"""

import argparse
import datetime as dt
import math
import platform
import re
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch
from reference.pairs import Size, random_windows
from torch import Tensor, nn
from torch.profiler import ProfilerActivity, profile
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode, flop_registry

from sstcast import __version__
from sstcast.config import load_config
from sstcast.models import build_forecaster
from sstcast.ocean.windows import Windows
from sstcast.training.devices import compile_model

# The five systems of Cai et al. (2023), Table 5, and the two of later papers; then all the others.
SEVEN = ["mpnn-vn", "mpnn", "linear-transformer", "tfnet", "mlp", "primphormer", "polynormer"]
REST = ["mlp-pointwise", "gps", "lsat", "sapdgt", "tokengt", "sat", "spdgt"]
WINDOWS, EPOCHS = 147_884, 100  # the paper's training windows 28 days ahead (Table 9)
LARGER = [80, 320, 1280]  # batches tried beyond the preset's, while each is faster than the one before
# Kernels of cuBLAS, cuDNN and attention, but none that a compiler fused and named after what is in it.
MATRIX = re.compile(
    r"^(?!triton|cpp|graph).*(gemm|nvjet|cutlass|xmma|flash|fmha|convol)|^aten::(mm|addmm|bmm|baddbmm)$", re.I
)
ADAM_BYTES = 28  # a weight: weight, gradient, two moments read; weight and moments written, 4 bytes each


class Row(NamedTuple):
    """What was measured of one model and batch; seconds, bytes, operations of a step."""

    batch: int
    seconds: float
    share: float
    memory: float
    operations: float
    moved: float
    compiling: float


class Traffic(TorchDispatchMode):
    """Adds up the bytes of operands and results of all matrix products and convolutions."""

    moved = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        if func._overloadpacket in flop_registry:
            tensors = [t for t in tree_leaves((args, kwargs, out)) if isinstance(t, Tensor)]
            self.moved += sum(t.nbytes for t in tensors)
        return out


def elapsed(step: Callable[[], object], device: torch.device, least: float) -> float:
    """Return a step's median time over at least `least` seconds."""
    times: list[float] = []
    while sum(times) < least or len(times) < 3:
        started = time.perf_counter()
        for _ in range(5):
            step()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        times.append((time.perf_counter() - started) / 5)
    return statistics.median(times)


def rates(device: torch.device, size: int, least: float) -> tuple[float, float]:
    """Measure operations a second in bf16 products of `size` x `size`, and bytes a second in a copy."""
    a, b = (torch.randn(size, size, device=device, dtype=torch.bfloat16) for _ in range(2))
    source = torch.randn(size, 8 * size, device=device)
    target = torch.empty_like(source)
    return (
        2 * size**3 / elapsed(lambda: a @ b, device, least),
        2 * source.nbytes / elapsed(lambda: target.copy_(source), device, least),
    )


def matrix_share(step: Callable[[], object], device: torch.device) -> float:
    """Return the share of a step's time, on the device, that goes into matrix products."""
    kinds = [ProfilerActivity.CPU, ProfilerActivity.CUDA] if device.type == "cuda" else [ProfilerActivity.CPU]
    with profile(activities=kinds) as record:
        for _ in range(3):
            step()
    column = "self_device_time_total" if device.type == "cuda" else "self_cpu_time_total"
    times = [(event.key, getattr(event, column)) for event in record.key_averages()]
    return sum(t for key, t in times if MATRIX.search(key)) / sum(t for _, t in times)


def measure(preset: Path, batch: int, windows: Windows, compiled: bool, least: float) -> Row:
    """Measure the preset's model with this batch; raises torch.OutOfMemoryError if it does not fit."""
    device = windows.values.device
    config = load_config(preset).model
    sizes = {"history": windows.history, "horizon": windows.horizon, "shape": windows.shape}
    model = build_forecaster(config.name, **sizes, **config.options).to(device)
    optimizer = torch.optim.Adam(model.parameters(), fused=True)

    def backward(module: nn.Module) -> None:
        data = windows.batch(torch.randint(len(windows), (batch,), device=device))
        with torch.autocast(device.type, torch.bfloat16):
            error = (module(data.history, data.graph) - data.target).masked_fill(~data.ocean.unsqueeze(-1), 0)
        (error.float().square().mean() + model.auxiliary_loss()).backward()

    with FlopCounterMode(display=False) as operations, Traffic() as traffic:
        backward(model)
    started = time.perf_counter()
    module = compile_model(model, compiled, device, 0, backward)

    def step() -> None:
        optimizer.zero_grad()
        backward(module)
        optimizer.step()

    for _ in range(3):
        step()
    compiling = time.perf_counter() - started
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    seconds = elapsed(step, device, least)
    memory = torch.cuda.max_memory_allocated(device) if device.type == "cuda" else math.nan
    moved = traffic.moved + ADAM_BYTES * sum(p.numel() for p in model.parameters())
    share = matrix_share(step, device)
    return Row(batch, seconds, share, memory, operations.get_total_flops(), moved, compiling)


def line(name: str, row: Row, rate: float, bandwidth: float) -> str:
    """Return a row of the table."""
    limits = row.operations / rate, row.moved / bandwidth
    cells = [f"{row.batch / row.seconds:,.0f}", f"{1000 * row.seconds:.2f}", f"{1000 * limits[0]:.2f}"]
    cells += [f"{1000 * limits[1]:.2f}", f"{row.seconds / max(limits):.1f}", f"{100 * row.share:.0f}"]
    return (
        "| " + " | ".join([name, str(row.batch), *cells, f"{row.memory / 1e9:.2f}", f"{row.compiling:.0f}"]) + " |"
    )


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=500, help="start nothing after so many")
    parser.add_argument("--only", nargs="+", choices=SEVEN + REST, default=SEVEN + REST, metavar="MODEL")
    parser.add_argument("--presets", type=Path, default=Path("configs/models/paper"))
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--tile", type=int, nargs=2, default=(30, 30), metavar=("ROWS", "COLUMNS"))
    parser.add_argument("--batch", type=int, default=20)
    parser.add_argument("--least", type=float, default=2.0, help="seconds of steps to time")
    parser.add_argument("--compile", action=argparse.BooleanOptionalAction, default=True)
    options = parser.parse_args(arguments)
    end, device = time.monotonic() + options.seconds, torch.device(options.device)
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")
    rate, bandwidth = rates(device, 8192 if device.type == "cuda" else 512, options.least)
    hardware = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.machine()
    print(
        f"sstcast {__version__}, torch {torch.__version__}, Python {platform.python_version()}, {hardware}, "
        f"{dt.date.today()}: {rate / 1e12:.3g} TFLOP/s in bf16, {bandwidth / 1e9:.4g} GB/s\n"
    )
    heads = ["model", "batch", "windows/s", "step, ms", "operations, ms", "bytes, ms", "step / larger"]
    print("| " + " | ".join([*heads, "in products, %", "memory, GB", "compile, s"]) + " |\n" + "|---" * 10 + "|")
    windows = random_windows(Size(rows=options.tile[0], columns=options.tile[1])).to(device)
    best: dict[str, Row] = {}

    def attempt(name: str, batch: int) -> bool:
        """Measure and print; say whether it was the model's fastest so far."""
        torch._dynamo.reset()
        try:
            row = measure(options.presets / f"{name}.yaml", batch, windows, options.compile, options.least)
        except torch.OutOfMemoryError:
            print(f"| {name} | {batch} | out of memory |" + " |" * 7, flush=True)
            return False
        print(line(name, row, rate, bandwidth), flush=True)
        if name in best and row.batch / row.seconds <= best[name].batch / best[name].seconds:
            return False
        best[name] = row
        return True

    for name in options.only:
        if time.monotonic() < end:
            attempt(name, options.batch)
    first = dict(best)
    for name in list(first):
        for batch in LARGER:
            if time.monotonic() > end or not attempt(name, batch):
                break
    summarise(first, best, options.batch)


def summarise(first: dict[str, Row], best: dict[str, Row], batch: int) -> None:
    """Print how long the paper's runs would take."""
    print(f"\n{EPOCHS} epochs of {WINDOWS:,} windows, minutes:\n")
    print(f"| model | batch {batch} | best batch |\n|---|---|---|")
    totals = [0.0, 0.0]
    for name, row in first.items():
        minutes = [EPOCHS * WINDOWS * r.seconds / r.batch / 60 for r in (row, best[name])]
        print(f"| {name} | {minutes[0]:.1f} | {minutes[1]:.1f} ({best[name].batch}) |")
        if name in SEVEN:
            totals = [total + m for total, m in zip(totals, minutes, strict=True)]
    if set(SEVEN) <= first.keys():
        print(f"| these seven: {', '.join(SEVEN)} | {totals[0]:.1f} | {totals[1]:.1f} |")


if __name__ == "__main__":
    main()

"""What a training step costs on one GPU, for every forecaster at its paper's size: prints Markdown tables.

    python perf/gpu.py [--only mpnn-vn ...] [--precision bf16-mixed] [--keep gpu.json]
    python perf/gpu.py --only mpnn-vn --jobs 1 2 4    # several trainings side by side

Windows are noise of the data's shape. The trainer runs `EPOCHS` short epochs, as `sstcast train` does, with 20
windows a step. `trainer` is the time of a step in all but the first epoch; `step` the same step repeated alone;
`GPU` the time of its kernels and copies on the device. Beside them stand two limits: the operations of the
matrix products over the device's rate, and the bytes of their operands and results, each moved once, and of
Adam's over its bandwidth. Both rates are measured. `eager PyG` is a step of the same network in plain PyTorch
Geometric on a batch that is ready (`reference/`), at the same precision; with --compiled-rivals, `compiled PyG` is
the same compiled. With --keep, rows that the file has are not measured again.
"""

import argparse
import datetime as dt
import json
import math
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from itertools import pairwise
from multiprocessing import get_context
from pathlib import Path
from threading import BrokenBarrierError
from typing import Any

import torch
from reference.pairs import SYSTEMS, Size, random_windows, system
from torch import Tensor
from torch.profiler import ProfilerActivity, profile
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode, flop_registry

from sstcast import __version__
from sstcast.config import load_config
from sstcast.errors import Interrupted
from sstcast.ocean.windows import Windows
from sstcast.runs import Run
from sstcast.training.devices import start
from sstcast.training.engine import Trainer
from sstcast.training.forecast_task import ForecastTask
from sstcast.training.train import forecaster

# The five systems of Cai et al. (2023), Table 5, and the two of later papers; then all the others.
FIVE = ["mpnn-vn", "mpnn", "linear-transformer", "tfnet", "mlp"]
REST = ["primphormer", "polynormer", "mlp-pointwise", "gps", "lsat", "sapdgt", "tokengt", "sat", "spdgt"]
BATCH, EPOCHS = 20, 4
PAPER_WINDOWS, PAPER_EPOCHS, PAPER_RUNS = 147_884, 100, 9  # Table 9, 28 days ahead; three horizons, three seeds
ADAM_BYTES = 28  # a weight: weight, gradient, two moments read; weight and moments written, 4 bytes each


@dataclass
class Row:
    """What was measured of one model. Times are milliseconds a step, the start is in seconds."""

    operations: float
    moved: float
    gpu: float
    step: float
    trainer: float
    start: float
    memory: float  # bytes, the highest that tensors took
    eager: float | None = None
    compiled: float | None = None


class Traffic(TorchDispatchMode):
    """Adds up the bytes of operands and results of all matrix products and convolutions."""

    moved = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        if func._overloadpacket in flop_registry:
            tensors = [t for t in tree_leaves((args, kwargs, out)) if isinstance(t, Tensor)]
            self.moved += sum(t.nbytes for t in tensors)
        return out


def synchronize() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def elapsed(step: Callable[[], object], least: float, inner: int = 10) -> float:
    """Return a step's median time in ms, over at least `least` seconds."""
    step()
    synchronize()
    times: list[float] = []
    while sum(times) * inner < least or len(times) < 3:
        started = time.perf_counter()
        for _ in range(inner):
            step()
        synchronize()
        times.append((time.perf_counter() - started) / inner)
    return 1000 * statistics.median(times)


def busy(step: Callable[[], object], inner: int = 20) -> float:
    """Return the time of kernels and copies on the GPU in ms a step, or NaN without a GPU."""
    if not torch.cuda.is_available():
        return math.nan
    with profile(activities=[ProfilerActivity.CUDA]) as record:
        for _ in range(inner):
            step()
        synchronize()
    return sum(event.self_device_time_total for event in record.key_averages()) / 1000 / inner


def rates(device: torch.device, size: int, least: float) -> tuple[float, float]:
    """Measure operations a second in bf16 products of `size` x `size`, and bytes a second in a copy."""
    a, b = (torch.randn(size, size, device=device, dtype=torch.bfloat16) for _ in range(2))
    source = torch.randn(size, 8 * size, device=device)
    target = torch.empty_like(source)
    return (
        2 * size**3 / elapsed(lambda: a @ b, least) * 1000,
        2 * source.nbytes / elapsed(lambda: target.copy_(source), least) * 1000,
    )


def measure(
    preset: Path, windows: Windows, options: argparse.Namespace, ready: Callable[[], object] = lambda: None
) -> Row:
    """Train the preset's model on windows of noise, call `ready`, and measure steps."""
    with tempfile.TemporaryDirectory() as folder:
        settings = {
            "runs": folder,
            "training.device": options.device,
            "training.precision": options.precision,
            "training.compile": str(options.compile).lower(),
            "training.epochs": EPOCHS,
            "training.windows_per_epoch": BATCH * options.steps,
            "training.checkpoint_minutes": 1000,
        }
        config = load_config(preset, [f"{key}={value}" for key, value in settings.items()])
        run = Run.create(config)
        run.checkpoints.mkdir(parents=True, exist_ok=True)
        fabric = start(config.training)
        task = ForecastTask({"train": windows, "validation": windows.part(0, 2)}, config.training, fabric)
        torch.manual_seed(0)
        model = forecaster(config, windows).to(fabric.device)
        with FlopCounterMode(display=False) as operations, Traffic() as traffic, fabric.autocast():
            task.loss(model, task.batch(task.order(0, 0)[0])).backward()
        model.zero_grad()
        moved = traffic.moved + ADAM_BYTES * sum(p.numel() for p in model.parameters())
        if fabric.device.type == "cuda":
            torch.cuda.reset_peak_memory_stats()
        began = time.perf_counter()
        trainer = Trainer(run, config, config.training, model, task, fabric)
        trainer.fit()
        whole = time.perf_counter() - began
        ends = [row["seconds"] for row in trainer.state.history]
        epoch = statistics.median(end - begin for begin, end in pairwise(ends))
        order = iter(task.order(0, 0) * 10_000)
        trainer.model.train()

        def step() -> None:
            trainer._step(next(order))

        gpu = busy(step)
        ready()
        return Row(
            operations=operations.get_total_flops(),
            moved=moved,
            gpu=gpu,
            step=elapsed(step, options.least),
            trainer=1000 * epoch / trainer.steps,
            start=whole - EPOCHS * epoch,
            memory=torch.cuda.max_memory_allocated() if fabric.device.type == "cuda" else math.nan,
        )


def rival(name: str, options: argparse.Namespace) -> tuple[float, float | None]:
    """Return the time of a step of the plain network, eager and compiled if that is wanted and possible, in ms."""
    device = torch.device(options.device)
    torch.set_float32_matmul_precision("highest")  # outputs are compared with ours
    pair = system(name, Size(), random_windows(Size()).to(device), compiled=options.compiled_rivals)
    torch.set_float32_matmul_precision("high")
    with torch.autocast(device.type, torch.bfloat16, enabled=options.precision == "bf16-mixed"):
        eager = elapsed(pair.reference, options.least)
        return eager, None if not options.compiled_rivals or pair.compiled is None else elapsed(
            pair.compiled, options.least
        )


def side_by_side(name: str, jobs: int, options: argparse.Namespace) -> float:
    """Return the windows a second of so many trainings in processes that start their steps together."""
    spawning = get_context("spawn")
    barrier, times = spawning.Barrier(jobs), spawning.SimpleQueue()
    running = [spawning.Process(target=_put_step, args=(name, options, barrier, times)) for _ in range(jobs)]
    for process in running:
        process.start()
    for process in running:
        process.join()
    if any(process.exitcode for process in running):
        raise SystemExit(f"one of {jobs} trainings failed")
    return sum(1000 * BATCH / times.get() for _ in running)


def _put_step(name: str, options: argparse.Namespace, barrier: Any, times: Any) -> None:
    try:
        row = measure(options.presets / f"{name}.yaml", random_windows(_size(options)), options, barrier.wait)
    except BaseException as error:
        barrier.abort()  # the others would wait forever
        if isinstance(error, Interrupted | BrokenBarrierError):
            sys.exit("stopped, or another training was")
        raise
    times.put(row.step)


def _size(options: argparse.Namespace) -> Size:
    return Size(rows=options.tile[0], columns=options.tile[1])


def cells(name: str, row: Row, rate: float, bandwidth: float) -> str:
    """Return a row of the table."""
    limits = 1000 * row.operations / rate, 1000 * row.moved / bandwidth
    times = [*limits, row.gpu, row.step, row.trainer]
    ratios = [row.step / row.gpu, row.trainer / row.step]
    rivals = ["" if value is None else f"{value:.2f}" for value in (row.eager, row.compiled)]
    numbers = [f"{value:.2f}" for value in (*times, *ratios)]
    return "| " + " | ".join([name, *numbers, *rivals, f"{row.memory / 1e9:.2f}", f"{row.start:.0f}"]) + " |"


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=FIVE + REST, default=FIVE + REST[:2], metavar="MODEL")
    parser.add_argument("--precision", choices=("32-true", "bf16-mixed"), default="bf16-mixed")
    parser.add_argument("--presets", type=Path, default=Path("configs/models/paper"))
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--steps", type=int, default=300, help="in an epoch")
    parser.add_argument("--tile", type=int, nargs=2, default=(30, 30), metavar=("ROWS", "COLUMNS"))
    parser.add_argument("--least", type=float, default=1.0, help="seconds of steps to time")
    parser.add_argument("--compile", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--rivals", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--compiled-rivals", action="store_true")
    parser.add_argument("--keep", type=Path, help="a JSON file of the rows")
    parser.add_argument("--jobs", type=int, nargs="+", help="trainings side by side, instead of the tables")
    options = parser.parse_args(arguments)
    device = torch.device(options.device)
    hardware = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.machine()
    versions = f"sstcast {__version__}, torch {torch.__version__}, Python {platform.python_version()}"
    print(f"{versions}, {hardware}, {dt.date.today()}, {options.precision}", flush=True)
    if options.jobs:
        print("\n| model | trainings at once | windows/s, all together |\n|---|---|---|")
        for name in options.only:
            for jobs in options.jobs:
                print(f"| {name} | {jobs} | {side_by_side(name, jobs, options):,.0f} |", flush=True)
        return
    torch.manual_seed(0)
    rate, bandwidth = rates(device, 8192 if device.type == "cuda" else 512, options.least)
    print(f"{rate / 1e12:.3g} TFLOP/s in bf16, {bandwidth / 1e9:.4g} GB/s; times of a step in ms\n")
    heads = ["model", "operations", "bytes", "GPU", "step", "trainer", "step/GPU", "trainer/step"]
    heads += ["eager PyG", "compiled PyG", "memory, GB", "start, s"]
    print("| " + " | ".join(heads) + " |\n" + "|---" * len(heads) + "|", flush=True)
    kept = json.loads(options.keep.read_text()) if options.keep is not None and options.keep.exists() else {}
    rows = {name: Row(**kept[name]) for name in options.only if name in kept}
    for name in options.only:
        if name not in rows:
            torch._dynamo.reset()
            row = measure(options.presets / f"{name}.yaml", random_windows(_size(options)), options)
            if options.rivals and name in SYSTEMS:
                row.eager, row.compiled = rival(name, options)
            rows[name] = row
            if options.keep is not None:
                options.keep.write_text(json.dumps(kept | {n: asdict(r) for n, r in rows.items()}))
        print(cells(name, rows[name], rate, bandwidth), flush=True)
    if rows.keys() >= set(FIVE):
        steps = PAPER_RUNS * PAPER_EPOCHS * PAPER_WINDOWS / BATCH
        hours = sum(rows[name].trainer for name in FIVE) * steps / 1000 / 3600
        fitting = (
            "" if device.type != "cuda" else f"; {_fitting(rows, device)} of them fit into the device's memory"
        )
        print(f"\nTable 5, {len(FIVE) * PAPER_RUNS} runs one at a time: {hours:.1f} hours{fitting}")


def _fitting(rows: dict[str, Row], device: torch.device) -> int:
    data = PAPER_WINDOWS * 900 * 4  # bytes of the paper's standardised anomalies: about a row for each window
    context = 0.6e9  # of CUDA and its libraries, for each process
    largest = max(rows[name].memory for name in FIVE) + data + context
    return int(torch.cuda.get_device_properties(device).total_memory // largest)


if __name__ == "__main__":
    try:
        main()
    except Interrupted as end:
        sys.exit(f"stopped by signal {end.signal}: the same command begins again with what was not printed")

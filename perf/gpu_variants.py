"""Ways to compile a step on a GPU, and TF-Net's three encoders as one: what each gains, and what it changes.

    python perf/gpu_variants.py [--only mpnn-vn tfnet] [--device cuda] [--steps 180]

Prints for each variant the GPU work and the time of a step as `perf/gpu.py` measures them, the largest
difference of a step's gradients from those of the model that is not compiled, relative to the largest gradient,
and the training loss after `--steps` steps. Both comparisons are in full single precision. `now` is what
sstcast does; `options` gives the compiler its settings with the model, so that they also hold in the thread
that compiles the backward pass; `combo` adds `combo_kernels`; `grouped` is TF-Net with its encoders as
convolutions with three groups, and the same weights.
"""

import argparse
import datetime as dt
import platform
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from gpu import busy, elapsed
from reference.pairs import Size, random_windows
from torch import Tensor, nn
from torch.nn import functional as F

from sstcast import __version__
from sstcast.config import load_config
from sstcast.errors import Interrupted
from sstcast.models.tfnet import FlowNet
from sstcast.runs import Run
from sstcast.training import engine
from sstcast.training.devices import start
from sstcast.training.engine import Trainer
from sstcast.training.forecast_task import ForecastTask
from sstcast.training.train import forecaster

BATCH = 20
VARIANTS = {  # the compiler's settings, whether encoders are grouped
    "now": (None, False),
    "options": ({}, False),
    "combo": ({"combo_kernels": True}, False),
    "grouped": (None, True),
    "grouped combo": ({"combo_kernels": True}, True),
}


def grouped_forward(self: FlowNet, parts: Tensor) -> Tensor:
    """Do what `FlowNet.forward` does, with one convolution a stage for the three encoders."""
    x, stages = parts.flatten(1, 2), []
    for layers in zip(*(encoder.stages for encoder in self.encoders), strict=True):
        convolutions, norms, _, drops = zip(*layers, strict=True)
        x = F.conv2d(x, torch.cat([layer.weight for layer in convolutions]), stride=2, padding=1, groups=3)
        x = _normalised(x, norms)
        x = drops[0](F.leaky_relu(x, 0.1))
        stages.append(x.unflatten(1, (3, -1)).sum(1))
    *skips, x = stages
    for layer in self.decoder:
        x = layer(x)
        if skips:
            x = x + skips.pop()
    return self.out(torch.cat([x, parts.sum(1)], dim=1))


def _normalised(x: Tensor, norms: tuple[nn.BatchNorm2d, ...]) -> Tensor:
    means, variances, weights, biases = (
        torch.cat([getattr(norm, name) for norm in norms])
        for name in ("running_mean", "running_var", "weight", "bias")
    )
    x = F.batch_norm(x, means, variances, weights, biases, norms[0].training, norms[0].momentum, norms[0].eps)
    if norms[0].training:
        with torch.no_grad():
            for norm, mean, variance in zip(norms, means.chunk(3), variances.chunk(3), strict=True):
                norm.running_mean.copy_(mean)
                norm.running_var.copy_(variance)
                norm.num_batches_tracked += 1
    return x


@contextmanager
def variant(name: str) -> Iterator[None]:
    """Let trainers compile and TF-Net compute in the way of a variant."""
    options, grouped = VARIANTS[name]

    def compiled(model: nn.Module, *_: Any, graphs: bool = True) -> Any:
        cudagraphs = {"triton.cudagraphs": graphs} if torch.cuda.is_available() else {}
        return torch.compile(model, dynamic=False, options={**(options or {}), **cudagraphs})

    with (
        patch.object(engine, "compile_model", compiled if options is not None else engine.compile_model),
        patch.object(FlowNet, "forward", grouped_forward if grouped else FlowNet.forward),
    ):
        yield


def trainer_of(name: str, precision: str, options: argparse.Namespace, compiling: bool = True) -> Trainer:
    """Return a trainer of the paper's model on windows of noise, which has run an epoch of `--steps` steps."""
    settings = {
        "runs": tempfile.mkdtemp(),
        "training.device": options.device,
        "training.precision": precision,
        "training.compile": str(compiling).lower(),
        "training.epochs": 1,
        "training.windows_per_epoch": BATCH * options.steps,
        "training.checkpoint_minutes": 1000,
    }
    config = load_config(Path("configs/models/paper") / f"{name}.yaml", [f"{k}={v}" for k, v in settings.items()])
    run = Run.create(config)
    run.checkpoints.mkdir(parents=True, exist_ok=True)
    fabric = start(config.training)
    if precision == "32-true":
        torch.set_float32_matmul_precision("highest")
    torch.manual_seed(0)
    windows = random_windows(Size())
    task = ForecastTask({"train": windows, "validation": windows.part(0, 2)}, config.training, fabric)
    torch.manual_seed(0)
    trainer = Trainer(run, config, config.training, forecaster(config, windows).to(fabric.device), task, fabric)
    trainer.fit()
    return trainer


def gradients(name: str, options: argparse.Namespace, compiling: bool) -> dict[str, Tensor]:
    """Return the gradients of the first batch at the initial weights."""
    config = load_config(Path("configs/models/paper") / f"{name}.yaml", ["training.precision=32-true"])
    fabric = start(config.training.model_copy(update={"device": options.device}))
    torch.set_float32_matmul_precision("highest")
    torch.manual_seed(0)
    windows = random_windows(Size())
    task = ForecastTask({"train": windows, "validation": windows.part(0, 2)}, config.training, fabric)
    torch.manual_seed(0)
    model = forecaster(config, windows).to(fabric.device).train()
    module = engine.compile_model(model, True, fabric.device, 10_000, lambda _: None) if compiling else model
    torch.manual_seed(1)
    task.loss(module, task.batch(torch.arange(BATCH))).backward()
    return {key: value.grad.clone() for key, value in model.named_parameters() if value.grad is not None}


def difference(found: dict[str, Tensor], expected: dict[str, Tensor]) -> float:
    largest = max(float(value.abs().max()) for value in expected.values())
    return max(float((found[key] - expected[key]).abs().max()) for key in expected) / largest


def loss_after(trainer: Trainer) -> float:
    return float(trainer.state.history[-1]["train_loss"]) if trainer.state.history else float("nan")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", default=["mpnn-vn", "tfnet"])
    parser.add_argument("--variants", nargs="+", choices=VARIANTS, default=[*VARIANTS])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--steps", type=int, default=180)
    parser.add_argument("--least", type=float, default=0.6, help="seconds of steps to time")
    options = parser.parse_args()
    print(f"sstcast {__version__}, torch {torch.__version__}, {platform.machine()}, {dt.date.today()}\n")
    print("| model | variant | GPU work, ms | step, ms | gradients | loss |\n" + "|---" * 6 + "|", flush=True)
    for name in options.only:
        expected = gradients(name, options, compiling=False)
        for kind in options.variants:
            if VARIANTS[kind][1] and name != "tfnet":
                continue
            torch._dynamo.reset()
            started = time.monotonic()
            with variant(kind):
                away = difference(gradients(name, options, compiling=True), expected)
                loss = loss_after(trainer_of(name, "32-true", options))
                trainer = trainer_of(name, "bf16-mixed", options)
                order = iter(trainer.task.order(0, 0) * 10_000)
                trainer.model.train()
                step: Callable[[], object] = lambda: trainer._step(next(order))  # noqa: B023, E731
                work, time_of_step = busy(step), elapsed(step, options.least)
            row = f"{work:.2f} | {time_of_step:.2f} | {away:.1e} | {loss:.6f}"
            print(f"| {name} | {kind} | {row} |  {time.monotonic() - started:.0f} s", flush=True)


if __name__ == "__main__":
    try:
        main()
    except Interrupted as end:
        sys.exit(f"stopped by signal {end.signal}: the same command begins again with what was not printed")

"""Devices, precision, and the compilation of models."""

import os
import resource
import shutil
import sys
from collections.abc import Callable
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from sstcast.config import TrainingConfig
from sstcast.errors import SSTCastError, counted
from sstcast.log import LOG
from sstcast.progress import waiting
from sstcast.storage.paths import CACHE
from sstcast.workers import FIRST_PROCESS

if TYPE_CHECKING:
    from lightning_fabric import Fabric

CACHE_VARIABLE = "TORCHINDUCTOR_CACHE_DIR"
LEAST_STEPS_ON_CPU = 2000  # with fewer, a compiler takes longer than it saves


def start(options: TrainingConfig) -> "Fabric":
    """Start Lightning Fabric on the requested devices. On a GPU, matrix products use TF32.

    Raises SSTCastError if the device is not available.
    """
    from lightning_fabric import Fabric  # here, because its import takes a second and a forecast does not need it

    device = choose_device(options.device)
    precision: Any = options.precision
    if precision == "auto":
        precision = "bf16-mixed" if device.type == "cuda" else "32-true"
    torch.set_float32_matmul_precision("high" if device.type == "cuda" else "highest")
    fabric = Fabric(
        accelerator=device.type, strategy=options.strategy, devices=options.devices, precision=precision
    )
    fabric.launch()
    LOG.debug(f"training on {device.type} with {precision}, {counted(torch.get_num_threads(), 'thread')}")
    return fabric


def choose_device(name: str) -> torch.device:
    """Return the device called `name`. `auto` is the GPU if there is one, else the CPU.

    Raises SSTCastError if the device is not available.
    """
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.empty(0, device=name).device
        if device.type not in ("cpu", "cuda", "mps"):  # sstcast supports no others
            raise RuntimeError(f"no accelerator is called {name}")
        return device
    except (RuntimeError, AssertionError) as error:
        raise SSTCastError(f"training.device: {name!r} is not available here; use auto or cpu") from error


def peak_memory(device: torch.device) -> int:
    """Return the most bytes that torch has allocated on a GPU since its last reset of this number.

    On other devices, return the most bytes of RAM that this process has taken so far.
    """
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else 1024 * most  # in bytes on macOS, in KiB on Linux


def compile_model(
    model: nn.Module,
    setting: bool | str,
    device: torch.device,
    steps: int,
    attempt: Callable[[nn.Module], None],
    graphs: bool = True,
) -> nn.Module:
    """Compile a model if this is possible and saves time.

    Compiled code is cached in the user's cache folder. `setting` is `training.compile`: true, false, or `auto`.
    `attempt` runs the forward and backward pass of one step with the module it is given. With `graphs`, the
    compiled passes run as CUDA graphs on a GPU, which a step that is itself captured cannot contain. Returns
    `model` unchanged if compiling is not wanted, not worthwhile for so few `steps`, or fails. Warns of a missing
    compiler and of a failure.
    """
    if setting is False or (setting == "auto" and device.type == "cpu" and steps < LEAST_STEPS_ON_CPU):
        return model
    if device.type == "cpu" and not any(map(shutil.which, (os.environ.get("CXX", "g++"), "g++", "clang++"))):
        LOG.warning("not compiled: there is no C++ compiler; install g++ or set training.compile=false")
        return model
    from torch._functorch import config as aot  # here, because these take a second to import
    from torch._inductor import config as inductor
    from torch._inductor.runtime.cache_dir_utils import default_cache_dir

    if os.environ.get(CACHE_VARIABLE) in (None, default_cache_dir()):  # the default of torch is a temporary folder
        os.environ[CACHE_VARIABLE] = str(CACHE / "inductor")
    mode = "reduce-overhead" if device.type == "cuda" and graphs else None  # all steps have the same shape
    # On a CPU, recomputed views spare the backward pass from unpacking the signs of ReLU byte by byte. With 5
    # reads instead of the default 4, the messages of a grid are fused and not stored for each direction.
    views, reads = (True, 5) if device.type == "cpu" else (False, 4)
    compiled: nn.Module = torch.compile(model, dynamic=False, mode=mode)  # type: ignore[assignment]
    buffers = {name: value.clone() for name, value in model.named_buffers()}
    bar = waiting("compiling the model, once for all runs like it") if FIRST_PROCESS else nullcontext()
    try:
        with bar, aot.patch(recompute_views=views), inductor.patch(realize_reads_threshold=reads):
            attempt(compiled)
    except Exception as error:
        reason = str(error).strip().partition("\n")[0]
        LOG.warning(f"not compiled: {type(error).__name__}: {reason}; training continues without")
        torch._dynamo.reset()
        compiled = model
    for name, value in model.named_buffers():
        value.copy_(buffers[name])
    model.zero_grad()
    return compiled

"""`torch.compile` where it pays, and a printed reason where it does not work."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import torch
from torch import nn

LEAST_STEPS_ON_CPU = 2000  # about a minute of the demo's model; compiling takes a good part of one
READS = {"realize_reads_threshold": 5}


def compile_model(
    model: nn.Module, wanted: bool | str, device: torch.device, steps: int, attempt: Callable[[nn.Module], None]
) -> nn.Module:
    """Return `model` compiled, or as it is.

    `attempt(module)` runs a step's forward and backward pass; if the compiled module fails it, that is printed and
    `model` stays as it is. Compiled code is kept in the user's cache folder for the next run.
    """
    if wanted is False or (wanted == "auto" and device.type == "cpu" and steps < LEAST_STEPS_ON_CPU):
        return model
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "sstcast" / "inductor"
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(cache))
    if device.type == "cpu" and not any(map(shutil.which, (os.environ.get("CXX", "g++"), "g++", "clang++"))):
        print("not compiled: there is no C++ compiler; install g++ or set training.compile=false", flush=True)
        return model
    mode = "reduce-overhead" if device.type == "cuda" else None  # CUDA graphs: all steps are of one shape
    compiled: nn.Module = torch.compile(model, dynamic=False, mode=mode)  # type: ignore[assignment]
    buffers = {name: value.clone() for name, value in model.named_buffers()}
    try:
        # Without recomputed views a backward pass loads ReLU's signs as bytes, which a CPU unpacks one by one, and
        # with the usual limit of 4 reads messages are kept in memory, a plane a direction.
        with torch._functorch.config.patch(recompute_views=True), torch._inductor.config.patch(READS):
            attempt(compiled)
    except Exception as error:
        reason = str(error).strip().partition("\n")[0]
        print(f"not compiled: {type(error).__name__}: {reason}; training goes on without", flush=True)
        torch._dynamo.reset()
        compiled = model
    for name, value in model.named_buffers():
        value.copy_(buffers[name])
    model.zero_grad()
    return compiled

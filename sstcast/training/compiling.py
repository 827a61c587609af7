"""`torch.compile` where it pays, and a printed reason where it does not work."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import torch
from torch import nn

LEAST_STEPS_ON_CPU = 2000  # about a minute of the demo's model; compiling takes a good part of one


def compile_model(
    model: nn.Module,
    wanted: bool | str,
    device: torch.device,
    steps: int,
    attempt: Callable[[nn.Module], None],
) -> nn.Module:
    """Return `model` compiled, or as it is.

    `attempt(module)` runs a step's forward and backward pass; if the compiled module fails it, that is printed and
    `model` stays as it is. On a GPU compiled steps run as CUDA graphs. Compiled code is kept in the
    user's cache folder for the next run.
    """
    if wanted is False or (wanted == "auto" and device.type == "cpu" and steps < LEAST_STEPS_ON_CPU):
        return model
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "sstcast" / "inductor"
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(cache))
    if device.type == "cpu" and not any(map(shutil.which, (os.environ.get("CXX", "g++"), "g++", "clang++"))):
        print("not compiled: there is no C++ compiler; install g++ or set training.compile=false", flush=True)
        return model
    from torch._functorch import config as aot  # these two take a second to import
    from torch._inductor import config as inductor

    mode = "reduce-overhead" if device.type == "cuda" else None  # all steps are of one shape
    # On a CPU a backward pass would load ReLU's signs as bytes, which are unpacked one by one, unless views are
    # recomputed; and with the usual limit of 4 reads, messages would be stored, a plane a direction.
    views, reads = (True, 5) if device.type == "cpu" else (False, 4)
    compiled: nn.Module = torch.compile(model, dynamic=False, mode=mode)  # type: ignore[assignment]
    buffers = {name: value.clone() for name, value in model.named_buffers()}
    try:
        with aot.patch(recompute_views=views), inductor.patch(realize_reads_threshold=reads):
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

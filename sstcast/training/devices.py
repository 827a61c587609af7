"""Chooses the device and the precision for training and forecasting."""

from typing import TYPE_CHECKING, Any

import torch

from sstcast.config import TrainingConfig
from sstcast.errors import SSTCastError

if TYPE_CHECKING:
    from lightning_fabric import Fabric


def start(options: TrainingConfig) -> "Fabric":
    """Start Lightning Fabric on the requested devices; on a GPU, matrix products use TF32.

    Raises SSTCastError if the device is not available.
    """
    from lightning_fabric import Fabric  # not above: forecasting does not need it, and it takes a second to import

    device = choose_device(options.device)
    precision: Any = options.precision
    if precision == "auto":
        precision = "bf16-mixed" if device.type == "cuda" else "32-true"
    torch.set_float32_matmul_precision("high" if device.type == "cuda" else "highest")
    fabric = Fabric(
        accelerator=device.type, strategy=options.strategy, devices=options.devices, precision=precision
    )
    fabric.launch()
    return fabric


def choose_device(name: str) -> torch.device:
    """Return the device called `name`; `auto` is the GPU if there is one, else the CPU."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.empty(0, device=name).device
        if device.type not in ("cpu", "cuda", "mps"):  # PyTorch has others that Fabric does not support
            raise RuntimeError(f"no accelerator is called {name}")
        return device
    except (RuntimeError, AssertionError) as error:
        raise SSTCastError(f"training.device: {name!r} is not available here; use auto or cpu") from error

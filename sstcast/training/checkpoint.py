"""Checkpoints. They hold only tensors and plain values, so opening one cannot run code."""

import os
import zipfile
from pathlib import Path
from typing import Any

import torch
from pydantic import BaseModel

from sstcast._version import __version__
from sstcast.errors import SSTCastError, reading
from sstcast.storage.artefacts import atomic

FORMAT = 2


def save_checkpoint(path: Path, config: BaseModel, **state: Any) -> None:
    """Write `state`, the configuration and the versions of sstcast and torch atomically.

    The key `wraps` states that tiles around the globe had no west and east edge in training. Before it existed,
    they had.
    """
    header = {
        "format": FORMAT,
        "wraps": True,
        "config": config.model_dump(mode="json"),
        "versions": {"sstcast": __version__, "torch": str(torch.__version__)},
    }
    with atomic(path) as temporary, temporary.open("wb") as file:
        torch.save(header | state, file)
        file.flush()
        os.fsync(file.fileno())  # without it, a power cut could leave an empty file under the new name


def load_checkpoint(path: Path) -> dict[str, Any]:
    """Read a checkpoint to the CPU with `weights_only=True`.

    Raises SSTCastError if it is absent, damaged, not from sstcast, or in another format.
    """
    with reading(path, "train again or name another run"):
        with zipfile.ZipFile(path) as file:  # PyTorch itself does not check the checksums
            if damaged := file.testzip():
                raise ValueError(f"wrong checksum of {damaged}")
        state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
        found = state["format"]
    if found != FORMAT:
        raise SSTCastError(f"{path}: checkpoint format {found}, this version reads {FORMAT}; train again")
    return state


def newest_checkpoint(folder: Path) -> tuple[Path, dict[str, Any]] | None:
    """Return the newest readable checkpoint to resume from, or None if there is no checkpoint.

    Prints the names of those it cannot read. Raises SSTCastError if it can read none of them.
    """
    candidates = step_checkpoints(folder)[::-1]
    for path in candidates:
        try:
            return path, load_checkpoint(path)
        except SSTCastError as error:
            print(f"{str(error).partition(';')[0]}; trying the previous one", flush=True)
    if candidates:
        raise SSTCastError(f"{folder}: no checkpoint in it can be read; delete the folder to start training again")
    return None


def step_checkpoints(folder: Path) -> list[Path]:
    """Return the checkpoints to resume from, oldest first."""
    return sorted(folder.glob("step-*.pt"))


def prune_checkpoints(newest: Path, keep: int) -> None:
    """Delete all checkpoints except the last `keep` up to `newest`. Later ones could not be read on resuming."""
    steps = step_checkpoints(newest.parent)
    end = steps.index(newest) + 1
    for file in [*steps[: max(end - keep, 0)], *steps[end:]]:
        file.unlink()


def load_weights(model: torch.nn.Module, state: dict[str, Any], path: Path) -> None:
    """Load the weights of a checkpoint into `model`.

    Raises SSTCastError if they belong to another model or are not finite.
    """
    try:
        model.load_state_dict(state["model"])
    except (KeyError, RuntimeError, TypeError, AttributeError, ValueError) as error:
        raise SSTCastError(
            f"{path}: its weights do not fit the model in config.yaml; restore one of the two, or train again"
        ) from error
    for name, weight in model.state_dict().items():
        if not bool(torch.isfinite(weight).all()):
            raise SSTCastError(f"{path}: its weights are not finite ({name}); train again")


def begin_stage(model: torch.nn.Module, optimizer: torch.optim.Optimizer, path: Path) -> tuple[float, float]:
    """Start a stage of a longer training from the best weights of the previous stage, and its optimiser state.

    Returns the score and the loss to beat.
    """
    saved, own = load_checkpoint(path), getattr(model, "of_each_stage", ())
    fresh = {name: value for name, value in model.state_dict().items() if name.startswith(own)}
    load_weights(model, saved | {"model": saved["model"] | fresh}, path)
    with reading(path, "delete the run's folder to start training again"):
        moments = saved["optimizer"]["state"]
        for number, (name, _) in enumerate(model.named_parameters()):
            if name.startswith(own):
                moments.pop(number, None)
        optimizer.load_state_dict(saved["optimizer"])
        score, loss = saved["score"]
    return score, loss

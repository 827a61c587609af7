"""Checkpoints. They hold only tensors and plain values, so opening one cannot run code."""

import os
import zipfile
from pathlib import Path
from typing import Any

import torch
from pydantic import BaseModel

from sstcast._version import __version__
from sstcast.errors import SSTCastError, reading
from sstcast.log import LOG, warn_once
from sstcast.runs import Run
from sstcast.storage.artefacts import atomic, digest
from sstcast.storage.yaml_files import validate, written
from sstcast.training.data_record import WEIGHTS_REMEDY, record_of
from sstcast.workers import FIRST_PROCESS

FORMAT = 2


def save_checkpoint(path: Path, config: BaseModel, **state: Any) -> None:
    """Write `state`, the configuration and the versions of sstcast and torch atomically.

    The key `wraps` states that tiles around the globe had no west and east edge in training. In checkpoints
    without it, they had both.
    """
    header = {
        "format": FORMAT,
        "wraps": True,
        "config": written(config),
        "versions": {"sstcast": __version__, "torch": str(torch.__version__)},
    }
    with atomic(path) as temporary, temporary.open("wb") as file:
        torch.save(header | state, file)
        file.flush()
        os.fsync(file.fileno())  # without it, a power cut could leave an empty file under the new name


def load_checkpoint(path: Path, config: Any = None) -> dict[str, Any]:
    """Read a checkpoint to the CPU with `weights_only=True`, and compare its configuration with `config`.

    `config` is None, or any configuration with a method `difference`. Keys that the checkpoint lacks have their
    defaults.

    Raises SSTCastError if the checkpoint is absent, damaged, not from sstcast, in another format, or from a run
    with another configuration.
    """
    with reading(path, "train again or name another run"):
        with zipfile.ZipFile(path) as file:  # PyTorch itself does not check the checksums
            if damaged := file.testzip():
                raise ValueError(f"wrong checksum of {damaged}")
        state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
        if any(weight.is_meta for weight in state["model"].values()):
            raise ValueError("it holds no values")
        file_format, raw = state["format"], state["config"] if config is not None else None
    if file_format != FORMAT:
        raise SSTCastError(f"{path}: checkpoint format {file_format}, this version reads {FORMAT}; train again")
    if config is not None and (key := validate(type(config), raw, str(path)).difference(config, moved=True)):
        raise SSTCastError(
            f"{path}: was trained with another configuration than the run has now ({key} differs); restore the "
            "file or config.yaml, or train anew with `sstcast train CONFIG --set name=...`"
        )
    return state


def load_best(run: Run, config: Any) -> dict[str, Any]:
    """Read the best checkpoint of a run, and check that it is the run's own.

    Its configuration must be `config`. Once training has ended, its digest must be the recorded one. For a run
    without this digest, print a warning. Raises SSTCastError like `load_checkpoint`, and if the digests differ.
    """
    state, record = load_checkpoint(run.best, config), record_of(run)
    if record is not None and record.weights is None and FIRST_PROCESS:
        warn_once(f"{run.folder}: its training is unfinished; its weights are not checked")
    elif record is not None and record.weights not in (None, digest(run.best)):
        raise SSTCastError(f"{run.best}: holds other weights than the training ended with; {WEIGHTS_REMEDY}")
    return state


def open_training(run: Run) -> None:
    """Delete the digest of a run's weights from its record, before training changes them."""
    if (record := record_of(run)) is not None and record.weights is not None:
        record.model_copy(update={"weights": None}).save(run.data)


def close_training(run: Run, config: Any) -> None:
    """Record the digest of a run's weights when training has ended. Raises SSTCastError like `load_best`."""
    record = record_of(run)
    if record is not None and record.weights is None:
        load_checkpoint(run.best, config)
        record.model_copy(update={"weights": digest(run.best)}).save(run.data)
    else:
        load_best(run, config)


def newest_checkpoint(folder: Path, config: Any = None) -> tuple[Path, dict[str, Any]] | None:
    """Return the newest readable checkpoint of a run to resume from, or None if there is no checkpoint.

    Logs those it cannot read, or that have another configuration than `config`, if given. Raises
    SSTCastError if it can read none of them.
    """
    candidates = step_checkpoints(folder)[::-1]
    for path in candidates:
        try:
            return path, load_checkpoint(path, config)
        except SSTCastError as error:
            LOG.info(f"{str(error).partition(';')[0]}; trying the previous one")
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


def begin_stage(
    model: torch.nn.Module, optimizer: torch.optim.Optimizer, path: Path, config: Any = None
) -> tuple[float, float]:
    """Start a stage of a longer training from the best weights of the previous stage, and its optimiser state.

    Returns the score and the loss to beat.
    """
    checkpoint, prefix = load_checkpoint(path, config), getattr(model, "stage_prefix", ())
    fresh = {name: value for name, value in model.state_dict().items() if name.startswith(prefix)}
    load_weights(model, checkpoint | {"model": checkpoint["model"] | fresh}, path)
    with reading(path, "delete the run's folder to start training again"):
        moments = checkpoint["optimizer"]["state"]
        for number, (name, _) in enumerate(model.named_parameters()):
            if name.startswith(prefix):
                moments.pop(number, None)
        optimizer.load_state_dict(checkpoint["optimizer"])
        score, loss = checkpoint["score"]
    return score, loss

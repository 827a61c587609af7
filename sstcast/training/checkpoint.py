"""Checkpoints: tensors and plain values only, so that opening one can execute nothing."""

import pickle
from pathlib import Path
from typing import Any

import torch

from sstcast.config import RunConfig
from sstcast.errors import SSTCastError
from sstcast.files import atomic

FORMAT = 1


def save_checkpoint(path: Path, config: RunConfig, **state: Any) -> None:
    """Write `state` and the configuration, whole or not at all."""
    with atomic(path) as temporary:
        torch.save({"format": FORMAT, "config": config.model_dump(mode="json"), **state}, temporary)


def load_checkpoint(path: Path) -> dict[str, Any]:
    """Read a checkpoint onto the CPU with `weights_only=True`.

    Raises SSTCastError if it is damaged, no checkpoint of sstcast, or of a format this version cannot read.
    """
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except (OSError, RuntimeError, EOFError, ValueError, KeyError, pickle.UnpicklingError) as error:
        reason = "is not there" if isinstance(error, FileNotFoundError) else "is damaged or no sstcast checkpoint"
        raise SSTCastError(f"{path}: {reason}; train again or name another run") from error
    if not isinstance(state, dict) or state.get("format") != FORMAT:
        found = state.get("format") if isinstance(state, dict) else None
        raise SSTCastError(f"{path}: checkpoint format {found}, this version reads {FORMAT}; train again")
    return state


def load_weights(model: torch.nn.Module, state: dict[str, Any], path: Path) -> None:
    """Put a checkpoint's weights into `model`; raise SSTCastError if they belong to another one."""
    try:
        model.load_state_dict(state["model"])
    except (KeyError, RuntimeError) as error:
        made_by = state.get("config", {}).get("model", {}).get("name", "another model")
        raise SSTCastError(
            f"{path}: its weights ({made_by}) do not fit the model in config.yaml; restore one of the two"
        ) from error

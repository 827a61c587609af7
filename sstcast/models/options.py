"""Checks options against the arguments of a class, so that options are defined only in the class."""

import os
from collections.abc import Iterable, Mapping
from inspect import Parameter
from typing import Any

import torch
from pydantic import ConfigDict, create_model
from torch import nn

from sstcast.errors import SSTCastError
from sstcast.yaml_files import suggest, validate

LARGEST, MOST_LAYERS, SMALL = 10_000, 1000, 1024


def check_options(parameters: Iterable[Parameter], options: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Return a value for each parameter, from `options` or its default.

    Raises SSTCastError, naming `where` and the option, if there is no such parameter, or its value is missing or
    of the wrong type.
    """
    fields: dict[str, Any] = {
        p.name: (p.annotation, ... if p.default is p.empty else p.default) for p in parameters
    }
    schema = create_model("Options", __config__=ConfigDict(extra="forbid", allow_inf_nan=False), **fields)
    return validate(schema, dict(options), where).model_dump()


def one_of(name: str, known: Iterable[str]) -> str:
    """Return the name; raise ValueError, suggesting a similar one, if it is not known."""
    if name not in (names := list(known)):
        raise ValueError(f"no {name!r}{suggest(name, names)}; known: {', '.join(names)}")
    return name


def check_sizes(options: Mapping[str, Any], where: str) -> None:
    """Raise SSTCastError if a number among a user's options is negative or would use all memory."""
    for key, value in options.items():
        if isinstance(value, dict):
            check_sizes(value, f"{where}: {key}")
        least = 1 if key in ("width", "hidden", "heads") else 0
        if isinstance(value, int) and value < least:
            raise SSTCastError(f"{where}: {key}: {value} is too small; give {least} or more")
        limit = MOST_LAYERS if key.endswith("layers") else LARGEST
        numbers = value if isinstance(value, (list, tuple)) else [value]
        if any(isinstance(number, (int, float)) and abs(number) > limit for number in numbers):
            raise SSTCastError(f"{where}: {key}: {str(value)[:40]} is too large; give at most {limit:,}")


def check_memory(cls: type[nn.Module], options: Mapping[str, Any], where: str) -> None:
    """Raise SSTCastError if the weights of `cls(**options)` do not fit in memory, without allocating them."""
    if max((value for value in options.values() if isinstance(value, int)), default=0) <= SMALL:
        return
    try:
        with torch.device("meta"):
            model = cls(**options)
    except Exception:  # building the real model raises a clearer error
        return
    needed = sum(part.numel() * part.element_size() for part in model.state_dict().values())
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if needed > memory:
        raise SSTCastError(
            f"{where}: its weights need {needed / 2**30:,.0f} GiB, this computer has {memory / 2**30:,.0f}; "
            "choose a smaller width or fewer layers"
        )

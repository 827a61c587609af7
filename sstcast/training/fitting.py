"""Fits a linear system to the windows of a run, without steps or epochs."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import torch

from sstcast.models.linear import LinearSystem, Samples
from sstcast.ocean.whole import WholeRegion
from sstcast.ocean.windows import AnyWindows, SeveralWindows, Windows
from sstcast.scratch import release

Fitted = AnyWindows | WholeRegion
LEAST, VALUES_AT_ONCE = 4, 2**19  # windows, and values of their days: more leave the cache


def samples(windows: Fitted) -> Samples:
    """Return a function that, given n, yields the windows of every n-th day, all tiles, some at a time."""

    def blocks(stride: int) -> Iterable[Windows]:
        if isinstance(windows, WholeRegion):
            return windows.blocks(stride)
        oceans = windows.oceans if isinstance(windows, SeveralWindows) else [windows]
        return (replace(ocean, every=stride) for ocean in oceans)

    def every(stride: int) -> Iterator[Windows]:
        for block in blocks(stride):
            for part in block.parts(max(LEAST, VALUES_AT_ONCE // (block.ocean.numel() * stride))):
                yield part
                release()

    return every


@torch.no_grad()
def fit(model: LinearSystem, train: Fitted, validation: Fitted | None, refit: bool = True) -> dict[str, Any]:
    """Fit a system; return what was chosen on validation, by name (see `LinearSystem.fit`)."""
    return model.fit(samples(train), samples(validation) if validation is not None else None, refit)

"""Fits a linear system to the windows of a run, without steps or epochs."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import torch

from sstcast.models.linear import LinearSystem, Samples
from sstcast.ocean.whole import WholeRegion
from sstcast.ocean.windows import AnyWindows, Batch, SeveralWindows, Windows

Fitted = AnyWindows | WholeRegion
VALUES_AT_ONCE = 2**20  # of a batch's history: more leave the cache


def samples(windows: Fitted) -> Samples:
    """Return a function that, given n, yields the windows of every n-th day, all tiles, in batches."""

    def blocks(stride: int) -> Iterable[Windows]:
        if isinstance(windows, WholeRegion):
            return windows.blocks(stride)
        oceans = windows.oceans if isinstance(windows, SeveralWindows) else [windows]
        return (replace(ocean, every=stride) for ocean in oceans)

    def every(stride: int) -> Iterator[Batch]:
        for block in blocks(stride):
            at_once = max(1, VALUES_AT_ONCE // (block.values.shape[-1] * block.history))
            yield from map(block.batch, torch.arange(len(block)).split(at_once))

    return every


@torch.no_grad()
def fit(model: LinearSystem, train: Fitted, validation: Fitted | None, refit: bool = True) -> dict[str, Any]:
    """Fit a system; return what was chosen on validation, by name (see `LinearSystem.fit`)."""
    return model.fit(samples(train), samples(validation) if validation is not None else None, refit)

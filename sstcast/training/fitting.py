"""Fits a linear system to the windows of a run, without steps or epochs."""

from collections.abc import Iterator
from typing import Any

import torch

from sstcast.models.linear import LinearSystem, Samples
from sstcast.ocean.windows import Batch, Windows

VALUES_AT_ONCE = 2**20  # in a batch's history: more would not fit in the cache


def samples(windows: Windows) -> Samples:
    """Return a function of n that yields the windows of every n-th day, for all tiles, in batches."""

    def every(stride: int) -> Iterator[Batch]:
        tiles, nodes = windows.values.shape[1:]
        first = torch.arange(0, windows.starts, stride) * tiles
        index = (first[:, None] + torch.arange(tiles)).flatten()
        for part in index.split(max(1, VALUES_AT_ONCE // (nodes * windows.history))):
            yield windows.batch(part)

    return every


@torch.no_grad()
def fit(model: LinearSystem, train: Windows, validation: Windows | None) -> dict[str, Any]:
    """Fit a system; return the options chosen on validation, by name (see `LinearSystem.fit`)."""
    return model.fit(samples(train), samples(validation) if validation is not None else None)

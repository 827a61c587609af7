"""Fitting a linear system to the windows of a run: no steps, no epochs."""

from collections.abc import Iterator
from itertools import chain
from typing import Any

import torch

from sstcast.models.linear import LinearSystem, Samples
from sstcast.ocean.windows import AnyWindows, Batch, SeveralWindows

VALUES_AT_ONCE = 2**20  # of a batch's history: more leave the cache


def samples(windows: AnyWindows) -> Samples:
    """Return a function that, given n, yields the windows of every n-th day, all tiles, in batches."""
    if isinstance(windows, SeveralWindows):
        each = [samples(ocean) for ocean in windows.oceans]
        return lambda stride: chain.from_iterable(of(stride) for of in each)

    def every(stride: int) -> Iterator[Batch]:
        tiles, nodes = windows.values.shape[1:]
        first = torch.arange(0, windows.starts, stride) * tiles
        index = (first[:, None] + torch.arange(tiles)).flatten()
        for part in index.split(max(1, VALUES_AT_ONCE // (nodes * windows.history))):
            yield windows.batch(part)

    return every


@torch.no_grad()
def fit(
    model: LinearSystem, train: AnyWindows, validation: AnyWindows | None, refit: bool = True
) -> dict[str, Any]:
    """Fit a system; return what was chosen on validation, by name (see `LinearSystem.fit`)."""
    return model.fit(samples(train), samples(validation) if validation is not None else None, refit)

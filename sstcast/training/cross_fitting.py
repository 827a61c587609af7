"""Cross-fitting: the share of a network's change from its base that holds in years which neither has seen.

The training years are divided into blocks. For each block, network and base are trained on the other years. Then
the errors of the base in the block are regressed on the change of the network, for each lead week. The
coefficient, clipped to [0, 1], is the share of the change that is added to the base. It is near 0 where the change
does not generalise.
"""

from collections.abc import Iterable, Iterator

import numpy as np
import torch
from torch import Tensor

from sstcast.errors import SSTCastError, counted
from sstcast.models.base import ForecastModel
from sstcast.ocean.windows import AnyWindows, SeveralWindows, lead_weeks

EVERY = 3  # days from one window of a block to the next
NODES_AT_ONCE = 2**15


def blocks_of_years(windows: AnyWindows, count: int) -> Iterator[tuple[SeveralWindows, SeveralWindows]]:
    """Divide windows into `count` blocks of years.

    Yields for each block the windows that share no day with it, and the windows of the block. Raises SSTCastError
    if there are too few years.
    """
    oceans = windows.oceans if isinstance(windows, SeveralWindows) else (windows,)
    years = [ocean.init_times.astype("datetime64[Y]") for ocean in oceans]
    all_years = np.unique(np.concatenate(years))
    if len(all_years) < count:
        raise SSTCastError(
            f"training.cross_fit: {counted(len(all_years), 'year')} of training windows for {count} blocks; "
            "choose fewer blocks"
        )
    for block in np.array_split(all_years, count):
        block_windows, train_windows = [], []
        for ocean, year in zip(oceans, years, strict=True):
            first, last = map(int, np.searchsorted(year, [block[0], block[-1] + np.timedelta64(1, "Y")]))
            gap = ocean.history + ocean.horizon
            ranges = (0, first - gap), (last + gap, ocean.starts)
            train_windows += [ocean.part(start, stop) for start, stop in ranges if start < stop]
            block_windows += [ocean.part(first, last)] if first < last else []
        if not train_windows:
            raise SSTCastError(f"training.cross_fit: no window is outside {block[0]}; lengthen data.splits.train")
        yield SeveralWindows(tuple(train_windows)), SeveralWindows(tuple(block_windows))


def supported_share(pairs: Iterable[tuple[ForecastModel, SeveralWindows]]) -> Tensor:
    """Return the share of the change, `[horizon]`, from pairs of a network and a block that it has not seen."""
    products = squares = torch.zeros(0)
    for model, block in pairs:
        base, device = model.eval().linear, next(model.parameters()).device
        assert base is not None
        if not len(products):
            products, squares = torch.zeros(2, base.horizon, dtype=torch.float64)
        for ocean in block.oceans:
            windows = ocean.thinned(EVERY)
            for index in torch.arange(len(windows)).split(max(1, NODES_AT_ONCE // windows.values.shape[-1])):
                batch = windows.batch(index, device)
                with torch.no_grad():
                    read = model.network_input(batch.history, batch.graph)
                    change = model.change(read, batch.graph)[batch.ocean].double()
                    residual = (batch.target - base(batch.history, batch.graph))[batch.ocean].double()
                products += (change * residual).sum(0).cpu()
                squares += change.square().sum(0).cpu()
    week = torch.from_numpy(lead_weeks(1 + np.arange(len(products))))
    totals = torch.zeros(2, int(week[-1]) + 1, dtype=torch.float64)
    totals.index_add_(1, week, torch.stack([products, squares]))
    return (totals[0] / totals[1].clamp(min=1e-12)).clamp(0, 1)[week].float()

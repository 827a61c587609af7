"""Cross-fitting: the share of a network's change from its base that holds in years which neither has seen.

The training years are divided into blocks. For each block, network and base are trained on the other years. Then
the errors of the base in the block are regressed on the change of the network, for each lead week. The
coefficient, clipped to [0, 1], is the share of the change that is added to the base. It is near 0 where the change
does not generalise.
"""

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from sstcast.errors import SSTCastError, counted
from sstcast.log import LOG
from sstcast.models.base import ForecastModel
from sstcast.ocean.lead_weeks import lead_weeks
from sstcast.ocean.windows import Windows

EVERY = 3  # days from one window of a block to the next
NODES_AT_ONCE = 2**15


def blocks_of_years(windows: Windows, count: int) -> list[tuple[Windows, Windows]]:
    """Divide windows into `count` blocks of years.

    Returns for each block the windows that share no day of history or horizon with it, and its own. The others
    also read, in their memory, no day that the block forecasts. If a block leaves no other window, log it and
    return no blocks. Raises SSTCastError if there are too few years.
    """
    years = windows.init_times.astype("datetime64[Y]")
    all_years = np.unique(years)
    if len(all_years) < count:
        raise SSTCastError(
            f"training.cross_fit: {counted(len(all_years), 'year')} of training windows for {count} blocks; "
            "choose fewer blocks"
        )
    gap, blocks = windows.history + windows.horizon, []
    for block in np.array_split(all_years, count):
        first, last = np.searchsorted(years, [block[0], block[-1] + np.timedelta64(1, "Y")])
        others = np.concatenate([windows.at[: max(0, first - gap)], windows.at[last + gap + windows.before :]])
        if not len(others):
            LOG.warning(
                f"no training window is clear of {block[0]}..{block[-1]}, so no share of the network's change is "
                "added; lengthen data.splits.train"
            )
            return []
        blocks.append((replace(windows, at=others), replace(windows, at=windows.at[first:last])))
    return blocks


def supported_share(pairs: Iterable[tuple[ForecastModel, Windows]], horizon: int) -> Tensor:
    """Return the share of the change, `[horizon]`, from pairs of a network and a block that it has not seen.

    Without any pair, nothing supports the change, and the share is 0.
    """
    products, squares = torch.zeros(2, horizon, dtype=torch.float64)
    for model, block in pairs:
        base, device = model.eval().linear, next(model.parameters()).device
        assert base is not None
        windows = block.thinned(EVERY)
        for index in torch.arange(len(windows)).split(max(1, NODES_AT_ONCE // windows.values.shape[-1])):
            batch = windows.batch(index, device)
            with torch.no_grad():
                read = model.network_input(batch.history, batch.graph)
                change = model.change(read, batch.graph)[batch.ocean].double()
                residual = (batch.target - base(batch.history, batch.graph))[batch.ocean].double()
            products += (change * residual).sum(0).cpu()
            squares += change.square().sum(0).cpu()
    week = torch.from_numpy(lead_weeks(1 + np.arange(horizon)))
    totals = torch.zeros(2, int(week[-1]) + 1, dtype=torch.float64)
    totals.index_add_(1, week, torch.stack([products, squares]))
    return (totals[0] / totals[1].clamp(min=1e-12)).clamp(0, 1)[week].float()

"""TF-Net: a U-net on a flow and its turbulence (Wang et al. 2020, arXiv:1911.08655)."""

from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from sstcast.errors import SSTCastError
from sstcast.graphs.graph import Graph
from sstcast.models.base import Base, ForecastModel
from sstcast.models.sizes import Count, Share, Size


class TFNet(ForecastModel):
    """TF-Net on tiles of one shape, with land at 0.

    Its weights belong to directions on the grid, so it is not permutation equivariant. By default its `base` is
    `none`: it forecasts the anomaly itself, not a change. Its strides divide the columns into blocks of 16. So
    even a map of the whole globe has a west and an east edge, and the forecasts depend on where it is cut.

    Args:
        width: channels of the first stage.
        filter_days: the length of the temporal filter, in days.
        dropout: the share of whole channels set to 0 after each stage of the encoders in training.
        channels: the first channels of `history`, which are of predictors besides SST. Only the encoder of the
            mean flow reads them. The filters see the days that follow.

    Raises SSTCastError if the filter is longer than the history.
    """

    BASE, TRANSFER = "none", "tile"

    def __init__(
        self,
        history: int,
        horizon: int,
        rows: int,
        cols: int,
        width: Count = 64,
        filter_days: Size = 6,
        dropout: Share = 0.0,
        channels: int = 0,
    ) -> None:
        super().__init__()
        days = history - channels
        if filter_days > days:
            raise SSTCastError(f"filter_days: {filter_days} days do not fit into a history of {days}; lower it")
        self.rows, self.cols, self.channels = rows, cols, channels
        self.split = FlowSplit(filter_days)
        self.net = FlowNet(days - filter_days + 1, horizon, width, dropout, channels)

    def change(self, history: Tensor, graph: Graph) -> Tensor:
        nodes, _ = graph.dense(history)
        maps = nodes.transpose(1, 2).unflatten(2, (self.rows, self.cols))
        top, bottom = halves(self.rows)
        left, right = halves(self.cols)
        padded = F.pad(maps, (left, right, top, bottom), mode="replicate")
        forecast = self.net(self.split(padded[:, self.channels :]), padded[:, : self.channels])
        inside = forecast[:, :, top : top + self.rows, left : left + self.cols]
        return graph.sparse(inside.flatten(2).transpose(1, 2))

    def set_base(self, base: Base) -> None:
        """Predict the change from another base, at first 0."""
        super().set_base(base)
        if base != "none":  # an untrained network equals its base
            for parameter in self.net.out.parameters():
                nn.init.zeros_(parameter)


class FlowSplit(nn.Module):
    """Splits the flow u into mean flow, spatial and temporal fluctuation, which sum to u.

    A filter over 3 x 3 nodes smooths each day. A filter over `days` smoothed days gives the mean flow on the last
    of them. The fluctuations are u minus smoothed u, and smoothed u minus mean flow. Both filters are learned and
    start as averages.
    """

    def __init__(self, days: int) -> None:
        super().__init__()
        self.spatial = nn.Parameter(torch.full((1, 1, 1, 3, 3), 1 / 9))
        self.temporal = nn.Parameter(torch.full((1, 1, days, 1, 1), 1 / days))

    def forward(self, days: Tensor) -> Tensor:
        """Split `[B, history, rows, cols]` into `[B, 3, history - days + 1, rows, cols]`.

        The first days are left out, because too few days come before them for the temporal filter.
        """
        days_in, length = days.shape[1], self.temporal.numel()
        days_out = days_in - length + 1
        # Days are channels, because a 3D convolution is slow.
        each_day = self.spatial[0].expand(days_in, -1, -1, -1)
        smooth = F.conv2d(F.pad(days, (1, 1, 1, 1), mode="replicate"), each_day, groups=days_in)
        # Each row is a day later.
        shifted = F.pad(self.temporal.flatten(), (0, days_out)).repeat(days_out)[: days_out * days_in]
        mean = F.conv2d(smooth, shifted.view(days_out, days_in, 1, 1))
        flow, smooth = days[:, -days_out:], smooth[:, -days_out:]
        return torch.stack([mean, flow - smooth, smooth - mean], dim=1)


class FlowNet(nn.Module):
    """An encoder for each part of the flow, and one decoder that reads the sum of the encoders at every stage.

    The first encoder, of the mean flow, also reads `known` channels of predictors.
    """

    def __init__(self, days: int, out: int, width: int, dropout: float, known: int = 0) -> None:
        super().__init__()
        self.encoders = nn.ModuleList(Encoder(days + more, width, dropout) for more in (known, 0, 0))
        channels = [8 * width, 4 * width, 2 * width, width, width // 2]
        self.decoder = nn.ModuleList(up(*pair) for pair in pairwise(channels))
        self.out = nn.Conv2d(width // 2 + days, out, 3, padding=1)

    def forward(self, parts: Tensor, known: Tensor) -> Tensor:
        """Map `parts [B, 3, days, rows, cols]` and `known [B, known, rows, cols]` to `[B, out, rows, cols]`.

        Rows and columns are multiples of 16.
        """
        mean, *fluctuations = parts.unbind(1)
        inputs = [torch.cat([mean, known], dim=1) if known.shape[1] else mean, *fluctuations]
        stages = [encoder(part) for encoder, part in zip(self.encoders, inputs, strict=True)]
        *skips, x = [a + b + c for a, b, c in zip(*stages, strict=True)]
        for layer in self.decoder:
            x = layer(x)
            if skips:
                x = x + skips.pop()
        return self.out(torch.cat([x, parts.sum(1)], dim=1))


class Encoder(nn.Module):
    """Four stages with `width` to `8 width` channels, each of which halves rows and columns."""

    def __init__(self, days: int, width: int, dropout: float) -> None:
        super().__init__()
        channels = pairwise([days, width, 2 * width, 4 * width, 8 * width])
        self.stages = nn.ModuleList(down(*pair, dropout) for pair in channels)

    def forward(self, x: Tensor) -> list[Tensor]:
        """Map `x [B, days, rows, cols]` to the outputs of all stages. Stage i has 2^i times fewer rows."""
        outputs = []
        for stage in self.stages:
            x = stage(x)
            outputs.append(x)
        return outputs


def down(channels: int, out: int, dropout: float) -> nn.Sequential:
    """Return a stage of an encoder, which halves rows and columns."""
    return nn.Sequential(
        nn.Conv2d(channels, out, 3, stride=2, padding=1, bias=False),
        nn.BatchNorm2d(out),
        nn.LeakyReLU(0.1),
        nn.Dropout2d(dropout),
    )


def up(channels: int, out: int) -> nn.Sequential:
    """Return a stage of the decoder, which doubles rows and columns."""
    return nn.Sequential(nn.ConvTranspose2d(channels, out, 4, stride=2, padding=1), nn.LeakyReLU(0.1))


def halves(size: int) -> tuple[int, int]:
    """Return the padding on both sides that makes `size` a multiple of 16, at least 32.

    The last stage of an encoder is 16 times smaller, and BatchNorm cannot train on a single node.
    """
    padding = max(32, -(-size // 16) * 16) - size
    return padding // 2, padding - padding // 2

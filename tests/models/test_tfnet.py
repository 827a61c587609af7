"""TF-Net: its filters, its decodings and its size."""

import pytest
import torch

from sstcast.errors import SSTCastError
from sstcast.graphs.grid import GridGraph
from sstcast.models.tfnet import FlowSplit, TFNet

ROWS, COLS, HISTORY, HORIZON = 5, 6, 8, 3


def make(decoding: str = "direct") -> TFNet:
    """A small model whose running statistics have seen something."""
    model = TFNet(HISTORY, HORIZON, ROWS, COLS, width=4, decoding=decoding)
    model(torch.randn(4, ROWS * COLS, HISTORY), GridGraph(ROWS, COLS))
    return model.eval()


def test_the_parts_sum_to_the_flow() -> None:
    split, days = FlowSplit(3), torch.randn(2, 7, 4, 5)
    torch.nn.init.normal_(split.spatial)
    torch.nn.init.normal_(split.temporal)
    torch.testing.assert_close(split(days).sum(1), days[:, 2:], rtol=1e-5, atol=1e-5)


def test_filters_start_as_averages() -> None:
    days = torch.randn(1, 7, 4, 5)
    mean, spatial, temporal = FlowSplit(3)(days).unbind(1)
    box = days[0, :, 1:4, 2:5].mean(dim=(1, 2))  # around row 2, column 3
    torch.testing.assert_close(mean[0, -1, 2, 3], box[-3:].mean())
    torch.testing.assert_close(spatial[0, -1, 2, 3], days[0, -1, 2, 3] - box[-1])
    torch.testing.assert_close(temporal[0, -1, 2, 3], box[-1] - box[-3:].mean())


def test_rollout_feeds_its_forecasts_back() -> None:
    """Three days in one go are three times one day, with land at 0 in between."""
    model, x = make("rollout"), torch.randn(2, ROWS * COLS, HISTORY)
    graph = GridGraph(ROWS, COLS, torch.rand(2, ROWS * COLS) < 0.7)
    one_day = TFNet(HISTORY, 1, ROWS, COLS, width=4).eval()
    one_day.load_state_dict(model.state_dict())
    expected, days = [], x
    for _ in range(HORIZON):
        expected.append(one_day(days, graph))
        days = torch.cat([days[..., 1:], expected[-1].masked_fill(~graph.mask.unsqueeze(-1), 7)], dim=-1)
    torch.testing.assert_close(model(x, graph), torch.cat(expected, dim=-1), rtol=1e-5, atol=1e-5)


def test_the_last_day_reaches_the_forecast_of_its_own_node() -> None:
    """Rows, columns and days are where the graph has them: the strongest effect of a node is on itself."""
    model, graph = make(), GridGraph(ROWS, COLS)
    x = torch.randn(1, ROWS * COLS, HISTORY)
    with torch.no_grad():
        model.net.out.weight.zero_()
        model.net.out.weight[0, -1, 1, 1] = 1
        model.net.out.bias.zero_()
    torch.testing.assert_close(model(x, graph)[..., 0], x[..., -1])


def test_size_of_the_paper() -> None:
    """Three encoders of 3x3 and a decoder of 4x4 convolutions, 64 to 512 channels, filters over 6 days."""
    days = 42 - 6 + 1
    encoder = sum(9 * a * b + 2 * b for a, b in [(days, 64), (64, 128), (128, 256), (256, 512)])
    decoder = sum(16 * a * b + b for a, b in [(512, 256), (256, 128), (128, 64), (64, 32)])
    out = 9 * (32 + days) * 28 + 28
    model = TFNet(42, 28, 30, 30)
    assert sum(p.numel() for p in model.parameters()) == 9 + 6 + 3 * encoder + decoder + out


def test_a_filter_longer_than_the_history_is_refused() -> None:
    with pytest.raises(SSTCastError, match="filter_days: 6 days do not fit into a history of 5"):
        TFNet(5, HORIZON, ROWS, COLS)

"""TF-Net: the whole network in plain functions of torch, its filters, its predictors and its size."""

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from sstcast.errors import SSTCastError
from sstcast.graphs.grid import GridGraph
from sstcast.models import build_forecaster
from sstcast.models.tfnet import FlowSplit, TFNet

ROWS, COLS, HISTORY, HORIZON, DROPOUT = 5, 6, 8, 3, 0.2


def make(channels: int = 0) -> TFNet:
    """A small model whose running statistics have seen something."""
    model = TFNet(channels + HISTORY, HORIZON, ROWS, COLS, width=4, channels=channels)
    model(torch.randn(4, ROWS * COLS, channels + HISTORY), GridGraph(ROWS, COLS))
    return model.eval()


def tfnet(weights: dict[str, Tensor], days: Tensor, training: bool) -> Tensor:
    """TF-Net of Wang et al. on days `[B, history, 5, 6]`. Returns `[B, horizon, 5, 6]`."""

    def stage(x: Tensor, name: str) -> Tensor:
        x = F.conv2d(x, weights[f"{name}.0.weight"], stride=2, padding=1)
        statistics = (None, None) if training else (weights[f"{name}.1.running_{s}"] for s in ("mean", "var"))
        scale, shift = weights[f"{name}.1.weight"], weights[f"{name}.1.bias"]
        x = F.batch_norm(x, *statistics, scale, shift, training, eps=1e-5)
        return F.dropout2d(torch.where(x > 0, x, x / 10), DROPOUT, training)

    spatial, temporal = weights["split.spatial"][0], weights["split.temporal"].flatten()
    flow = F.pad(days, (13, 13, 13, 14), mode="replicate")  # 32 x 32
    smooth = [F.conv2d(F.pad(day, (1, 1, 1, 1), mode="replicate"), spatial) for day in flow.split(1, dim=1)]
    last = range(len(temporal) - 1, HISTORY)  # the days with enough days before them for the filter
    mean = torch.cat([sum(w * smooth[t - ago] for ago, w in enumerate(temporal.flip(0))) for t in last], dim=1)
    flow, smooth = flow[:, last.start :], torch.cat(smooth[last.start :], dim=1)
    skips = []
    for encoder, part in enumerate((mean, flow - smooth, smooth - mean)):
        outputs = [part]
        for number in range(4):
            outputs.append(stage(outputs[-1], f"net.encoders.{encoder}.stages.{number}"))
        skips.append(outputs[1:])
    first, second, third, x = (a + b + c for a, b, c in zip(*skips, strict=True))
    for number, skip in enumerate((third, second, first, 0)):
        name = f"net.decoder.{number}.0"
        x = F.conv_transpose2d(x, weights[f"{name}.weight"], weights[f"{name}.bias"], stride=2, padding=1)
        x = torch.where(x > 0, x, x / 10) + skip
    forecast = F.conv2d(torch.cat([x, flow], 1), weights["net.out.weight"], weights["net.out.bias"], padding=1)
    return forecast[:, :, 13 : 13 + ROWS, 13 : 13 + COLS]


@pytest.mark.parametrize("training", [False, True])
def test_the_whole_network_in_plain_functions(training: bool) -> None:
    model = TFNet(HISTORY, HORIZON, ROWS, COLS, width=4, filter_days=3, dropout=DROPOUT).double().train(training)
    with torch.no_grad():
        for parameter in model.parameters():  # so that no filter is symmetric and no norm starts as the identity
            parameter.add_(0.3 * torch.randn_like(parameter))
        for buffer in model.buffers():
            buffer.add_(1)
    days = torch.randn(3, HISTORY, ROWS, COLS, dtype=torch.double)
    torch.manual_seed(1)
    expected = tfnet(dict(model.state_dict()), days, training)
    torch.manual_seed(1)
    forecast = model(days.flatten(2).transpose(1, 2), GridGraph(ROWS, COLS))
    torch.testing.assert_close(forecast, expected.flatten(2).transpose(1, 2), rtol=1e-10, atol=1e-10)


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


def test_predictors_join_the_encoder_of_the_mean_flow_alone() -> None:
    """The filters see days, and every lead of every node depends on an index."""
    torch.manual_seed(0)
    index, graph = 3, GridGraph(ROWS, COLS)
    model, plain = make(index), make()
    x = torch.randn(2, ROWS * COLS, index + HISTORY)
    with torch.no_grad():  # without the columns of the index, it is the network without predictors
        shapes = {name: value.shape for name, value in plain.state_dict().items()}
        wider = {name for name, value in model.state_dict().items() if value.shape != shapes[name]}
        assert wider == {"net.encoders.0.stages.0.0.weight"}
        (first,) = wider
        days = HISTORY - 6 + 1
        plain.load_state_dict(model.state_dict() | {first: model.state_dict()[first][:, :days]})
        weight = model.get_parameter(first)
        kept = weight[:, days:].clone()
        weight[:, days:] = 0
        torch.testing.assert_close(model(x, graph), plain(x[..., index:], graph))
        weight[:, days:] = kept
    known = x.requires_grad_()
    for lead in range(HORIZON):
        (gradient,) = torch.autograd.grad(model(known, graph)[..., lead].sum(), known)
        assert (gradient[..., :index].abs().sum(dim=(0, 1)) > 0).all()


def test_sizes_that_follow_from_the_data_are_no_options() -> None:
    sizes = {"history": HISTORY, "horizon": HORIZON, "shape": (ROWS, COLS)}
    for option in ("channels", "rows", "nodes"):
        with pytest.raises(SSTCastError, match=rf"model\.{option}: follows from the data; leave it out"):
            build_forecaster("tfnet", **sizes, **{option: 2})


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
    for channels in (0, 3):
        with pytest.raises(SSTCastError, match="filter_days: 6 days do not fit into a history of 5"):
            TFNet(channels + 5, HORIZON, ROWS, COLS, channels=channels)

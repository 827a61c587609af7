import torch
from torch import nn

from studies.study import fit


def test_fit_finds_the_least_squares() -> None:
    torch.manual_seed(0)
    x, model = torch.randn(100, 3), nn.Linear(3, 1)
    y = x @ torch.tensor([[1.0], [-2.0], [0.5]]) + 3 + 0.1 * torch.randn(100, 1)
    fit(model, lambda step: (model(x) - y).square().mean(), steps=300, rate=0.1)
    best = torch.linalg.lstsq(torch.cat([x, torch.ones(100, 1)], dim=1), y).solution.squeeze(1)
    torch.testing.assert_close(torch.cat([model.weight[0], model.bias]), best, rtol=0, atol=1e-3)

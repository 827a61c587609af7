"""A training step of Primphormer on the loss of its equation 3.1, written out in plain PyTorch."""

from pathlib import Path

import pytest
import torch
from runs_of_training import setup, weights
from torch import Tensor
from torch.nn import functional as F

from sstcast.models.primphormer import PrimphormerAttention
from sstcast.training.train import forecaster, train

LAYERS, HEADS = 2, 2


def objective(layer: PrimphormerAttention, x: Tensor, v: Tensor, ocean: Tensor) -> Tensor:
    """Return J of equation 2.5 with f(X) = F + v 1^T, and means over nodes and heads as in Algorithm 1."""
    f = layer.basis + v.unsqueeze(-1)
    q, k = layer.qk(x).chunk(2, dim=-1)
    total = torch.zeros(())
    for h in range(HEADS):
        for part, w in ((q, layer.w_e), (k, layer.w_r)):
            phi = F.normalize(part.unflatten(-1, (HEADS, -1))[:, :, h], dim=-1)
            scores = torch.einsum("bsn,nd,bid->bis", f, w[:, h], phi)
            total = total + (scores[ocean] * layer.scale[h]).square().sum(-1).mean() / 2
        total = total - torch.trace(layer.w_e[:, h].T @ layer.w_r[:, h])
    return total / HEADS


@pytest.mark.parametrize("eta", [0.0, 0.1])
def test_a_step_on_the_loss_of_equation_3_1(run_yaml: Path, eta: float) -> None:
    """The loss of the task plus eta times the sum of J_l^2 over the layers l.

    With `eps` 1, the first step of Adam is g / (|g| + 1), so its length depends on the gradient g.
    """
    attention = f"{{rank: 3, projections: 4, eta: {eta}}}"
    model_options = f"width: 8, layers: {LAYERS}, heads: {HEADS}, attention_options: {attention}"
    options = ["training.epochs=1", "training.windows_per_epoch=20", "training.learning_rate=1", "training.eps=1"]
    config, windows = setup(run_yaml, *options, f"model={{name: primphormer, {model_options}}}")
    trained = weights(train(config, windows)[0])

    torch.manual_seed(0)
    model = forecaster(config, windows["train"])
    inputs: list[tuple[PrimphormerAttention, Tensor]] = []
    for module in model.modules():
        if isinstance(module, PrimphormerAttention):
            module.register_forward_hook(lambda layer, args, _: inputs.append((layer, args[0])))
    generator = torch.Generator().manual_seed(hash((0, 0)) % 2**63)
    batch = windows["train"].batch(torch.randperm(len(windows["train"]), generator=generator)[:20])
    loss = (model(batch.history, batch.graph) - batch.target)[batch.ocean].square().mean()
    assert len(inputs) == LAYERS
    share = batch.ocean / batch.ocean.sum(1, keepdim=True)
    v, squares = torch.zeros(20, 3), []
    for layer, x in inputs:
        v = v + layer.virtual((x * share.unsqueeze(-1)).sum(1))
        squares.append(objective(layer, x, v, batch.ocean).square())
    optimizer = torch.optim.Adam(model.parameters(), lr=1, eps=1)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    (loss + eta * sum(squares)).backward()
    optimizer.step()
    for name, value in model.state_dict().items():
        torch.testing.assert_close(trained[name], value, rtol=1e-4, atol=1e-6)
    lambdas = [name for name in before if name.endswith("attention.scale")]
    assert len(lambdas) == LAYERS
    for name in lambdas:  # Lambda is only in J
        assert torch.equal(trained[name], before[name]) == (eta == 0)

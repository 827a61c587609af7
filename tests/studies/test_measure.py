import pytest
import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile

from studies.measure import Pass, peak_bytes


def profiled_peak(run: Pass) -> int:
    """The same by torch's profiler, which sees every call of the allocator."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        run()
    events = profiler.profiler.kineto_results.events()
    changes = sorted((event.start_ns(), event.nbytes()) for event in events if event.name() == "[memory]")
    return int(torch.tensor([change for _, change in changes]).cumsum(0).max())


def test_peak_counts_what_is_alive_at_once() -> None:
    given = torch.ones(1000)

    def run() -> None:
        a = given + 1
        b = (a[:500] * 2).view(50, 10)  # 2000 bytes more
        del a
        b.add_(1)
        b + given[:500].view(50, 10)

    assert peak_bytes(run) == 6000


@pytest.mark.parametrize(
    "layers",
    [
        [nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 64), nn.LayerNorm(64)],
        [nn.TransformerEncoderLayer(64, 4, 128, batch_first=True)],
    ],
)
def test_peak_of_training_agrees_with_the_profiler(layers: list[nn.Module]) -> None:
    torch.manual_seed(0)
    network, x = nn.Sequential(*layers), torch.randn(4, 300, 64)

    def run() -> None:
        network(x).square().mean().backward()

    run()  # gradients of parameters are there from now on
    assert peak_bytes(run) == pytest.approx(profiled_peak(run), rel=0.02)

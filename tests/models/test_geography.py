"""The geography that a forecaster reads: the position of nodes on the globe, and the time of year."""

import pytest
import torch
from small_graphs import land_grid, ocean_of, same
from torch import Tensor

from sstcast.errors import SSTCastError
from sstcast.graphs.grid import GridGraph
from sstcast.models import build_forecaster
from sstcast.models.base import Forecaster

H, W, HISTORY, HORIZON = 4, 5, 7, 2


def make(name: str = "mpnn") -> Forecaster:
    torch.manual_seed(0)
    options = {"width": 16, "geography": True}
    model = build_forecaster(name, history=HISTORY, horizon=HORIZON, shape=(H, W), **options)
    assert isinstance(model, Forecaster)
    return model.eval()


def geography(latitude: Tensor, day: float) -> Tensor:
    """Return the features of nodes on the Greenwich meridian, at latitudes `[B, N]` in degrees."""
    angle, time = torch.deg2rad(latitude), torch.full_like(latitude, day / 365 * 2 * torch.pi)
    return torch.stack([angle.cos(), torch.zeros_like(angle), angle.sin(), time.sin(), time.cos()], dim=-1)


def grid(day: float, mask: Tensor | None = None, south: float = -30) -> GridGraph:
    latitude = (south + torch.arange(H).repeat_interleave(W)).expand(2, -1)
    return GridGraph(H, W, mask, geography=geography(latitude, day))


def test_season_and_place_change_the_output() -> None:
    model, x = make(), torch.randn(2, H * W, HISTORY)
    summer = model(x, grid(0))
    assert not torch.allclose(model(x, grid(180)), summer, atol=1e-4)
    assert not torch.allclose(model(x, grid(0, south=30)), summer, atol=1e-4)


def test_land_and_storage_change_nothing() -> None:
    model, x, mask = make(), torch.randn(2, H * W, HISTORY), land_grid(H, W).mask
    graph = grid(0, mask)
    expected, where = model(x, graph)[mask], graph.geography
    changed = GridGraph(H, W, mask, geography=torch.where(mask.unsqueeze(-1), where, 100.0))
    torch.testing.assert_close(model(x, changed)[mask], expected)
    ocean = ocean_of(graph)
    ocean.geography = where[mask]
    same(model(x[mask], ocean), expected)


def test_graphs_without_it_are_refused() -> None:
    with pytest.raises(SSTCastError, match="geography"):
        make()(torch.randn(1, H * W, HISTORY), GridGraph(H, W))

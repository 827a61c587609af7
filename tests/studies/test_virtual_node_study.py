import pandas as pd
import pytest
import torch

from studies.virtual_node import CHANNELS, NODES, Target, features, study


@pytest.fixture(scope="module")
def rows() -> pd.DataFrame:
    return study(widths=(4, 32), seeds=(0,), steps=150).rows()


@torch.no_grad()
def test_the_target_is_standardised_attention_to_all_nodes() -> None:
    torch.manual_seed(0)
    target, x = Target(), features(4096)
    y = target(x)
    torch.testing.assert_close(y.mean((0, 1)), torch.zeros(CHANNELS), rtol=0, atol=0.1)
    torch.testing.assert_close(y.std((0, 1)), torch.ones(CHANNELS), rtol=0, atol=0.05)
    order = torch.randperm(NODES)
    torch.testing.assert_close(target(x[:8, order]), target(x[:8])[:, order])
    other = x[:8].clone()
    other[:, NODES // 2] *= -1
    assert ((target(other) - target(x[:8]))[:, 0].abs() > 1e-3).all()  # beyond three hops


def test_the_error_falls_with_width_and_needs_the_virtual_node(rows: pd.DataFrame) -> None:
    error = rows.set_index(["model", "width"])["error"]
    assert error["mpnn-vn", 32] < error["mpnn-vn", 4] / 1.5
    assert error["mpnn-vn", 32] < error["mpnn", 32] / 2

import numpy as np
import pytest
import torch

from sstcast.models.sparse_attention import pack, random_cycles, random_integers


def test_random_cycles_are_an_expander() -> None:
    """Each cycle visits every node once; the second eigenvalue stays well below the degree of 6."""
    mask = torch.ones(1, 400, dtype=torch.bool)
    mask[0, ::5] = False
    planes = random_cycles(mask, 3, seed=0)
    adjacency = np.zeros((400, 400))
    for after, before in zip(planes[::2], planes[1::2], strict=True):
        visited, node = [], 1
        for _ in range(320):
            visited.append(node)
            assert before[0, after[0, node]] == node
            node = int(after[0, node])
        assert sorted(visited) == np.flatnonzero(mask[0]).tolist()
        np.add.at(adjacency, (np.arange(400), after[0].numpy()), 1)
        np.add.at(adjacency, (np.arange(400), before[0].numpy()), 1)
    real = mask[0].numpy()
    eigenvalues = np.linalg.eigvalsh(adjacency[real][:, real])
    assert eigenvalues[-1] == pytest.approx(6)
    assert max(eigenvalues[-2], -eigenvalues[0]) < 5.2  # 2 sqrt(5) = 4.5 is the best a large graph can do
    assert not torch.equal(planes[0], random_cycles(mask, 3, seed=1)[0])


def test_packing_there_and_back() -> None:
    torch.manual_seed(0)
    x, mask = torch.randn(3, 20, 2), torch.rand(3, 20) < 0.6
    packed, front, index = pack(x, mask)
    for row, real, kept, first in zip(x, mask, packed, front, strict=True):
        assert torch.equal(kept[first], row[real])
        assert first.sum() == real.sum()
    assert torch.equal(packed.gather(1, index), x)


def test_random_integers_are_uniform_and_only_append() -> None:
    """A histogram within five sigma, columns and seeds that know nothing of each other, and a stable prefix."""
    cpu = torch.device("cpu")
    draws = random_integers(20_000, 2, 0, cpu)
    assert torch.equal(random_integers(100, 2, 0, cpu), draws[:100])
    assert draws.min() >= 0
    assert draws.max() < 2**32
    values = (draws.double() / 2**32).numpy()
    counts, _ = np.histogram(values, bins=16, range=(0, 1))
    assert np.abs(counts - 2500).max() < 5 * np.sqrt(2500)
    other = random_integers(20_000, 2, 10**12, cpu).double().numpy()
    series = [values[:, 0], values[:, 1], values[1:, 0], other[:, 0]]
    bound = 5 / np.sqrt(20_000)
    for later in series[1:]:
        assert abs(np.corrcoef(series[0][: len(later)], later)[0, 1]) < bound

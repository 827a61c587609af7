"""The studies of attention in trained networks: Polynormer's, TokenGT's and LSAT's."""

from pathlib import Path

import numpy as np
import pytest
import torch
from small_raw import write
from torch.nn import functional as F

from sstcast.benchmarks.registry import find_dataset
from sstcast.errors import SSTCastError
from studies import attention_distance, build_study, global_attention, kernel_assumption


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("raw")
    write(find_dataset("MUTAG"), folder)
    return folder


def test_cells_know_the_mines_around_them() -> None:
    graph, x, mine = global_attention.minefield(12, seed=3)
    around = (
        F.conv2d(mine.view(1, 1, 12, 12).double(), torch.ones(1, 1, 3, 3).double(), padding=1).flatten() - mine
    )
    known = x[:, -1] == 0
    assert torch.equal(x[known].argmax(1).double(), around[known])
    assert 40 < int(known.sum()) < 104
    assert int(mine.sum()) == round(0.2 * 144)
    assert graph.edge_index.shape[1] == 2 * (2 * 12 * 11 + 2 * 11 * 11)


def test_maps_of_global_attention() -> None:
    study = global_attention.study(side=10, local_steps=2, steps=2)
    rows = study.rows()
    local, same, attention = (rows[rows["what"] == name]["value"].to_numpy() for name in global_attention.MAPS)
    assert (local <= same).all()
    assert 0 < local.sum() < same.sum() < len(same)
    assert attention.min() >= 0
    assert attention.max() == 1
    table = study.tabulate(rows)
    assert table[""].iloc[0] == "test ROC-AUC"
    assert len(study.draw(rows).axes) == 4


def test_c_by_its_definition_and_without_overflow() -> None:
    torch.manual_seed(0)
    q, k = torch.randn(2, 3, 5, 8), torch.randn(2, 3, 5, 8)
    mask = torch.tensor([[True] * 5, [True] * 3 + [False] * 2])
    found = kernel_assumption.log_c(q, k, mask, features=16)
    a, b = (part / 8**0.25 for part in (q, k))  # so that a b is the exponent of the kernel
    for i, j in ((0, 0), (1, 4), (3, 2)):
        c = (((a[0, :, i] + b[0, :, j]).square().sum(-1).exp() - 1) / 16).sqrt()
        torch.testing.assert_close(found[0, :, i, j].float(), c.log10())
    assert (found[1, :, 4] == -torch.inf).all()
    assert kernel_assumption.log_c(40 * q, k, mask, 16).isfinite().sum() == found.isfinite().sum()


def test_c_of_every_molecule(root: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    study = kernel_assumption.study(root, "MUTAG", steps=2)
    rows = study.rows()
    assert (rows.groupby(["steps", "layer"]).size() == len(rows) / 4).all()
    assert np.isfinite(rows["log10_c"]).all()
    assert list(study.tabulate(rows)["LSAT"]) == ["untrained", "untrained", "trained", "trained"]
    assert len(study.draw(rows).axes) == 2


def test_distances_of_all_heads(root: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    study = attention_distance.study(root, "MUTAG", layers=2, heads=4, steps=2)
    rows = study.rows()
    assert len(rows) == 2 * 2 * 2 * 4
    assert rows["hops"].between(0, 30).all()
    assert list(study.tabulate(rows)["layer"]) == [1, 2, 1, 2]
    assert len(study.draw(rows).axes) == 2


def test_only_some_studies_read_files(root: Path) -> None:
    with pytest.raises(SSTCastError, match="study wl: it reads no raw files; leave --root out"):
        build_study("wl", root)
    assert len(build_study("kernel-assumption", root).cases) == 2

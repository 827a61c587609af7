"""A user's own data: each kind trains, splits and masks mean what they say, examples of the docs run."""

import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from small_own import (
    MASKS,
    Make,
    edit,
    lonely,
    npz,
    official,
    pyg,
    rewrite,
    run,
    smiles_csv,
    tudataset,
)
from small_raw import NODES
from torch_geometric.data import Data

from sstcast import cli
from sstcast.benchmarks.config import load_benchmark, published
from sstcast.benchmarks.load import load
from sstcast.benchmarks.packed import Loaded
from sstcast.benchmarks.run import run_benchmark
from sstcast.benchmarks.splits import choose_split
from sstcast.errors import SSTCastError


@pytest.mark.parametrize("make", [smiles_csv, npz, tudataset, pyg])
def test_every_kind_trains(make: Make, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path, make(tmp_path)) == 0
    out = capsys.readouterr().out
    assert "mine, mpnn: test" in out
    assert (tmp_path / "runs/mine/mpnn/seed-0/metrics.json").exists()
    assert run(tmp_path, yaml.safe_load((tmp_path / "mine.yaml").read_text())) == 0
    assert "nothing to do" in capsys.readouterr().out


@pytest.mark.parametrize("package", ["ogb.utils", "rdkit"])
def test_without_ogb_or_rdkit_the_command_to_install_them_is_said(
    package: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    assert run(tmp_path, smiles_csv(tmp_path)) == 2
    assert "pip install 'sstcast[benchmarks]'" in capsys.readouterr().err


def test_edgeless_graphs_may_be_kept(tmp_path: Path) -> None:
    raw = tudataset(tmp_path)
    lonely(tmp_path)
    assert run(tmp_path, raw | {"edgeless": "keep"}) == 0


def test_the_documented_example_runs(tmp_path: Path) -> None:
    page = (Path(cli.__file__).parents[1] / "docs/benchmarks.md").read_text()
    table = re.search(r"```text\n(name,smiles.*?)```", page, re.DOTALL)
    settings = re.search(r"```yaml\n(kind: smiles_csv.*?)```", page, re.DOTALL)
    assert table
    assert settings
    (tmp_path / "solubility.csv").write_text(table[1])
    (tmp_path / "solubility.yaml").write_text(settings[1])
    options = ["training.epochs=2", "model.width=8", f"cache={tmp_path / 'cache'}", f"runs={tmp_path / 'runs'}"]
    config = load_benchmark(str(tmp_path / "solubility.yaml"), "gine-vn", None, options)
    graphs = load(config.declaration, config.root, config.cache).graphs
    assert graphs.nodes.tolist() == [3, 6, 4, 2, 7, 7, 10, 6, 6, 7]  # heavy atoms
    assert graphs.y.flatten()[:3].tolist() == pytest.approx([1.10, -1.64, 1.22])
    assert [result["epochs"] for result in run_benchmark(config, [0, 1, 2])] == [2, 2, 2]


def test_molecules_that_cannot_be_parsed_are_counted_and_listed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    raw = smiles_csv(tmp_path)
    edit(tmp_path, "mine.csv", "CC#N", "C1CC")  # an open ring
    edit(tmp_path, "mine.csv", "m7,CC=C", "m7,")
    assert run(tmp_path, raw) == 0
    out = capsys.readouterr().out
    assert "2 of 12 molecules cannot be parsed" in out
    assert "line 5: 'C1CC'" in out
    (listed,) = (tmp_path / "cache").glob("*.skipped.txt")
    assert [line.split(": ")[1] for line in listed.read_text().splitlines()] == ["line 5", "line 9"]


def test_a_column_may_hold_the_split(tmp_path: Path) -> None:
    raw = smiles_csv(tmp_path) | {"split": "official", "split_column": "part"}
    lines = (tmp_path / "mine.csv").read_text().splitlines()
    parts = ["part", *["train"] * 6, *["valid"] * 3, *["test"] * 3]
    (tmp_path / "mine.csv").write_text("".join(f"{a},{b}\n" for a, b in zip(lines, parts, strict=True)))
    edit(tmp_path, "mine.csv", "c1ccccc1", "c1ccccc")  # the rows that follow move up
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(raw))
    config = load_benchmark(str(tmp_path / "mine.yaml"), "mpnn", None, None)
    dataset = config.declaration
    split = choose_split(dataset, load(dataset, config.root, tmp_path / "cache"), 0)
    assert [part.tolist() for part in split] == [[0, 1, 2, 3, 4], [5, 6, 7], [8, 9, 10]]


def test_what_one_s_own_data_are_called_does_not_matter(tmp_path: Path) -> None:
    """Neither a paper's settings nor its scores are those of a file that happens to be called like its data."""
    raw = npz(tmp_path)
    for name in ("mine", "cora"):
        (tmp_path / f"{name}.yaml").write_text(yaml.safe_dump(raw))
    mine, cora = (load_benchmark(str(tmp_path / f"{name}.yaml"), "lsat", None, None) for name in ("mine", "cora"))
    assert cora.model_copy(update={"dataset": "mine"}) == mine
    assert published(cora.model_copy(update={"dataset": "Cora"})) is None
    assert published(load_benchmark("cora", "lsat", None, None)) is not None
    assert load_benchmark(str(tmp_path / "mine.yaml"), "lsat", tmp_path / "elsewhere", None) == mine
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(raw | {"name": "../mine"}))
    with pytest.raises(SSTCastError, match="dataset"):
        load_benchmark(str(tmp_path / "mine.yaml"), "lsat", None, None)


def test_numbers_of_nodes_are_learnt(tmp_path: Path) -> None:
    raw = npz(tmp_path) | {"task": "node-regression"}
    rewrite(tmp_path, labels=np.linspace(0, 1, NODES))
    assert run(tmp_path, raw) == 0


def test_in_half_precision(tmp_path: Path) -> None:
    assert run(tmp_path, tudataset(tmp_path), "--set", "training.precision=bf16-mixed") == 0


def test_ten_folds(tmp_path: Path) -> None:
    raw = npz(tmp_path) | {"split": "folds:10"}
    assert run(tmp_path, raw) == 0


def test_new_node_labels_are_noticed(tmp_path: Path) -> None:
    raw = tudataset(tmp_path)
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(raw))
    found = []
    for label in ("0", "7"):
        edit(tmp_path, "TU/MINE_node_labels.txt", "0\n", f"{label}\n")
        config = load_benchmark(str(tmp_path / "mine.yaml"), "mpnn", None, None)
        found.append(load(config.declaration, config.root, tmp_path / "cache").graphs.x)
    assert [x.shape[1] for x in found if x is not None] == [2, 3]


def test_a_test_score_that_is_not_defined_is_no_result(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    raw = npz(tmp_path) | {"metric": "roc-auc"}
    number = np.arange(NODES)
    rewrite(tmp_path, labels=number % 2)
    masks = {"train_mask": number < 20, "val_mask": (number >= 20) & (number < 30), "test_mask": number == 31}
    official(tmp_path, raw, **masks)
    assert run(tmp_path, raw) == 2
    assert "roc-auc of the test split is not defined" in capsys.readouterr().err
    assert not list((tmp_path / "runs").rglob("metrics.json"))


@pytest.mark.parametrize("kind", [bool, int, np.uint8, float])
def test_masks_of_an_npz_are_its_official_split(tmp_path: Path, kind: type) -> None:
    raw = npz(tmp_path) | {"split": "official"}
    number = np.arange(NODES)
    parts = number < 20, (number >= 20) & (number < 30), number >= 30
    rewrite(tmp_path, **{name: part.astype(kind) for name, part in zip(MASKS, parts, strict=True)})
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(raw))
    config = load_benchmark(str(tmp_path / "mine.yaml"), "mpnn", None, None)
    split = choose_split(config.declaration, load(config.declaration, config.root, tmp_path / "cache"), 3)
    assert [part.tolist() for part in split] == [list(range(20)), list(range(20, 30)), list(range(30, 40))]


def test_a_processed_dataset_of_pyg_opens(tmp_path: Path) -> None:
    """What `InMemoryDataset.save` writes."""
    from torch_geometric.data import InMemoryDataset

    data = [
        Data(x=torch.ones(i, 1), edge_index=torch.tensor([[0], [1]]), y=torch.tensor([i % 2]))
        for i in range(2, 22)
    ]
    InMemoryDataset.save(data, str(tmp_path / "mine.pt"))
    raw = {"kind": "pyg", "path": "mine.pt", "task": "graph-classification"}
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(raw))
    config = load_benchmark(str(tmp_path / "mine.yaml"), "mpnn", None, None)
    graphs = load(config.declaration, config.root, tmp_path / "cache").graphs
    assert graphs.nodes.tolist() == list(range(2, 22))
    assert graphs.y.tolist() == [i % 2 for i in range(2, 22)]


def load_own(folder: Path, raw: dict[str, Any]) -> Loaded:
    (folder / "mine.yaml").write_text(yaml.safe_dump(raw))
    config = load_benchmark(str(folder / "mine.yaml"), "mpnn", None, None)
    return load(config.declaration, config.root, folder / "cache")


def test_edges_of_an_npz_may_have_features_and_a_direction(tmp_path: Path) -> None:
    raw = npz(tmp_path)
    edges, weights = [[0, 1], [1, 0], [2, 1], [3, 3], [2, 1]], [1.0, 3.0, 5.0, 9.0, 7.0]
    rewrite(tmp_path, edges=np.array(edges), weights=np.array(weights))
    both = load_own(tmp_path, raw | {"edge_features": "weights"}).graphs
    assert both.edge_index.T.tolist() == [[0, 1], [1, 0], [1, 2], [2, 1]]
    assert both.edge_attr is not None
    assert both.edge_attr.flatten().tolist() == [2.0, 2.0, 6.0, 6.0]
    one_way = load_own(tmp_path, raw | {"edge_features": "weights", "directed": True}).graphs
    assert one_way.edge_index.T.tolist() == [[0, 1], [1, 0], [2, 1]]
    assert one_way.edge_attr is not None
    assert one_way.edge_attr.flatten().tolist() == [1.0, 3.0, 6.0]
    assert run(tmp_path, raw | {"edge_features": "weights", "directed": True}) == 0


def test_molecules_of_one_scaffold_stay_together(tmp_path: Path) -> None:
    """Ten benzenes, three pyridines, two cyclohexanes, and three alone."""
    rings = ["c1ccccc1" + "C" * i for i in range(10)] + ["c1ccncc1" + "C" * i for i in range(3)]
    rings += ["C1CCCCC1", "C1CCCCC1C", "c1ccsc1", "C1CC1", "c1ccoc1", "C1CCC1", "c1ccc2ccccc2c1"]
    rows = "".join(f"m{i},{text},{i}.5,{i % 2}\n" for i, text in enumerate(rings))
    raw = smiles_csv(tmp_path) | {"split": "scaffold"}
    (tmp_path / "mine.csv").write_text("name,smiles,solubility,toxic\n" + rows)
    loaded = load_own(tmp_path, raw)
    assert [part.tolist() for part in loaded.splits[0]] == [[*range(15), 15], [16, 17], [18, 19]]
    assert run(tmp_path, raw) == 0

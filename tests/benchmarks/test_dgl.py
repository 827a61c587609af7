"""The formats of DGL: CSV files of one graph, and npz in CSR form."""

import io
import logging
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from refusals import refused
from scipy.sparse import csr_matrix
from small_raw import NODES, both_ways, ring

from sstcast.benchmarks.config import load_benchmark
from sstcast.benchmarks.load import LoadedDataset, load
from sstcast.benchmarks.splits import choose_split
from sstcast.errors import SSTCastError

PART = np.arange(NODES) % 4
MASKS = {"train_mask": PART < 2, "val_mask": PART == 2, "test_mask": PART == 3}
X = np.random.default_rng(0).normal(size=(NODES, 3)).round(4)
KEYS = {"kind": "graph_csv", "path": "nodes.csv", "edges": "edges.csv", "id": "node_id", "target": "label"}
KEYS |= {"source": "src_id", "to": "dst_id"}


def write(folder: Path, values: Any = bool, feat: str = "{}, {}, {}", nodes: str = "") -> None:
    lines = [f"node_id,label,train_mask,val_mask,test_mask,feat{nodes}"]
    for i in range(NODES):
        masks = ",".join(str(values(mask[i])) for mask in MASKS.values())
        lines.append(f'{i},{i % 3},{masks},"{feat.format(*X[i])}"' + ",0" * bool(nodes))
    (folder / "nodes.csv").write_text("\n".join(lines))
    edges = "".join(f'{a},{b},"{a / 8}, {b / 4}"\n' for a, b in ring(NODES).T)
    (folder / "edges.csv").write_text("src_id,dst_id,feat\n" + edges)


def opened(folder: Path, keys: dict[str, Any]) -> LoadedDataset:
    (folder / "mine.yaml").write_text(yaml.safe_dump(keys))
    config = load_benchmark(str(folder / "mine.yaml"), "gcn")
    return load(config.declaration, config.root, folder / "cache")


def parts(found: LoadedDataset) -> list[list[int]]:
    return [part.tolist() for part in choose_split(found.dataset, found.graphs, found.splits, 0)]


WANTED = [np.flatnonzero(mask).tolist() for mask in MASKS.values()]


@pytest.mark.parametrize("values", [bool, int])
@pytest.mark.parametrize("feat", ["{}, {}, {}", "{},{},{}", "[{}, {}, {}]", "({}, {}, {})"])
def test_masks_are_the_split_and_quoted_numbers_features(
    values: Any, feat: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write(tmp_path, values, feat)
    with caplog.at_level(logging.INFO, "sstcast"):
        found = opened(tmp_path, KEYS)
    np.testing.assert_allclose(found.graphs.x, X, rtol=1e-6)
    assert found.dataset.split == "official"
    assert parts(found) == WANTED
    source, target = found.graphs.edge_index.numpy().astype(float)
    ends = np.sort(np.stack([source, target], 1), axis=1)
    pairs = {(a / 8, b / 4) for a, b in ring(NODES).T.tolist()}
    assert found.graphs.edge_attr.shape == (len(ends), 2)
    assert set(map(tuple, found.graphs.edge_attr.tolist())) == pairs
    assert "nodes.csv: features: feat[0], feat[1], feat[2]; not used: none; split: train_mask, " in caplog.text
    assert "edges.csv: features: feat[0], feat[1]; not used: none" in caplog.text
    named = opened(tmp_path, KEYS | {"features": ["feat"], "edge_features": ["feat"]})
    assert named.digest == found.digest
    drawn = opened(tmp_path, KEYS | {"split": "60/20/20"})
    assert [len(part) for part in parts(drawn)] == [24, 8, 8]


def test_a_column_of_words_is_no_feature(tmp_path: Path) -> None:
    write(tmp_path, feat="green")
    assert opened(tmp_path, KEYS).graphs.x is None


def test_a_column_of_parts_comes_before_masks(tmp_path: Path) -> None:
    write(tmp_path)
    lines = (tmp_path / "nodes.csv").read_text().splitlines()
    names = ["part", *np.resize(["train", "val", "test"], NODES)]
    (tmp_path / "nodes.csv").write_text("".join(f"{a},{b}\n" for a, b in zip(lines, names, strict=True)))
    found = opened(tmp_path, KEYS | {"split_column": "part"})
    assert parts(found) == [list(range(i, NODES, 3)) for i in range(3)]
    assert found.graphs.x.shape == (NODES, 3)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"feat": "{}, {}, high"}, "nodes.csv: cannot be read .*; give each row of feat as many numbers"),
        ({"values": lambda mask: 2 * int(mask)}, "nodes.csv: line 2, column 'train_mask': give 0 or 1"),
    ],
)
def test_unusable_columns_are_refused(change: dict[str, Any], words: str, tmp_path: Path) -> None:
    write(tmp_path, **change)
    with pytest.raises(SSTCastError, match=words):
        opened(tmp_path, KEYS)


def test_sets_of_many_graphs_are_refused_with_what_to_write(tmp_path: Path) -> None:
    write(tmp_path, nodes=",graph_id")
    text = (tmp_path / "edges.csv").read_text().splitlines()
    (tmp_path / "edges.csv").write_text(
        "".join(f"{line},{'0' if i else 'graph_id'}\n" for i, line in enumerate(text))
    )
    with pytest.raises(SSTCastError, match=r"many graphs, by graph_id; save a list of .* kind: pyg"):
        opened(tmp_path, KEYS)
    meta = {"node_data": [{"file_name": "n.csv"}], "edge_data": [{"file_name": "e.csv"}]}
    for more, words in (
        ({}, "kind: graph_csv, its nodes as path, its edges, id: node_id"),
        ({"graph_data": {}}, "kind: pyg"),
    ):
        (tmp_path / "meta.yaml").write_text(yaml.safe_dump(meta | more))
        with pytest.raises(SSTCastError, match=words):
            load_benchmark(str(tmp_path / "meta.yaml"), "gcn")


def test_an_npz_that_claims_more_than_it_holds_is_not_read(tmp_path: Path) -> None:
    """Features that would take 1e15 bytes, in the shape of a sparse matrix and in the header of a dense one."""
    ones = csr_matrix(np.eye(NODES, dtype="f4"))
    parts = ("data", "indices", "indptr")
    arrays = {f"{name}_{part}": getattr(ones, part) for name in ("adj", "attr") for part in parts}
    arrays |= {"adj_shape": np.array(ones.shape), "attr_shape": np.array([NODES, 10**14])}
    arrays["labels"] = np.arange(NODES)
    np.savez(tmp_path / "graph.npz", **arrays)
    with refused("graph.npz", "attr claims 100000000000000 columns"):
        opened(tmp_path, {"kind": "pyg", "path": "graph.npz"})
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        header, {"descr": "<f4", "fortran_order": False, "shape": (NODES, 10**14)}
    )
    with zipfile.ZipFile(tmp_path / "graph.npz", "a") as archive:
        archive.writestr("attr_matrix.npy", header.getvalue())
    with refused("graph.npz", "attr_matrix.npy claims", "values and holds fewer"):
        opened(tmp_path, {"kind": "pyg", "path": "graph.npz"})


@pytest.mark.parametrize("dense", [True, False])
@pytest.mark.parametrize("weighted", [True, False])
def test_an_npz_in_csr_form_is_read(dense: bool, weighted: bool, tmp_path: Path) -> None:
    index = np.concatenate([ring(NODES), [[3], [3]]], axis=1)  # each edge once, and a loop
    values = np.arange(1, index.shape[1] + 1) / 4 if weighted else np.ones(index.shape[1])
    adjacency = csr_matrix((values.astype("f4"), index), shape=(NODES, NODES))
    attributes = csr_matrix(np.where(X > 0, X, 0).astype("f4"))
    arrays: dict[str, Any] = {"labels": np.arange(NODES) % 3, "node_names": np.array([{}], dtype=object)}
    for name, matrix in {"adj": adjacency, "attr": attributes}.items():
        arrays |= {f"{name}_{key}": getattr(matrix, key) for key in ("data", "indices", "indptr", "shape")}
    if dense:
        arrays = {k: v for k, v in arrays.items() if not k.startswith("attr")} | MASKS
        arrays["attr_matrix"] = attributes.toarray()
    np.savez(tmp_path / "graph.npz", **arrays)
    found = opened(tmp_path, {"kind": "pyg", "path": "graph.npz"})
    np.testing.assert_array_equal(found.graphs.x, attributes.toarray())
    assert found.graphs.y.tolist() == (np.arange(NODES) % 3).tolist()
    assert sorted(found.graphs.edge_index.T.tolist()) == sorted([*both_ways(ring(NODES)).T.tolist(), [3, 3]])
    whole = np.maximum(adjacency.toarray(), adjacency.toarray().T)
    source, target = found.graphs.edge_index.long().numpy()
    if weighted:
        np.testing.assert_allclose(found.graphs.edge_weight, whole[source, target], rtol=1e-6)
    else:
        assert found.graphs.edge_weight is None
    assert (parts(found) == WANTED) is dense
    np.savez(tmp_path / "graph.npz", **(arrays | {"labels": arrays["labels"][1:]}))
    with refused("graph.npz", f"adj has {NODES} rows, and labels {NODES - 1}"):
        opened(tmp_path, {"kind": "pyg", "path": "graph.npz"})
    np.savez(tmp_path / "graph.npz", x=X)
    with pytest.raises(
        SSTCastError, match="give adj_data, adj_indices, adj_indptr, adj_shape, labels, and attr_m"
    ):
        opened(tmp_path, {"kind": "pyg", "path": "graph.npz"})

"""A user's own data: each kind trains, splits are kept, and errors are one line."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from small_raw import NODES, both_ways, graphs, ring
from torch_geometric.data import Data, InMemoryDataset

from sstcast import cli
from sstcast.benchmarks.config import load_benchmark, published
from sstcast.benchmarks.load import LoadedDataset, load
from sstcast.benchmarks.run import run_benchmark
from sstcast.benchmarks.splits import choose_split
from sstcast.errors import SSTCastError

Make = Callable[[Path], dict[str, Any]]
Run = Callable[[dict[str, Any]], tuple[int, str, str]]
MOLECULES = ["CCO", "c1ccccc1", "CC(=O)O", "CC#N", "CCN", "CCS", "CO", "CC=C", "CCCl", "CBr", "C", "CCCC"]


@pytest.fixture
def run(tmp_path: Path, command: Callable[..., tuple[int, str, str]]) -> Run:
    """Train on a user's own data for two epochs. Return exit code, stdout and stderr."""

    def trained(raw: dict[str, Any]) -> tuple[int, str, str]:
        (tmp_path / "mine.yaml").write_text(yaml.safe_dump(raw))
        sizes = ("training.epochs=2", "training.batch_size=4", "model.width=8", "training.device=cpu")
        keys = (f"runs={tmp_path}/runs", f"cache={tmp_path}/cache", *sizes)
        sets = [part for key in keys for part in ("--set", key)]
        return command("benchmark", tmp_path / "mine.yaml", "--model", "mpnn", *sets)

    return trained


def smiles_csv(folder: Path) -> dict[str, Any]:
    rows = "".join(f"m{i},{text},{len(text)}.5,{i % 2}\n" for i, text in enumerate(MOLECULES))
    (folder / "mine.csv").write_text("name,smiles,solubility,toxic\n" + rows)
    return {
        "kind": "smiles_csv",
        "path": "mine.csv",
        "task": "graph-regression",
        "targets": ["solubility"],
        "id": "name",
    }


def graph_csv(folder: Path) -> dict[str, Any]:
    labels = np.arange(NODES) % 3
    features = np.eye(3)[labels] + np.random.default_rng(0).random((NODES, 3))
    rows = "".join(f"n{i},{labels[i]},{','.join(f'{v:.4f}' for v in features[i])}\n" for i in range(NODES))
    (folder / "mine.csv").write_text("name,kind,a,b,c\n" + rows)
    edges = "".join(f"n{a},n{b},{a / 4}\n" for a, b in ring(NODES).T)
    (folder / "edges.csv").write_text("source,target,weight\n" + edges)
    keys = {"kind": "graph_csv", "path": "mine.csv", "edges": "edges.csv", "id": "name", "target": "kind"}
    return keys | {"task": "node-classification"}


def edit(folder: Path, name: str, old: str, new: str) -> None:
    text = (folder / name).read_text()
    assert old in text
    (folder / name).write_text(text.replace(old, new, 1))


def load_own(folder: Path, raw: dict[str, Any]) -> LoadedDataset:
    (folder / "mine.yaml").write_text(yaml.safe_dump(raw))
    config = load_benchmark(str(folder / "mine.yaml"), "mpnn")
    return load(config.declaration, config.root, folder / "cache")


@pytest.mark.parametrize(
    ("make", "old", "new"),
    [(smiles_csv, "3.5", "4.5"), (graph_csv, "n3,0", "n3,1"), (graph_csv, "n5,2,", "n5,2,9")],
)
def test_a_csv_trains_until_it_has_changed(make: Make, old: str, new: str, tmp_path: Path, run: Run) -> None:
    raw = make(tmp_path)
    for words in ("mine, mpnn: test", "nothing to do"):
        code, out, _ = run(raw)
        assert code == 0
        assert words in out
    edit(tmp_path, "mine.csv", old, new)
    for _ in ("finished", "without its scores"):
        code, _, err = run(raw)
        assert code == 2
        assert err.count("\n") == 1
        assert "seed-0: trained on other data: SHA-256 of its graphs" in err
        (tmp_path / "runs/mine/mpnn/seed-0/metrics.json").unlink(missing_ok=True)
    edit(tmp_path, "mine.csv", new, old)
    assert run(raw)[0] == 0


@pytest.mark.parametrize("package", ["ogb.utils", "rdkit"])
def test_without_ogb_or_rdkit(package: str, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    code, _, err = run(smiles_csv(tmp_path))
    assert code == 2
    assert "pip install 'sstcast[benchmarks]'" in err


def test_the_documented_example_runs(tmp_path: Path) -> None:
    page = (Path(cli.__file__).parents[1] / "docs/benchmarks.md").read_text()
    for language, name in (("text", "solubility.csv"), ("yaml", "solubility.yaml")):
        (tmp_path / name).write_text(page.split(f"```{language}\n")[1].split("```")[0])
    options = ["training.epochs=2", "model.width=8", f"cache={tmp_path / 'cache'}", f"runs={tmp_path / 'runs'}"]
    config = load_benchmark(str(tmp_path / "solubility.yaml"), "gine-vn", None, options)
    found = load(config.declaration, config.root, config.cache).graphs
    assert found.nodes.tolist() == [3, 6, 4, 2, 7, 7, 10, 6, 6, 7]  # heavy atoms
    assert found.y.flatten()[:3].tolist() == pytest.approx([1.10, -1.64, 1.22])
    assert [result["epochs"] for result in run_benchmark(config, [0, 1, 2])] == [2, 2, 2]


def test_molecules_that_cannot_be_parsed_are_counted_and_listed(tmp_path: Path, run: Run) -> None:
    raw = smiles_csv(tmp_path)
    edit(tmp_path, "mine.csv", "CC#N", "C1CC")  # an open ring
    edit(tmp_path, "mine.csv", "m7,CC=C", "m7,")
    code, _, err = run(raw)
    assert code == 0
    assert "2 of 12 molecules cannot be parsed" in err
    assert "line 5: 'C1CC'" in err
    (listed,) = (tmp_path / "cache").glob("*.skipped.txt")
    assert [line.split(": ")[1] for line in listed.read_text().splitlines()] == ["line 5", "line 9"]


@pytest.mark.parametrize(
    ("make", "names", "wanted"),
    [
        (smiles_csv, ["train"] * 6 + ["valid"] * 3 + ["test"] * 3, [range(5), range(5, 8), range(8, 11)]),
        (graph_csv, ["train"] * 9 + ["val"] * 9 + ["test"] * 21 + [""], [range(9), range(9, 18), range(18, 39)]),
    ],
)
def test_a_column_may_hold_the_split(make: Make, names: list[str], wanted: list[range], tmp_path: Path) -> None:
    raw = make(tmp_path) | {"split_column": "part"}
    lines = (tmp_path / "mine.csv").read_text().splitlines()
    (tmp_path / "mine.csv").write_text("".join(f"{a},{b}\n" for a, b in zip(lines, ["part", *names], strict=True)))
    if make is smiles_csv:
        edit(tmp_path, "mine.csv", "c1ccccc1", "c1ccccc")  # cannot be parsed: the rows that follow move up
    loaded = load_own(tmp_path, raw)
    split = choose_split(loaded.dataset, loaded.graphs, loaded.splits, 0)
    assert [part.tolist() for part in split] == [list(rows) for rows in wanted]


def test_molecules_of_one_scaffold_stay_together(tmp_path: Path) -> None:
    """Ten benzenes, three pyridines, two cyclohexanes, and three alone."""
    rings = ["c1ccccc1" + "C" * i for i in range(10)] + ["c1ccncc1" + "C" * i for i in range(3)]
    rings += ["C1CCCCC1", "C1CCCCC1C", "c1ccsc1", "C1CC1", "c1ccoc1", "C1CCC1", "c1ccc2ccccc2c1"]
    rows = "".join(f"m{i},{text},{i}.5,{i % 2}\n" for i, text in enumerate(rings))
    raw = smiles_csv(tmp_path) | {"split": "scaffold"}
    (tmp_path / "mine.csv").write_text("name,smiles,solubility,toxic\n" + rows)
    loaded = load_own(tmp_path, raw)
    assert [part.tolist() for part in loaded.splits[0]] == [[*range(15), 15], [16, 17], [18, 19]]


def test_nodes_and_edges_of_a_csv(tmp_path: Path) -> None:
    raw = graph_csv(tmp_path)
    found = load_own(tmp_path, raw).graphs
    assert sorted(found.edge_index.T.tolist()) == sorted(both_ways(ring(NODES)).T.tolist())
    assert found.y.tolist() == [i % 3 for i in range(NODES)]
    assert found.x.shape == (NODES, 3)  # all numbers but the label
    (tmp_path / "edges.csv").write_text("source,target,weight\nn0,n1,1\nn1,n0,3\nn2,n1,5\nn3,n3,9\nn2,n1,7\n")
    weights = raw | {"edge_features": ["weight"], "features": ["b"]}
    both = load_own(tmp_path, weights).graphs
    assert both.edge_index.T.tolist() == [[0, 1], [1, 0], [1, 2], [1, 2], [2, 1], [2, 1], [3, 3]]
    assert both.edge_attr.flatten().tolist() == [1.0, 3.0, 5.0, 7.0, 5.0, 7.0, 9.0]
    one_way = load_own(tmp_path, weights | {"directed": True}).graphs
    assert one_way.edge_index.T.tolist() == [[0, 1], [1, 0], [2, 1], [2, 1], [3, 3]]
    assert one_way.edge_attr.flatten().tolist() == [1.0, 3.0, 5.0, 7.0, 9.0]


def test_ids_keep_all_their_digits_and_may_be_words(tmp_path: Path) -> None:
    """An empty line at the end of the edges must not turn them into numbers of double precision."""
    raw = graph_csv(tmp_path)
    ids = [10**17 + i for i in range(NODES)]
    (tmp_path / "mine.csv").write_text("name,kind,a\n" + "".join(f"{n},{n % 3},0.5\n" for n in ids))
    (tmp_path / "edges.csv").write_text(f"source,target\n{ids[0]},{ids[1]}\n{ids[1]},{ids[2]}\n\n")
    assert load_own(tmp_path, raw).graphs.edge_index.T.tolist() == [[0, 1], [1, 0], [1, 2], [2, 1]]
    edit(tmp_path, "edges.csv", f"{ids[2]}\n\n", f"{ids[2]}\n{ids[2]},last\n")
    with pytest.raises(SSTCastError, match=f"line 4: {ids[2]} - last: no such node"):
        load_own(tmp_path, raw)
    edit(tmp_path, "mine.csv", str(ids[39]), "last")
    assert load_own(tmp_path, raw).graphs.edge_index.T.tolist()[-2:] == [[2, 39], [39, 2]]


def test_ids_are_text_whatever_they_look_like(tmp_path: Path) -> None:
    """Namibia's code is NA, and the stops 035 and 35 differ."""
    raw = graph_csv(tmp_path)
    ids = ["NA", "035", "35", "1e3", "None", *(f"A{i}" for i in range(5, NODES))]
    rows = "".join(f"{name},{i % 3},0.5\n" for i, name in enumerate(ids))
    (tmp_path / "mine.csv").write_text("name,kind,a\n" + rows)
    (tmp_path / "edges.csv").write_text("source,target\nNA,035\n35, 1e3\nNone,A5\n")
    pairs = [[0, 1], [1, 0], [2, 3], [3, 2], [4, 5], [5, 4]]
    assert load_own(tmp_path, raw).graphs.edge_index.T.tolist() == pairs
    assert load_own(tmp_path, raw).graphs.x.shape == (NODES, 1)
    edit(tmp_path, "edges.csv", "None,A5", "NA,")
    with pytest.raises(SSTCastError, match=r"edges\.csv: line 4: no id in the column 'target'"):
        load_own(tmp_path, raw)
    edit(tmp_path, "edges.csv", "NA,\n", "1000,NA\n")
    with pytest.raises(SSTCastError, match="line 4: 1000 - NA: no such node"):
        load_own(tmp_path, raw)
    edit(tmp_path, "mine.csv", "\n35,", "\n,")
    with pytest.raises(SSTCastError, match=r"mine\.csv: line 4: no id in the column 'name'"):
        load_own(tmp_path, raw)


def test_ids_that_became_floats_are_matched_and_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    raw, line = graph_csv(tmp_path), "edges.csv: ids are matched with those of "
    pairs = [[0, 1], [1, 0], [2, 3], [3, 2]]
    for id_end, edge_end in (("", ".0"), (".0", "")):
        rows = "".join(f"{i}{id_end},{i % 3},0.5\n" for i in range(NODES))
        (tmp_path / "mine.csv").write_text("name,kind,a\n" + rows)
        (tmp_path / "edges.csv").write_text(f"source,target\n0{edge_end},1{edge_end}\n2,3{edge_end}\n")
        with caplog.at_level("INFO", "sstcast"):
            assert load_own(tmp_path, raw).graphs.edge_index.T.tolist() == pairs
        assert caplog.text.count(line) == 1
        caplog.clear()
    edit(tmp_path, "mine.csv", "\n4.0,", "\n3,")  # 3 and 3.0 differ, as text does
    with caplog.at_level("INFO", "sstcast"), pytest.raises(SSTCastError, match=r"line 2: 0 - 1: no such node"):
        load_own(tmp_path, raw)
    edit(tmp_path, "edges.csv", "0,1\n2,", "0.0,1.0\n2.0,")
    with caplog.at_level("INFO", "sstcast"):
        assert load_own(tmp_path, raw).graphs.edge_index.T.tolist() == [[0, 1], [1, 0], [2, 4], [4, 2]]
    assert line not in caplog.text


def test_nodes_without_ids_are_numbered(tmp_path: Path) -> None:
    raw = graph_csv(tmp_path)
    del raw["id"]
    (tmp_path / "edges.csv").write_text("source,target\n0,1\n02,3.0\n")
    assert load_own(tmp_path, raw).graphs.edge_index.T.tolist() == [[0, 1], [1, 0], [2, 3], [3, 2]]


def test_the_name_of_a_user_s_data_does_not_matter(tmp_path: Path) -> None:
    """A file named like a paper's data set gets neither its settings nor its scores."""
    raw = graph_csv(tmp_path)
    for name in ("mine", "cora"):
        (tmp_path / f"{name}.yaml").write_text(yaml.safe_dump(raw))
    mine, cora = (load_benchmark(str(tmp_path / f"{name}.yaml"), "lsat") for name in ("mine", "cora"))
    assert cora.model_copy(update={"dataset": "mine"}) == mine
    assert published(cora.model_copy(update={"dataset": "Cora"})) is None
    assert published(load_benchmark("cora", "lsat")) is not None
    assert load_benchmark(str(tmp_path / "mine.yaml"), "lsat", tmp_path / "elsewhere") == mine
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(raw | {"name": "../mine"}))
    with pytest.raises(SSTCastError, match="dataset"):
        load_benchmark(str(tmp_path / "mine.yaml"), "lsat")


def test_a_processed_dataset_of_pyg_opens(tmp_path: Path) -> None:
    """`InMemoryDataset.save` writes such files."""
    InMemoryDataset.save(graphs(20), str(tmp_path / "mine.pt"))
    found = load_own(tmp_path, {"kind": "pyg", "path": "mine.pt"}).graphs
    assert found.nodes.tolist() == [data.num_nodes for data in graphs(20)]
    assert found.y.tolist() == [int(data.y) for data in graphs(20)]


def test_a_test_score_that_is_not_defined_is_no_result(tmp_path: Path, run: Run) -> None:
    graph = Data(x=torch.randn(NODES, 2), edge_index=torch.from_numpy(ring(NODES)), y=torch.arange(NODES) % 2)
    number = torch.arange(NODES)
    graph.train_mask, graph.val_mask, graph.test_mask = number < 20, (number >= 20) & (number < 30), number == 31
    torch.save([graph], tmp_path / "mine.pt")
    code, _, err = run({"kind": "pyg", "path": "mine.pt", "metric": "roc-auc", "task": "node-classification"})
    assert code == 2
    assert "roc-auc of the test split is not defined" in err
    assert not list((tmp_path / "runs").rglob("metrics.json"))


@pytest.mark.parametrize(
    ("make", "change", "words"),  # other keys, a changed text, or the content of a file
    [
        (smiles_csv, {"targets": ["logS"]}, "mine.csv: no column 'logS'; it has name, smiles, solubility, toxic"),
        (smiles_csv, b"", "mine.csv: cannot be read (No columns to parse from file)"),
        (smiles_csv, ("mine.csv", "m4,", "m2,"), "mine.csv: line 6: the id 'm2' is not unique"),
        (smiles_csv, ("mine.csv", "3.5", "high"), "mine.csv: line 2, column 'solubility': 'high' is not a number"),
        (smiles_csv, {"task": "multi-label"}, "line 2, column 'solubility': label 3.5, which is not 0, 1"),
        (smiles_csv, {"smiles": "name"}, "mine.csv: no molecule can be parsed"),
        (graph_csv, ("edges.csv", "n3,n4", "n3,n99"), "edges.csv: line 5: n3 - n99: no such node"),
        (graph_csv, ("mine.csv", "n7,1,0.", "n7,1,-1e999"), "mine.csv: node 7: feature 0 is -inf, which is not a"),
        (smiles_csv, ("mine.csv", "3.5", '"-1,5"'), "'-1,5' is not a number; write numbers with a decimal point"),
        (smiles_csv, b"name;smiles;solubility\na;CCO;-1,5\n", "mine.csv: separated by semicolons; save it with"),
        (smiles_csv, b"name\tsmiles\na\tCCO\n", "mine.csv: separated by tabs; save it with commas"),
        (
            graph_csv,
            ("mine.csv", "n3,0", "n3,rock"),
            "column 'kind': 'rock' is not a number; number the classes fr",
        ),
        (graph_csv, {"split_column": "name"}, "mine.csv: line 2: 'n0' is not a part of a split"),
        (graph_csv, {"task": "colour"}, "task: no 'colour'"),
        (graph_csv, {"kind": "memory"}, "mine.yaml: kind: give smiles_csv, graph_csv or pyg"),
        (lambda folder: {"kind": "pyg", "path": "mine.pt"}, b"PK\3\4", "mine.pt: damaged, or a pickle"),
    ],
)
def test_unusable_data_are_refused(make: Make, change: Any, words: str, tmp_path: Path, run: Run) -> None:
    raw = make(tmp_path)
    if isinstance(change, bytes):
        (tmp_path / raw["path"]).write_bytes(change)
    elif isinstance(change, tuple):
        edit(tmp_path, *change)
    code, _, err = run(raw | change if isinstance(change, dict) else raw)
    assert code == 2
    assert err.count("\n") == 1
    assert words in err

"""Data sets without a declaration: classes of PyG and OGB by name, and graphs in memory."""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from small_raw import NODES, SMILES, both_ways, graphs, ring, write
from torch_geometric import datasets as pyg
from torch_geometric.data import Batch, Data, HeteroData, InMemoryDataset

import sstcast
from sstcast.benchmarks.config import load_benchmark
from sstcast.benchmarks.load import LoadedDataset, load
from sstcast.benchmarks.packed import Split
from sstcast.benchmarks.registry import ATOMS, BONDS, find_dataset
from sstcast.benchmarks.splits import MASKS, choose_split
from sstcast.errors import SSTCastError
from sstcast.models.layers import CONVS
from sstcast.storage.yaml_files import read_config

SMALL = ["model.width=8", "model.layers=1", "training.epochs=1", "training.batch_size=4", "training.device=cpu"]


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("Planetoid:Cora", "Cora"),
        ("Planetoid:citeseer", "CiteSeer"),
        ("TU:MUTAG", "MUTAG"),
        ("TUDataset:NCI1", "NCI1"),
        ("LRGBDataset:Peptides-func", "LRGB:Peptides-func"),
        ("Amazon:Photo", "amazon-photo"),
        ("MalNetTiny", "MalNet-Tiny"),
    ],
)
def test_a_paper_s_set_has_one_declaration_under_either_name(name: str, known: str) -> None:
    assert find_dataset(name) == find_dataset(known)
    assert find_dataset(name).name == known


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("nonsense", "no data set 'nonsense'"),
        ("Planetoid", "known: Cora, CiteSeer, PubMed"),
        ("WikiCS:Cora", "known: wikics"),
        ("Plantoid:Cora", "did you mean 'planetoid'"),
        ("Amazon:Nonsense", "no data set 'Amazon:Nonsense'; known: amazon-computers"),
        ("Planetoid:Corra", "did you mean 'Cora'"),
        ("ogbg-nonsense", "no data set 'ogbg-nonsense'"),
        ("ogbn-mag", "not supported"),
        ("ogbl-collab", "ogbl-collab: not supported"),
    ],
)
def test_unknown_names_are_refused_in_one_line(name: str, words: str) -> None:
    with pytest.raises(SSTCastError, match=words) as error:
        find_dataset(name)
    assert "\n" not in str(error.value)


def test_all_of_ogb_is_declared_by_its_own_table() -> None:
    solubility, proteins = find_dataset("ogbg-molesol"), find_dataset("ogbn-proteins")
    assert (solubility.task, solubility.metric) == ("graph-regression", "rmse")
    assert (solubility.node, solubility.edge, solubility.folder) == (ATOMS, BONDS, "ogbg_molesol")
    assert find_dataset("ogbg-moltox21").task == "multi-label"
    assert (proteins.task, proteins.metric, proteins.node) == ("node-classification", "roc-auc", "")


def test_any_set_in_tudataset_s_form_opens(tmp_path: Path) -> None:
    write(find_dataset("PROTEINS"), tmp_path)
    folder = tmp_path / "TUDataset"
    shutil.copytree(folder / "PROTEINS", folder / "ENZYMES")
    for path in (folder / "ENZYMES/raw").iterdir():
        path.rename(path.with_name(path.name.replace("PROTEINS", "ENZYMES")))
    found = [load(find_dataset(name), tmp_path, tmp_path / "cache") for name in ("TU:ENZYMES", "PROTEINS")]
    assert found[0].digest == found[1].digest
    assert find_dataset("TU:ENZYMES").split == "random:0.7/0.15/0.15"
    assert find_dataset("TU:QM9").task == "graph-regression"


@pytest.mark.parametrize(
    ("file", "words"),
    [("graph_labels", "y has 11 rows instead of 12"), ("node_labels", "x has 59 rows instead of 60")],
)
def test_files_that_are_too_short_are_refused(file: str, words: str, tmp_path: Path) -> None:
    """PyG's class reads them, and fails only when the missing graph is used."""
    write(find_dataset("MUTAG"), tmp_path)
    path = tmp_path / f"TUDataset/MUTAG/raw/MUTAG_{file}.txt"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:-1]))
    with pytest.raises(SSTCastError, match=f"MUTAG: cannot be read .{words}"):
        load(find_dataset("MUTAG"), tmp_path, tmp_path / "cache")


def load_memory(source: Any, *overrides: str) -> LoadedDataset:
    config = load_benchmark(None, "gcn", None, list(overrides))
    return load(config.declaration, config.root, config.cache, source=source)


def split_of(loaded: LoadedDataset) -> Split:
    return choose_split(loaded.dataset, loaded.graphs, loaded.splits, 0)


def test_a_class_of_pyg_is_understood(tmp_path: Path) -> None:
    raw = tmp_path / "MoleculeNet/esol/raw/delaney-processed.csv"
    raw.parent.mkdir(parents=True)
    raw.write_text("header\n" + "".join(f"a,0,0,0,0,0,0,0,{i + 0.5},{text}\n" for i, text in enumerate(SMILES)))
    dataset = find_dataset("MoleculeNet:esol")
    loaded = load(dataset, tmp_path, tmp_path / "cache")
    theirs = list(pyg.MoleculeNet(str(tmp_path / "MoleculeNet"), "esol"))
    complete = loaded.dataset
    assert (complete.task, complete.metric, complete.split) == ("graph-regression", "rmse", "random:0.8/0.1/0.1")
    assert isinstance(complete.node, tuple)
    assert complete.node == tuple((torch.cat([d.x for d in theirs]).amax(0) + 1).tolist())
    assert loaded.graphs.y.flatten().tolist() == [float(d.y) for d in theirs]
    assert loaded.graphs.nodes.tolist() == [d.num_nodes for d in theirs]
    by_scaffold = load(replace(dataset, split="scaffold"), tmp_path, tmp_path / "cache")
    assert by_scaffold.splits


@pytest.mark.parametrize(
    ("y", "task", "metric"),
    [
        (lambda d, i: torch.tensor([i % 2]), "graph-classification", "accuracy"),
        (lambda d, i: i % 2, "graph-classification", "accuracy"),
        (lambda d, i: torch.tensor([i + 0.5]), "graph-regression", "mae"),
        (lambda d, i: torch.tensor([[i + 0.5, 1.0]]), "graph-regression", "mae"),
        (lambda d, i: torch.tensor([[1.0, torch.nan, float(i % 2)]]), "multi-label", "ap"),
        (lambda d, i: torch.arange(d.num_nodes) % 2, "node-classification", "accuracy"),
        (lambda d, i: torch.arange(d.num_nodes) / 8, "node-regression", "mae"),
        (lambda d, i: torch.eye(d.num_nodes)[:, :2], "node-classification", "roc-auc"),
    ],
)
def test_the_task_of_graphs_in_memory_is_inferred(y: Any, task: str, metric: str) -> None:
    complete = load_memory(graphs(y=y)).dataset
    assert (complete.task, complete.metric, complete.node, complete.edge) == (task, metric, "linear", "none")


def test_graphs_in_memory_train(tmp_path: Path) -> None:
    class Rings(InMemoryDataset):
        def __init__(self) -> None:
            super().__init__()
            self.data, self.slices = self.collate(graphs())

    keys = [*SMALL, f"runs={tmp_path / 'runs'}", f"cache={tmp_path / 'cache'}", "split=50/25/25"]
    ours = Rings()
    (first,) = sstcast.benchmark(ours, "gps", overrides=keys)
    assert first["dataset"].startswith("Rings-")
    assert first["metric"] == "accuracy"
    assert sstcast.benchmark(list(ours), "gps", overrides=keys)[0]["dataset"].startswith("graphs-")
    assert sstcast.benchmark(ours, "gps", overrides=keys) == [first]
    (other,) = sstcast.benchmark(ours[:11], "gps", overrides=keys)  # another run, named by its content
    assert other["dataset"] != first["dataset"]
    assert len(list((tmp_path / "runs").iterdir())) == 3
    assert load_memory(ours, "data.metric=roc-auc").dataset.metric == "roc-auc"


@pytest.mark.parametrize(
    ("name", "folder"), [("Zachary's Karate Club", "Zachary-s-Karate-Club"), ("../up", "up"), ("空手", "graphs")]
)
def test_a_graph_may_have_any_name(name: str, folder: str, tmp_path: Path) -> None:
    index = torch.from_numpy(both_ways(ring(NODES)))
    graph = Data(x=torch.randn(NODES, 2), edge_index=index, y=torch.arange(NODES) % 2, name=name)
    (result,) = sstcast.benchmark(graph, "gcn", overrides=[*SMALL, f"runs={tmp_path}"])
    assert result["dataset"].rpartition("-")[0] == folder


def test_unused_attributes_may_differ() -> None:
    ours, plain = graphs(), graphs()
    for data, other in zip(ours, plain, strict=True):
        other.x = data.x
    ours[3].pos, ours[0].name = torch.ones(ours[3].num_nodes, 3), "the first"
    assert load_memory(ours).digest == load_memory(plain).digest
    parts = [dict(zip(INDICES, (one[:6], one[6:9], one[9:]), strict=True)) for one in (ours, plain)]
    assert load_memory(parts[0]).digest == load_memory(parts[1]).digest
    for data in parts[1]["test"]:
        data.num_nodes, data.x = len(data.x), None
    with pytest.raises(SSTCastError, match="part 2 and part 0 do not have the same columns of x"):
        load_memory(parts[1])


CLASSES = "task=graph-classification"
INDICES = {"train": [0, 2, 4, 5], "validation": [1, 3], "test": [6, 7]}


@pytest.mark.parametrize("form", ["indices", "masks", "lists", "masks of graphs", "file"])
def test_many_graphs_may_have_a_split_of_their_own(form: str, tmp_path: Path) -> None:
    ours: Any = graphs(8)
    wanted = list(INDICES.values())
    masks = {name: torch.isin(torch.arange(8), torch.tensor(rows)) for name, rows in INDICES.items()}
    if form == "lists":
        ours = {"train": ours[:4], "val": ours[4:6], "test": ours[6:]}
        wanted = [[0, 1, 2, 3], [4, 5], [6, 7]]
    elif form == "masks of graphs":
        for i, one in enumerate(ours):
            one.update({name: mask[i] for name, mask in zip(MASKS.values(), masks.values(), strict=True)})
    else:
        ours = {"graphs": ours} | (masks if form == "masks" else INDICES)
    if form == "file":
        torch.save(ours, tmp_path / "mine.pt")
        (tmp_path / "mine.yaml").write_text("kind: pyg\npath: mine.pt\n")
        loaded = load(load_benchmark(str(tmp_path / "mine.yaml"), "gin").declaration, Path(), tmp_path)
    else:
        loaded = load_memory(ours)
    assert loaded.dataset.split == "official"
    assert [part.tolist() for part in split_of(loaded)] == wanted


def test_masks_without_validation_need_a_split() -> None:
    """`EllipticBitcoinDataset` has such masks."""
    (one,) = graphs(1, y=lambda d, i: torch.arange(d.num_nodes) % 2)
    one.train_mask, one.test_mask = torch.arange(4) < 2, torch.arange(4) > 2
    for overrides in ([], ["split=official"]):
        with pytest.raises(SSTCastError, match=r"has no validation part; add it, .* set split=70/15/15"):
            load_memory(one, *overrides)
    assert load_memory(one, "split=50/25/25").splits == []


def numbered_graph(**attributes: Any) -> Data:
    data = Data(x=torch.randn(NODES, 2), edge_index=torch.from_numpy(both_ways(ring(NODES))))
    return data.update({"y": torch.arange(NODES) % 3} | attributes)


ORDER = torch.randperm(NODES, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("validation", ["val_idx", "valid_idx"])
@pytest.mark.parametrize("form", [torch.Tensor.clone, torch.Tensor.numpy, torch.Tensor.tolist])
def test_numbers_of_nodes_are_the_split_of_a_graph(validation: str, form: Any) -> None:
    names = ("train_idx", validation, "test_idx")
    parts = ORDER[:25], ORDER[25:30], ORDER[30:]
    one = numbered_graph(**{name: form(part) for name, part in zip(names, parts, strict=True)})
    loaded = load_memory(one)
    assert loaded.dataset.split == "official"
    assert all(map(torch.equal, split_of(loaded), parts))
    for name, part in zip(MASKS.values(), parts, strict=True):
        one[name] = torch.isin(torch.arange(NODES), part)
    assert [set(part.tolist()) for part in split_of(load_memory(one))] == [set(part.tolist()) for part in parts]
    one.test_mask[parts[2][0]] = False
    with pytest.raises(SSTCastError, match="train_mask and train_idx are different splits; delete one"):
        load_memory(one)
    assert load_memory(numbered_graph(train_idx=ORDER[:3])).splits == []
    with pytest.raises(SSTCastError, match="has no validation part"):
        load_memory(numbered_graph(train_idx=ORDER[:25], test_idx=ORDER[30:]))


def test_what_may_not_be_as_meant_is_said_before_training(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    y = (torch.arange(NODES) % 3).double()
    y[::4] = torch.nan
    keys = [*SMALL, f"runs={tmp_path}"]
    sstcast.benchmark(numbered_graph(y=y), "gcn", overrides=keys)
    line = (
        "3 different whole numbers and 10 NaN, taken as regression; for classes set data.task=node-classification"
    )
    assert line in capsys.readouterr().out
    sstcast.benchmark(numbered_graph(y=y), "gcn", overrides=[*keys, "data.task=node-regression"])
    sstcast.benchmark(numbered_graph(y=y + 0.5), "gcn", overrides=keys)
    assert "taken as regression" not in capsys.readouterr().out
    rare = torch.arange(NODES) % 2
    rare[-2:] = 5
    parts = {"train_idx": [*range(25)], "val_idx": [*range(25, 30)], "test_idx": [*range(30, NODES)]}
    sstcast.benchmark(numbered_graph(y=rare, **parts), "gcn", overrides=keys)
    assert "absent from training, class (samples): 5 (2)\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ([], r"graphs: cannot be read \(no graphs\); give a list"),
        (1, "'int' object is not iterable.; give a list of"),
        ([1, 2], "graph 0 is int, not torch_geometric.data.Data"),
        (graphs(y=lambda d, i: "one"), "graphs: every graph must have labels y, .*; number the classes from 0"),
        (graphs(y=lambda d, i: torch.tensor([2 * (i % 2) - 1])), "all known labels are 1; number the classes"),
        (graphs(60, y=lambda d, i: torch.tensor([i])), "did you mean data.task=graph-regression"),
        ([Data(x=torch.ones(2, 1), y=torch.tensor([1]))] * 2, "edge_index must be a dense tensor"),
        ([Data(x=torch.ones(2, 1), edge_index=torch.tensor([[0], [1]]))], "some graphs have no labels y"),
        (
            graphs(edge_attr=lambda d, i: torch.ones(d.num_edges, 1 + i // 5)),
            "graph 5 .* columns of edge_attr",
        ),
        (HeteroData(), "graph 0 is HeteroData, not"),
        (Batch.from_data_list(graphs()), "graph 0 is DataBatch, not"),
        (graphs(1), "a label for each of its 4 nodes, and y has 1"),
        (
            [graphs(1, y=lambda d, i: torch.randn(4))[0]] * 60,
            "each graph has 4 nodes and as many labels: set data",
        ),
        (graphs(**dict.fromkeys(("y", *MASKS.values()), lambda d, i: d.x[:, 0] > 0)), "nodes of many graphs"),
        (graphs(edge_index=lambda d, i: d.edge_index + (i == 5)), "graph 5: an edge's node is not one of its 6"),
        (graphs(edge_index=lambda d, i: d.edge_index.float()), "edge_index must be a dense tensor"),
        (graphs(edge_index=lambda d, i: d.edge_index.t()), r"graph 0: edge_index is \[edges, 2\].*; transpose it"),
        (
            [Data(x=d.x, y=d.y, adj_t=d.edge_index) for d in graphs()],
            "graph 0 has adj_t in place of edge_index; leave out",
        ),
        (graphs(x=lambda d, i: d.x.to_sparse()), r"x must be a tensor \[rows, columns\] of real numbers"),
        (graphs(x=lambda d, i: d.x[:, :, None]), "x must be a tensor"),
        ({"graphs": graphs(8), "train": [0.5, 1], "val": [2], "test": [3]}, "whole numbers of samples"),
        ({"graphs": graphs(8), "train": [0, 1, 2], "val": [2, 3], "test": [4]}, "sample 2 more than once"),
        ({"graphs": graphs(8), "train": [0, 1, 2], "val": [3], "test": [8]}, r"the sample 8, but there are 0"),
        ({"graphs": graphs(8), "train": [0, 1, 2], "val": [3], "test": []}, "none of 8 samples into test"),
        ({"graphs": graphs(8)} | dict.fromkeys(INDICES, [True] * 7), "a mask has 7 samples instead of 8"),
    ],
)
def test_unusable_graphs_in_memory_are_refused(data: Any, words: str) -> None:
    with pytest.raises(SSTCastError, match=words):
        split_of(load_memory(data))


@pytest.mark.parametrize(
    ("changes", "overrides", "words"),
    [
        ({"y": lambda d, i: i}, [CLASSES, "classes=3"], r"graph 3: label 3, .* 0\.\.2, or -1"),
        ({"y": lambda d, i: i - 2}, [CLASSES], "graph 0: label -2, .*task=graph-regression"),
        ({"y": lambda d, i: 2.0 * i}, [CLASSES, "metric=ap"], "graph 1: label 2, which is not 0, 1 or missing"),
        ({"y": lambda d, i: 1e300 * i}, [], "graph 1: label inf, which is not a finite number"),
        ({"x": lambda d, i: 0 * d.x + i}, ["node=[4, 5]"], "graph 4, node 0: feature 0 is 4, which is not"),
        ({"x": lambda d, i: torch.nan * d.x}, [], "graph 0, node 0: feature 0 is nan, which is not a finite"),
        ({}, ["node=[4]"], "node features do not have the 1 columns declared"),
        ({}, ["edge=linear"], "no edge features; declare edge: none"),
    ],
)
def test_values_that_are_not_as_declared_are_named(changes: Any, overrides: list[str], words: str) -> None:
    with pytest.raises(SSTCastError, match=words):
        load_memory(graphs(**changes), *(f"data.{key}" for key in overrides))


@pytest.mark.parametrize(("task", "shape"), [("graph-regression", (60, 4)), ("node-regression", (240, 1))])
def test_as_many_labels_as_nodes_are_what_the_user_says(task: str, shape: tuple[int, int]) -> None:
    ours = [graphs(1, y=lambda d, i: torch.randn(4))[0] for _ in range(60)]
    assert load_memory(ours, f"data.task={task}").graphs.y.shape == shape


def test_a_path_names_a_yaml(tmp_path: Path) -> None:
    torch.save(graphs(), tmp_path / "mine.pt")
    (tmp_path / "mine.yaml").write_text("kind: pyg\npath: mine.pt\n")
    keys = [*SMALL, f"runs={tmp_path / 'runs'}", f"cache={tmp_path / 'cache'}"]
    (result,) = sstcast.benchmark(tmp_path / "mine.yaml", "gin", overrides=keys)
    assert sstcast.benchmark(str(tmp_path / "mine.yaml"), "gin", overrides=keys) == [result]
    with pytest.raises(SSTCastError, match=r"write to mine\.yaml the line \{kind: pyg, path: mine\.pt\}"):
        sstcast.benchmark(tmp_path / "mine.pt", "gin", overrides=keys)


def test_test_samples_are_those_with_a_label(tmp_path: Path) -> None:
    data = words_on_a_ring(5, 9)
    data.y[20:] = -1
    (result,) = sstcast.benchmark(data, "gin", overrides=[*SMALL, f"runs={tmp_path}", f"cache={tmp_path}"])
    assert result["test_samples"] == 10
    nodes = [one.update({"y": torch.tensor([0, 1] * 4)[: one.num_nodes]}) for one in graphs(30)]
    nodes[-1].y[:], nodes[-2].y[1:] = -1, -1
    given = {"graphs": nodes, "train": [*range(20)], "validation": [20, 21], "test": [*range(22, 30)]}
    keys = [*SMALL, f"runs={tmp_path}", f"cache={tmp_path}", "data.task=node-classification"]
    assert sstcast.benchmark(given, "gin", overrides=keys)[0]["test_samples"] == 7


def test_targets_without_a_training_label_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ours = graphs(30, y=lambda data, i: torch.randn(1, 3))
    for i in range(20):
        ours[i].y[0, 1] = torch.nan
    given = {"graphs": ours, "train": [*range(20)], "validation": [20, 21], "test": [*range(22, 30)]}
    sstcast.benchmark(given, "gin", overrides=[*SMALL, f"runs={tmp_path}", f"cache={tmp_path}"])
    assert "scored without a training label, column: 1\n" in capsys.readouterr().out


@pytest.mark.parametrize("seeds", [[], [-1], [0, 0]])
def test_wrong_seeds_are_refused(seeds: list[int]) -> None:
    with pytest.raises(SSTCastError, match=r"write 0\.\.4"):
        sstcast.benchmark(graphs(), "gin", seeds=seeds)


@pytest.mark.parametrize(("unknown", "dtype"), [(-1, torch.long), (torch.nan, torch.float)])
def test_training_samples_without_a_label_are_refused(unknown: float, dtype: torch.dtype, tmp_path: Path) -> None:
    data = words_on_a_ring(5, 9)
    data.y = torch.where(data.train_mask, unknown, torch.arange(30) / 7 if dtype.is_floating_point else data.y)
    data.y = data.y.to(dtype)
    with pytest.raises(SSTCastError, match="no label of the training samples is known"):
        sstcast.benchmark(data, "gcn", overrides=[*SMALL, f"runs={tmp_path / 'runs'}"])


def defaults(loaded: LoadedDataset) -> list[Any]:
    config = load_benchmark(None, "gcn", None, [], loaded.dataset)
    return [config.model, config.predictor, config.training]


def words_on_a_ring(features: int, labelled: int) -> Data:
    x = (torch.rand(30, features, generator=torch.Generator().manual_seed(0)) < 0.1).float()
    edges = torch.stack([torch.arange(30), torch.arange(1, 31) % 30])
    part = torch.arange(30)
    masks = {"train_mask": part < labelled, "val_mask": part == labelled, "test_mask": part > labelled}
    return Data(x=x, edge_index=edges, y=torch.arange(30) % 2, **masks)


@pytest.mark.parametrize(
    ("features", "labelled", "like"), [(1433, 2, "CiteSeer"), (1433, 9, "WebKB:Cornell"), (7, 2, "roman-empire")]
)
def test_a_graph_in_memory_trains_like_a_similar_set_with_a_name(features: int, labelled: int, like: str) -> None:
    theirs = load_benchmark(like, "gcn", None, [])
    ours = defaults(load_memory(words_on_a_ring(features, labelled)))
    assert ours == [theirs.model, theirs.predictor, theirs.training]


@pytest.mark.parametrize("data", [graphs(), words_on_a_ring(1433, 2)], ids=["many", "one"])
def test_graphs_in_a_file_train_as_in_memory(data: Any, tmp_path: Path) -> None:
    """The defaults depend on the labels, and no key of the YAML describes them."""
    torch.save(data, tmp_path / "mine.pt")
    (tmp_path / "mine.yaml").write_text("kind: pyg\npath: mine.pt\n")
    keys = [*SMALL[2:], f"runs={tmp_path / 'runs'}", f"cache={tmp_path / 'cache'}"]
    (result,) = sstcast.benchmark(str(tmp_path / "mine.yaml"), "gcn", overrides=keys)
    saved = read_config(tmp_path / "runs/mine/gcn/seed-0/config.yaml")
    loaded = load_memory(data)
    assert result["data"]["graphs"] == loaded.digest
    assert [saved["model"], saved["predictor"]] == [part.model_dump() for part in defaults(loaded)[:2]]


@pytest.mark.parametrize("labelled", [2, 9])
@pytest.mark.parametrize("reader", ["bool", "int", "numbers", "lists", "csv"])
def test_words_are_words_whatever_the_reader_the_dtype_and_the_split(
    labelled: int, reader: str, tmp_path: Path
) -> None:
    data = words_on_a_ring(128, labelled)
    wanted = defaults(load_memory(data))
    names = {"train": "train", "val": "validation", "test": "test"}
    rows = {name: data[f"{part}_mask"].nonzero().flatten() for part, name in names.items()}
    bare = Data(x=data.x, edge_index=data.edge_index, y=data.y)
    if reader == "csv":
        table = pd.DataFrame(data.x.int().numpy(), columns=[f"w{i}" for i in range(128)])
        table["kind"], table["part"] = data.y.numpy(), ""
        for name, numbers in rows.items():
            table.loc[numbers.numpy(), "part"] = name
        table.to_csv(tmp_path / "nodes.csv", index=False)
        pd.DataFrame(data.edge_index.T.numpy(), columns=["source", "target"]).to_csv(tmp_path / "edges.csv")
        keys = "kind: graph_csv, path: nodes.csv, edges: edges.csv, target: kind, split_column: part"
        (tmp_path / "mine.yaml").write_text(f"{{{keys}, task: node-classification}}")
        config = load_benchmark(str(tmp_path / "mine.yaml"), "gcn")
        found = load(config.declaration, config.root, tmp_path)
    elif reader == "numbers":
        found = load_memory({"graphs": [bare], **rows})
    elif reader == "lists":
        bare.update({f"{part}_idx": rows[name] for part, name in names.items()})
        found = load_memory(bare)
    else:
        data.x = data.x.to({"bool": torch.bool, "int": torch.int64}[reader])
        found = load_memory(data)
    assert found.dataset.node == "linear"
    assert defaults(found) == wanted
    assert torch.equal(found.graphs.x.float(), words_on_a_ring(128, labelled).x)


def test_few_labels_are_those_of_the_split_in_use() -> None:
    few, many = words_on_a_ring(128, 2), words_on_a_ring(128, 9)
    assert load_memory(few, "split=70/15/15").dataset.kind == "one-graph"
    assert load_memory(many, "split=5/15/80").dataset.kind == "few-labels"
    assert load_memory(many, "split=folds:3").dataset.kind == "one-graph"
    assert load_memory(many, "split=random:1-per-class").dataset.kind == "few-labels"


def test_rows_of_many_words_are_not_divided() -> None:
    """A node of Amazon has a third of all words."""
    few = words_on_a_ring(128, 2)
    assert defaults(load_memory(few))[1].normalise == "row"
    few.x = 1 - few.x
    assert defaults(load_memory(few))[1].normalise == "none"


@pytest.mark.parametrize("labelled", [2, 9])
@pytest.mark.parametrize("model", [*CONVS, "gcn-vn", "gps", "polynormer"])
def test_the_defaults_of_one_graph_suit_models(model: str, labelled: int, tmp_path: Path) -> None:
    keys = ["training.epochs=1", f"runs={tmp_path / 'runs'}", f"cache={tmp_path / 'cache'}", "split=official"]
    (result,) = sstcast.benchmark([words_on_a_ring(128, labelled)], model, overrides=keys)
    assert 0 <= result["test"] <= 1

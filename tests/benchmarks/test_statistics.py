"""The data sets at hand have the statistics that their authors publish."""

import os
import pickle
import shutil
from pathlib import Path

import pytest
from small_raw import raw_files

from sstcast.benchmarks.load import load
from sstcast.benchmarks.reading import check_raw, join
from sstcast.benchmarks.registry import find_dataset
from sstcast.benchmarks.splits import choose_split
from sstcast.benchmarks.tables import featurise, read_table

PROJECT = Path(__file__).parents[2]
PLACES = [os.environ.get("SSTCAST_GRAPHS", ""), PROJECT / "data/graphs", PROJECT.parent / "shared/data/graphs"]
ROOT = next((Path(place) for place in PLACES if place and Path(place).is_dir()), None)


@pytest.fixture(scope="module")
def linked(tmp_path_factory: pytest.TempPathFactory) -> Path | None:
    """A folder of links to the raw files, where PyG and OGB may write what they process."""
    if ROOT is None:
        return None
    raw, made = tmp_path_factory.mktemp("raw") / "graphs", shutil.ignore_patterns(".*", "processed")
    return shutil.copytree(ROOT.resolve(), raw, copy_function=os.symlink, ignore=made)


def need(name: str, root: Path | None) -> Path:
    """Return the folder of raw files, or skip."""
    if root is None or not all(path.exists() for path in raw_files(find_dataset(name), root)):
        pytest.skip(f"the raw files of {name} are not in data/graphs, nor where SSTCAST_GRAPHS says")
    return root


# graphs, nodes and directed edges a graph, columns of nodes and edges, classes, samples in train, validation, test
STATISTICS = {
    "Cora": (1, 2708, 10556, 1433, 0, 7, (140, 500, 1000)),
    "minesweeper": (1, 10_000, 2 * 39_402, 7, 0, 2, (5000, 2500, 2500)),
    "amazon-photo": (1, 7650, 238_162, 745, 0, 8, (4590, 1530, 1530)),
    "MUTAG": (188, 17.93, 39.59, 7, 4, 2, (132, 28, 28)),
    "PROTEINS": (1113, 39.06, 145.63, 4, 0, 2, (779, 167, 167)),
    "NCI1": (4110, 29.87, 64.60, 37, 0, 2, (2877, 617, 616)),
    "COX2_MD": (303, 26.28, 670.24, 7, 6, 2, (212, 46, 45)),
    "CSL": (150, 41.0, 164.0, 0, 0, 10, (90, 30, 30)),
    "ZINC": (12_000, 23.16, 49.83, 1, 1, None, (10_000, 1000, 1000)),
    "ogbg-molhiv": (41_127, 25.51, 54.94, 9, 3, 2, (32_901, 4113, 4113)),
}


@pytest.mark.parametrize("name", STATISTICS)
def test_published_statistics(name: str, tmp_path: Path, linked: Path | None) -> None:
    root = need(name, linked)
    loaded = load(find_dataset(name), root, tmp_path)
    dataset = loaded.dataset
    graphs, (count, nodes, edges, x, edge_attr, classes, parts) = loaded.graphs, STATISTICS[name]
    assert len(graphs) == count
    assert float(graphs.nodes.double().mean()) == pytest.approx(nodes, abs=0.005)
    assert float(graphs.edges.double().mean()) == pytest.approx(edges, abs=0.005)
    assert (0 if graphs.x is None else graphs.x.shape[1]) == x
    assert (0 if graphs.edge_attr is None else graphs.edge_attr.shape[1]) == edge_attr
    assert classes is None or len(graphs.y.unique()) == classes
    assert tuple(len(part) for part in choose_split(dataset, loaded.graphs, loaded.splits, 0)) == parts
    assert name != "ogbg-molhiv" or int(graphs.y.sum()) == 1443  # active molecules


def test_minesweeper_has_ten_splits_and_few_mines(tmp_path: Path, linked: Path | None) -> None:
    loaded = load(find_dataset("minesweeper"), need("minesweeper", linked), tmp_path)
    assert len(loaded.splits) == 10
    assert float(loaded.graphs.y.mean()) == pytest.approx(0.2, abs=0.001)


def test_peptides_by_their_table_and_every_fiftieth_molecule(linked: Path | None) -> None:
    """All 15,535 take a minute: here their number, labels and split, and the features of some."""
    dataset = find_dataset("peptides-func")
    folder = need("peptides-func", linked) / dataset.folder
    table_file, split_file = dataset.files
    table = read_table(folder / table_file, ["smiles"])
    assert len(table) == 15_535
    assert {len(text.split(",")) for text in table["labels"]} == {10}
    check_raw([folder / split_file], dataset.sha256)  # a pickle, and a known one
    split = pickle.loads((folder / split_file).read_bytes())
    assert [len(split[part]) for part in ("train", "val", "test")] == [10_873, 2331, 2331]
    graphs = join(featurise(table["smiles"][::50]))
    nodes, edges = graphs.nodes.double(), graphs.counts["edge_index"].double()
    assert (nodes > 0).all()
    assert float(nodes.mean()) == pytest.approx(150.94, rel=0.1)
    assert float((edges / nodes).mean()) == pytest.approx(307.30 / 150.94, rel=0.01)
    assert (graphs.data.x.shape[1], graphs.data.edge_attr.shape[1]) == (9, 3)

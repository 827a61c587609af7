import networkx as nx
import numpy as np
import pandas as pd
import pytest

from studies.wl import skip_link_graphs, study


def test_the_graphs_are_the_same_to_1wl_and_differ_by_class_alone() -> None:
    graphs, classes = skip_link_graphs(seed=0)
    assert np.bincount(classes).tolist() == [15] * 10
    for graph in graphs:
        nx.set_node_attributes(graph, "same", "start")
    assert len({nx.weisfeiler_lehman_graph_hash(g, node_attr="start") for g in graphs}) == 1
    spectra = np.array([np.linalg.eigvalsh(nx.to_numpy_array(g, range(41))) for g in graphs])
    first = spectra[::15]
    np.testing.assert_allclose(spectra, first[classes], atol=1e-9)
    distances = abs(first[:, None] - first).max(-1)
    assert distances[~np.eye(10, dtype=bool)].min() > 0.1
    assert all(dict(g.degree) == dict.fromkeys(range(41), 4) for g in graphs)
    assert len({frozenset(map(frozenset, g.edges)) for g in graphs}) == 150


@pytest.fixture(scope="module")
def rows() -> pd.DataFrame:
    return study(models=("MPNN", "MPNN + VN", "MPNN + RWSE"), folds=(0,), epochs=25).rows()


def test_message_passing_guesses_and_encodings_help(rows: pd.DataFrame) -> None:
    accuracy = rows.groupby("model")["accuracy"].mean()
    assert accuracy["MPNN"] == accuracy["MPNN + VN"] == pytest.approx(10)
    assert accuracy["MPNN + RWSE"] > 80

import pandas as pd
import pytest

from studies import attention_cost
from studies.attention_cost import MODELS, slope, study


@pytest.fixture(scope="module")
def rows() -> pd.DataFrame:
    small = study((256, 512, 1024), (4, 16), middle=512, quadratic_up_to=512, width=16, heads=2, repeats=1)
    return small.rows()


def test_every_attention_is_measured_and_the_quadratic_one_up_to_its_limit(rows: pd.DataFrame) -> None:
    sizes = rows.groupby("attention")["nodes"].agg(set)
    assert set(sizes.index) == set(MODELS)
    assert sizes.pop("softmax") == {256, 512}
    assert all(size == {256, 512, 1024} for size in sizes)
    assert (rows["milliseconds"] > 0).all()
    points = rows[["nodes", "degree", "edges"]].drop_duplicates()
    assert (points["edges"] == points["nodes"] * points["degree"] // 2).all()


def test_memory_is_linear_in_nodes_and_grows_with_edges(rows: pd.DataFrame) -> None:
    by_nodes, by_edges = attention_cost.sweeps(rows)
    for name in MODELS:
        own, more = (part[part["attention"] == name] for part in (by_nodes, by_edges))
        assert slope(own["nodes"], own["megabytes"]) == pytest.approx(1, abs=0.2), name
        assert 0.2 < slope(more["edges"], more["megabytes"]) < 1, name
    at = by_nodes[by_nodes["nodes"] == 512].set_index("attention")["megabytes"]
    assert (at.drop("polynormer") >= at["none"]).all()  # the peak is in the local layer for some
    assert at.drop("polynormer").idxmax() == "exphormer"  # alone in having states on edges


def test_slope_of_a_power() -> None:
    x = pd.Series([1.0, 2.0, 8.0, 16.0])
    assert slope(x, 3 * x**1.5) == pytest.approx(1.5)

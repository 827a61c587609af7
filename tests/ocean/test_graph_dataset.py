"""Windows of the sea as a data set of PyTorch Geometric, and its predictions as forecasts on the map."""

import pickle
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import xarray as xr
from documentation import EXTENDING, blocks
from refusals import refused
from scored_runs import SHORT_TEST, configure
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader

import sstcast
from sstcast.config import RunConfig
from sstcast.graphs.grid import GridGraph
from sstcast.ocean.graph_dataset import edges_of
from sstcast.ocean.prepared import Prepared
from sstcast.scores.score_files import errors_of
from sstcast.storage.yaml_files import save_config


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory, sst_file: Path) -> RunConfig:
    """A configuration whose stores are prepared."""
    config = configure(tmp_path_factory.mktemp("graphs"), sst_file, splits=SHORT_TEST)
    sstcast.prepare(config)
    return config


def test_a_graph_holds_the_days_of_its_ocean_cells(config: RunConfig) -> None:
    windows, anomalies = sstcast.windows(config, "test"), Prepared.of(config.data).open_anomalies()
    graphs, fields = windows.dataset(), anomalies["anomaly"].values
    assert len(graphs) == len(windows)
    for number in (0, 1, 100, len(graphs) - 1):
        graph, tile = graphs[number], number % 2
        today = int(np.flatnonzero(anomalies["time"].values == graph.init_time)[0])
        assert (graph.window, graph.tile, graph.init_time) == (number, tile, windows.init_times[number // 2])
        rows, columns = np.divmod(graph.cell.numpy(), 12)
        ocean = anomalies["ocean_mask"].values[:, 6 * tile : 6 * tile + 6]
        assert sorted(zip(rows, columns - 6 * tile, strict=True)) == sorted(zip(*ocean.nonzero(), strict=True))
        np.testing.assert_array_equal(graph.x, fields[today - 9 : today + 1, rows, columns].T)
        np.testing.assert_array_equal(graph.y, fields[today + 1 : today + 9, rows, columns].T)
        np.testing.assert_allclose(graph.pos[:, 0], anomalies["lat"].values[rows], atol=1e-5)
        np.testing.assert_allclose(graph.pos[:, 1], anomalies["lon"].values[columns], atol=1e-5)
        assert graph.edge_index is graphs[number % 2].edge_index  # one tensor a tile
        assert graph.cell is graphs[number % 2].cell
    graphs[0].x[:] = 9  # a copy
    assert graphs[0].x.max() < 9
    assert [graphs[4:8][i].window for i in range(4)] == [4, 5, 6, 7]
    doubled = windows.dataset(lambda graph: graph.update({"x": 2 * graph.x}))
    assert torch.equal(doubled[3].x, 2 * graphs[3].x)
    assert len(windows.thinned(50).dataset()) == 2 * len(windows.thinned(50).init_times)


@pytest.mark.parametrize(("shape", "wrap"), [((3, 4), False), ((3, 5), True), ((4, 2), True), ((4, 1), True)])
def test_edges_link_the_ocean_among_the_neighbours_once(shape: tuple[int, int], wrap: bool) -> None:
    torch.manual_seed(1)
    rows, columns = shape
    mask = torch.rand(1, rows * columns) < 0.8
    nodes = mask[0].nonzero().flatten().tolist()
    pairs = set()
    for a, (dy, dx) in product(nodes, GridGraph.OFFSETS):
        row, column = a // columns + dy, a % columns + dx
        column = column % columns if wrap else column
        b = row * columns + column
        if 0 <= row < rows and 0 <= column < columns and b in nodes and a != b:
            pairs.add((nodes.index(a), nodes.index(b)))
    edges = edges_of(GridGraph(*shape, mask, wrap))
    assert sorted(map(tuple, edges.T.tolist())) == sorted(pairs)
    assert edges_of(GridGraph(*shape, torch.zeros_like(mask), wrap)).shape == (2, 0)


def test_pickles_hold_no_days(config: RunConfig) -> None:
    graphs = sstcast.windows(config, "test").thinned(7).dataset()
    kept = pickle.dumps(graphs)
    assert len(kept) < 20_000
    copied = pickle.loads(kept)
    assert len(copied) == len(graphs)
    for number in (1, 20):
        ours, theirs = copied[number], graphs[number]
        assert torch.equal(ours.x, theirs.x)
        assert torch.equal(ours.edge_index, theirs.edge_index)
        assert ours.init_time == theirs.init_time


def test_workers_of_their_own_open_the_stores(config: RunConfig) -> None:
    graphs = sstcast.windows(config, "test").dataset()
    (batch,) = DataLoader(graphs[10:20], 64, num_workers=1, multiprocessing_context="spawn")
    assert torch.equal(batch.x, torch.cat([graphs[number].x for number in range(10, 20)]))


def test_persistence_scores_as_that_of_the_baselines(config: RunConfig, tmp_path: Path) -> None:
    graphs = sstcast.windows(config, "test").dataset()
    loader = DataLoader(graphs, 64, shuffle=True, num_workers=2, multiprocessing_context="fork")
    predictions, numbers = [], []
    for batch in loader:
        numbers.append(batch.window)
        predictions += [graph.x[:, -1:].expand(-1, 8) for graph in batch.to_data_list()]
    forecasts = sstcast.as_forecasts(config, predictions, windows=numbers)
    assert forecasts["sst"].dims == ("init_time", "lead", "lat", "lon")
    assert forecasts["lead"].values.tolist() == [*range(1, 9)]
    again = sstcast.as_forecasts(config, [graph.x[:, -1:].expand(-1, 8) for graph in graphs])
    xr.testing.assert_identical(forecasts, again)
    forecasts.to_netcdf(tmp_path / "persistence.nc")
    save_config(config, tmp_path / "small.yaml")
    found = sstcast.score(tmp_path / "persistence.nc", truth=tmp_path / "small.yaml").value
    for name in ("rmse", "mae", "bias"):
        assert errors_of(found, "model")[name] == pytest.approx(errors_of(found, "persistence")[name], abs=1e-6)


def test_the_paper_s_anomalies_become_degrees(tmp_path: Path, sst_file: Path) -> None:
    config = configure(tmp_path, sst_file, protocol="paper", directory=tmp_path, splits=SHORT_TEST)
    sstcast.prepare(config)
    cube, _ = sstcast.open(config)
    graphs = sstcast.windows(config, "test").dataset()
    forecasts = sstcast.as_forecasts(config, [graph.y for graph in graphs])["sst"]
    days = (forecasts["init_time"].values[:, None] + forecasts["lead"].values * np.timedelta64(1, "D")).ravel()
    truth = cube["sst"].sel(time=days).values.reshape(forecasts.shape)
    np.testing.assert_allclose(forecasts, np.where(np.isnan(forecasts), np.nan, truth), atol=2e-3)
    assert (np.isnan(forecasts.values) == np.isnan(truth)).all()


@pytest.mark.parametrize(
    ("change", "windows", "words"),
    [
        (lambda p: p[:-1], None, ("predictions: 3", "for 4 windows of test")),
        (lambda p: p, [0, 1, 1, 2], ("windows: 1 is there more than once",)),
        (lambda p: p, [0, 1, 2, 9999], ("windows: no window 9999; the split has 0..",)),
        (lambda p: p, [0.0, 1.0, 2.0, 3.0], ("windows: give the numbers",)),
        (lambda p: [*p[:3], p[3][:-1]], [0, 1, 2, 3], ("that of window 3 is [47, 8]; give [48, 8]",)),
        (lambda p: [*p[:3], p[3] * torch.nan], [0, 1, 2, 3], ("that of window 3 is not finite",)),
    ],
)
def test_predictions_that_do_not_fit_are_refused(
    change: Callable[[Any], Any], windows: Any, words: tuple[str, ...], config: RunConfig
) -> None:
    graphs = sstcast.windows(config, "test").dataset()
    given = windows if windows is not None else [0, 1, 2, 3]
    with refused(*words):
        sstcast.as_forecasts(config, change([graphs[i].y for i in range(4)]), windows=given)


def test_windows_that_are_no_graphs_are_refused(config: RunConfig) -> None:
    windows = sstcast.windows(config, "test")
    with refused("windows: not those of prepared stores; cut them by sstcast.windows"):
        replace(windows, origin=None).dataset()
    with refused("data.predictors: graphs hold SST alone; leave them out"):
        replace(windows, predictors={"soi": torch.zeros(1)}).dataset()
    with refused("windows: graphs have no days before the history"):
        replace(windows, before=3).dataset()
    with refused("data.horizon: 0"):
        replace(windows, horizon=0).dataset()


def test_the_documented_network_of_pyg_trains_and_is_scored(
    config: RunConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    save_config(config, tmp_path / "small.yaml")
    text = blocks(EXTENDING, "A network outside of sstcast")[0]
    exec(text.replace("configs/demo.yaml", "small.yaml"), names := {})
    assert errors_of(names["metrics"], "model")["rmse"] > 0


def test_land_gives_graphs_without_nodes(config: RunConfig) -> None:
    windows = sstcast.windows(config, "test")
    ocean = windows.ocean.clone()
    ocean[0] = False
    empty = replace(windows, ocean=ocean).dataset()[0]
    assert isinstance(empty, Data)
    assert (empty.num_nodes, empty.x.shape, empty.y.shape) == (0, (0, 10), (0, 8))
    assert (empty.edge_index.shape, empty.pos.shape, empty.cell.shape) == ((2, 0), (0, 2), (0,))

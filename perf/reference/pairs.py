"""Each thing measured: sstcast's, the plain one with the same weights, and on grids a network of convolutions."""

import contextlib
import copy
import io
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch._dynamo.utils import counters
from torch.nn import functional as F
from torch_geometric.data import Batch, Data
from torch_geometric.loader import DataLoader

from sstcast.graphs.grid import GridGraph
from sstcast.models import build_forecaster
from sstcast.models.convs import GAT, GatedGCN
from sstcast.ocean.windows import Windows
from sstcast.training.devices import compile_model

from .data import WindowDataset, grid_edges
from .layers import GatedGCNConv, gat_conv
from .systems import MPNN, Convolutions, Forecaster, Polynormer, Primphormer
from .weights import copy_weights

CPU = torch.device("cpu")
TOLERANCE = {"rtol": 1e-5, "atol": 1e-5}


class Size(NamedTuple):
    """Tiles in a batch, their nodes, the model, and days."""

    batch: int = 20
    rows: int = 30
    columns: int = 30
    width: int = 256
    layers: int = 3
    history: int = 42
    horizon: int = 28


class Pair(NamedTuple):
    """Two ways to do one thing, and two rivals: the compiled reference, where possible, and convolutions."""

    ours: Callable[[], Any]
    reference: Callable[[], Any]
    compiled: Callable[[], Any] | None = None
    convolutions: Callable[[], Any] | None = None
    note: str = ""


SYSTEMS: dict[str, Callable[[Size], tuple[dict[str, int], nn.Module]]] = {
    "mpnn-vn": lambda s: ({"layers": s.layers}, MPNN(s.width, s.layers)),
    "polynormer": lambda s: (
        {"local_layers": s.layers, "global_layers": 2, "heads": 8},
        Polynormer(s.width, s.layers, global_layers=2, heads=8),
    ),
    "primphormer": lambda s: ({"layers": s.layers, "heads": 4}, Primphormer(s.width, s.layers, heads=4)),
}


def random_windows(size: Size, tiles: int = 11, land: float = 0.0) -> Windows:
    """Return windows of noise, 180 a tile."""
    days, nodes = size.history + size.horizon + 180, size.rows * size.columns
    ocean = torch.rand(tiles, nodes) >= land
    return Windows(
        values=torch.randn(days, tiles, nodes) * ocean,
        ocean=ocean,
        days=np.datetime64("2000-01-01") + np.arange(days),
        shape=(size.rows, size.columns),
        history=size.history,
        horizon=size.horizon,
        place=F.normalize(torch.randn(tiles, nodes, 3), dim=-1),
    )


def build_system(name: str, size: Size) -> tuple[Any, Forecaster]:
    """Return both forecasters."""
    options, backbone = SYSTEMS[name](size)
    sizes = {"history": size.history, "horizon": size.horizon, "shape": (size.rows, size.columns)}
    ours = build_forecaster(name, width=size.width, **sizes, **options)
    theirs = Forecaster(backbone, size.width, size.history, size.horizon)
    copy_weights(ours, theirs)
    return ours, theirs


def compile_reference(
    module: nn.Module, compiled: bool, attempt: Callable[[nn.Module], Any]
) -> tuple[nn.Module | None, str]:
    """Return a copy of `module`, compiled as sstcast compiles (None if that fails), and what to note."""
    module, printed = copy.deepcopy(module), io.StringIO()
    counters.clear()
    with contextlib.redirect_stdout(printed):
        result = compile_model(module, compiled, next(module.parameters()).device, 0, attempt)
    if compiled and result is module:
        return None, printed.getvalue().strip()
    breaks = counters["graph_break"]
    reasons = sorted({reason.partition("Explanation: ")[2].partition("\n")[0] for reason in breaks})
    return result, f"compiled PyG has {breaks.total()} graph breaks: {' '.join(reasons)}" if breaks else ""


def adam(module: nn.Module, loss: Callable[[], Tensor], fused: bool = True) -> Callable[[], Tensor]:
    """Return a step of training on `loss()`, which returns the loss."""
    optimizer = torch.optim.Adam(module.parameters(), fused=fused)

    def step() -> Tensor:
        value = loss()
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
        return value.detach()

    return step


def system(name: str, size: Size, windows: Windows, compiled: bool = True) -> Pair:
    """Forward, backward and Adam; both functions return the loss. Raises AssertionError if forecasts differ."""
    device = windows.device
    ours, theirs = (module.to(device) for module in build_system(name, size))
    index = torch.arange(size.batch, device=device)
    batch, dataset = windows.batch(index), WindowDataset(windows.to(CPU))
    data = Batch.from_data_list([dataset[i] for i in index.tolist()]).to(device)
    grids = Data(x=batch.history)
    plain = Forecaster(
        Convolutions(size.width, size.layers, windows.shape), size.width, size.history, size.horizon
    ).to(device)
    fast, note = compile_reference(theirs, compiled, lambda m: m(data).sum().backward())
    model = compile_model(ours, compiled, device, 0, lambda m: m(batch.history, batch.graph).sum().backward())
    forecast = model(batch.history, batch.graph)[batch.ocean].detach()
    for module in (theirs, fast):  # detached at once: two graphs of a large model do not fit in memory
        if module is not None:
            torch.testing.assert_close(forecast, module(data).detach(), **TOLERANCE)
    torch.testing.assert_close(ours.auxiliary_loss(), theirs.auxiliary_loss(), check_device=False, **TOLERANCE)

    def masked(forecast: Tensor) -> Tensor:
        error = (forecast - batch.target).masked_fill(~batch.ocean.unsqueeze(-1), 0)
        return error.square().sum() / (batch.ocean.sum() * size.horizon)

    return Pair(
        adam(ours, lambda: masked(model(batch.history, batch.graph)) + ours.auxiliary_loss()),
        adam(theirs, lambda: F.mse_loss(theirs(data), data.y) + theirs.auxiliary_loss(), fused=False),
        None if fast is None else adam(fast, lambda: F.mse_loss(fast(data), data.y) + fast.auxiliary_loss()),
        adam(plain, lambda: masked(plain(grids))),
        note,
    )


def layer(name: str, size: Size, compiled: bool = True) -> Pair:
    """Forward and backward of `gat`, or of `gatedgcn` with edges of the nodes' width.

    Both functions return outputs and gradients (to nodes and weights); raises AssertionError if they differ.
    """
    nodes, directions = size.rows * size.columns, len(GridGraph.OFFSETS)
    grid = GridGraph(size.rows, size.columns)
    edge_index, offsets = grid_edges(size.rows, size.columns)
    direction = torch.tensor([GridGraph.OFFSETS.index((int(dy), int(dx))) for dx, dy in offsets.tolist()])

    def along_edges(planes: Tensor) -> Tensor:
        """Return `[edges, width]` from `[8, B, N, width]`."""
        return planes[direction, :, edge_index[0]].transpose(0, 1).flatten(0, 1)

    x, pull = (torch.randn(size.batch, nodes, size.width) for _ in range(2))
    ours: nn.Module
    if name == "gat":
        ours, theirs = GAT(size.width, edge_dim=2), gat_conv(size.width, edge_dim=2, heads=4)
        planes, edges, edge_pulls, edge_pull = list(grid.edge_attr), offsets.repeat(size.batch, 1), [], []
    else:
        ours, theirs = GatedGCN(size.width, size.width), GatedGCNConv(size.width)
        states, pulls = (torch.randn(directions, *x.shape) for _ in range(2))
        edges, edge_pull = along_edges(states).requires_grad_(), [along_edges(pulls)]
        planes = [s.requires_grad_() for s in states.unbind()]
        edge_pulls = [p * there for p, there in zip(pulls, grid.target(torch.ones(1, nodes, 1)), strict=True)]
    copy_weights(ours, theirs)
    plain = Convolutions(size.width, 1, (size.rows, size.columns))
    index = torch.cat([edge_index + nodes * b for b in range(size.batch)], dim=1)
    rows, x = x.flatten(0, 1).clone().requires_grad_(), x.requires_grad_()

    def gradients(module: nn.Module) -> tuple[Tensor, ...]:
        out, new = module(x, grid, planes)
        outputs = [out, *new] if edge_pulls else [out]
        inputs = [x, *ours.parameters(), *(planes if edge_pulls else [])]
        return out, *torch.autograd.grad(outputs, inputs, [pull, *edge_pulls])

    def their_gradients(module: nn.Module) -> tuple[Tensor, ...]:
        outputs = module(rows, index, edges)
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        inputs = [rows, *module.parameters(), *([edges] if edge_pull else [])]
        return outputs[0], *torch.autograd.grad(outputs, inputs, [pull.flatten(0, 1), *edge_pull])

    def plain_gradients() -> tuple[Tensor, ...]:
        out = plain(x)
        return out, *torch.autograd.grad(out, [x, *plain.parameters()], pull)

    module = compile_model(ours, compiled, CPU, 0, gradients)
    fast, note = compile_reference(theirs, compiled, their_gradients)
    for other in [m for m in (theirs, fast) if m is not None]:
        for mine, expected in zip(gradients(module)[:2], their_gradients(other)[:2], strict=True):
            torch.testing.assert_close(mine.flatten(0, 1), expected, **TOLERANCE)
    return Pair(
        lambda: gradients(module),
        lambda: their_gradients(theirs),
        None if fast is None else lambda: their_gradients(fast),
        plain_gradients,
        note,
    )


def assembly(size: Size, windows: Windows) -> Pair:
    """The next batch of random windows; both functions return (history, target), of shapes of their own."""
    order = iter(torch.randint(len(windows), (size.batch,)) for _ in iter(int, 1))
    batches = iter([])
    loader = DataLoader(WindowDataset(windows), batch_size=size.batch, shuffle=True)

    def ours() -> tuple[Tensor, Tensor]:
        batch = windows.batch(next(order))
        return batch.history, batch.target

    def reference() -> tuple[Tensor, Tensor]:
        nonlocal batches
        data = next(batches, None)
        if data is None:
            batches = iter(loader)
            data = next(batches)
        return data.x, data.y

    return Pair(ours, reference)

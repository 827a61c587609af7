# ---
# jupyter:
#   jupytext:
#     formats: ipynb,py:percent
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Train networks and compare them
#
# Does a graph network gain from a *virtual node*, which exchanges messages with every node of a tile? This notebook
# draws the graph, and trains two networks that differ only in this node, and one more on a linear base. It compares them
# with seven simple forecasts, and with the best system that we know for this ocean, which is linear. All see the ocean
# that ships with sstcast at half a degree, one tile of 15 by 15 nodes, and learn from half of its years. The training is
# far shorter than it should be, and the numbers show it: `docs/results.md` has longer ones, at a quarter of a degree,
# where no network beats the linear system. Digits vary by machine.

# %%
import matplotlib.pyplot as plt
import pandas as pd
import torch

import sstcast
from sstcast.models import MODELS, build_model

pd.Series({name: entry.about for name, entry in MODELS.items()}).to_frame("about").style

# %% [markdown]
# Any of these is a backbone: node features in, node features out, on a grid or on any sparse graph.

# %%
backbone = build_model("mpnn", width=32, layers=2, virtual_node=True)
print(f"{sum(p.numel() for p in backbone.parameters()):,} parameters")
backbone

# %% [markdown]
# ## The graph
#
# A node is a cell of the sea. It exchanges messages with its eight neighbours; land takes no part. The virtual node is
# joined to all nodes, so that news crosses the tile in two steps. Here is the tile, with the
# neighbours of one node.

# %%
PLACES = ["runs=../runs", "data.directory=../data/prepared"]
OCEAN = [
    "data.region={lon: [147.25, 154.75], lat: [-44.75, -37.25], coarsen: 2, tile: [15, 15]}",
    "data.splits={train: [1998, 2013], validation: [2014-07-01, 2014-12-31], test: [2016-01-01, 2016-09-30]}",
]
config = sstcast.load_config("configs/mpnn-vn.yaml", [*PLACES, *OCEAN])
sstcast.prepare(config)
ocean = sstcast.windows(config, "test").batch(torch.tensor([0])).ocean[0].view(15, 15)
rows, columns = torch.nonzero(ocean, as_tuple=True)
row, column, virtual = 8, 7, (16.5, 17)
fig, ax = plt.subplots(figsize=(7, 6), layout="constrained")
for y, x in zip(rows[::3].tolist(), columns[::3].tolist(), strict=True):
    ax.plot([x, virtual[0]], [y, virtual[1]], color="tab:orange", lw=0.3, alpha=0.5)
land = torch.nonzero(~ocean, as_tuple=True)
ax.scatter(land[1], land[0], s=50, color="0.75", marker="s", label="land")
ax.scatter(columns, rows, s=25, color="tab:blue", label="sea: a node")
for up in (-1, 0, 1):
    for right in (-1, 0, 1):
        ax.plot([column, column + right], [row, row + up], color="tab:red", lw=2)
ax.scatter([column], [row], s=100, color="tab:red", zorder=3, label="one node and its eight neighbours")
ax.scatter(*virtual, s=200, color="tab:orange", marker="*", zorder=3, label="virtual node (every third edge)")
ax.legend(loc="upper left", fontsize="small", framealpha=1)
ax.set(
    xlabel="column", ylabel="row", xticks=range(0, 15, 7), yticks=range(0, 15, 7), ylim=(-1, 21), aspect="equal"
)
plt.show()

# %% [markdown]
# ## Training
#
# A configuration describes a run. These three differ in the virtual node and in the base: `linear` adds the
# network's output to the forecast of a multiscale ridge.

# %%
SHORT = [
    "model.width=32",
    "model.layers=2",
    "training.epochs=3",
    "training.windows_per_epoch=200",
    "training.compile=false",
    "training.learning_rate=0.002",
]
runs = {
    name if base == "persistence" else f"{name} on a linear base": sstcast.train(
        sstcast.load_config(
            "configs/mpnn-vn.yaml",
            [
                *PLACES,
                *OCEAN,
                *SHORT,
                f"model.name={name}",
                f"model.base={base}",
                f"name=half-degree-{name}-{base}",
            ],
        )
    )
    for name, base in (("mpnn", "persistence"), ("mpnn-vn", "persistence"), ("mpnn-vn", "linear"))
}

# %%
fig, ax = plt.subplots(figsize=(9, 3.5), layout="constrained")
for name, run in runs.items():
    history = pd.read_csv(run.history)
    (line,) = ax.plot(history.epoch + 1, history.train_loss, ls="--", marker="o", label=f"{name}, training")
    ax.plot(
        history.epoch + 1, history.validation_mse, color=line.get_color(), marker="o", label=f"{name}, validation"
    )
ax.set(xlabel="epoch", ylabel="mean squared error, standardised", xticks=[1, 2, 3])
fig.legend(loc="outside right upper")
plt.show()

# %% [markdown]
# ## Scores
#
# The linear system is fitted to the same training days, in seconds.
#
# `evaluate` forecasts from every day of the first nine months of 2016 that it can. It scores the forecasts beside three
# climatologies, persistence, damped persistence and two linear systems: a ridge regression on each cell's own past and
# the multiscale ridge.

# %%
runs["local ridge, memory and stencil"] = sstcast.train(
    sstcast.load_config("configs/demo.yaml", [*PLACES, *OCEAN, "name=half-degree-linear"])
)
metrics = {name: sstcast.evaluate(run).value for name, run in runs.items()}
scores = {name: m["scores"]["model"] for name, m in metrics.items()} | {
    name: score for name, score in metrics["mpnn"]["scores"].items() if name != "model"
}
table = pd.DataFrame(
    {name: {m: s["degC"][m] for m in ("rmse", "mae", "bias", "acc")} for name, s in scores.items()}
)
table.T.round(3)

# %%
fig, ax = plt.subplots(figsize=(9, 4), layout="constrained")
for name, score in scores.items():
    rmse = score["degC"]["by_lead"]["rmse"]
    style = "-" if name in runs else "--"
    ax.plot(range(1, len(rmse) + 1), rmse, style, label=name, lw=2 if name in runs else 1)
ax.set(xlabel="days ahead", ylabel="RMSE, °C", title="Error by lead, January to September 2016")
ax.set_ylim(bottom=0)
fig.legend(loc="outside right upper")
plt.show()

# %% [markdown]
# Climatology is far off because 2016 was much warmer than the years before 2014. Persistence is hard to beat
# for a few days and falls behind afterwards. How sure is the difference? The skill over persistence comes with an
# interval from resampling blocks of dates, because the errors of neighbouring days are not independent:

# %%
for name, m in metrics.items():
    compared = m["ratios"]["mse"]["model"]["persistence"]
    saved, (high, low) = 1 - compared["ratio"], (1 - end for end in compared["interval"])
    print(f"{name}: {saved:.1%} less squared error than persistence (95 % interval {low:.1%} to {high:.1%})")

# %% [markdown]
# Did the last network improve on its linear base? The squared error of its forecast over that of its base:

# %%
for name, m in metrics.items():
    if compared := m["ratios"]["mse"]["model"].get("linear base"):
        low, high = compared["interval"]
        print(f"{name}: {compared['ratio']:.3f} times the squared error of its base ({low:.3f} to {high:.3f})")

# %% [markdown]
# Here, after so short a training, the virtual node makes no clear difference, and the network does not improve on its
# linear base.

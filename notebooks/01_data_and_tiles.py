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
# # Data and tiles
#
# sstcast learns from daily fields of sea surface temperature, NOAA's OISST. This notebook follows them from degrees
# Celsius to the input of a graph network, on the ocean that ships with sstcast: 7.5 by 7.5 degrees east of Tasmania,
# 1982 to 2016.

# %%
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import torch
from IPython.display import display
from matplotlib.collections import LineCollection

import sstcast
from sstcast.figures.events import draw_events_by_year

config = sstcast.load_config("configs/mpnn-vn.yaml", ["data.directory=../data/prepared"])
sstcast.prepare(config)
cube, anomalies = sstcast.open(config)
cube

# %% [markdown]
# ## The ocean in degrees
#
# `prepare` wrote a cube `sst(time, lat, lon)`. The white corner is Tasmania. Land is missing, never 0.

# %%
fig, axes = plt.subplots(1, 2, figsize=(11, 4), layout="constrained")
for ax, day in zip(axes, ("2016-02-15", "2016-08-15"), strict=True):
    cube.sst.sel(time=day).plot(ax=ax, cmap="inferno", vmin=8, vmax=24, cbar_kwargs={"label": "°C"})
    ax.set_title(day)
fig.suptitle("Sea surface temperature, summer and winter")
plt.show()

# %% [markdown]
# ## Anomalies
#
# Most of the variance is seasonal and easy to forecast. `prepare` subtracts a smooth climatology of the *training*
# years and divides by one number, so that `sst = climatology + scale * anomaly`. Neither uses the test years, to the
# right of the line.

# %%
cell = {"lat": -41.1, "lon": 151.1}
sst = cube.sst.sel(cell, method="nearest").sel(time=slice("2010", "2016"))
anomaly = anomalies.anomaly.sel(cell, method="nearest").sel(time=slice("2010", "2016"))
fig, axes = plt.subplots(2, 1, figsize=(11, 5), sharex=True, layout="constrained")
axes[0].plot(sst.time, sst, lw=0.7)
axes[0].set_ylabel("SST, °C")
axes[1].plot(anomaly.time, anomaly, lw=0.7, color="tab:red")
axes[1].axhline(0, color="0.6", lw=0.7)
axes[1].set_ylabel("anomaly, standardised")
for ax in axes:
    ax.axvline(np.datetime64(config.data.splits.test[0]), color="k", ls="--", lw=0.8)
axes[0].set_title("One cell: temperature, and its anomaly from the climatology of 1982-2013")
plt.show()

# %% [markdown]
# The last two years are far above the climatology. A forecast that falls back to the climatology must fail there.
#
# ## Marine heatwaves
#
# Five or more days above the 90th percentile of the season are a heatwave (`docs/heatwaves.md`). `sstcast.heatwaves`
# finds all of them. Here are those of the same cell, each at its peak.

# %%
place = cube.sst.sel(cell, method="nearest")
Path("../data/cell.csv").write_text(f"name,lat,lon\ncell,{float(place.lat)},{float(place.lon)}\n")
events = sstcast.heatwaves("sample", "../data/cell.csv", out="../data/cell-heatwaves.csv").value
display(draw_events_by_year(events, title=f"{len(events)} heatwaves, against {events.baseline[0]}"))
strongest = events.loc[events.intensity_cumulative.idxmax()]
strongest[["start", "peak", "end", "duration", "intensity_max", "intensity_cumulative", "category"]]

# %% [markdown]
# ## A tile is a graph
#
# The field is cut into tiles of 30 by 30 nodes. Each node is joined to its eight neighbours, except on land. Edges are
# never stored as a list, because neighbours are shifted copies of the whole grid.

# %%
windows = sstcast.windows(config, "train")
batch = windows.batch(torch.arange(4))
print(f"{len(windows):,} windows of {windows.history} days of history and {windows.horizon} to forecast")
print("history", tuple(batch.history.shape), "target", tuple(batch.target.shape), "(windows, nodes, days)")

# %%
rows, cols = windows.shape
ocean = batch.ocean[0].reshape(rows, cols).numpy()
source, target = batch.graph.edge_index.numpy()
both = ocean.ravel()[source] & ocean.ravel()[target]
ends = np.stack([[source % cols, source // cols], [target % cols, target // cols]], axis=1)[..., both]  # x and y
fig, ax = plt.subplots(figsize=(6, 6), layout="constrained")
ax.add_collection(LineCollection(ends.T.tolist(), color="tab:blue", lw=0.3, alpha=0.5))
ax.scatter(*np.nonzero(ocean)[::-1], c=batch.history[0, ocean.ravel(), -1], cmap="RdBu_r", s=14, zorder=2)
ax.scatter(*np.nonzero(~ocean)[::-1], c="0.85", marker="s", s=40)
ax.set(title=f"{ocean.sum()} ocean nodes and {both.sum():,} directed edges", xlabel="column", ylabel="row")
ax.set_aspect("equal")
plt.show()

# %% [markdown]
# ## How long does an anomaly last?
#
# Persistence forecasts as well as an anomaly is correlated with itself some days later. The next notebook trains
# networks that should do better.

# %%
values = anomalies.anomaly.sel(time=slice("1982", "2013")).values[:, ocean]
leads = np.arange(1, 57)
memory = [np.corrcoef(values[:-lead, ::20].ravel(), values[lead:, ::20].ravel())[0, 1] for lead in leads]
fig, ax = plt.subplots(figsize=(7, 3.5), layout="constrained")
ax.plot(leads, memory)
ax.axvspan(1, windows.horizon, color="0.93")
ax.set(
    xlabel="days later",
    ylabel="correlation",
    ylim=(0, 1),
    title="Memory of the anomaly (shaded: days to forecast)",
)
plt.show()

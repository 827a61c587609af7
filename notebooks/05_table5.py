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
# # Table 5: five systems, three horizons
#
# Cai et al. (2023) forecast the sea surface temperature of the tropical Pacific 4, 2 and 1 weeks ahead with five
# systems. `sstcast table5` repeats the whole experiment, which downloads 40 years and trains for many hours on a GPU. This
# notebook runs it on a quarter of the ocean that ships with sstcast, with small models and five steps each, to show its
# output. The paper's numbers beside them are of another ocean and of full training, so the two are no comparison.
# `docs/table5.md` explains how to run the whole experiment, and how it differs from the published one.

# %%
# %matplotlib inline
import io
from contextlib import redirect_stdout
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import yaml

import sstcast

folder = Path("../runs/notebook-table")
with redirect_stdout(io.StringIO()):  # a line for each step
    table = sstcast.table5(
        out=folder,
        seeds=[0],
        region="tasman-south-east",
        presets="configs/models",
        overrides=[
            "data.source=sample",
            "data.directory=../data/prepared",
            "training.epochs=1",
            "data.splits.train=[2006, 2013]",
            "data.splits.validation=[2014-10-01, 2014-12-31]",
            "data.splits.test=[2015-01-01, 2015-04-30]",
            "training.windows_per_epoch=100",
            "training.compile=false",
        ],
    )
errors = {name: {days: np.mean(seeds) for days, seeds in of.items()} for name, of in table.value.items()}
frame = pd.DataFrame(errors).T.rename_axis("system").rename_axis("days ahead", axis=1)
published = yaml.safe_load(Path("../configs/benchmarks/papers.yaml").read_text())["mpnn-gt"]["Table 5"]
paper = pd.DataFrame(published).T.rename(columns=int).reindex(frame.index)
beside = pd.concat({"here": frame, "paper": paper[frame.columns]}, axis=1).swaplevel(axis=1)
beside[frame.columns].map(lambda error: "" if np.isnan(error) else f"{error:.4f}")

# %% [markdown]
# These are mean squared errors of standardised anomalies: 1 is the variance of the training years. After five steps no
# network beats persistence one or two weeks ahead, and the linear systems are far ahead.

# %%
fig, ax = plt.subplots(figsize=(8, 3.5), layout="constrained")
frame.iloc[:, ::-1].plot.barh(ax=ax, width=0.75, color=["#9ecae1", "#4292c6", "#08519c"])
ax.invert_yaxis()
ax.set(xlabel="mean squared error, standardised", ylabel="")
plt.show()

# %% [markdown]
# Each number is a run like any other, so `sstcast evaluate runs/notebook-table/mpnn-vn-28d-seed0`, `map` and `report`
# work on it.

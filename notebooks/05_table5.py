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
# output. Do not compare these numbers with the paper's. `docs/table5.md` explains how to run the whole experiment,
# and `docs/table5-differences.md` how it differs from the published one.

# %%
# %matplotlib inline
from pathlib import Path

import numpy as np
import pandas as pd
from IPython.display import display

import sstcast
from sstcast.figures.catalogue import weekly_maps
from sstcast.figures.results import Results

folder = Path("../runs/notebook-table5")
table = sstcast.table5(
    out=folder,
    seeds=[0],
    region="tasman-south-east",
    presets="configs/models",
    overrides=[
        "data.source=sample",
        "data.directory=../data/prepared",
        "training.epochs=1",
        "data.splits.validation=[2014-10-01, 2014-12-31]",
        "data.splits.test=[2015-01-01, 2015-08-31]",
        "training.windows_per_epoch=100",
        "training.compile=false",
    ],
)
errors = {name: {days: np.mean(seeds) for days, seeds in of.items()} for name, of in table.value.items()}
pd.DataFrame(errors).T.rename_axis("system").rename_axis("days ahead", axis=1).round(4)

# %% [markdown]
# These are mean squared errors of standardised anomalies. Each number is a run like any other: `sstcast evaluate`, `map`
# and `report` work on it. Here are two of them, message passing without the virtual node, and with it: the root mean
# squared error by week.

# %%
for name in ("mpnn", "mpnn-vn"):
    (rmse,) = weekly_maps(Results(folder / f"{name}-28d-seed0"), "rmse")
    display(rmse.draw(title=f"RMSE of {name}"))

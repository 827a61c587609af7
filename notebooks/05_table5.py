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
# systems. `sstcast table5` repeats the whole experiment, which downloads 40 years and trains for days on a GPU. This
# notebook runs it on a quarter of the ocean that ships with sstcast, with small models and five steps each, to show its
# output. Do not compare these numbers with the paper's. `docs/table5.md` explains how to run the whole experiment, and
# how it differs from the published one.

# %%
# %matplotlib inline
from pathlib import Path

from sstcast.figures.maps import SLIDE, draw_panels
from sstcast.figures.projection import DEFAULT_PROJECTION, View
from sstcast.figures.results import Results
from sstcast.figures.tables import print_sheets
from sstcast.geo import Box
from sstcast.papers.table5 import Table5, table5
from sstcast.reports.table5 import table5_sheets

experiment = Table5(
    folder=Path("../runs/notebook-table5"),
    seeds=[0],
    region="tasman-south-east",
    presets=Path("configs/models"),
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
found, _ = table5(experiment, say=lambda line: None)
print_sheets(table5_sheets(found, experiment.horizons))

# %% [markdown]
# Each number is a run like any other: `sstcast evaluate`, `map` and `report` work on it. Two of them side by side:
# message passing without the virtual node, and with it. The maps show the root mean squared error in the first and in
# the last of four weeks.

# %%
errors = {}
for name in ("mpnn", "mpnn-vn"):
    results = Results(experiment.folder / f"{name}-28d-seed0")
    errors[name] = results.weekly(results.system)["rmse"]
panels = {f"{name}, week {week}": errors[name].sel(week=week) for week in (1, 4) for name in errors}
view = View(Box.of(errors["mpnn"]), DEFAULT_PROJECTION)
figure, _ = draw_panels(panels, view, label="RMSE (°C)", kind="error", area=SLIDE)
figure

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
# # Forecast maps
#
# From a trained network to next month's ocean on a map: where it is right, where it is wrong, and one forecast beside
# what came true. The network is trained for a few steps only, so that the notebook stays short.

# %%
# %matplotlib inline
from pathlib import Path

import matplotlib.pyplot as plt
import xarray as xr
from IPython.display import display

import sstcast
from sstcast.config import load_config
from sstcast.ocean.prepare import prepare
from sstcast.pages.figures import rmse_map, skill_map
from sstcast.pages.maps import draw_forecast
from sstcast.pages.results import Results
from sstcast.scores.evaluate import evaluate
from sstcast.scores.indices import box_mean
from sstcast.training.train import train, training_windows

config = load_config(
    Path("configs/mpnn-vn.yaml"),
    [
        "name=notebook-maps",
        "runs=../runs",
        "data.directory=../data/prepared",
        "model.width=32",
        "model.layers=2",
        "training.epochs=3",
        "training.compile=false",
        "training.windows_per_epoch=300",
        "training.learning_rate=0.002",
    ],
)
prepared = prepare(config.data)
run, _ = train(config, training_windows(config))
metrics, _ = evaluate(run)

# %% [markdown]
# ## Where are the errors?
#
# Root mean squared error by week of lead, over all forecasts of 2015 and 2016.

# %%
results = Results(run)
(picture,) = rmse_map(results, title="RMSE, 2015-2016")
display(picture.figure)

# %% [markdown]
# The skill: the share of the squared error of a multiscale ridge, a strong linear system, that the network saves. Below
# 0 the linear system is better, which is no wonder after so short a training. In hatched cells the difference may be
# chance: a Diebold-Mariano test in each cell, with the false discovery rate over the map controlled.

# %%
(picture,) = skill_map(results, title="Skill over the multiscale ridge, 2015-2016")
display(picture.figure)

# %% [markdown]
# ## One forecast
#
# `sstcast.load` gives a run that forecasts from any days of temperature, in degrees, on its grid. Here it sees six
# weeks of the summer of 2016, when the whole region was far warmer than usual.

# %%
cube, _ = prepared.open()
day = "2016-01-31"
forecast = sstcast.load(run.folder).forecast(cube.sst.sel(time=slice(None, day)))
forecast

# %%
one = forecast.isel(init_time=0)
truth = cube.sst.sel(time=one.valid_time).drop_vars("time")
display(draw_forecast(one.sst, truth, title=f"Forecast from {day}"))

# %% [markdown]
# ## The mean of a box
#
# An index is a mean over a box, weighted by area. How warm is the patch of sea east of Bass Strait going to be?

# %%
box = (150, 154, -43, -39)
before = box_mean(cube.sst.sel(time=slice("2015-12-01", day)), box)
after = box_mean(truth, box)
fig, ax = plt.subplots(figsize=(8, 3.5), layout="constrained")
ax.plot(before.time, before, color="k", label="observed")
ax.plot(one.valid_time, after, color="k", ls=":", label="came true")
ax.plot(one.valid_time, box_mean(one.sst, box), color="tab:red", label="forecast")
ax.plot(one.valid_time, xr.full_like(after, before[-1]), color="tab:blue", lw=1, label="last day's temperature")
ax.set(ylabel="SST, °C", title="Mean of 150-154° E, 43-39° S")
ax.legend(ncols=2)
plt.show()

# %% [markdown]
# The same from the command line, into a CF file: `sstcast forecast runs/demo --date 2016-01-31 --out forecast.nc`.

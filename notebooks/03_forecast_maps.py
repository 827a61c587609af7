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
# This notebook fits a system, maps its errors, and compares one of its forecasts with the days that followed. The
# system is the best that we know for this ocean, a local ridge with a year's memory and a wide stencil. It is linear
# and takes seconds to fit. `docs/results.md` compares it with networks.

# %%
# %matplotlib inline
import matplotlib.pyplot as plt
import xarray as xr
from IPython.display import display

import sstcast
from sstcast.pages.figures import skill_maps, weekly_maps
from sstcast.pages.maps import draw_forecast
from sstcast.pages.results import Results
from sstcast.scores.indices import box_mean

config = sstcast.load_config(
    "configs/linear/local-memory-stencil.yaml",
    ["name=notebook-maps", "runs=../runs", "data.directory=../data/prepared"],
)
run = sstcast.train(config)
metrics = sstcast.evaluate(run).value

# %% [markdown]
# ## Where are the errors?
#
# Root mean squared error by week of lead, over all forecasts of 2015 and 2016.

# %%
results = Results(run.folder)
rmse, _ = weekly_maps(results)
display(rmse.draw(title="RMSE, 2015-2016"))

# %% [markdown]
# The skill is the share of the squared error of a multiscale ridge that the system saves: 0 is no gain, and below 0
# the multiscale ridge is better. In hatched cells the difference may be due to chance, by a Diebold-Mariano
# test in each cell that controls the false discovery rate over the map. Two years are few. Over twenty years the system saves
# 2.9 % (`docs/results.md`).

# %%
(skill,) = skill_maps(results)
display(skill.draw(title="Skill over the multiscale ridge, 2015-2016"))

# %% [markdown]
# ## One forecast
#
# `sstcast.load` gives a run that forecasts from any days of temperature, in degrees, on its grid. Here it sees the year
# up to the summer of 2016, when the whole region was far warmer than usual.

# %%
cube, _ = sstcast.open(config)
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
ax.plot(one.valid_time, after, color="k", ls=":", label="observed later")
ax.plot(one.valid_time, box_mean(one.sst, box), color="tab:red", label="forecast")
ax.plot(one.valid_time, xr.full_like(after, before[-1]), color="tab:blue", lw=1, label="last day's temperature")
ax.set(ylabel="SST, °C", title="Mean of 150-154° E, 43-39° S")
ax.legend(ncols=2)
plt.show()

# %% [markdown]
# The same from the command line, into a CF file:
# `sstcast forecast runs/demo --date 2016-01-31 --out forecast.nc`.

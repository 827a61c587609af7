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
# # Forecast maps of a graph network
#
# A graph network forecasts the sea east of Tasmania. It is message passing between neighbouring cells, with a virtual
# node that all cells share, and it changes the forecast of a linear map of a year's history, its linear base. This
# notebook draws what it forecasts beside the linear system and the truth, and where each errs. It trains the network of
# `configs/demo-network.yaml` at half a degree, on half as many years and a quarter as many windows, and scores it on
# nine months. `docs/results.md` compares such networks over twenty years, at a quarter of a degree.

# %%
# %matplotlib inline
import matplotlib.pyplot as plt
import xarray as xr
from IPython.display import display

import sstcast
from sstcast.figures.catalogue import added_maps, skill_maps, weekly_maps
from sstcast.figures.maps import draw_forecast
from sstcast.figures.results import Results
from sstcast.scores.indices import box_mean

PLACES = ["runs=../runs", "data.directory=../data/prepared"]
OCEAN = [
    "data.region={lon: [147.25, 154.75], lat: [-44.75, -37.25], coarsen: 2, tile: [15, 15]}",
    "data.splits={train: [1998, 2013], validation: [2014-07-01, 2014-12-31], test: [2016-01-01, 2016-09-30]}",
]
SHORT = ["name=half-degree-network", "training.windows_per_epoch=800"]
config = sstcast.load_config("configs/demo-network.yaml", [*PLACES, *OCEAN, *SHORT])
run = sstcast.train(config)
metrics = sstcast.evaluate(run).value

# %% [markdown]
# ## Forecast, truth and error
#
# `sstcast.load` gives a run that forecasts from any days of temperature, in degrees, on its grid. Here it sees the two
# years up to the summer of 2016, when the whole region was far warmer than usual. The linear system is `configs/demo.yaml`.

# %%
linear = sstcast.train(sstcast.load_config("configs/demo.yaml", [*PLACES, *OCEAN, "name=half-degree-linear"]))
cube, _ = sstcast.open(config)
day = "2016-01-31"
past = cube.sst.sel(time=slice("2014-02-01", day))
forecasts = {
    name: sstcast.load(of.folder).forecast(past).isel(init_time=0)
    for name, of in {"graph network": run, "linear system": linear}.items()
}
truth = cube.sst.sel(time=forecasts["graph network"].valid_time).drop_vars("time")
for name, forecast in forecasts.items():
    display(draw_forecast(forecast.sst, truth, title=f"Forecast of the {name} from {day}"))

# %% [markdown]
# ## What the network added
#
# The network's own linear base is in its checkpoint. It differs a little from the linear system above, which chooses one
# penalty more, so what the network added is its forecast minus that of its own base: less than two tenths of a degree almost
# everywhere.

# %%
results = Results(run.folder)
added, over_base = added_maps(results)
display(added.draw(title="Network, linear base, and what the network added"))

# %%
compared = metrics["ratios"]["mse"]["model"]["linear base"]
low, high = compared["interval"]
print(f"{compared['ratio']:.3f} times the squared error of its linear base, 95 % interval {low:.3f} to {high:.3f}")
display(over_base.draw(title="Skill of the network over its linear base, January to September 2016"))

# %% [markdown]
# ## Where are the errors?
#
# Root mean squared error of the network by week of lead, over all forecasts of the first nine months of 2016.

# %%
(rmse,) = weekly_maps(results, "rmse")
display(rmse.draw(title="RMSE, January to September 2016"))

# %% [markdown]
# The skill is the share of the squared error of a multiscale ridge that the system saves: 0 is no gain, and below 0
# the multiscale ridge is better. In hatched cells the difference may be due to chance, by a Diebold-Mariano
# test in each cell that controls the false discovery rate over the map. Nine months are little.

# %%
(skill,) = skill_maps(results)
display(skill.draw(title="Skill over the multiscale ridge, January to September 2016"))

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
ax.plot(after.valid_time, after, color="k", ls=":", label="observed later")
for (name, forecast), color in zip(forecasts.items(), ("tab:red", "tab:orange"), strict=True):
    ax.plot(after.valid_time, box_mean(forecast.sst, box), color=color, label=name)
ax.plot(after.valid_time, xr.full_like(after, before[-1]), color="tab:blue", lw=1, label="last day's temperature")
ax.set(ylabel="SST, °C", title="Mean of 150-154° E, 43-39° S")
ax.legend(ncols=2)
plt.show()

# %% [markdown]
# The same from the command line, into a CF file:
# `sstcast forecast runs/demo-network --date 2016-01-31 --out forecast.nc`.

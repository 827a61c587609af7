"""One forecast, day by day, as an animated WebP."""

import io

import numpy as np
import xarray as xr

from sstcast.geo import Box
from sstcast.pages.images import PAD, data_uri, few_colours, render
from sstcast.pages.maps import Room, draw_panels
from sstcast.pages.projection import View

ROOM = Room(5.2, 4.0)
DAY, LAST_DAY = 350, 1800  # milliseconds
COLOURS = 64  # per frame: more colours only smooth the edges of letters, and need four times the space


def animate(forecast: xr.DataArray, truth: xr.DataArray, label: str) -> tuple[str, str]:
    """Draw forecast and observed anomalies `(lead, lat, lon)` in degC, with `valid_time(lead)`.

    Returns two `data:` addresses: the animation with one frame per day, and its last frame as a still image.
    """
    first = {"Forecast": forecast.isel(lead=0), "Observed": truth.isel(lead=0)}
    every_day = np.stack([forecast.values, truth.values])
    view = View(Box.of(forecast))
    figure, meshes = draw_panels(first, view, label=label, kind="difference", room=ROOM, values=every_day)
    title = figure.text(0.5, 1 + 0.45 / figure.get_size_inches()[1], _day(forecast, -1), ha="center", va="bottom")
    box = figure.get_tightbbox().padded(PAD)
    frames = []
    for position in range(forecast.sizes["lead"]):
        for mesh, field in zip(meshes, (forecast, truth), strict=True):
            mesh.set_array(field.isel(lead=position).transpose("lat", "lon").values)
        title.set_text(_day(forecast, position))
        frames.append(few_colours(render(figure, box), COLOURS).convert("RGB"))
    moving, still = io.BytesIO(), io.BytesIO()
    times = [DAY] * (len(frames) - 1) + [LAST_DAY]
    # More takes twice as long, and saves a sixth of the bytes.
    how = {"lossless": True, "quality": 20, "method": 2}
    frames[0].save(moving, "WEBP", save_all=True, append_images=frames[1:], duration=times, loop=0, **how)
    frames[-1].save(still, "WEBP", **how)
    return data_uri(moving.getvalue(), "image/webp"), data_uri(still.getvalue(), "image/webp")


def _day(forecast: xr.DataArray, position: int) -> str:
    one = forecast.isel(lead=position)
    return f"Day {int(one['lead'])}: {np.datetime_as_string(one['valid_time'].values, unit='D')}"

"""Writes figures and pages to files with their recipe, and encodes figures as `data:` addresses for pages."""

import base64
import datetime as dt
import io
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from matplotlib import rc_context
from matplotlib.figure import Figure
from PIL import Image as Pillow

from sstcast._version import __version__
from sstcast.figures.maps import PanelArea, draw_panels
from sstcast.figures.projection import View
from sstcast.geo import Box
from sstcast.progress import tracked
from sstcast.storage.artefacts import RECIPE, as_text, atomic

PALETTE_COLOURS = 256  # in the palette of a map: its few colours, and shades of grey for text
TIGHT: dict[str, Any] = {"bbox_inches": "tight", "pad_inches": 20 / 150}  # crops the white margin of a map
FONTS = ["DejaVu Sans", "Verdana", "Arial"]  # few, because every text of an SVG names them
REPORT_DPI = 120  # dots per inch of maps in pages
MOVING = PanelArea(5.2, 4.0)
MOVING_COLOURS = 64  # per frame; more would only smooth the edges of letters, at four times the size
FRAME_MS, LAST_FRAME_MS = 350, 1800  # duration of a frame, in milliseconds


@dataclass(frozen=True)
class Image:
    """An image as `data:` addresses, with a `narrow` version for phones and a `still` one for print."""

    wide: str
    alt: str
    caption: str
    narrow: str = ""
    still: str = ""


def write_page(path: Path, template: str, recipe: Any, **values: Any) -> None:
    """Fill a template of this folder with `values`, which are escaped, and write the page to `path` atomically.

    The second line of the page is a comment with its `recipe`. The page also states the version and the time of
    writing.
    """
    loader = FileSystemLoader(Path(__file__).parent)
    environment = Environment(loader=loader, autoescape=True, undefined=StrictUndefined)
    # The order of keys matters in Bokeh's JSON.
    environment.filters["minus"] = minus
    environment.policies["json.dumps_kwargs"] = {"sort_keys": False, "allow_nan": False}
    values |= {"version": __version__, "written": dt.datetime.now(dt.UTC).isoformat(timespec="minutes")}
    doctype, content = environment.get_template(template).render(values).split("\n", 1)
    with atomic(path) as temporary:
        temporary.write_text(f"{doctype}\n<!-- {RECIPE} {as_text(recipe)} -->\n{content}", encoding="utf-8")


def minus(text: str) -> str:
    """Replace the hyphens before numbers by minus signs, and bind numbers to units with a no-break space.

    Hyphens in dates and between words stay.
    """
    return re.sub(r"(?<=\d) (?=[%°])", "\u00a0", re.sub(r"(?<![\w)])-(?=\.?\d)", "−", text))


def write_png(figure: Figure, path: Path, recipe: Any) -> None:
    """Write `figure` to `path` atomically, with its `recipe` in a text chunk."""
    with atomic(path) as partial:
        figure.savefig(partial, format="png", metadata={RECIPE: as_text(recipe)}, **TIGHT)


def png_uri(figure: Figure) -> str:
    """Encode `figure` as the `data:` address of a PNG with a palette."""
    buffer = io.BytesIO()
    _draw(figure, PALETTE_COLOURS, dpi=REPORT_DPI, **TIGHT).save(buffer, "PNG", optimize=True)
    return _data_uri(buffer, "image/png")


def svg_uri(figure: Figure) -> str:
    """Encode `figure` as the `data:` address of an SVG. The same figure gives the same text."""
    buffer = io.BytesIO()
    # Letters as text take a third of the size.
    with rc_context({"svg.hashsalt": "sstcast", "svg.fonttype": "none", "font.sans-serif": FONTS}):
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    short = re.sub(rb"<[^>]*>", _with_short_numbers, buffer.getvalue())  # in tags only: texts keep their digits
    return _data_uri(io.BytesIO(short), "image/svg+xml")


def _with_short_numbers(tag: re.Match[bytes]) -> bytes:
    """Cut the coordinates of an SVG tag to a hundredth of a point, which nobody sees."""
    return re.sub(rb"(\.\d\d)\d+", rb"\1", tag[0])


def animate(forecast: xr.DataArray, truth: xr.DataArray, label: str) -> tuple[str, str]:
    """Animate forecast and observed anomalies `(lead, lat, lon)` in degC, with `valid_time(lead)`, as a WebP.

    Returns the `data:` addresses of the animation, which has one frame per day, and of its last frame.
    """
    first = {"Forecast": forecast.isel(lead=0), "Observed": truth.isel(lead=0)}
    every_day = np.stack([forecast.values, truth.values])
    view = View(Box.of(forecast))
    figure, meshes = draw_panels(first, view, label=label, kind="difference", area=MOVING, values=every_day)
    title = figure.suptitle(_day(forecast, -1))
    figure.draw_without_rendering()
    bbox = figure.get_tightbbox().padded(TIGHT["pad_inches"])
    figure.set_layout_engine("none")  # otherwise the layout would be computed for every frame
    frames = []
    for position in tracked(range(forecast.sizes["lead"]), "animating a forecast"):
        for mesh, field in zip(meshes, (forecast, truth), strict=True):
            mesh.set_array(field.isel(lead=position).transpose("lat", "lon").values)
        title.set_text(_day(forecast, position))
        frames.append(_draw(figure, MOVING_COLOURS, bbox_inches=bbox).convert("RGB"))
    moving, still = io.BytesIO(), io.BytesIO()
    times = [FRAME_MS] * (len(frames) - 1) + [LAST_FRAME_MS]
    # A higher quality takes twice as long, and saves a sixth of the bytes.
    options: dict[str, Any] = {"lossless": True, "quality": 20, "method": 2}
    frames[0].save(moving, "WEBP", save_all=True, append_images=frames[1:], duration=times, loop=0, **options)
    frames[-1].save(still, "WEBP", **options)
    return _data_uri(moving, "image/webp"), _data_uri(still, "image/webp")


def _day(forecast: xr.DataArray, position: int) -> str:
    field = forecast.isel(lead=position)
    return f"Day {int(field['lead'])}: {np.datetime_as_string(field['valid_time'].values, unit='D')}"


def _draw(figure: Figure, colours: int, **options: Any) -> Pillow.Image:
    """Draw `figure` with a palette of `colours` colours, chosen by Pillow's fastest method."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="tiff", **options)
    image = Pillow.open(buffer).convert("RGB")
    return image.quantize(colours, Pillow.Quantize.FASTOCTREE, dither=Pillow.Dither.NONE)


def _data_uri(content: io.BytesIO, kind: str) -> str:
    return f"data:{kind};base64,{base64.b64encode(content.getvalue()).decode()}"

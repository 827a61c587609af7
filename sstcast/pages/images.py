"""Figures as files and as parts of a page."""

import base64
import io
from dataclasses import dataclass
from pathlib import Path

from matplotlib import rc_context
from matplotlib.figure import Figure
from matplotlib.transforms import Bbox
from PIL import Image as Pillow
from PIL import ImageChops
from PIL.PngImagePlugin import PngInfo

from sstcast.artefacts import atomic

STAMP = "Source"  # the PNG keyword (PNG 3, 11.3.3) under which an image records its source
COLOURS = 256  # in a palette: maps have few colours, and text on them needs some shades of grey
PAD = 0.15  # inches
AROUND = 1.0  # inches around axes for their titles, degrees and labels


@dataclass(frozen=True)
class Image:
    """A picture as `data:` addresses: `narrow` for phones, `still` for print and reduced motion."""

    wide: str
    alt: str
    caption: str
    narrow: str = ""
    still: str = ""


def write_png(figure: Figure, path: Path, stamp: str) -> None:
    """Write `figure` to `path` atomically, with a `stamp` for `read_stamp`."""
    about = PngInfo()
    about.add_text(STAMP, stamp)
    with atomic(path) as partial:
        render(figure).save(partial, "PNG", pnginfo=about, dpi=(figure.dpi, figure.dpi))


def read_stamp(path: Path) -> str | None:
    """Return the stamp of a PNG that `write_png` made; None if there is no such file."""
    try:
        with Pillow.open(path) as image:
            stamp = image.info.get(STAMP)
            return str(stamp) if stamp is not None else None
    except (OSError, ValueError):
        return None


def render(figure: Figure, box: Bbox | None = None) -> Pillow.Image:
    """Draw `figure`, or the part of it inside a `box` in inches, and return its pixels.

    Without a box, the white around the drawing is cut off but for `PAD`. A map is drawn only once this way; for
    matplotlib's own tight box it would be three times.
    """
    buffer = io.BytesIO()
    figure.savefig(buffer, format="tiff", bbox_inches=box or _ample(figure))
    image = Pillow.open(buffer).convert("RGB")
    drawn = ImageChops.difference(image, Pillow.new("RGB", image.size, "white")).getbbox()
    if box is not None or drawn is None:
        return image
    pad = round(PAD * figure.dpi)
    left, top, right, bottom = drawn
    return image.crop((left - pad, top - pad, right + pad, bottom + pad))


def _ample(figure: Figure) -> Bbox:
    """Return a box in inches around all of a figure, with room for what is written beside its axes."""
    axes = [Bbox(ax.get_position().get_points() * figure.get_size_inches()).padded(AROUND) for ax in figure.axes]
    others = [artist.get_window_extent().get_points() for artist in (*figure.texts, *figure.legends)]
    return Bbox.union([*axes, *(Bbox(pixels / figure.dpi) for pixels in others)]).padded(2 * PAD)


def png_uri(figure: Figure) -> str:
    """Return `figure` as a `data:` address of a PNG with a palette."""
    buffer = io.BytesIO()
    few_colours(render(figure), COLOURS).save(buffer, "PNG", compress_level=6)
    return data_uri(buffer.getvalue(), "image/png")


def few_colours(image: Pillow.Image, count: int) -> Pillow.Image:
    """Return `image` with a palette of `count` colours, by the fastest of Pillow's ways."""
    return image.quantize(count, Pillow.Quantize.FASTOCTREE, dither=Pillow.Dither.NONE)


def svg_uri(figure: Figure) -> str:
    """Return `figure` as a `data:` address of an SVG; the same figure gives the same text."""
    buffer = io.BytesIO()
    with rc_context({"svg.hashsalt": "sstcast"}):
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    return data_uri(buffer.getvalue(), "image/svg+xml")


def data_uri(content: bytes, kind: str) -> str:
    """Return `content` of a media type as a `data:` address that contains it."""
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"

"""Figures as files and as parts of a page."""

import base64
import io
from pathlib import Path

from matplotlib import rc_context
from matplotlib.figure import Figure
from matplotlib.transforms import Bbox
from PIL import Image

from sstcast.files import atomic

STAMP = "Source"  # the PNG keyword (PNG 3, 11.3.3) under which an image records its source
COLOURS = 256  # in a palette: maps have few colours, and text on them needs some shades of grey
PAD = 0.15  # inches


def write_png(figure: Figure, path: Path, stamp: str) -> None:
    """Write `figure` to `path` atomically, with a `stamp` for `read_stamp`."""
    with atomic(path) as partial:
        figure.savefig(
            partial, format="png", bbox_inches="tight", pad_inches=PAD, metadata={STAMP: stamp, "Software": None}
        )


def read_stamp(path: Path) -> str | None:
    """Return the stamp of a PNG that `write_png` made; None if there is no such file."""
    try:
        with Image.open(path) as image:
            stamp = image.info.get(STAMP)
            return str(stamp) if stamp is not None else None
    except (OSError, ValueError):
        return None


def render(figure: Figure, box: Bbox | None = None) -> Image.Image:
    """Draw `figure`, or the part of it inside a `box` in inches, and return its pixels."""
    buffer = io.BytesIO()
    fast = {"compress_level": 1}  # it is opened again at once
    figure.savefig(buffer, format="png", bbox_inches=box or "tight", pad_inches=PAD, pil_kwargs=fast)
    return Image.open(buffer).convert("RGB")


def png_uri(figure: Figure) -> str:
    """Return `figure` as a `data:` address of a PNG with a palette."""
    buffer = io.BytesIO()
    render(figure).quantize(COLOURS, dither=Image.Dither.NONE).save(buffer, "PNG", optimize=True)
    return data_uri(buffer.getvalue(), "image/png")


def svg_uri(figure: Figure) -> str:
    """Return `figure` as a `data:` address of an SVG; the same figure gives the same text."""
    buffer = io.BytesIO()
    with rc_context({"svg.hashsalt": "sstcast"}):
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    return data_uri(buffer.getvalue(), "image/svg+xml")


def data_uri(content: bytes, kind: str) -> str:
    """Return `content` of a media type as a `data:` address that contains it."""
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"

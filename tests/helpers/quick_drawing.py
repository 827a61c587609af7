"""Reports and pages without their images, for tests of all else: tests/reports draws and encodes every one."""

import pytest

from sstcast.figures import catalogue
from sstcast.reports import report


def draw_quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the figures of a report, and encode none of them."""
    for name in ("png_uri", "svg_uri", "animate"):
        monkeypatch.setattr(report, name, lambda *_, name=name: ("", "") if name == "animate" else "")


def draw_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out all figures and maps of a report."""
    for name in ("FIGURES", "MAPS"):
        monkeypatch.setattr(catalogue, name, {})


def draw_no_plots(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out the map and the series of the page of a forecast."""
    for name in ("map_plot", "series_plot"):
        monkeypatch.setattr(f"sstcast.reports.page_contents.{name}", lambda *_: {})

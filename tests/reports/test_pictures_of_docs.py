"""The pictures of pages in the documentation are as new as the pages."""

import datetime as dt
from pathlib import Path

import pytest
from PIL import Image

from sstcast.reports.page_contents import title_of

IMAGES = Path(__file__).parents[2] / "docs/images"


@pytest.mark.parametrize("name", ["page.png", "front.png"])
def test_the_page_of_the_demo_has_the_headings_that_were_drawn(name: str) -> None:
    """After a change of the page, `make images` draws it again."""
    title = title_of(dt.date(2015, 12, 21), dt.date(2016, 1, 17))
    with Image.open(IMAGES / name) as image:
        assert image.info["headings"].split("\n") == [title, "41.125° S, 150.875° E"]

"""The page in a real browser, without a screen."""

from pathlib import Path

import pytest
from chrome import DESK, PHONE, Chrome

from sstcast.pages.report import write_report
from sstcast.pages.results import Results
from sstcast.runs import Run


@pytest.fixture(scope="module")
def page(evaluated: Run) -> Path:
    return write_report(Results(evaluated.folder))[0]


@pytest.mark.parametrize("size", [DESK, PHONE])
def test_all_images_load_and_nothing_is_complained_of(chrome: Chrome, page: Path, size: tuple[int, int]) -> None:
    chrome.screen(*size, mobile=size == PHONE)
    chrome.open(page)
    assert chrome.run("document.images.length") > 10
    assert chrome.run("[...document.images].filter(image => !image.complete || !image.naturalWidth).length") == 0
    assert not chrome.complaints()
    assert chrome.fetched() == [page.resolve().as_uri()]
    assert chrome.run("document.compatMode") == "CSS1Compat"


def test_a_phone_scrolls_tables_and_not_the_page(chrome: Chrome, page: Path) -> None:
    chrome.screen(*PHONE, mobile=True)
    chrome.open(page)
    assert chrome.run("document.documentElement.scrollWidth") == PHONE[0]
    boxes = "[...document.querySelectorAll('.scroll')]"
    assert chrome.run(f"{boxes}.filter(box => box.scrollWidth > box.clientWidth).length") > 0
    assert chrome.run(f"{boxes}.every(box => box.getBoundingClientRect().right <= innerWidth)")
    wide = "[...document.images].filter(image => image.getBoundingClientRect().right > innerWidth).length"
    assert chrome.run(wide) == 0
    # Maps come in a version made for it.
    narrow = "[...document.querySelectorAll('.maps img')].every(image => image.currentSrc != image.src)"
    assert chrome.run(narrow)


@pytest.mark.parametrize(("scheme", "box"), [("light", [244, 244, 244]), ("dark", [34, 37, 42])])
def test_text_stands_out_from_its_ground(chrome: Chrome, page: Path, scheme: str, box: list[float]) -> None:
    """Contrast of at least 4.5 (WCAG 2.2, 1.4.3) wherever there is text, all on the ground or on a box."""
    chrome.screen(*DESK)
    chrome.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
    chrome.open(page)
    colours = chrome.run(
        "[...new Set([...document.querySelectorAll('body *')].filter(e => e.textContent.trim())"
        ".map(e => getComputedStyle(e).color))]"
    )

    def luminance(rgb: list[float]) -> float:
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in (v / 255 for v in rgb)]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    assert len(colours) >= 3
    for colour in colours:
        rgb = [float(part) for part in colour.removeprefix("rgb(").removesuffix(")").split(",")]
        darker, lighter = sorted([luminance(box), luminance(rgb)])
        assert (lighter + 0.05) / (darker + 0.05) >= 4.5, colour
    chrome.call("Emulation.setEmulatedMedia", features=[])


def test_it_prints(chrome: Chrome, page: Path) -> None:
    chrome.screen(*DESK)
    chrome.open(page)
    pdf = chrome.pdf()
    assert pdf.startswith(b"%PDF")
    assert pdf.count(b"/Type /Page\n") > 3
    chrome.call("Emulation.setEmulatedMedia", media="print")
    try:
        assert chrome.run("getComputedStyle(document.querySelector('nav')).display") == "none"
        chrome.screen(794 - 113, 1123)  # A4 less its margins, in CSS pixels
        boxes = "[...document.querySelectorAll('.scroll')]"
        assert chrome.run(f"{boxes}.every(box => box.querySelector('table').offsetWidth <= innerWidth)")
    finally:
        chrome.call("Emulation.setEmulatedMedia", media="")

"""The report as text and in a browser: what it holds, that it needs nothing else, and how it is read."""

import base64
import io
import itertools
import json
import re
import shutil
from functools import partial
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest
from bs4 import BeautifulSoup
from chrome import DESK, PHONE, Chrome
from PIL import Image
from rich.console import Console

from sstcast.figures import printing, tables
from sstcast.figures.answers import squared_error
from sstcast.figures.results import Results
from sstcast.figures.sheets import errors, sheet
from sstcast.reports import report
from sstcast.reports.images import minus
from sstcast.reports.report import write_report
from sstcast.runs import Run
from sstcast.storage.artefacts import read_recipe

DARK = {"name": "prefers-color-scheme", "value": "dark"}
GROUNDS = "[...document.querySelectorAll('figure img')].map(image => getComputedStyle(image).backgroundColor)"


@pytest.fixture(scope="module")
def report_file(evaluated: Run) -> Path:
    path, new = write_report(Results(evaluated.folder))
    assert new
    return path


@pytest.fixture(scope="module")
def html(report_file: Path) -> str:
    return report_file.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def page(html: str) -> BeautifulSoup:
    return BeautifulSoup(html, "html.parser")


def test_every_part_is_there(page: BeautifulSoup) -> None:
    sections = {"data", "training", "scores", "errors", "maps", "indices", "heatwaves", "ensemble", "cases"}
    ids = [one["id"] for one in page.find_all(id=True)]
    assert sections | {"configuration", "provenance"} <= set(ids)
    assert len(ids) == len(set(ids))
    assert page.find("h2").text == "At a glance"
    assert all(table.find_parent("details") for table in page.find_all("table"))
    links = {link["href"] for link in page.find_all("a")}
    assert {f"#{name}" for name in sections} <= links <= {f"#{name}" for name in ids}


def test_numbers_are_those_of_the_metrics(page: BeautifulSoup, evaluated: Run) -> None:
    metrics = json.loads(evaluated.metrics.read_text())
    for scores in metrics["scores"].values():
        assert f"{scores['degC']['rmse']:.3f}" in page.text
    assert f"{metrics['ensemble']['model']['crps']:.3f}" in page.text
    sentence = metrics["ratios"]["mse"]["model"]["multiscale ridge"]["sentence"]
    assert sentence in page.text.replace("\u00a0", " ")
    first = page.find("h1").find_next("p").text.replace("\u00a0", " ").replace("−", "-")
    assert first == f"S{squared_error(metrics)[1:]}."
    assert "widths" not in page.text
    assert "windows_per_epoch" in page.text  # the configuration, with its defaults
    assert version("torch") in page.text  # without the name of the build, such as +cu130
    charts = [image["alt"] for image in page.find_all("img")]
    assert any("seed-1: " in alt and "training loss 1.10 at 0.5, 0.70 at 3" in alt for alt in charts)


def test_it_needs_nothing_else(html: str, page: BeautifulSoup) -> None:
    for one in page.find_all(True):
        for name in ("src", "srcset"):
            assert one.get(name, "data:").startswith("data:")
        assert one.get("href", "#").startswith("#")
    assert not re.search(r"https?:|@import|url\(|<script|<link", html)
    assert len(html) < 4_000_000


def test_it_can_be_read_by_ear(page: BeautifulSoup) -> None:
    assert page.find_all("html")[0]["lang"] == "en"
    levels = [int(one.name[1]) for one in page.find_all(re.compile("^h[1-6]$"))]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in itertools.pairwise(levels))
    for image in page.find_all("img"):
        assert len(image["alt"]) > 40
        assert re.search(r"\d", image["alt"])  # says what is seen, not only what it is
    assert len(page.find_all("table")) == len(page.find_all("caption")) > 5
    assert all(cell.get("scope") in ("row", "col") for cell in page.find_all("th"))
    assert all(region["aria-label"] and region["tabindex"] == "0" for region in page.find_all(role="region"))


def test_images_are_whole_and_animations_last_as_long_as_the_forecast(page: BeautifulSoup, evaluated: Run) -> None:
    kinds: dict[str, int] = {}
    sources = [image["src"] for image in page.find_all("img")] + [one["srcset"] for one in page.find_all("source")]
    for source in sources:
        kind, content = source.removeprefix("data:").split(";base64,")
        kinds[kind] = kinds.get(kind, 0) + 1
        if kind == "image/svg+xml":
            continue
        image = Image.open(io.BytesIO(base64.b64decode(content)))
        image.load()
        if getattr(image, "is_animated", False):
            assert image.n_frames == evaluated.config.data.horizon
    assert kinds["image/png"] == 2 * (3 + 3 + 1)  # maps, cases and days of heatwaves, for desks and phones
    assert kinds["image/webp"] == 2
    (moving,) = [image for image in page.find_all("img") if "image/webp" in image["src"]]
    still = next(one for one in page.find_all("source") if "image/webp" in one["srcset"])
    assert "prefers-reduced-motion" in still["media"]
    assert np.datetime_as_string(Results(evaluated.folder).error["init_time"].values[0], unit="Y") in moving["alt"]


def test_a_page_of_the_same_checkpoints_is_kept(
    evaluated: Run, html: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert write_report(Results(evaluated.folder)) == (evaluated.report, False)
    run = Run(Path(shutil.copytree(evaluated.folder, tmp_path / "small")))
    monkeypatch.setattr(report, "_sections", lambda *_: [])
    monkeypatch.setattr(Results, "recipe", {"scores": "others"})
    assert write_report(Results(run.folder)) == (run.report, True)
    assert read_recipe(run.report) == {"scores": "others"}
    assert write_report(Results(run.folder)) == (run.report, False)


# In a real browser, without a screen.


@pytest.mark.parametrize("size", [DESK, PHONE])
def test_all_images_load_and_nothing_is_complained_of(
    chrome: Chrome, report_file: Path, size: tuple[int, int]
) -> None:
    chrome.screen(*size, mobile=size == PHONE)
    chrome.open(report_file)
    assert chrome.run("document.images.length") > 10
    assert chrome.run("[...document.images].filter(image => !image.complete || !image.naturalWidth).length") == 0
    assert not chrome.complaints()
    assert chrome.fetched() == [report_file.resolve().as_uri()]
    assert chrome.run("document.compatMode") == "CSS1Compat"


def test_a_phone_scrolls_tables_and_not_the_page(chrome: Chrome, report_file: Path) -> None:
    chrome.screen(*PHONE, mobile=True)
    chrome.open(report_file)
    assert chrome.run("document.documentElement.scrollWidth") == PHONE[0]
    chrome.run("document.querySelectorAll('details').forEach(one => one.open = true)")
    boxes = "[...document.querySelectorAll('.scroll')]"
    assert chrome.run(f"{boxes}.filter(box => box.scrollWidth > box.clientWidth).length") > 0
    assert chrome.run(f"{boxes}.every(box => box.getBoundingClientRect().right <= innerWidth)")
    wide = "[...document.images].filter(image => image.getBoundingClientRect().right > innerWidth).length"
    assert chrome.run(wide) == 0
    # Maps come in a version made for it.
    narrow = "[...document.querySelectorAll('.maps img[src*=png]')].every(image => image.currentSrc != image.src)"
    assert chrome.run(narrow)


def test_figures_are_white_cards_on_dark_pages(chrome: Chrome, report_file: Path) -> None:
    chrome.screen(*DESK)
    chrome.call("Emulation.setEmulatedMedia", features=[DARK])
    chrome.open(report_file)
    assert chrome.run("getComputedStyle(document.body).backgroundColor") == "rgb(22, 24, 27)"
    assert set(chrome.run(GROUNDS)) == {"rgb(255, 255, 255)"}
    chrome.call("Emulation.setEmulatedMedia", features=[])


def test_five_sentences_and_four_pictures_of_equal_width_come_first(
    chrome: Chrome, report_file: Path, page: BeautifulSoup
) -> None:
    sentences = [item.text for item in page.select(".findings li")]
    assert 3 <= len(sentences) <= 5
    assert sentences[0].startswith("RMSE (in brackets that of the ")
    assert page.find("main").find(re.compile("^(li|img|dl)$")).name == "li"
    for size in ((1600, 1000), (1300, 1000), PHONE):
        chrome.screen(*size, mobile=size == PHONE)
        chrome.open(report_file)
        widths = chrome.run(
            "[...document.querySelectorAll('.glance img')].map(i => i.getBoundingClientRect().width)"
        )
        assert len(widths) == 4
        assert max(widths) - min(widths) < 1


@pytest.mark.parametrize(("scheme", "box"), [("light", [244, 244, 244]), ("dark", [34, 37, 42])])
def test_text_stands_out_from_its_ground(chrome: Chrome, report_file: Path, scheme: str, box: list[float]) -> None:
    """Contrast of at least 4.5 (WCAG 2.2, 1.4.3) wherever there is text, all on the ground or on a box."""
    chrome.screen(*DESK)
    chrome.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
    chrome.open(report_file)
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


def test_the_first_map_is_on_the_first_screen(chrome: Chrome, report_file: Path) -> None:
    chrome.screen(1300, 1000)
    chrome.open(report_file)
    assert chrome.run("document.querySelector('.glance img[src*=png]').getBoundingClientRect().bottom") < 1100


def test_minus_signs_are_minus_signs() -> None:
    told = {
        "-0.095": "−0.095",
        "2015-01-01": "2015-01-01",
        "-5 % to -.3": "−5\u00a0% to −.3",
        "a 7-day mean": "a 7-day mean",
        "80 % intervals of 5 °C": "80\u00a0% intervals of 5\u00a0°C",
    }
    assert {text: minus(text) for text in told} == told


def test_it_prints(chrome: Chrome, report_file: Path) -> None:
    chrome.screen(*DESK)
    chrome.open(report_file)
    pdf = chrome.pdf()
    assert pdf.startswith(b"%PDF")
    assert pdf.count(b"/Type /Page\n") > 3
    chrome.call("Emulation.setEmulatedMedia", media="print")
    try:
        assert chrome.run("getComputedStyle(document.querySelector('nav')).display") == "none"
        chrome.screen(794 - 113, 1123)  # A4 less its margins, in CSS pixels
        boxes = "[...document.querySelectorAll('.scroll')]"
        assert chrome.run(f"{boxes}.every(box => box.querySelector('table').offsetWidth <= innerWidth)")
        assert chrome.run(f"{boxes}.every(box => box.querySelector('table').checkVisibility())")
    finally:
        chrome.call("Emulation.setEmulatedMedia", media="")


def test_no_number_is_broken_at_a_hundred_columns(
    evaluated: Run, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(printing, "Console", partial(Console, width=100, force_terminal=True, color_system=None))
    sheets = errors.errors(json.loads(evaluated.metrics.read_text()), "small")
    printing.print_sheets(sheets)
    said = capsys.readouterr().out
    assert max(map(len, said.splitlines())) <= 100
    for table in sheets:
        assert all(cell in said for _, cells in table.rows for cell in cells)


def test_what_rounds_to_zero_has_no_sign() -> None:
    assert sheet.percent(-0.0002) == sheet.percent(0.0002) == "0.0%"
    assert sheet.number(-0.0002) == "0.000"
    assert sheet.percent(-0.002) == "-0.2%"


def test_the_tables_of_several_runs_explain_the_asterisk_once(
    evaluated: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    printing._print_once.cache_clear()
    metrics = json.loads(evaluated.metrics.read_text())
    for label in ("first", "second"):
        printing.print_scores(metrics, label)
    said = capsys.readouterr().out
    assert said.count("All leads, °C") == 2
    assert said.count(tables.ASTERISK) == said.count(tables.VARY) == 1

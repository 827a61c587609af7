"""Draw the pictures of the documentation from runs: `make images`.

The demo's are always drawn. Those of the hindcast and of studies are copied from `runs/` if they are there,
because these take hours; a line names those that are left as they were.
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
IMAGES = ROOT / "docs/images"
sys.path.insert(0, str(ROOT / "tests/reports"))  # for the browser that the tests use
import numpy as np  # noqa: E402
import xarray as xr  # noqa: E402
from chrome import Chrome, find_chrome  # noqa: E402
from matplotlib.figure import Figure  # noqa: E402
from PIL import Image  # noqa: E402
from PIL.PngImagePlugin import PngInfo  # noqa: E402

from sstcast.figures.curves import SIZE, legend, style_axes  # noqa: E402
from sstcast.figures.heatwave_case import heatwave_case  # noqa: E402
from sstcast.figures.results import Results  # noqa: E402
from sstcast.forecasting.why import WORDS  # noqa: E402

DEMO = "runs/demo-network"
MADE = {name: f"{DEMO}/maps/{name}" for name in ("forecast.png", "added.png", "skill.png")}
HEIGHT = 900  # pixels of the picture of the front page
LONG = {
    "hindcast-ratio.png": "runs/hindcast-1997-2016/maps/ratio-by-lead.png",
    "hindcast-skill.png": "runs/hindcast-1997-2016/maps/skill-tfnet-share.png",
    **{
        f"studies/{name}.png": f"runs/studies/{name}/figure.png"
        for name in (path.stem for path in (IMAGES / "studies").glob("*.png"))
    },
}


DATE = "2015-12-20"
FARM = "name,lat,lon\nfarm,-42.35,148.15\n"  # of docs/places.md
COLOURS = {  # of the parts of a forecast, by Okabe and Ito (2008)
    "last_week": "#0072B2",
    "history": "#56B4E9",
    "memory": "#009E73",
    "constant": "0.7",
    "network": "#E69F00",
}
HEADINGS = "headings"  # of a page, in the PNG of its picture
STILL = "scroll-behavior: auto; scrollbar-width: none"  # for a screenshot


def sstcast(*arguments: str) -> None:
    """Run a command of sstcast."""
    subprocess.run([sys.executable, "-m", "sstcast.cli", *arguments], cwd=ROOT, check=True, stdout=sys.stderr)


def photograph(
    page: Path, to: Path, *places: tuple[int, int, str], fragment: str = "", ready: str = "true"
) -> None:
    """Write screens of a page side by side: each has a width, a height and the part of the page that it shows.

    `ready` is a JavaScript expression that is true once the page has been drawn. The PNG keeps the headings of the
    page, so that a test finds a picture that is older than the page.
    """
    executable = find_chrome()
    if executable is None:
        print(f"{to}: left as it is: no Chromium", file=sys.stderr)
        return
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        screens, headings = [], ""
        with Chrome(executable, Path(folder)) as chrome:
            for width, height, part in places:
                chrome.screen(width, height, mobile=width < 600)
                chrome.open(page, fragment)
                chrome.wait_until(ready)
                chrome.run(f"document.documentElement.style.cssText = {STILL!r}")
                chrome.run(f"document.querySelector({part!r}).scrollIntoView()")
                drawn = "[...document.querySelectorAll('h1, h2')].map(of => of.textContent)"
                headings = "\n".join(chrome.run(drawn))
                chrome.screenshot(Path(folder) / "screen.png")
                screens.append(Image.open(Path(folder) / "screen.png").convert("RGB"))
    across, down, gap = sum(s.width for s in screens), max(s.height for s in screens), 24
    sheet = Image.new("RGB", (across + gap * (len(screens) - 1), down), "white")
    left = 0
    for screen in screens:
        sheet.paste(screen, (left, 0))
        left += screen.width + gap
    _save(sheet, to, headings)


def beside(left: Path, right: Path, to: Path) -> None:
    """Write two pictures side by side, of one height, with the headings of the right one."""
    pictures, headings = [Image.open(path).convert("RGB") for path in (left, right)], Image.open(right).info
    pictures = [picture.resize((picture.width * HEIGHT // picture.height, HEIGHT)) for picture in pictures]
    sheet = Image.new("RGB", (sum(picture.width for picture in pictures), HEIGHT), "white")
    sheet.paste(pictures[0], (0, 0))
    sheet.paste(pictures[1], (pictures[0].width, 0))
    _save(sheet, to, headings.get(HEADINGS, ""))


def draw_parts(forecast: Path, to: Path) -> None:
    """Draw what each part of what is read contributes to the anomaly of the first place, by lead."""
    with xr.open_dataset(forecast) as opened:
        parts = opened["place_contribution"].isel(init_time=0, place=0).load()
    figure = Figure(SIZE, layout="constrained")
    ax = figure.add_subplot()
    ends = {1: np.zeros(parts.sizes["lead"]), -1: np.zeros(parts.sizes["lead"])}
    for part in parts["part"].values.tolist():
        values = parts.sel(part=part).values
        from_zero = np.where(values > 0, ends[1], ends[-1])
        ax.bar(parts["lead"], values, 0.9, from_zero, color=COLOURS[part], label=WORDS.get(part, part))
        for sign, end in ends.items():
            end += sign * np.maximum(sign * values, 0)
    ax.plot(parts["lead"], parts.sum("part"), color="black", label="anomaly")
    ax.set(xlabel="Lead (days)", ylabel="Contribution (°C)")
    style_axes(ax)
    legend(figure)
    figure.savefig(to, dpi=200)
    print(to)


def _save(sheet: Image.Image, to: Path, headings: str) -> None:
    (info := PngInfo()).add_text(HEADINGS, headings)
    sheet.quantize(128).save(to, optimize=True, pnginfo=info)
    print(to)


def main() -> None:
    """Make the demo if it is not there, and draw."""
    for verb, what in (
        ("train", "configs/demo-network.yaml"),
        ("evaluate", DEMO),
        ("map", DEMO),
        ("report", DEMO),
    ):
        sstcast(verb, what)
    for name, path in (MADE | LONG).items():
        if (ROOT / path).exists():
            shutil.copyfile(ROOT / path, IMAGES / name)
            print(IMAGES / name)
        else:
            print(f"{IMAGES / name}: left as it is: there is no {path}", file=sys.stderr)
    (case,) = heatwave_case(Results(ROOT / DEMO))
    case.figure.savefig(IMAGES / "heatwave.png")
    print(case.alt)
    with tempfile.TemporaryDirectory() as folder:
        (places := Path(folder) / "farm.csv").write_text(FARM)
        why = Path(folder) / "why.nc"
        sstcast("forecast", DEMO, "--date", DATE, "--places", str(places), "--why", "--out", str(why))
        draw_parts(why, IMAGES / "why.png")
    forecast = ROOT / DEMO / f"forecast-{DATE}.nc"
    sstcast("forecast", DEMO, "--date", DATE, "--places", "none", "--out", str(forecast))
    sstcast("page", str(forecast))
    view = "#layer=heatwave_probability&day=7&lat=-41.125&lon=150.875"
    drawn = "'ready' in document.documentElement.dataset"
    page = forecast.with_suffix(".html")
    photograph(page, IMAGES / "page.png", (1265, 1093, "body"), fragment=view, ready=drawn)
    photograph(ROOT / DEMO / "report.html", IMAGES / "report.png", (1300, 1000, "body"), (390, 1000, "body"))
    beside(IMAGES / "forecast.png", IMAGES / "page.png", IMAGES / "front.png")


if __name__ == "__main__":
    main()

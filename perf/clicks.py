"""How long a forecast page takes to load, and to answer clicks on its map and other days, in headless Chromium.

    python perf/clicks.py PAGE [--chromium PATH]

Prints milliseconds, the median and the largest of 20. A click ends with the second frame that the browser draws
after the page has named the cell. `sstcast page` makes PAGE, and perf/growth.py pages of many tiles.
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests/reports"))

from chrome import DESK, Chrome, find_chrome

CLICKS = 20
CORNERS = """(() => {
  const map = Bokeh.documents.map((doc) => doc.get_model_by_name("map")).find((found) => found);
  const view = Bokeh.index.find_one(map), box = view.el.getBoundingClientRect(), frame = view.frame.bbox;
  return [box.x + frame.left, box.x + frame.right, box.y + frame.top, box.y + frame.bottom];
})()"""
DRAWN = "await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));"
ANSWERED = f"""(async () => {{
  const place = document.getElementById("place");
  while (place.textContent === window.before) await new Promise((wait) => setTimeout(wait));
  {DRAWN}
}})()"""
OTHER_DAY = f"""(async () => {{
  const day = document.getElementById("day"), start = performance.now();
  day.value = %s;
  day.dispatchEvent(new Event("input"));
  {DRAWN}
  return performance.now() - start;
}})()"""


def main() -> None:
    """Print the times."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("page", type=Path)
    parser.add_argument("--chromium", default=find_chrome())
    options = parser.parse_args()
    if options.chromium is None:
        sys.exit("no Chromium on PATH; give --chromium")
    random = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as profile, Chrome(options.chromium, Path(profile)) as chrome:
        chrome.screen(*DESK)
        start = time.perf_counter()
        chrome.open(options.page)
        chrome.wait_until("'ready' in document.documentElement.dataset")
        print(f"{chrome.call('Browser.getVersion')['product']}, {options.page.stat().st_size / 1e6:.1f} MB")
        print(f"load: {1e3 * (time.perf_counter() - start):.0f} ms")
        chrome.run("scrollTo(0, 0)")
        left, right, top, bottom = chrome.run(CORNERS)
        clicks = []
        for x, y in random.uniform((left, top), (right, bottom), (CLICKS, 2)):
            chrome.run("window.before = document.getElementById('place').textContent; 0")
            start = time.perf_counter()
            chrome.click(x, y)
            chrome.run(ANSWERED)
            clicks.append(1e3 * (time.perf_counter() - start))
            time.sleep(0.5)  # so that two clicks are no double click
        days = [chrome.run(OTHER_DAY % (1 + 7 * number % 28)) for number in range(CLICKS)]
    for name, times in (("click", clicks), ("other day", days)):
        print(f"{name}: median {median(times):.0f}, largest {max(times):.0f} ms")


if __name__ == "__main__":
    main()

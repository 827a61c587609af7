"""What regridding costs for a global tripolar grid of about 13 million cells: `python perf/grids.py [COLUMNS]`.

Prints the time and the highest memory of making the weights of a regular grid, as means and as interpolation, and
the time of bringing one day to it.
"""

import argparse
import datetime as dt
import platform
import resource
import sys
import time
from pathlib import Path

import numpy as np

from sstcast import __version__
from sstcast.geo import Box
from sstcast.reading.source_grid import structured
from sstcast.reading.weights import TargetGrid, apply, interpolation, means

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests/reading"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests/helpers"))
from any_grids import tripolar


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("columns", type=int, nargs="?", default=5320)
    parser.add_argument("--means", type=float, default=0.25, help="degrees")
    parser.add_argument("--interpolation", type=float, default=0.1, help="degrees")
    options = parser.parse_args()
    print(f"sstcast {__version__}, {platform.machine()}, {dt.date.today()}")
    lat, lon = tripolar(options.columns)
    started = time.process_time()
    source = structured(lat, lon)
    print(f"{lat.size / 1e6:.1f} million cells, found in {time.process_time() - started:.0f} CPU s", flush=True)
    values, ocean = 10 + 5 * np.sin(3 * source.centres[:, 0]), np.ones(len(source.index), bool)
    box = Box(-180, 180, -60, 90)
    for degrees, make in (
        (options.means, means),
        (options.interpolation, lambda source, target: interpolation(source, target, ocean)),
    ):
        target = TargetGrid(box, round(150 / degrees), round(360 / degrees))
        started = time.process_time()
        weights = make(source, target)
        made = time.process_time() - started
        started = time.process_time()
        apply(weights, values.astype(np.float32), 0.5)
        applied = time.process_time() - started
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        print(
            f"{degrees:g} degrees: {weights.nnz / 1e6:.1f} million weights in {made:.0f} CPU s, a day in "
            f"{applied:.2f} CPU s; highest memory so far {memory:.1f} GiB",
            flush=True,
        )


if __name__ == "__main__":
    main()

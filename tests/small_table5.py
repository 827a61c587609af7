"""Table 5 by systems that train in a moment, on all eleven tiles of a simulated Pacific.

As a script, `small_table5 FOLDER`, it makes the table in a process that may be killed.
"""

import os
import sys
from pathlib import Path

import yaml

import perf.simulated  # noqa: F401 - adds the source `simulator`
from sstcast.papers.table5 import Table5, table5

SIZES = {
    "mlp": {"hidden": 8},
    "tfnet": {"width": 4, "filter_days": 3},
    "linear-transformer": {"width": 8, "positional": "lap"},
    "mpnn": {"width": 8},
    "mpnn-vn": {"width": 8},
}
SPLITS = {
    "train": [2002, 2002],
    "validation": ["2003-01-01", "2003-01-15"],
    "test": ["2003-01-16", "2003-02-24"],
}


def write_presets(folder: Path) -> None:
    """Write a small preset of each system to `presets` in the folder."""
    (folder / "presets").mkdir(parents=True)
    for name, size in SIZES.items():
        preset = {
            "data": {"history": 4, "splits": SPLITS},
            "model": {"name": name, **size},
            "training": {"epochs": 1, "windows_per_epoch": 40, "device": "cpu", "checkpoint_steps": 1},
        }
        (folder / "presets" / f"{name}.yaml").write_text(yaml.safe_dump(preset))


def small(**chosen: object) -> Table5:
    """Describe the table in the working folder."""
    options: dict[str, object] = {"horizons": (3, 1), "seeds": (0,), "source": "simulator"}
    return Table5(Path("table5"), presets=Path("presets"), **(options | chosen))  # type: ignore[arg-type]


if __name__ == "__main__":
    os.chdir(sys.argv[1])
    table5(small())

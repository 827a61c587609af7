"""CPU seconds of the commands that are repeated every day, as pairs with a version before.

    python perf/waits.py --before PATH [--pairs 3] [--years 10] [--network]

PATH is a checkout of the version before. Prints a Markdown table: for each command the shortest time of the CPU
(user and system, one thread) of either version, which take turns. Both begin with copies of one folder, in
which the demo is trained and has been updated once. With `--years`, the recommended system is also trained on
that many years of a simulated Pacific, which takes minutes. With `--network`, the demo's network is trained too,
and evaluated after the demo. None of the trainings is timed.
"""

import argparse
import datetime as dt
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

HERE = Path(__file__).resolve().parents[1]
DEMO, NETWORK, PACIFIC = "runs/demo", "runs/demo-network", "runs/pacific"


def call(checkout: Path, folder: Path, *arguments: str, codes: tuple[int, ...] = (0,)) -> float:
    """Run a command of the sstcast in `checkout`. Return seconds of the CPU; end this program if it fails."""
    threads = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    environment = os.environ | threads | {"PYTHONPATH": str(checkout)}
    line = [sys.executable, "-m", "sstcast.cli", *arguments]
    process = subprocess.Popen(line, cwd=folder, env=environment, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    if os.waitstatus_to_exitcode(status) not in codes:
        sys.exit(f"sstcast {' '.join(arguments)} failed")
    return used.ru_utime + used.ru_stime


def make_pacific(folder: Path, years: int) -> None:
    """Train the recommended system on a simulated Pacific, but for the last three years."""
    last = 1981 + years
    store, script = folder / "pacific.zarr", HERE / "perf/simulated.py"
    days = ["--start", "1982-01-01", "--end", f"{last}-12-31"]
    subprocess.run(
        [sys.executable, str(script), str(store), *days], check=True, env=os.environ | {"PYTHONPATH": str(HERE)}
    )
    splits = f"{{train: [1982, {last - 3}], validation: [{last - 2}, {last - 2}], test: [{last - 1}, {last}]}}"
    settings = ("name=pacific", f"data.source={store}", "data.region=pacific", f"data.splits={splits}")
    call(HERE, folder, "train", str(HERE / "configs/demo.yaml"), *(w for s in settings for w in ("--set", s)))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", type=Path, required=True)
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--years", type=int, default=0)
    parser.add_argument("--network", action="store_true")
    options = parser.parse_args()
    versions = {"before": options.before.resolve(), "now": HERE}
    commands = {
        "first forecast of the demo": ("forecast", DEMO),
        "second forecast of the demo": ("forecast", DEMO, "--date", "2016-12-{}"),
        "the same forecast again": ("forecast", DEMO),
        "update with nothing new": ("update", DEMO),
    }
    if options.network:
        commands["first evaluation of the demo"] = ("evaluate", DEMO)
        commands["first evaluation of its network, after it"] = ("evaluate", NETWORK)
    if options.years:
        last = 1981 + options.years
        commands["first forecast of the Pacific"] = ("forecast", PACIFIC)
        commands["second forecast of the Pacific"] = ("forecast", PACIFIC, "--date", f"{last}-12-{{}}")
    with tempfile.TemporaryDirectory() as name:
        made, folders = Path(name) / "made", {}
        made.mkdir()
        call(HERE, made, "train", str(HERE / "configs/demo.yaml"))
        if options.network:
            call(HERE, made, "train", str(HERE / "configs/demo-network.yaml"))
        if options.years:
            make_pacific(made, options.years)
        for which, checkout in versions.items():
            folders[which] = shutil.copytree(made, Path(name) / which)
            call(checkout, folders[which], "update", DEMO)
            for pattern in ("runs/*/fitted-*.nc", "data/prepared/*/*.fit.nc"):
                for file in folders[which].glob(pattern):
                    file.unlink()
        versions_of = ", ".join(f"{name} {version(name)}" for name in ("torch", "xarray"))
        print(f"{platform.machine()}, one thread, {versions_of}, {dt.date.today()}\n")
        print("| CPU seconds | before | now |\n|---|---|---|")
        for label, arguments in commands.items():
            times: dict[str, list[float]] = {which: [] for which in versions}
            for number in range(1 if label.startswith("first") else options.pairs):
                for which, checkout in versions.items():
                    words = [word.format(f"{11 + number}") for word in arguments]
                    times[which].append(call(checkout, folders[which], *words, codes=(0, 3)))
            print(f"| {label} | {min(times['before']):.1f} | {min(times['now']):.1f} |", flush=True)


if __name__ == "__main__":
    main()

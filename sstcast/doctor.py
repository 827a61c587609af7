"""The command `doctor`: lists installed packages, devices, and the packages missing for each task."""

import os
import platform
import shutil
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement

from sstcast._version import __version__
from sstcast.errors import SSTCastError
from sstcast.workers import cores

PURPOSES = {
    "benchmarks": "OGB's graph data sets and molecules given as SMILES",
    "cloud": "Zarr stores at a URL",
    "cluster": "`--scheduler` (dask on a cluster)",
    "parquet": "`--observations` in Parquet files",
    "notebooks": "the notebooks",
    "docs": "`make docs`",
    "dev": "`make test`",
}
COMPILERS = ("c++", "g++", "clang++")


def examine() -> Iterator[str]:
    """Yield lines about versions, devices, threads, disk space and missing packages.

    Raises SSTCastError after the last line if a required package is missing or too old.
    """
    yield f"sstcast {__version__}, Python {platform.python_version()}, {platform.platform()}"
    yield from _machine()
    unfit: list[str] = []
    missing: dict[str, list[str]] = {extra: [] for extra in PURPOSES}
    try:
        needs = metadata.requires("sstcast") or []
    except metadata.PackageNotFoundError:
        yield "sstcast is on the path, but not installed, so its packages cannot be checked; run `pip install .`"
        needs = []
    for need in map(Requirement, needs):
        try:
            version = metadata.version(need.name)
        except metadata.PackageNotFoundError:
            version = "missing"
        fits = version != "missing" and need.specifier.contains(version, prereleases=True)
        if need.marker is None or need.marker.evaluate({"extra": ""}):
            yield f"  {need.name} {version}"
            unfit += [] if fits else [f"{need.name}{need.specifier}"]
        elif need.name != "sstcast" and not fits:
            # A package that only a newer Python needs belongs to no extra here.
            extras = [name for name in PURPOSES if need.marker.evaluate({"extra": name})]
            if extras:
                missing[extras[0]].append(need.name)
    for extra, names in missing.items():
        if names:
            yield f"missing for {PURPOSES[extra]}: {', '.join(names)}; run `pip install 'sstcast[{extra}]'`"
    if not any(map(shutil.which, COMPILERS)):
        yield "missing for compiled training on a CPU: a C++ compiler such as g++; sstcast trains without it"
    if unfit:
        raise SSTCastError(f"missing or too old: {', '.join(unfit)}; run `pip install --upgrade sstcast`")


def _machine() -> Iterator[str]:
    try:
        import torch
    except ImportError:
        return
    devices = [torch.cuda.get_device_properties(number) for number in range(torch.cuda.device_count())]
    names = [f"cuda:{i} {gpu.name}, {gpu.total_memory / 2**30:.0f} GiB" for i, gpu in enumerate(devices)]
    yield f"device: {'; '.join(names) or 'cpu; PyTorch finds no GPU'}"
    if devices:
        bf16 = "" if torch.cuda.is_bf16_supported(including_emulation=False) else "no "
        yield f"cuda: {torch.version.cuda} in PyTorch, driver {_driver()}, {bf16}bf16"
    setting = os.environ.get("OMP_NUM_THREADS")
    threads = f"{torch.get_num_threads()} threads" + (f", OMP_NUM_THREADS={setting}" if setting else "")
    yield f"cpu: {cores()} cores, {threads}"
    usage = shutil.disk_usage(Path())
    yield f"disk: {usage.free / 1e9:.0f} GB free of {usage.total / 1e9:.0f} GB for {Path().resolve()}"


def _driver() -> str:
    """Return the version of NVIDIA's driver, from its file in /proc, or `unknown`."""
    try:
        words = Path("/proc/driver/nvidia/version").read_text().split()
        return next(word for word in words if word[0].isdigit() and "." in word)
    except (OSError, StopIteration):
        return "unknown"

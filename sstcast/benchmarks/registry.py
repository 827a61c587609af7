"""The data sets of the five papers, as declared in `configs/benchmarks/datasets.yaml`."""

from dataclasses import fields
from functools import cache
from pathlib import PurePosixPath
from typing import Any

from sstcast.benchmarks.dataset import ATOMS, BONDS, Dataset
from sstcast.errors import SSTCastError, shorten
from sstcast.files import packaged
from sstcast.plain_yaml import read_config
from sstcast.validation import suggest

FEATURES = {"atoms": ATOMS, "bonds": BONDS}
FIELDS = {field.name for field in fields(Dataset)} - {"name", "files"}


@cache
def datasets() -> dict[str, Dataset]:
    """Return all declarations by their names in lower case."""
    groups = read_config(packaged("configs/benchmarks/datasets.yaml")).values()
    found = [_declare(name, group | own) for group in groups for name, own in group["sets"].items()]
    return {dataset.name.lower(): dataset for dataset in found}


def find_dataset(name: str) -> Dataset:
    """Return the declaration called `name`, in upper or lower case.

    Raises SSTCastError, suggesting a similar name, if there is none.
    """
    known = datasets()
    if name.lower() not in known:
        near = suggest(name.lower(), known)
        raise SSTCastError(
            f"no data set {shorten(name)!r}{near}; see `sstcast datasets`, or name your own YAML file"
        )
    return known[name.lower()]


def _declare(name: str, keys: dict[str, Any]) -> Dataset:
    words = keys | {"name": name, "lower": name.lower()}
    files: dict[str, str] = {}
    for address, paths in keys["files"].items():
        for path in (text.format_map(words) for text in paths):
            files[path] = address.format_map(words).replace("*", PurePosixPath(path).name)
    files |= dict.fromkeys(keys.get("more", ()), address.format_map(words))  # in the archive of the others
    values = {key: _plain(keys[key]) for key in FIELDS & keys.keys()}
    return Dataset(name, files=files, **values | {"folder": keys["folder"].format_map(words)})


def _plain(value: Any) -> Any:
    """Convert a YAML value to the type that a declaration uses."""
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    return tuple(value) if isinstance(value, list) else FEATURES.get(value, value)

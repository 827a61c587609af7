"""The registry of sources of daily data. `sstcast.sources.source` defines the interface."""

from importlib import import_module
from typing import TYPE_CHECKING

from sstcast.errors import SSTCastError

if TYPE_CHECKING:
    from sstcast.sources.source import Source

# A source's class, or its module and class name in this folder, which are imported on first use.
SOURCES: "dict[str, str | type[Source]]" = {
    "aws": "noaa.Aws",
    "ncei": "noaa.Ncei",
    "psl": "noaa.Psl",
    "erddap": "noaa.Erddap",
    "sample": "folder.Sample",
}

# Sources selected by a URL or folder instead of a name; the first class that accepts it is used.
OTHER_SOURCES: "tuple[str | type[Source], ...]" = ("folder.Folder", "noaa.Erddap", "noaa.Mirror")

KNOWN = f"{', '.join(SOURCES)}, a URL or a folder"


def find_source(name: str) -> "type[Source]":
    """Return the source class with this name, or the class that accepts this URL or folder.

    Raises SSTCastError if there is none.
    """
    if name in SOURCES:
        return _load(SOURCES[name])
    for source_class in map(_load, OTHER_SOURCES):
        if source_class.accepts(name):
            return source_class
    raise SSTCastError(
        f"--source {name}: neither a source, nor a folder, nor a URL; give {', '.join(SOURCES)}, a URL or a folder"
    )


def _load(source: "str | type[Source]") -> "type[Source]":
    if not isinstance(source, str):
        return source
    module, _, name = source.partition(".")
    source_class: type[Source] = getattr(import_module(f"sstcast.sources.{module}"), name)
    return source_class

"""Where days come from: one file a source, one line here. `sstcast.sources.source` says what a source is."""

from importlib import import_module
from typing import TYPE_CHECKING

from sstcast.errors import SSTCastError

if TYPE_CHECKING:
    from sstcast.sources.source import Source

# A source's class, or where it is in this folder: they are imported when they are asked for.
SOURCES: "dict[str, str | type[Source]]" = {
    "aws": "daily.Aws",
    "ncei": "daily.Ncei",
    "psl": "yearly.Psl",
    "erddap": "erddap.Erddap",
    "sample": "sample.Sample",
    "simulator": "simulator.Simulation",
}

# Sources that are known by an address instead of a name; the first that accepts it takes it.
PLACES: "tuple[str | type[Source], ...]" = ("folder.Folder", "erddap.Erddap", "mirror.Mirror")

KNOWN = f"{', '.join(SOURCES)}, a URL or a folder"


def find_source(name: str) -> "type[Source]":
    """Return the class of a source by its name, or by the URL or folder that it is.

    Raises SSTCastError if nothing is known by that name.
    """
    if name in SOURCES:
        return _load(SOURCES[name])
    for place in map(_load, PLACES):
        if place.accepts(name):
            return place
    raise SSTCastError(f"--source {name}: neither a folder nor a URL; give {', '.join(SOURCES)} or a mirror")


def _load(source: "str | type[Source]") -> "type[Source]":
    if not isinstance(source, str):
        return source
    module, _, name = source.partition(".")
    found: type[Source] = getattr(import_module(f"sstcast.sources.{module}"), name)
    return found

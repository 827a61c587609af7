"""Graphs in memory as a data set, named by their content."""

from dataclasses import replace
from typing import Any

from torch_geometric.data import Dataset as PyGDataset

from sstcast.benchmarks.given import graphs_in
from sstcast.benchmarks.load import pack_given
from sstcast.benchmarks.own import Memory
from sstcast.benchmarks.packed import Loaded
from sstcast.yaml_files import apply_overrides, validate

SHOWN = 8  # digits of the digest in a name


def load_memory(source: Any, overrides: list[str]) -> Loaded:
    """Check, complete and pack the graphs in `source`, as `given.graphs_in` describes it.

    `overrides` may hold `data.task=...` and the like, and `split=...`. The data set is called by the name that the
    source has, if any, and by a digest of the graphs. Raises SSTCastError if a graph or an override is wrong.
    """
    kind = type(source).__name__ if isinstance(source, PyGDataset) else "graphs"
    name = str(getattr(source, "name", None) or kind)
    raw: dict[str, Any] = {"data": {"kind": "memory"}}
    apply_overrides(raw, overrides)
    declared = validate(Memory, raw["data"], "overrides: data").declare(name)
    if isinstance(raw.get("split"), str):
        declared = replace(
            declared, split=validate(Memory, {"kind": "memory", "split": raw["split"]}, name).split or ""
        )
    loaded = pack_given(declared, *graphs_in(source, name), name)
    named = replace(loaded.dataset, name=f"{name}-{loaded.digest[:SHOWN]}")
    return loaded._replace(dataset=named)

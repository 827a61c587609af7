"""Experiments of the papers, one file each: `python -m studies NAME` makes a table and a figure."""

from importlib import import_module
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from sstcast.errors import SSTCastError
from sstcast.storage.yaml_files import suggest

if TYPE_CHECKING:
    from studies.study import Study


class Entry(NamedTuple):
    """The module whose `study()` builds the study, and what to say of it."""

    module: str
    about: str


STUDIES = {
    "attention-cost": Entry("attention_cost", "time and peak memory of every attention against nodes and edges"),
    "kernel-speedup": Entry("kernel_speedup", "how much faster LSAT is than SAT"),
    "equivariant-basis": Entry("equivariant_basis", "which identifiers let attention learn the equivariant bases"),
    "vn-approximates-attention": Entry("virtual_node", "how well MPNN with a virtual node imitates attention"),
    "wl": Entry("wl", "which models tell graphs apart that 1-WL cannot"),
    "global-attention": Entry("global_attention", "which nodes Polynormer's global attention picks out"),
    "attention-distance": Entry("attention_distance", "how far the heads of a trained TokenGT look"),
    "kernel-assumption": Entry("kernel_assumption", "how often the assumption of KDLGT's Lemma 1 holds"),
}


def build_study(name: str, root: Path | None = None) -> "Study":
    """Build the study called `name` with its default sizes, on raw files below `root` if it needs any.

    Raises SSTCastError for a name that does not exist, and for a `root` that the study does not need.
    """
    if name not in STUDIES:
        raise SSTCastError(f"study: no study {name!r}{suggest(name, STUDIES)}; known: {', '.join(STUDIES)}")
    make = import_module(f"studies.{STUDIES[name].module}").study
    if root is None:
        return make()
    if "root" not in signature(make).parameters:
        raise SSTCastError(f"study {name}: it reads no raw files; leave --root out")
    return make(root=root)

"""Experiments of the papers, one file each: `sstcast study NAME` makes a table and a figure."""

from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

from sstcast.errors import SSTCastError
from sstcast.validation import suggest

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
}


def build_study(name: str) -> "Study":
    """Build the study called `name` with its default sizes.

    Raises SSTCastError for a name that does not exist.
    """
    if name not in STUDIES:
        raise SSTCastError(f"study: no study {name!r}{suggest(name, STUDIES)}; known: {', '.join(STUDIES)}")
    study: Study = import_module(f"studies.{STUDIES[name].module}").study()
    return study

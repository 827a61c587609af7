"""Every data set of the five papers, in PyG's layout of files where PyG knows it."""

from sstcast.benchmarks.dataset import Dataset
from sstcast.benchmarks.declared.graphs import GRAPHS
from sstcast.benchmarks.declared.images import IMAGES
from sstcast.benchmarks.declared.molecules import MOLECULES
from sstcast.benchmarks.declared.nodes import NODES
from sstcast.config import suggest
from sstcast.errors import SSTCastError, shorten

DATASETS = (*NODES, *GRAPHS, *IMAGES, *MOLECULES)


def find_dataset(name: str) -> Dataset:
    """Return the declaration called `name`, in whatever case.

    Raises SSTCastError, suggesting the nearest name, if there is none.
    """
    known = {dataset.name.lower(): dataset for dataset in DATASETS}
    if name.lower() not in known:
        near = suggest(name.lower(), known)
        raise SSTCastError(
            f"no data set {shorten(name)!r}{near}; see `sstcast datasets`, or name your own YAML file"
        )
    return known[name.lower()]

"""Every data set of the five papers, in PyG's layout of files where PyG knows it."""

from sstcast.benchmarks.declared.graphs import GRAPHS
from sstcast.benchmarks.declared.images import IMAGES
from sstcast.benchmarks.declared.molecules import MOLECULES
from sstcast.benchmarks.declared.nodes import NODES

DATASETS = (*NODES, *GRAPHS, *IMAGES, *MOLECULES)

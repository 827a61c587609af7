"""The same systems as anyone would write them in PyTorch Geometric: what `perf/training_step.py` measures against.

Messages are gathered along `edge_index` and scattered to their targets, batches are collated by PyG's loader.
Modules bear the names of sstcast's, so that `weights.copy_weights` brings the weights over.
"""

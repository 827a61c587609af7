"""Readers of raw files, one module per format: `read(root, dataset) -> Loaded`.

A reader gets the root of raw files, which holds all files that the declaration names, and the declaration. If
there is no official split, the list of splits is empty. `pyg.py` also runs PyG's own classes.
"""

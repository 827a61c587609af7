"""Readers of raw files, one module per format: `read(folder, dataset) -> Loaded`.

A reader gets a folder, which holds all files that the declaration names, and the declaration. If there is no
official split, the list of splits is empty.
"""

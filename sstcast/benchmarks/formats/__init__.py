"""Readers of raw files, one module a format: `read(folder, dataset) -> Loaded`.

A reader takes the folder that holds the files its declaration names, which are all there, and the declaration.
Where there is no official split, the list of splits is empty.
"""

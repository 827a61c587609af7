"""Verbs of the command line that fill a file of their own; `sstcast.cli` has the others."""

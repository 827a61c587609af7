"""Runs the command line by `python -m sstcast`."""

from sstcast.cli import main

main()

"""Memory that is free but in pieces goes back to the system when there is much of it."""

import subprocess
import sys

import pytest

PIECES = """
import numpy as np
from pathlib import Path
from sstcast.memory import keep_memory, trim

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

keep_memory()
large, small = [], []
for number in range(12):
    large.append(np.ones(2**24, np.uint8))
    small.append(np.ones(2**16, np.uint8))  # stays, so that what is beside it is a piece
before = resident()
del large
trim(2**30)
print(before - resident())
trim(2**20)
print(before - resident())
print(sum(int(piece.sum()) for piece in small))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only glibc has mallinfo2")
def test_pieces_go_back_if_they_are_many() -> None:
    done = subprocess.run([sys.executable, "-c", PIECES], capture_output=True, text=True, check=True)
    kept, returned, sums = map(int, done.stdout.split())
    assert kept < 2**24
    assert returned > 10 * 2**24
    assert sums == 12 * 2**16

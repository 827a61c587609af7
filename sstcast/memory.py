"""Tells glibc to keep memory that arrays free, or to return it; other C libraries are left alone."""

import ctypes
import os
from contextlib import suppress
from pathlib import Path

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # of mallopt in malloc.h
LARGEST_HEAP = 2**31 - 1  # bytes that may stay free in the process


class _Known(ctypes.Structure):  # mallinfo2 in malloc.h
    _fields_ = [("bytes", ctypes.c_size_t * 10)]


MAPPED, USED = 4, 7  # the places of hblkhd and uordblks


def keep_memory() -> None:
    """Let glibc keep what arrays of up to 1 GiB leave.

    It would give each back to the kernel, which clears every page before it is used again: a third of the CPU
    seconds of training.
    """
    with suppress(OSError, AttributeError):
        libc = ctypes.CDLL(None)
        libc.mallopt(M_MMAP_THRESHOLD, 2**30)
        libc.mallopt(M_TRIM_THRESHOLD, LARGEST_HEAP)


def trim(kept: int = LARGEST_HEAP) -> None:
    """Give the kernel all memory that is free if it is more than `kept` bytes.

    Batches of many sizes leave pieces into which the next ones do not fit, ever more of them in a long training.
    """
    with suppress(OSError, AttributeError):
        libc = ctypes.CDLL(None)
        libc.mallinfo2.restype = _Known
        known = libc.mallinfo2().bytes
        _, resident, of_files, *_ = map(int, Path("/proc/self/statm").read_text().split())  # pages, proc(5)
        if (resident - of_files) * os.sysconf("SC_PAGE_SIZE") - known[USED] - known[MAPPED] > kept:
            libc.malloc_trim(0)

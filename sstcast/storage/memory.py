"""The free memory that glibc keeps."""

import ctypes
import os
from contextlib import suppress
from pathlib import Path

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # parameters of glibc's mallopt, from malloc.h
LARGEST_HEAP = 2**31 - 1  # bytes; the process may keep this much free memory


class _MallInfo2(ctypes.Structure):  # mallinfo2 in malloc.h
    _fields_ = [("bytes", ctypes.c_size_t * 10)]


MAPPED_FIELD, USED_FIELD = 4, 7  # positions of hblkhd and uordblks in mallinfo2


def keep_memory() -> None:
    """Let glibc keep the memory of freed arrays up to 1 GiB. Does nothing with other C libraries.

    By default, glibc returns it to the kernel, which clears every page before the next use. That takes a third of
    the CPU time of training.
    """
    with suppress(OSError, AttributeError):
        libc = ctypes.CDLL(None)
        libc.mallopt(M_MMAP_THRESHOLD, 2**30)
        libc.mallopt(M_TRIM_THRESHOLD, LARGEST_HEAP)


def trim(limit: int = LARGEST_HEAP) -> int:
    """Give free memory back to the kernel if there are more than `limit` bytes of it. Returns how many there were.

    Batches of different sizes fragment the heap, so free memory grows in long trainings.
    """
    with suppress(OSError, AttributeError):
        libc = ctypes.CDLL(None)
        libc.mallinfo2.restype = _MallInfo2
        counts = libc.mallinfo2().bytes
        _, resident, of_files, *_ = map(int, Path("/proc/self/statm").read_text().split())  # pages, proc(5)
        of_process = (resident - of_files) * os.sysconf("SC_PAGE_SIZE")
        free = int(of_process - counts[USED_FIELD] - counts[MAPPED_FIELD])
        if free > limit:
            libc.malloc_trim(0)
        return free
    return 0

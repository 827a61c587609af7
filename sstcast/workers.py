"""Where work is done (threads, processes, a cluster), how a signal stops it, and which memory it keeps."""

import ctypes
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, suppress
from multiprocessing.connection import wait
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

from sstcast.errors import SSTCastError


def cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def processes(count: int, begin: Callable[..., object], *arguments: Any) -> Iterator[ProcessPoolExecutor]:
    """Yield a pool of workers that print nothing, ignore Ctrl-C and exit with their parent.

    Each worker calls `begin(*arguments)` first. After an error, tasks that have not begun are dropped and running
    ones get SIGTERM. Workers are spawned, because threads of libraries do not survive a fork. So Python runs the
    main program again in each of them, except for the part under `if __name__ == "__main__"`.
    """
    before = set(multiprocessing.active_children())
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(count, context, _begin, (begin, arguments))
    with _ignoring_ctrl_c():
        for _ in range(count):
            pool.submit(str)  # begins one
    try:
        yield pool
    except BaseException:
        for process in set(multiprocessing.active_children()) - before:
            process.terminate()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


class StopRequest:
    """Inside the `with` block the first signal only sets `signal`; a later Ctrl-C interrupts at once.

    Only the main thread receives signals: in another thread, such as a worker of a cluster, this does nothing.
    """

    def __enter__(self) -> "StopRequest":
        self.signal: int | None = None
        heard = (signal.SIGINT, signal.SIGTERM) if threading.current_thread() is threading.main_thread() else ()
        self._previous = {s: signal.signal(s, self._on_signal) for s in heard}
        return self

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self.signal is None:
            self.signal = number
        elif number == signal.SIGINT:  # schedulers repeat SIGTERM, which must not interrupt saving
            raise KeyboardInterrupt

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)


@contextmanager
def _ignoring_ctrl_c() -> Iterator[None]:
    """Ignore Ctrl-C in the `with` block; a process started there ignores it from its first moment on."""
    if threading.current_thread() is not threading.main_thread():
        yield  # Python allows no other thread to choose
        return
    heard = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, heard)


def _begin(begin: Callable[..., object], arguments: tuple[Any, ...]) -> None:
    sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115 - for as long as it lives
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    assert parent is not None

    def follow() -> None:
        wait([parent.sentinel])
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=follow, daemon=True).start()
    begin(*arguments)


PATIENCE = "10s"


def choose_threads() -> None:
    """Let dask compute in threads, unless it is configured otherwise.

    By default, or asked for them by name, it would load distributed to see if there is a client, which takes as
    long as loading dask.
    """
    import dask.threaded

    if dask.config.get("scheduler", None) is None:
        dask.config.set(scheduler=dask.threaded.get)


@contextmanager
def cluster(address: str | None) -> Iterator[Any]:
    """Run dask computations inside the `with` block on the scheduler at `address`; on local threads if None.

    Yields the scheduler's `Client`. Raises SSTCastError if dask.distributed is not installed or nothing answers at
    `address`.
    """
    if address is None:
        yield None
        return
    try:
        from distributed import Client
    except ImportError:
        raise SSTCastError("--scheduler: needs dask.distributed; pip install 'sstcast[cluster]'") from None
    try:
        client = Client(address, timeout=PATIENCE)
    except (OSError, ValueError) as error:
        raise SSTCastError(
            f"--scheduler {address}: no dask scheduler answers there; start one or leave it out"
        ) from error
    with client:
        yield client


M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # of mallopt in malloc.h; other C libraries than glibc are left alone
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

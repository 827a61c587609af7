"""Threads, worker processes, dask clusters and signals."""

import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing.connection import wait
from pathlib import Path
from types import FrameType
from typing import Any

from sstcast.errors import SSTCastError

BYTES_PER_PROCESS = 2**29  # with the libraries and a small ocean


def cores() -> int:
    """Return the number of cores available to this process."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def most_processes() -> int:
    """Return the number of worker processes that the free memory holds, at least 1."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        available = next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))
    except (OSError, StopIteration):  # not Linux
        return cores()
    return max(1, available // BYTES_PER_PROCESS)


@contextmanager
def processes(count: int, initializer: Callable[..., object], *arguments: Any) -> Iterator[ProcessPoolExecutor]:
    """Yield a pool of workers that print nothing, ignore Ctrl-C and exit with their parent.

    Each worker first calls `initializer(*arguments)`. After an error, pending tasks are cancelled and running ones
    get SIGTERM. Workers are spawned rather than forked, because library threads do not survive a fork. Each worker
    therefore imports the main script again, without the part under `if __name__ == "__main__"`.
    """
    earlier_children = set(multiprocessing.active_children())
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(count, context, _start_worker, (initializer, arguments))
    with _ignoring_ctrl_c():
        for _ in range(count):
            pool.submit(str)  # starts a worker
    try:
        yield pool
    except BaseException:
        for process in set(multiprocessing.active_children()) - earlier_children:
            process.terminate()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


class StopRequest:
    """Inside the `with` block, the first SIGINT or SIGTERM only sets `signal`. A later Ctrl-C interrupts at once.

    Only the main thread receives signals. In other threads, such as a cluster's workers, the block has no effect.
    """

    def __enter__(self) -> "StopRequest":
        self.signal: int | None = None
        signals = (signal.SIGINT, signal.SIGTERM) if threading.current_thread() is threading.main_thread() else ()
        self._previous = {s: signal.signal(s, self._on_signal) for s in signals}
        return self

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self.signal is None:
            self.signal = number
        elif number == signal.SIGINT:  # schedulers repeat SIGTERM, which must not interrupt saving
            raise KeyboardInterrupt

    def __exit__(self, *error: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)


@contextmanager
def _ignoring_ctrl_c() -> Iterator[None]:
    """Ignore Ctrl-C in the `with` block; processes started there ignore it from the beginning."""
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may set signal handlers
        return
    previous = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)


def _start_worker(initializer: Callable[..., object], arguments: tuple[Any, ...]) -> None:
    sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115 - stays open while the worker lives
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    assert parent is not None

    def follow() -> None:
        wait([parent.sentinel])
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=follow, daemon=True).start()
    initializer(*arguments)


CONNECT_TIMEOUT = "10s"


def choose_threads() -> None:
    """Set dask's scheduler to threads, unless one is configured.

    dask's default, and the name "threads", would import distributed to look for a client, which doubles the import
    time.
    """
    import dask.threaded

    if dask.config.get("scheduler", None) is None:
        dask.config.set(scheduler=dask.threaded.get)


@contextmanager
def cluster(address: str | None) -> Iterator[Any]:
    """Run dask computations in the `with` block on the scheduler at `address`, or on local threads if None.

    Yields the scheduler's `Client`, or None. Raises SSTCastError if dask.distributed is not installed or no
    scheduler answers at `address`.
    """
    if address is None:
        yield None
        return
    try:
        from distributed import Client
    except ImportError:
        raise SSTCastError("--scheduler: needs dask.distributed; pip install 'sstcast[cluster]'") from None
    try:
        client = Client(address, timeout=CONNECT_TIMEOUT)
    except (OSError, ValueError) as error:
        raise SSTCastError(
            f"--scheduler {address}: no dask scheduler answers; start one or omit the option"
        ) from error
    with client:
        yield client

"""Worker processes: how many fit on this machine, and a pool that ends with its parent."""

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
from typing import Any

# In distributed training, for which WORLD_SIZE is set, only the first process prints.
FIRST_PROCESS = os.environ.get("LOCAL_RANK", "0") == "0" or "WORLD_SIZE" not in os.environ
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

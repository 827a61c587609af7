"""Processes that work for this one."""

import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing.connection import wait
from typing import Any


def cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def processes(count: int, begin: Callable[..., object], *arguments: Any) -> Iterator[ProcessPoolExecutor]:
    """Yield a pool of processes that are silent, deaf to Ctrl-C, which this one hears, and gone if this one is.

    Each calls `begin(*arguments)` first. On an error what has not begun is left, and what has is asked to end.

    Python runs the program that this one runs again in each, but for what it keeps under
    `if __name__ == "__main__"`; threads, which libraries have, would not survive a fork.
    """
    before = set(multiprocessing.active_children())
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(count, context, _begin, (begin, arguments))
    with _deaf():
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


@contextmanager
def _deaf() -> Iterator[None]:
    """Ignore Ctrl-C meanwhile, as a process that is begun here does from its first moment on."""
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

"""Tasks one after the other, side by side in processes, or on a cluster."""

import contextlib
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

import dask.threaded
import torch

from sstcast.errors import Interrupted, SSTCastError
from sstcast.workers import StopRequest, cluster, cores, processes

POLL_INTERVAL = 0.2  # seconds between looks whether to stop
_one_at_a_time = threading.Lock()  # in a process, whatever threads a cluster's worker has

Say = Callable[[str], object]
Task = Callable[[], str]  # says in a line what it did; can be sent to another process


def run_tasks(tasks: list[Task], jobs: int, scheduler: str | None, say: Say) -> None:
    """Do all tasks, `jobs` at a time in processes of their own or on the cluster at `scheduler`.

    `say` gets a line for each one done. Raises what a task raises, and Interrupted after Ctrl-C or SIGTERM, when
    the tasks at hand have saved what they have.
    """
    if scheduler is None and min(jobs, len(tasks)) < 2:
        for number, task in enumerate(tasks, 1):
            say(f"[{number}/{len(tasks)}] {task()}")
        return
    with _executor(jobs, scheduler) as pool, StopRequest() as stop:
        waiting: set[Future[str]] = {pool.submit(_call, str(Path.cwd()), task) for task in tasks}
        while waiting and not stop.signal:
            done, waiting = wait(waiting, POLL_INTERVAL, FIRST_COMPLETED)
            for future in done:
                say(f"[{len(tasks) - len(waiting)}/{len(tasks)}] {_result(future)}")
        if stop.signal:
            raise Interrupted(stop.signal)


@contextlib.contextmanager
def _executor(jobs: int, scheduler: str | None) -> Iterator[Executor]:
    """Yield an executor; after an error, drop queued tasks and stop running ones once they have saved."""
    if scheduler is not None:
        with cluster(scheduler) as client:
            pool = client.get_executor(pure=False, retries=0)
            try:
                yield pool
            finally:
                pool.shutdown(wait=False)  # cancels what has not begun; all has ended where no error came
        return
    threads = max(1, min(torch.get_num_threads(), cores() // jobs))
    with processes(jobs, torch.set_num_threads, threads) as pool:
        yield pool


def _call(folder: str, task: Task) -> str:
    """Do a task in another process, which sees relative paths from `folder`."""
    with _one_at_a_time, contextlib.chdir(folder), dask.config.set(scheduler=dask.threaded.get):
        try:
            return task()
        except Interrupted as stop:  # all is saved; waiting for another task would be waiting for ever
            os._exit(128 + stop.signal)


def _result(future: Future[str]) -> str:
    try:
        return future.result()
    except BrokenProcessPool:
        raise SSTCastError(
            "--jobs: a process was ended from outside, perhaps for want of memory; run the same command again, "
            "with fewer jobs"
        ) from None

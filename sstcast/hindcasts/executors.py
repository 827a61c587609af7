"""Runs tasks one after another, in parallel processes, or on a cluster."""

import contextlib
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

import dask.threaded
import torch

from sstcast.dask_schedulers import cluster
from sstcast.errors import Interrupted, SSTCastError
from sstcast.log import LOG
from sstcast.progress import tracked
from sstcast.stopping import StopRequest
from sstcast.storage.memory import keep_memory
from sstcast.workers import cores, most_processes, processes

POLL_INTERVAL = 0.2  # seconds between checks for a stop request
_one_at_a_time = threading.Lock()  # a worker of a cluster may have several threads, but runs one task at a time

Task = Callable[[], str]  # returns a line that says what it did; must be picklable


def run_tasks(tasks: list[Task], jobs: int, scheduler: str | None) -> None:
    """Run all tasks, up to `jobs` at a time in separate processes, or on the cluster at `scheduler`.

    No more processes start than there are tasks, or than the free memory holds.

    Logs each finished task. Raises any exception of a task, and Interrupted after Ctrl-C or
    SIGTERM, once the running tasks have saved their state.
    """
    jobs = min(jobs, len(tasks), most_processes())
    if scheduler is None and jobs < 2:
        for number, task in enumerate(tasks, 1):
            LOG.info(f"[{number}/{len(tasks)}] {task()}")
        return
    with _executor(jobs, scheduler) as pool, StopRequest() as stop:
        futures = {pool.submit(_call, str(Path.cwd()), task) for task in tasks}
        finished = _as_completed(futures, stop)
        for number, future in enumerate(tracked(finished, "tasks", len(tasks)), 1):
            LOG.info(f"[{number}/{len(tasks)}] {_result(future)}")
        if stop.signal:
            raise Interrupted(stop.signal)


def _as_completed(futures: set[Future[str]], stop: StopRequest) -> Iterator[Future[str]]:
    """Yield each future when it is done, until there is a request to stop."""
    while futures and not stop.signal:
        done, futures = wait(futures, POLL_INTERVAL, FIRST_COMPLETED)
        yield from done


@contextlib.contextmanager
def _executor(jobs: int, scheduler: str | None) -> Iterator[Executor]:
    """Yield an executor. After an error, drop queued tasks, and stop running tasks once they have saved."""
    if scheduler is not None:
        with cluster(scheduler) as client:
            pool = client.get_executor(pure=False, retries=0)
            try:
                yield pool
            finally:
                pool.shutdown(wait=False)  # cancels queued tasks; without an error, all have finished
        return
    threads = max(1, min(torch.get_num_threads(), cores() // jobs))
    with processes(jobs, torch.set_num_threads, threads) as pool:
        yield pool


def _call(folder: str, task: Task) -> str:
    """Run a task in another process, with `folder` as the working directory."""
    keep_memory()
    with _one_at_a_time, contextlib.chdir(folder), dask.config.set(scheduler=dask.threaded.get):
        try:
            return task()
        except Interrupted as stop:
            # The state is saved, and the pool would otherwise wait for this worker for ever.
            os._exit(128 + stop.signal)


def _result(future: Future[str]) -> str:
    try:
        return future.result()
    except BrokenProcessPool:
        raise SSTCastError(
            "--jobs: a process was killed, perhaps because memory ran out; run the same command again with fewer "
            "jobs"
        ) from None

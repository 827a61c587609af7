"""Reads files in separate processes: a file that crashes its reader, or fills the memory, affects nothing else.

The HDF5 library is known to crash on damaged files. The processes live as long as the one that started them.
"""

import atexit
import datetime as dt
import os
import queue
import signal
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path

from sstcast.geo import Box
from sstcast.sources.granule import BadFile, Granule, read_granule

MEMORY = 1 << 30  # limit in bytes for reading: a block of global days takes a tenth of that
SECONDS = 60  # time limit for reading
MOST = 4  # largest number of processes


def read_apart(data: bytes | Path, days: Sequence[dt.date], box: Box) -> Granule:
    """Call `read_granule` in another process; may be called from many threads.

    Also raises BadFile if that process crashes, or needs more than `MEMORY` or `SECONDS`.
    """
    return _readers(os.getpid()).read(data, days, box)


@cache
def _readers(pid: int) -> "_Readers":
    """Return the readers of this process; a forked process starts its own."""
    return _Readers(min(MOST, os.cpu_count() or 1))


class _Readers:
    def __init__(self, count: int) -> None:
        self._idle: queue.LifoQueue[_Reader | None] = queue.LifoQueue()  # None: not started yet
        for _ in range(count):
            self._idle.put(None)
        atexit.register(self._close)

    def read(self, data: bytes | Path, days: Sequence[dt.date], box: Box) -> Granule:
        reader = self._idle.get()
        try:
            reader = reader or _Reader()
            answer = reader.ask(data, days, box)
        except BaseException:
            if reader:
                reader.close()
            reader = None
            raise
        finally:
            self._idle.put(reader)
        if isinstance(answer, str):
            raise BadFile(answer)
        return answer

    def _close(self) -> None:
        while not self._idle.empty():
            if reader := self._idle.get():
                reader.close()


class _Reader:
    def __init__(self) -> None:
        self._pipe, theirs = Pipe()
        paths = os.pathsep.join(path or str(Path.cwd()) for path in sys.path)
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", f"from {__name__} import serve; serve()", str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            env=os.environ | {"PYTHONPATH": paths, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,  # HDF5 prints its errors
        )
        theirs.close()

    def ask(self, data: bytes | Path, days: Sequence[dt.date], box: Box) -> Granule | str:
        """Return what the process reads, or why it cannot read it."""
        try:
            self._pipe.send((data, list(days), box))
            answer: Granule | str = self._pipe.recv()
            return answer
        except (EOFError, OSError):
            died = -self._process.wait()
        if died == signal.SIGALRM:
            raise BadFile(f"damaged (takes more than {SECONDS} s to read)")
        if died <= 0:
            raise RuntimeError(f"a process that reads files exited with code {-died}")
        raise BadFile(f"damaged (crashes its reader with {signal.Signals(died).name})")

    def close(self) -> None:
        self._pipe.close()
        self._process.kill()
        self._process.wait()


def serve() -> None:
    """Read files for the process at the other end of the pipe until that process ends."""
    import resource

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent gets it too, and closes the pipe
    pages = int(Path("/proc/self/statm").read_text().split()[0]) if sys.platform == "linux" else 0
    limit = pages * resource.getpagesize() + MEMORY
    if pages:
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    pipe = Connection(int(sys.argv[1]))
    while True:
        try:
            data, days, box = pipe.recv()
        except EOFError:
            return
        signal.alarm(SECONDS)
        try:
            answer: Granule | str = read_granule(data, days, box)
        except BadFile as error:
            answer = str(error)
        signal.alarm(0)
        pipe.send(answer)

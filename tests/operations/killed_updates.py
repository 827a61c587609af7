"""Updates of a run, each in a process that ends by SIGKILL where a file it has written is about to get its name.

As a script, `RUN TODAY SERVER FILE...`, it makes an update for each FILE and prints how it ended. All are forked
from a process that has only imported: threads, which PyTorch and dask start when they compute, survive no fork.
"""

import datetime as dt
import os
import signal
import sys
from pathlib import Path

from sstcast.operations.update import update
from sstcast.sources.noaa import Aws, Ncei


def die_at(file: str) -> None:
    """End this process by SIGKILL where a file is to be renamed to a path that ends in `file`."""

    def hear(event: str, arguments: tuple[object, ...]) -> None:
        if event == "os.rename" and str(arguments[1]).endswith(file):
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hear)


if __name__ == "__main__":
    run, today, server, *files = sys.argv[1:]
    Aws.base = Ncei.base = server
    for file in files:
        child = os.fork()
        if not child:
            die_at(file)
            update(Path(run), today=dt.date.fromisoformat(today))
            os._exit(0)
        print(os.WTERMSIG(os.waitpid(child, 0)[1]))

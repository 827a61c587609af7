"""Where dask computes: on local threads or on a cluster."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sstcast.errors import SSTCastError

SCHEDULER_TIMEOUT = "10s"


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
        client = Client(address, timeout=SCHEDULER_TIMEOUT)
    except (OSError, ValueError) as error:
        raise SSTCastError(
            f"--scheduler {address}: no dask scheduler answers; start one or omit the option"
        ) from error
    with client:
        yield client

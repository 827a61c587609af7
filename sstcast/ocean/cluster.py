"""Where dask computes: in threads, or on a cluster."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sstcast.errors import SSTCastError

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
def cluster(address: str | None) -> Iterator[None]:
    """Run dask computations inside the `with` block on the scheduler at `address`; on local threads if None.

    Raises SSTCastError if dask.distributed is not installed or nothing answers at `address`.
    """
    if address is None:
        yield
        return
    with connect(address):
        yield


@contextmanager
def connect(address: str) -> Iterator[Any]:
    """Yield a dask.distributed `Client` for the scheduler at `address`; raises SSTCastError as `cluster` does."""
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

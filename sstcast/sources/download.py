"""Polite downloads from one server: time limits, retries with backoff and jitter, Retry-After."""

import datetime as dt
import email.utils
import http.client
import random
import re
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import obstore
from obstore.exceptions import BaseError
from obstore.store import HTTPStore

from sstcast.errors import SSTCastError, in_short
from sstcast.sources.granule import BadFile

if TYPE_CHECKING:  # obstore defines these types only in its stubs
    from obstore import GetResult
    from obstore.store import ClientConfig

Result = TypeVar("Result")


class Absent(Exception):
    """The server works, but has no such file."""


class Trouble(Exception):
    """A request failed in a way that may be temporary."""


@dataclass(frozen=True)
class Patience:
    """How long to retry: waits double from `backoff` to `longest_wait` seconds, each with jitter.

    A server that fails on `give_up` consecutive files, `attempts` times each, gets no more requests in this run.
    `time_limit`, in seconds per request, replaces the source's own limit.
    """

    attempts: int = 5
    backoff: float = 1.0
    longest_wait: float = 120.0
    give_up: int = 8
    time_limit: float | None = None

    def wait(self, attempt: int) -> float:
        """Return the seconds to wait after failed attempt number `attempt` (from 0): half fixed, half random."""
        return min(self.backoff * 2.0**attempt, self.longest_wait) * random.uniform(0.5, 1)


class Server:
    """A base URL. Its methods may be called from many threads."""

    def __init__(self, base: str, time_limit: float, patience: Patience) -> None:
        """Prepare requests, but send none yet; raise SSTCastError if `base` is not a URL."""
        self._base, self._patience = base.rstrip("/"), patience
        self._options: ClientConfig = {
            "timeout": dt.timedelta(seconds=patience.time_limit or time_limit),
            "connect_timeout": dt.timedelta(seconds=min(10, patience.time_limit or time_limit)),
            "allow_http": True,
        }
        try:
            self._store = self._connect(self._base)
        except ValueError as error:
            raise SSTCastError(f"--source {base}: not a valid URL ({in_short(error)}); correct it") from error
        self._failures, self._resume, self._lock = 0, 0.0, threading.Lock()
        self._closed = threading.Event()
        self.down: str | None = None

    def close(self) -> None:
        """Make all threads that wait for another attempt give up at once."""
        self.down = "stopped"
        self._closed.set()

    def try_hard(self, name: str, use: "Callable[[GetResult], Result]") -> Result:
        """Request `name` and return `use(response)`; try again after Trouble or BadFile.

        A damaged body is requested again too: servers truncate files, and send error pages with status 200.
        Raises Absent if there is no such file, Trouble if all attempts failed.
        """
        for attempt in range(self._patience.attempts):
            if self.down:
                raise Trouble(self.down)
            self._sleep(self._resume - time.monotonic())
            try:
                result = self._once(name, use)
            except (Trouble, BadFile) as error:
                reason = str(error)
                if attempt + 1 < self._patience.attempts:
                    self._sleep(self._patience.wait(attempt))
            except Absent:
                self._note(None)
                raise
            else:
                self._note(None)
                return result
        self._note(reason)
        raise Trouble(reason)

    def _once(self, name: str, use: "Callable[[GetResult], Result]") -> Result:
        path, _, query = name.partition("?")
        store = self._connect(f"{self._base}?{query}") if query else self._store
        try:
            return use(obstore.get(store, path))
        except FileNotFoundError:
            raise Absent("not there") from None
        except BaseError as error:
            status = re.search(r"status code: (\d+)", str(error))
            if status and status[1] in ("429", "503"):
                self._pause(f"{self._base}/{name}")
            raise Trouble(f"status {status[1]}" if status else _cause(str(error))) from None

    def _sleep(self, seconds: float) -> None:
        self._closed.wait(max(0.0, seconds))

    def _connect(self, url: str) -> HTTPStore:
        # obstore's own retries neither wait as long as a server asks nor check the body.
        return HTTPStore.from_url(url, client_options=self._options, retry_config={"max_retries": 0})

    def _pause(self, url: str) -> None:
        """Make all requests wait as long as the server asks.

        obstore does not return the headers of a failed response, so a second request gets them.
        """
        request = urllib.request.Request(url, method="HEAD")
        try:
            urllib.request.urlopen(request, timeout=10).close()
        except urllib.error.HTTPError as error:
            error.close()
            seconds = parse_retry_after(error.headers.get("Retry-After"))
            if seconds > self._patience.longest_wait:
                self.down = f"asks to come back in {seconds:.0f} s"
            with self._lock:
                self._resume = max(self._resume, time.monotonic() + seconds)
        except (OSError, http.client.HTTPException, ValueError):
            return  # no header: the usual backoff applies

    def _note(self, failure: str | None) -> None:
        with self._lock:
            self._failures = self._failures + 1 if failure else 0
            if self._failures >= self._patience.give_up:
                self.down = f"given up after {self._failures} failures in a row ({failure})"


def body(response: "GetResult", limit: int) -> Iterator[bytes]:
    """Yield the body in parts; raise BadFile if it is, or announces that it will be, larger than `limit` bytes."""
    size = response.meta["size"]
    if size > limit:
        raise BadFile(f"has {size:,} bytes, more than the limit of {limit:,}")
    received = 0
    for part in response.stream(min_chunk_size=1 << 22):
        received += len(part)
        if received > limit:
            raise BadFile(f"has more than {limit:,} bytes")
        yield bytes(part)


def parse_retry_after(header: str | None) -> float:
    """Return the seconds that a Retry-After header (seconds or an HTTP date) asks for; 0 if none."""
    if not header:
        return 0.0
    if re.fullmatch("[0-9]{1,12}", header.strip()):
        return float(header)
    try:
        moment = email.utils.parsedate_to_datetime(header).astimezone(dt.UTC)
    except (ValueError, TypeError, OverflowError, IndexError):
        return 0.0
    return max(0.0, (moment - dt.datetime.now(dt.UTC)).total_seconds())


def _cause(error: str) -> str:
    kinds = {
        "TimedOut": "timed out",
        "Timeout": "timed out",
        "refused": "connection refused",
        "reset": "connection reset",
        "IncompleteBody": "truncated",
        "dns error": "host not found",
    }
    known = (words for sign, words in kinds.items() if sign in error)
    return next(known, error.splitlines()[0])

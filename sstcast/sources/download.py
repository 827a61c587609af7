"""Downloads from one server: time limits, retries with back-off and jitter, Retry-After."""

import threading
from dataclasses import dataclass
from typing import IO, Any, Self

import requests
from requests.adapters import HTTPAdapter
from urllib3 import BaseHTTPResponse, Retry

from sstcast.errors import in_short
from sstcast.sources.granule import BadFile

PASSING = (408, 429, 500, 502, 503, 504)  # states that may be temporary
PART = 1 << 20  # bytes


class Absent(Exception):
    """The server works, but has no such file."""


class Trouble(Exception):
    """A request failed in a way that may be temporary."""


@dataclass(frozen=True)
class Patience:
    """How long to retry: waits double from `backoff` to `longest_wait` seconds, each with jitter.

    A server that fails on `give_up` consecutive files, `attempts` times each, gets no more requests in this run.
    `time_limit`, in seconds without an answer, replaces the source's own limit.
    """

    attempts: int = 5
    backoff: float = 1.0
    longest_wait: float = 120.0
    give_up: int = 8
    time_limit: float | None = None


class Server:
    """A base URL. Its methods may be called from many threads, `together` of them at once."""

    def __init__(self, base: str, time_limit: float, patience: Patience, together: int = 1) -> None:
        """Prepare requests, but send none yet."""
        self._base, self._give_up = base.rstrip("/"), patience.give_up
        limit = patience.time_limit or time_limit
        self._limits = min(10, limit), limit  # to connect, and to wait for bytes
        self._stop, self._lock, self._failures = threading.Event(), threading.Lock(), 0
        retries = _Retries(
            total=patience.attempts - 1,
            status_forcelist=PASSING,
            raise_on_status=False,
            backoff_factor=patience.backoff,
            backoff_jitter=patience.backoff,
            backoff_max=patience.longest_wait,
            stop=self._stop,
        )
        self._session = requests.Session()
        self._session.headers["Accept-Encoding"] = "identity"
        for scheme in ("http://", "https://"):
            self._session.mount(scheme, HTTPAdapter(pool_maxsize=together, max_retries=retries))
        self.down: str | None = None

    def close(self) -> None:
        """Make all threads that download or wait for another attempt give up at once."""
        self.down = "stopped"
        self._stop.set()

    def get(self, name: str, file: IO[bytes], limit: int) -> None:
        """Write the body of `name` to `file`.

        Raises Absent if there is no such file, Trouble if all attempts failed or the body is incomplete, BadFile
        if it has more than `limit` bytes.
        """
        if self.down:
            raise Trouble(self.down)
        try:
            with self._session.get(f"{self._base}/{name}", stream=True, timeout=self._limits) as response:
                if response.status_code == 404:
                    self._note(None)
                    raise Absent("not there")
                if not response.ok:
                    raise Trouble(f"status {response.status_code}")
                size = int(response.headers.get("Content-Length", 0))
                for part in response.iter_content(PART):
                    size = max(size, file.tell() + len(part))
                    if size > limit:
                        raise BadFile(f"has {size:,} bytes, more than the limit of {limit:,}")
                    if self._stop.is_set():
                        raise Trouble("stopped")
                    file.write(part)
        except (requests.RequestException, Trouble) as error:
            reason = str(error) if isinstance(error, Trouble) else _cause(error)
            self._note(reason)
            raise Trouble(reason) from None
        self._note(None)

    def _note(self, failure: str | None) -> None:
        with self._lock:
            self._failures = self._failures + 1 if failure else 0
            if self._failures >= self._give_up:
                self.down = f"given up after {self._failures} failures in a row ({failure})"


class _Retries(Retry):
    """Retries whose waits end when `stop` is set, so that Ctrl-C need not wait; none is above `backoff_max`."""

    def __init__(self, *arguments: Any, stop: threading.Event, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.stop = stop

    def new(self, **changes: Any) -> Self:
        return super().new(stop=self.stop, **changes)

    def sleep(self, response: BaseHTTPResponse | None = None) -> None:
        asked = self.get_retry_after(response) if response else None
        self.stop.wait(min(asked or self.get_backoff_time(), self.backoff_max))


def _cause(error: Exception) -> str:
    kinds = {
        "timed out": "timed out",
        "refused": "connection refused",
        "IncompleteRead": "truncated",
        "resolve": "host not found",
        "aborted": "connection reset",
        "reset": "connection reset",
    }
    known = (words for sign, words in kinds.items() if sign in str(error))
    return next(known, in_short(error))

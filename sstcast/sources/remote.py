"""Sources that download files from a URL: daily files in many threads, longer files one after another.

Requests have time limits, are retried with back-off and jitter, and obey Retry-After. After `GIVE_UP` consecutive
files have failed `ATTEMPTS` times each (3 files of servers that get one request at a time), the server gets no
more requests.
"""

import datetime as dt
import io
import threading
import time
from abc import abstractmethod
from collections import Counter, defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from itertools import groupby
from pathlib import Path
from typing import IO, Any, ClassVar, Self

import requests
from requests.adapters import HTTPAdapter
from urllib3 import BaseHTTPResponse, Retry
from urllib3.exceptions import HTTPError

from sstcast.errors import in_short
from sstcast.log import warn_once
from sstcast.progress import Progress
from sstcast.reading.raw import Day, block_of
from sstcast.sources.granule import BadFile, Granule, read_granule
from sstcast.sources.source import Batch, Failure, Need, Source

TRANSIENT = (408, 429, 500, 502, 503, 504)  # HTTP status codes that may be temporary
ATTEMPTS = 5  # per file
BACKOFF, LONGEST_WAIT = 1.0, 120.0  # seconds; waits double from the first to the second, with jitter
GIVE_UP = 8
PART = 1 << 20  # bytes
SLOW, SLOW_BYTES = 60.0, 60_000  # seconds, in which a request must bring so many bytes
PATIENCE = 10.0  # seconds before a line says what is waited for


class NotFound(BadFile):
    """The server has no such file."""


class RequestFailed(BadFile):
    """A request failed, perhaps temporarily."""


class _Retries(Retry):
    """Retries that wait at most `backoff_max` seconds, and stop waiting when `stop` is set, as by Ctrl-C."""

    def __init__(self, *arguments: Any, stop: threading.Event, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.stop = stop

    def new(self, **changes: Any) -> Self:
        return super().new(stop=self.stop, **changes)

    def sleep(self, response: BaseHTTPResponse | None = None) -> None:
        retry_after = self.get_retry_after(response) if response else None
        self.stop.wait(min(retry_after or self.get_backoff_time(), self.backoff_max))


def _cause(error: Exception) -> str:
    kinds = {
        "timed out": "timed out",
        "refused": "connection refused",
        "IncompleteRead": "truncated",
        "resolve": "host not found",
        "aborted": "connection reset",
        "reset": "connection reset",
    }
    causes = (words for sign, words in kinds.items() if sign in str(error))
    return next(causes, in_short(error))


def _flowing(answer: BaseHTTPResponse) -> Iterator[bytes]:
    """Yield the bytes of an answer as they come. Raises RequestFailed if they come too slowly."""
    begun, size = time.monotonic(), 0
    while part := answer.read1(PART):
        yield part
        size += len(part)
        if (now := time.monotonic()) - begun > SLOW:
            if size < SLOW_BYTES:
                raise RequestFailed(f"only {size} bytes in {SLOW:.0f} s")
            begun, size = now, 0


class Remote(Source):
    """A source of files below the URL `base`. Days in the same file, such as a year, are downloaded together.

    `together` is the number of parallel requests that the server tolerates, or None if only the user limits it.
    `long_files` tells whether a file contains many days. `time_limit` is in seconds without an answer.
    """

    base: str
    together: ClassVar[int | None] = None
    long_files: ClassVar[bool] = False
    time_limit: ClassVar[float] = 20

    @abstractmethod
    def files(self, day: dt.date, final_only: bool = False) -> tuple[str, ...]:
        """Return names of files that may contain a day, best first, and no preliminary ones if `final_only`."""

    def provisional(self, file: str, day: dt.date) -> bool:
        """Return whether a day from this file is preliminary, even if the file does not say so."""
        return False

    def read(self, need: Need, progress: Progress) -> Iterator[Batch]:
        concurrency, self._give_up = self.request.concurrency, GIVE_UP
        if self.together:  # with few requests at once, a server that is down costs long waits
            concurrency, self._give_up = min(concurrency, self.together), min(GIVE_UP, 3)
        self._limits = min(10, self.time_limit), self.time_limit  # seconds to connect, and to wait for data
        self._stop, self._lock, self._failures, self._progress = threading.Event(), threading.Lock(), 0, progress
        self._down: str | None = None
        retries = _Retries(
            total=ATTEMPTS - 1,
            status_forcelist=TRANSIENT,
            raise_on_status=False,
            backoff_factor=BACKOFF,
            backoff_jitter=BACKOFF,
            backoff_max=LONGEST_WAIT,
            stop=self._stop,
        )
        self._session = requests.Session()
        self._session.headers["Accept-Encoding"] = "identity"
        for scheme in ("http://", "https://"):
            self._session.mount(scheme, HTTPAdapter(pool_maxsize=concurrency, max_retries=retries))
        yield from self._long_files(need) if self.long_files else self._daily_files(need, concurrency)

    def _get(self, name: str, file: IO[bytes]) -> None:
        """Download `name` to `file`, perhaps in several threads at once.

        Raises NotFound if there is no such file, and RequestFailed if all attempts fail or the body is incomplete.
        """
        if self._down:
            raise RequestFailed(self._down)
        address = f"{self.base.rstrip('/')}/{name}"
        waiting = threading.Timer(PATIENCE, warn_once, (f"{self.base}: waiting for {name}",))
        waiting.daemon = True
        waiting.start()
        try:
            with self._session.get(address, stream=True, timeout=self._limits) as response:
                if response.status_code == 404:
                    self._note(None)
                    raise NotFound("not there")
                if not response.ok:
                    raise RequestFailed(f"status {response.status_code}")
                for part in _flowing(response.raw):
                    if self._stop.is_set():
                        raise RequestFailed("stopped")
                    file.write(part)
        except (requests.RequestException, HTTPError, RequestFailed) as error:
            reason = str(error) if isinstance(error, RequestFailed) else _cause(error)
            self._note(reason)
            raise RequestFailed(reason) from None
        finally:
            waiting.cancel()
        self._note(None)
        self._progress.downloaded(file.tell())

    def _note(self, failure: str | None) -> None:
        with self._lock:
            self._failures = self._failures + 1 if failure else 0
            if self._failures >= self._give_up:
                self._down = f"given up after {self._failures} failures in a row ({failure})"

    def _daily_files(self, need: Need, concurrency: int) -> Iterator[Batch]:
        """Request `concurrency` files at a time. Yields whole blocks, so that each is written only once."""
        outstanding = Counter(map(block_of, need))
        blocks: dict[int, Batch] = defaultdict(dict)
        pool = ThreadPoolExecutor(concurrency)
        try:
            for future in as_completed([pool.submit(self._day, *item) for item in need.items()]):
                day, outcome = future.result()
                block = block_of(day)
                blocks[block][day] = outcome
                outstanding[block] -= 1
                self._progress.settled(1)
                if not outstanding[block]:
                    yield blocks.pop(block)
        finally:
            self._down = "stopped"
            self._stop.set()  # ends downloads and waiting retries at once
            pool.shutdown(cancel_futures=True)

    def _day(self, day: dt.date, final_only: bool) -> tuple[dt.date, Day | str]:
        reason = "not there"
        for file in self.files(day, final_only):
            body = io.BytesIO()
            try:
                self._get(file, body)
                granule = read_granule(body.getvalue(), [day], self.request.box, self.optional)
            except NotFound:
                continue
            except BadFile as error:
                return day, Failure(error)
            if day in granule.fields:
                return day, self._as_day(granule, file, day)
            reason = f"{file} holds {granule.span}"
        return day, reason

    def _long_files(self, need: Need) -> Iterator[Batch]:
        """Download files one after another. Yields their days in blocks, so that only one block is in memory."""
        files = {day: self.files(day, final_only) for day, final_only in need.items()}
        store = self.request.path
        for names, members in groupby(filter(files.get, files), files.__getitem__):
            days, path = list(members), store.with_name(f".{store.name}.{names[0]}")
            try:
                with path.open("wb") as file:
                    self._get(names[0], file)
                for _, block in groupby(days, block_of):
                    yield self._block(path, names[0], list(block))
            except BadFile as error:
                reason = str(error) if isinstance(error, NotFound) else Failure(error)
                yield dict.fromkeys(days, reason)
                self._progress.settled(len(days))
            finally:
                path.unlink(missing_ok=True)

    def _block(self, path: Path, name: str, days: list[dt.date]) -> Batch:
        granule = read_granule(path, days, self.request.box, self.optional)
        self._progress.settled(len(days))
        return {
            day: self._as_day(granule, name, day) if day in granule.fields else f"{name} holds {granule.span}"
            for day in days
        }

    def _as_day(self, granule: Granule, file: str, day: dt.date) -> Day:
        preliminary = granule.preliminary or self.provisional(file, day)
        return Day(granule.fields[day], self.name, preliminary, granule.optional[day])

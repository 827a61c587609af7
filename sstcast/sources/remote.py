"""Sources that download files from a URL: daily files in many threads, longer files one after another."""

import datetime as dt
import io
from abc import abstractmethod
from collections import Counter, defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import ClassVar

from sstcast.ocean.raw import Day, block_of
from sstcast.progress import Progress
from sstcast.sources.download import Absent, Server, Trouble
from sstcast.sources.granule import BadFile, Granule, read_granule
from sstcast.sources.source import Batch, Need, Source

DAILY_BYTES = 1 << 26  # limit; NOAA's files have 1.7 MB, unpacked 17
LONG_BYTES = 1 << 32  # limit; a year has 0.5 GB, unpacked 1.5


class Remote(Source):
    """Files below the URL `base`. Days in the same file (such as one year) are downloaded together.

    `together` is how many parallel requests the server tolerates, None for as many as the user allows;
    `long_files` says whether a file holds many days. `time_limit` is in seconds per request.
    """

    base: str
    together: ClassVar[int | None] = None
    long_files: ClassVar[bool] = False
    time_limit: ClassVar[float] = 120

    @abstractmethod
    def files(self, day: dt.date, final_only: bool = False) -> tuple[str, ...]:
        """Return the names of the files that may hold a day, best first."""

    def provisional(self, file: str, day: dt.date) -> bool:
        """Return whether a day from this file counts as preliminary, whatever the file itself says."""
        return False

    def read(self, need: Need, progress: Progress) -> Iterator[Batch]:
        patience, together = self.request.patience, self.request.concurrency
        if self.together:  # with so few requests at once, a server that is down would cost long waits
            together = min(together, self.together)
            patience = replace(patience, give_up=min(patience.give_up, 3))
        self._server, self._progress = Server(self.base, self.time_limit, patience, together), progress
        yield from self._long_files(need) if self.long_files else self._daily_files(need, together)

    def _daily_files(self, need: Need, together: int) -> Iterator[Batch]:
        """Request `together` files at a time; yield whole blocks, so that each is written to disk only once."""
        outstanding = Counter(map(block_of, need))
        blocks: dict[int, Batch] = defaultdict(dict)
        pool = ThreadPoolExecutor(together)
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
            self._server.close()
            pool.shutdown(cancel_futures=True)

    def _day(self, day: dt.date, final_only: bool) -> tuple[dt.date, Day | str]:
        reason = "not there"
        for file in self.files(day, final_only):
            try:
                granule = self._read(file, day)
            except Absent:
                continue
            except (Trouble, BadFile) as error:
                return day, str(error)
            if day in granule.fields:
                return day, self._dress(granule, file, day)
            reason = f"{file} holds {granule.span}"
        return day, reason

    def _read(self, file: str, day: dt.date) -> Granule:
        body = io.BytesIO()
        self._server.get(file, body, DAILY_BYTES)
        self._progress.downloaded(body.tell())
        return read_granule(body.getvalue(), [day], self.request.box)

    def _long_files(self, need: Need) -> Iterator[Batch]:
        """Download one file after another; yield its days block by block, so that only one block is in memory."""
        files = {day: self.files(day, final_only) for day, final_only in need.items()}
        store = self.request.path
        for names, members in groupby(filter(files.get, files), files.__getitem__):
            days, path = list(members), store.with_name(f".{store.name}.{names[0]}")
            try:
                with path.open("wb") as file:
                    self._server.get(names[0], file, LONG_BYTES)
                    self._progress.downloaded(file.tell())
                for _, block in groupby(days, block_of):
                    yield self._block(path, names[0], list(block))
            except (Absent, Trouble, BadFile) as error:
                yield dict.fromkeys(days, str(error))
                self._progress.settled(len(days))
            finally:
                path.unlink(missing_ok=True)

    def _block(self, path: Path, name: str, days: list[dt.date]) -> Batch:
        granule = read_granule(path, days, self.request.box)
        self._progress.settled(len(days))
        return {
            day: self._dress(granule, name, day) if day in granule.fields else f"{name} holds {granule.span}"
            for day in days
        }

    def _dress(self, granule: Granule, file: str, day: dt.date) -> Day:
        preliminary = granule.preliminary or self.provisional(file, day)
        return Day(granule.fields[day], self.name, preliminary, granule.notice)

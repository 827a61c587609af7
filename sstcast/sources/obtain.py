"""How days are had: daily files by many threads, long files one after another, or from the simulator.

Each way yields batches that give, for every day needed, the day itself or why it could not be had.
"""

import datetime as dt
from collections import Counter, defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from sstcast.files import atomic
from sstcast.ocean.days import Day, block_of
from sstcast.ocean.grid import Grid
from sstcast.ocean.progress import Progress
from sstcast.sources.download import Absent, Server, Trouble, body
from sstcast.sources.granule import BadFile, Granule, pack
from sstcast.sources.reader import read_apart
from sstcast.sources.request import FetchRequest
from sstcast.sources.sources import Source

if TYPE_CHECKING:  # obstore has its types in stubs only
    from obstore import GetResult

Need = dict[dt.date, bool]  # the days needed, and whether only a final one will do
Batch = dict[dt.date, Day | str]

DAILY_BYTES = 1 << 26  # NOAA's files take 1.7 MB, unpacked 17
LONG_BYTES = 1 << 32  # a year takes 0.5 GB, unpacked 1.5


def obtain(source: Source, request: FetchRequest, need: Need, progress: Progress) -> Iterator[Batch]:
    """Yield the days of `need` that `source` has, and reasons for the others.

    Raises SSTCastError if the source is neither a URL nor a folder.
    """
    patience, together = request.patience, request.concurrency
    if source.together:  # one after another, a server that is down would cost long waits
        together = min(together, source.together)
        patience = replace(patience, give_up=min(patience.give_up, 3))
    server = Server(source.base, source.time_limit, patience)
    errand = Errand(source, server, request.grid, request.path, request.keep_raw, progress)
    return errand.long_files(need) if source.long_files else errand.daily_files(need, together)


def simulate(request: FetchRequest, need: Need, progress: Progress) -> Iterator[Batch]:
    """Yield the days of `need` from the simulated ocean of `request.seed`, block by block."""
    from sstcast.sources.simulator import Simulator

    simulator, grid = Simulator(request.seed), request.grid
    for _, members in groupby(need, block_of):
        days = list(members)
        fields = pack(simulator.field(days, grid.lat, grid.lon))
        yield {
            day: Day(field, "simulator", preliminary=False, notice=simulator.notice)
            for day, field in zip(days, fields, strict=True)
        }
        progress.settled(len(days))


@dataclass(frozen=True)
class Errand:
    """One source, asked for some days on `grid`; `store` is the path of the raw store they are for."""

    source: Source
    server: Server
    grid: Grid
    store: Path
    keep_raw: bool
    progress: Progress

    def daily_files(self, need: Need, together: int) -> Iterator[Batch]:
        """Ask for `together` files at once; yield whole blocks, so that each is written to disk once."""
        outstanding = Counter(map(block_of, need))
        blocks: dict[int, Batch] = defaultdict(dict)
        pool = ThreadPoolExecutor(together)
        try:
            for future in as_completed([pool.submit(self._day, *item) for item in need.items()]):
                day, outcome = future.result()
                block = block_of(day)
                blocks[block][day] = outcome
                outstanding[block] -= 1
                self.progress.settled(1)
                if not outstanding[block]:
                    yield blocks.pop(block)
        finally:
            self.server.close()
            pool.shutdown(cancel_futures=True)

    def _day(self, day: dt.date, final_only: bool) -> tuple[dt.date, Day | str]:
        reason = "not there"
        for file in self.source.files(day, final_only):
            try:
                granule = self.server.try_hard(file, partial(self._read, file, day))
            except Absent:
                continue
            except Trouble as trouble:
                return day, str(trouble)
            if day in granule.fields:
                return day, self._dress(granule, file, day)
            reason = f"{file} holds {granule.span}"
        return day, reason

    def _read(self, file: str, day: dt.date, response: "GetResult") -> Granule:
        data = b"".join(body(response, DAILY_BYTES))
        self.progress.downloaded(len(data))
        granule = read_apart(data, [day], self.grid)
        if self.keep_raw and day in granule.fields:
            with atomic(self._kept(file, day)) as path:
                path.write_bytes(data)
        return granule

    def _kept(self, file: str, day: dt.date) -> Path:
        name, _, query = file.partition("?")
        return self.store.with_suffix(".raw") / (f"{name.removesuffix('.nc')}.{day:%Y%m%d}.nc" if query else name)

    def long_files(self, need: Need) -> Iterator[Batch]:
        """Take one file after another; yield its days block by block, so that memory holds one block."""
        files = {day: self.source.files(day, final_only) for day, final_only in need.items()}
        for names, members in groupby(filter(files.get, files), files.__getitem__):
            days = list(members)
            try:
                path = self._long_file(names[0])
            except (Absent, Trouble) as error:
                yield dict.fromkeys(days, str(error))
                self.progress.settled(len(days))
                continue
            try:
                for _, block in groupby(days, block_of):
                    yield self._block(path, names[0], list(block))
            finally:
                if not (self.keep_raw or self.server.folder):
                    path.unlink()

    def _long_file(self, name: str) -> Path:
        """Return the file where it lies in a folder, or download it beside the store."""
        if self.server.folder:
            if not (self.server.folder / name).is_file():
                raise Absent("not there")
            return self.server.folder / name
        raw = self.store.with_suffix(".raw") / name
        path = raw if self.keep_raw else self.store.with_name(f".{self.store.name}.{name}")
        self.server.try_hard(name, partial(self._save, path))
        return path

    def _save(self, path: Path, response: "GetResult") -> None:
        with atomic(path) as temporary:
            with temporary.open("wb") as file:
                for part in body(response, LONG_BYTES):
                    self.progress.downloaded(file.write(part))
            read_apart(temporary, [], self.grid)

    def _block(self, path: Path, name: str, days: list[dt.date]) -> Batch:
        self.progress.settled(len(days))
        try:
            granule = read_apart(path, days, self.grid)
        except BadFile as error:
            return dict.fromkeys(days, f"{name}: {error}")
        return {
            day: self._dress(granule, name, day) if day in granule.fields else f"{name} holds {granule.span}"
            for day in days
        }

    def _dress(self, granule: Granule, file: str, day: dt.date) -> Day:
        preliminary = granule.preliminary or self.source.provisional(file, day)
        return Day(granule.fields[day], self.source.name, preliminary, granule.notice)

"""Sources of files on disk, including the sample. Days are read from the files' content, not their names."""

import datetime as dt
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import ClassVar

from sstcast.geo import Box
from sstcast.progress import Progress
from sstcast.reading.raw import OPTIONAL, Day, block_of
from sstcast.sources.granule import BadFile, Granule, read_granule
from sstcast.sources.source import Batch, FetchRequest, Need, Source
from sstcast.storage.paths import walk

STORES = (".zgroup", ".zarray", "zarr.json")


class Folder(Source):
    """All files below a folder, or a single file. Final days come first, then files in order of their names."""

    name = "mirror"
    variables: ClassVar[tuple[str, ...]] = ("sst", *OPTIONAL)  # if its files have them

    def __init__(self, request: FetchRequest) -> None:
        super().__init__(request)
        self.root = Path(request.source)

    @classmethod
    def accepts(cls, address: str) -> bool:
        return address != "" and Path(address).is_dir()

    def read(self, need: Need, progress: Progress) -> Iterator[Batch]:
        files: dict[Path, Granule] = {}
        for path in [self.root] if self.root.is_file() else self._walk():
            try:
                files[path] = read_granule(path, [], self.request.box)
            except BadFile as error:
                self._skip(path, str(error))
        choice: dict[dt.date, Path] = {}
        for path in sorted(files, key=lambda path: (files[path].preliminary, path)):
            days = files[path].days
            if not any(self.request.start <= day <= self.request.end for day in days):
                self._skip(path, "holds none of the requested days")
            elif choice.keys() >= set(days):
                problem = "preliminary" if files[path].preliminary else "a second file"
                self._skip(path, f"{problem}; {days[0]} is in {choice[days[0]].relative_to(self.root)}")
            choice = dict.fromkeys(days, path) | choice
        for _, members in groupby(need, block_of):
            block = list(members)
            paths = {day: choice[day] for day in block if day in choice}
            batch = self._block(
                {d: path for d, path in paths.items() if not (need[d] and files[path].preliminary)}
            )
            yield {day: batch.get(day, f"in no file below {self.root}") for day in block}
            progress.settled(len(block))

    def _block(self, paths: dict[dt.date, Path]) -> Batch:
        """Read the days of a block from their files."""
        batch: Batch = {}
        for path in set(paths.values()):
            days = [day for day, file in paths.items() if file == path]
            try:
                granule = read_granule(path, days, self.request.box, self.optional)
            except BadFile as error:
                batch |= dict.fromkeys(days, f"{path.name}: {error}")
                continue
            for day in days:
                # Files of many days do not say which of them are preliminary.
                preliminary = granule.preliminary or (len(granule.days) > 1 and self.settling(day))
                batch[day] = Day(granule.fields[day], self.name, preliminary, granule.optional[day])
        return batch

    def _walk(self) -> Iterator[Path]:
        """Yield all files below the folder, following links, except in Zarr stores."""
        for folder, folders, names in walk(self.root):
            if any(name in STORES for name in names):
                self._skip(folder, "a Zarr store; set data.source to it")
                folders.clear()
                continue
            yield from (folder / name for name in names if (folder / name).is_file())

    def _skip(self, path: Path, reason: str) -> None:
        self.unused[str(path.relative_to(self.root))] = reason


class Sample(Folder):
    """The sample that ships with sstcast, a single file."""

    name = store = "sample"
    variables = ("sst",)
    region = "tasman"
    box = Box(147, 155, -45, -37)
    end = dt.date(2016, 12, 31)

    def __init__(self, request: FetchRequest) -> None:
        from sstcast.config import FieldSource

        super().__init__(request)
        self.root = FieldSource().path

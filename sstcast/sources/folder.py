"""Sources of files on disk, including the sample; days are read from the files' content, not their names."""

import datetime as dt
from collections import defaultdict
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

from sstcast.artefacts import walk
from sstcast.geo import Box
from sstcast.ocean.raw import Day, block_of
from sstcast.progress import Progress
from sstcast.sources.granule import BadFile, Granule, read_granule
from sstcast.sources.source import Batch, FetchRequest, Need, Source

STORES = (".zgroup", ".zarray", "zarr.json")


class Folder(Source):
    """All files below a folder, or a single file; final days come first, then files in order of their names."""

    name = "mirror"

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
        choice: dict[dt.date, list[Path]] = defaultdict(list)
        for path in sorted(files, key=lambda path: (files[path].preliminary, path)):
            if not any(self.request.start <= day <= self.request.end for day in files[path].days):
                self._skip(path, "holds none of the requested days")
            for day in files[path].days:
                choice[day].append(path)
        self._report_duplicates(files, choice, need)
        where = f"not in {self.root.name}" if self.root.is_file() else f"in no file below {self.root}"
        for _, members in groupby(need, block_of):
            days = list(members)
            left = {
                day: [path for path in choice.get(day, ()) if not (need[day] and files[path].preliminary)]
                for day in days
            }
            batch = self._block(left)
            yield {day: batch.get(day, where) for day in days}
            progress.settled(len(days))

    def _block(self, left: dict[dt.date, list[Path]]) -> Batch:
        """Read the days of a block, each from its first readable file."""
        batch: Batch = {}
        while left := {day: paths for day, paths in left.items() if paths}:
            wanted: dict[Path, list[dt.date]] = defaultdict(list)
            for day, paths in left.items():
                wanted[paths.pop(0)].append(day)
            for path, days in wanted.items():
                try:
                    found = read_granule(path, days, self.request.box)
                except BadFile as error:
                    batch |= dict.fromkeys(days, f"{path.name}: {error}")
                    continue
                for day in days:
                    # Files of many days do not say which of them are preliminary.
                    preliminary = found.preliminary or (len(found.days) > 1 and self.settling(day))
                    batch[day] = Day(found.fields[day], self.name, preliminary)
                    del left[day]
        return batch

    def _walk(self) -> Iterator[Path]:
        """Yield all files below the folder, following links, except those of Zarr stores."""
        for here, folders, names in walk(self.root):
            if any(name in STORES for name in names):
                self._skip(here, "a Zarr store; set data.source to it")
                folders.clear()
                continue
            yield from (here / name for name in names if (here / name).is_file())

    def _report_duplicates(
        self, files: dict[Path, Granule], choice: dict[dt.date, list[Path]], need: Need
    ) -> None:
        """Report files that are unused because other files contain the same days."""
        first = {paths[0] for paths in choice.values()}
        for day, paths in choice.items():
            for path in paths[1:]:
                if day in need and path not in first:
                    what = "preliminary" if files[path].preliminary else "a second file"
                    self._skip(path, f"{what}; {day} is in {paths[0].relative_to(self.root)}")

    def _skip(self, path: Path, reason: str) -> None:
        self.unused[str(path.relative_to(self.root))] = reason


class Sample(Folder):
    """The sample that ships with sstcast, a single file."""

    name = store = "sample"
    region = "tasman"
    box = Box(147, 155, -45, -37)
    end = dt.date(2016, 12, 31)

    def __init__(self, request: FetchRequest) -> None:
        from sstcast.ocean.reading import source_path  # imported late: it takes a second

        super().__init__(request)
        self.root = source_path("sample")

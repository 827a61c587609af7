"""Files that were downloaded before: which days a file holds is read in it, whatever it is called."""

import datetime as dt
import os
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import groupby
from pathlib import Path

from sstcast.ocean.days import Day, block_of
from sstcast.ocean.progress import Progress
from sstcast.sources.granule import BadFile, Granule
from sstcast.sources.obtain import Batch, Need
from sstcast.sources.reader import read_apart
from sstcast.sources.request import FetchRequest
from sstcast.sources.sources import SETTLED_AFTER

TOGETHER = 8  # files read at once; there are fewer processes to read them, and one is to be ready for each
STORES = (".zgroup", ".zarray", "zarr.json")
Unused = dict[str, str]


def from_folder(request: FetchRequest, unused: Unused, need: Need, progress: Progress) -> Iterator[Batch]:
    """Yield the days of `need` that files below the folder `request.source` hold, block by block.

    A final day wins over a preliminary one, and then the first name. `unused` is told of each file that gave
    nothing, and why.
    """
    root = Path(request.source)
    pool = ThreadPoolExecutor(TOGETHER)
    try:
        files: dict[Path, Granule] = {}
        for path, found in pool.map(partial(_look, request=request), _walk(root, unused)):
            if isinstance(found, Granule):
                files[path] = found
            else:
                unused[str(path.relative_to(root))] = found
        choice: dict[dt.date, list[Path]] = defaultdict(list)
        for path in sorted(files, key=lambda path: (files[path].preliminary, path)):
            if not any(request.start <= day <= request.end for day in files[path].days):
                unused[str(path.relative_to(root))] = "holds no day that was asked for"
            for day in files[path].days:
                choice[day].append(path)
        _name_the_second(root, files, choice, need, unused)
        for _, members in groupby(need, block_of):
            yield _block(list(members), need, files, choice, request, pool, progress)
    finally:
        pool.shutdown(cancel_futures=True)


def _block(
    days: list[dt.date],
    need: Need,
    files: dict[Path, Granule],
    choice: dict[dt.date, list[Path]],
    request: FetchRequest,
    pool: ThreadPoolExecutor,
    progress: Progress,
) -> Batch:
    """Read the days of a block, each from the first of its files that gives it."""
    today = dt.date.today()
    batch: Batch = dict.fromkeys(days, f"in no file below {request.source}")
    left = {day: [p for p in choice.get(day, ()) if not (need[day] and files[p].preliminary)] for day in days}
    while left := {day: paths for day, paths in left.items() if paths}:
        wanted: dict[Path, list[dt.date]] = defaultdict(list)
        for day, paths in left.items():
            wanted[paths.pop(0)].append(day)
        for path, found in pool.map(partial(_read, request=request), wanted.items()):
            for day in wanted[path]:
                if isinstance(found, str):
                    batch[day] = f"{path.name}: {found}"
                    continue
                # Files of many days do not say which of them are preliminary.
                recent = len(found.days) > 1 and day > today - SETTLED_AFTER
                batch[day] = Day(found.fields[day], "mirror", found.preliminary or recent, found.notice)
                del left[day]
    progress.settled(len(days))
    return batch


def _read(item: tuple[Path, list[dt.date]], request: FetchRequest) -> tuple[Path, Granule | str]:
    path, days = item
    try:
        return path, read_apart(path, days, request.grid)
    except BadFile as error:
        return path, str(error)


def _look(path: Path, request: FetchRequest) -> tuple[Path, Granule | str]:
    """Read which days a file holds, and none of them."""
    return _read((path, []), request)


def _walk(root: Path, unused: Unused) -> Iterator[Path]:
    """Yield all files below `root`, through links too, but those of Zarr stores."""
    seen: set[Path] = set()
    for folder, folders, names in os.walk(root, followlinks=True):
        here = Path(folder)
        if (real := here.resolve()) in seen:
            folders.clear()
            continue
        seen.add(real)
        if any(name in STORES for name in names):
            unused[str(here.relative_to(root))] = "a Zarr store: name it as data.source"
            folders.clear()
            continue
        folders.sort()
        yield from (here / name for name in sorted(names) if (here / name).is_file())


def _name_the_second(
    root: Path, files: dict[Path, Granule], choice: dict[dt.date, list[Path]], need: Need, unused: Unused
) -> None:
    """Name the files all of whose days come from others."""
    first = {paths[0] for paths in choice.values()}
    for day, paths in choice.items():
        for path in paths[1:]:
            if day in need and path not in first:
                better = paths[0].relative_to(root)
                what = "preliminary" if files[path].preliminary else "a second file"
                unused[str(path.relative_to(root))] = f"{what}; {day} is in {better}"

"""The verb `fetch`: list what is wanted, take the difference to what is there, get the missing days.

Source after source is asked for what is still missing; what arrives goes into the store
(`sstcast.sources.store`) block by block.
"""

import datetime as dt
from collections.abc import Callable, Iterator
from functools import partial

from sstcast.ocean.days import Day, is_final
from sstcast.ocean.progress import Progress, days_progress
from sstcast.sources.folder import from_folder
from sstcast.sources.obtain import Batch, Need, obtain, simulate
from sstcast.sources.request import FetchReport, FetchRequest
from sstcast.sources.sources import find_sources, is_folder
from sstcast.sources.store import RawStore

Reader = Callable[[Need, Progress], Iterator[Batch]]


def fetch(request: FetchRequest, say: Callable[[str], object] = print) -> FetchReport:
    """Bring every day asked for into the store, as far as the sources have them; `say` gets lines to print.

    Raises SSTCastError if the request, the source or the store is unusable, or the disk is full. Days that
    cannot be had are no error: the report lists them.
    """
    store, days = RawStore(request.path, request.grid), request.days
    with store.writing():
        before = store.status(days)
        fetched: set[dt.date] = set()
        unused: dict[str, str] = {}
        failures: dict[dt.date, list[str]] = {day: [] for day in days}
        for name, reader in _readers(request, unused):
            status = zip(days, store.status(days).tolist(), strict=True)
            need: Need = {d: code > 0 for d, code in status if not is_final(code) and d not in fetched}
            if not need:
                break
            with days_progress(name, len(need)) as progress:
                for batch in reader(need, progress):
                    good = {d: day for d, day in batch.items() if isinstance(day, Day)}
                    odd = store.put(good, request.end)
                    fetched.update(good.keys() - odd.keys())
                    for d, reason in (batch | odd).items():
                        if isinstance(reason, str):
                            failures[d].append(f"{name}: {reason}")
        after = dict(zip(days, store.status(days).tolist(), strict=True))
    report = FetchReport(
        path=request.path,
        fetched=len(fetched),
        present=int((before > 0).sum()),
        preliminary=tuple(d for d, code in after.items() if code and not is_final(code)),
        unused=unused,
        missing={d: "; ".join(dict.fromkeys(failures[d])) for d, code in after.items() if not code},
    )
    for line in report.lines():
        say(line)
    return report


def _readers(request: FetchRequest, unused: dict[str, str]) -> list[tuple[str, Reader]]:
    if request.source == "simulator":
        return [("simulator", partial(simulate, request))]
    if is_folder(request.source):
        return [("mirror", partial(from_folder, request, unused))]
    sources = find_sources(request.source, request.grid, dt.date.today())
    return [(source.name, partial(obtain, source, request)) for source in sources]

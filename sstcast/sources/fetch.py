"""The command `fetch`: compares the requested days with the store and downloads those that are missing.

Sources are tried in turn for the days that are still missing. Downloaded days are written to the store
(`sstcast.sources.store`) block by block.
"""

import datetime as dt
from collections.abc import Callable

from sstcast.ocean.raw import Day, is_final
from sstcast.progress import days_progress
from sstcast.sources import find_source
from sstcast.sources.request import FetchReport, FetchRequest
from sstcast.sources.source import Need
from sstcast.sources.store import RawStore


def fetch(request: FetchRequest, say: Callable[[str], object] = print) -> FetchReport:
    """Download all requested days that the sources have into the store; `say` gets lines to print.

    Raises SSTCastError if the request, the source or the store is unusable, or the disk is full. Days that
    cannot be downloaded are not an error: the report lists them.
    """
    store, days = RawStore(request.path, request.box, find_source(request.source).title), request.days
    with store.writing():
        before = store.status(days)
        fetched: set[dt.date] = set()
        unused: dict[str, str] = {}
        failures: dict[dt.date, list[str]] = {day: [] for day in days}
        for source in find_source(request.source).open(request):
            status = zip(days, store.status(days).tolist(), strict=True)
            need: Need = {d: code > 0 for d, code in status if not is_final(code) and d not in fetched}
            if not need:
                break
            with days_progress(source.name, len(need)) as progress:
                for batch in source.read(need, progress):
                    good = {d: day for d, day in batch.items() if isinstance(day, Day)}
                    odd = store.put(good, request.end)
                    fetched.update(good.keys() - odd.keys())
                    for d, reason in (batch | odd).items():
                        if isinstance(reason, str):
                            failures[d].append(f"{source.name}: {reason}")
            unused |= source.unused
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

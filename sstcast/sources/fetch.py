"""The command `fetch`: downloads the requested days that the store lacks.

Sources are tried in turn until no day is missing. Downloaded days are written to the store
(`sstcast.sources.raw_store`) block by block.
"""

import datetime as dt
from dataclasses import dataclass, field, replace
from pathlib import Path

from sstcast.errors import SSTCastError, counted
from sstcast.log import LOG
from sstcast.progress import days_progress
from sstcast.reading.raw import OPTIONAL, Day, day_ranges, is_final
from sstcast.sources import find_source
from sstcast.sources.raw_store import RawStore
from sstcast.sources.source import Failure, FetchRequest


@dataclass(frozen=True)
class FetchReport:
    """The result of a fetch: the number of days `fetched`, and the number `present` before.

    `missing` gives a reason for each day that could not be downloaded. `down` is the reason for the first missing
    day that the sources may have, or empty if they have none of them. `preliminary` lists the requested days that
    NOAA will still replace. `unused` gives a reason for each unused file in a folder.
    """

    path: Path
    fetched: int
    present: int
    preliminary: tuple[dt.date, ...]
    missing: dict[dt.date, str]
    down: str = ""
    unused: dict[str, str] = field(default_factory=dict)

    @property
    def complete(self) -> bool:
        """Whether the store has every requested day."""
        return not self.missing

    def lines(self) -> list[str]:
        """Format the report. Consecutive days missing for the same reason share a line."""
        lines = [f"{self.path}: {counted(self.fetched, 'day')} fetched, {self.present} already present"]
        if not self.fetched and self.complete:
            lines = [f"{self.path}: nothing to do, all {self.present} days are present"]
        if self.preliminary:
            lines.append(
                f"preliminary: {counted(len(self.preliminary), 'day')}; fetch again after NOAA has finalised them"
            )
        for first, last, reason in day_ranges(self.missing):
            days = str(first) if first == last else f"{first}..{last} ({(last - first).days + 1} days)"
            lines.append(f"missing {days}: {reason}")
        return lines + [f"not used {name}: {reason}" for name, reason in sorted(self.unused.items())]


def fetch(request: FetchRequest) -> FetchReport:
    """Download all requested days to the store. Logs each line of the report.

    A store has the variables that were requested when it was made.

    Raises SSTCastError if the request, the source or the store is unusable, or lacks variables, or the disk is
    full. Days that cannot be downloaded raise no error. They are listed in the report.
    """
    source_class, days = find_source(request.source), request.days
    optional = tuple(name for name in OPTIONAL if name in request.variables)
    store = RawStore(request.path, request.box, source_class.title, optional)
    with store.writing():
        wanted, held = {*store.variables}, ", ".join(("sst", *store.variables))
        if lacking := [name for name in optional if name not in wanted]:
            raise SSTCastError(f"{store.path}: holds {held}, without {lacking[0]}; fetch it into another --out")
        if not wanted.issubset(source_class.variables):
            raise SSTCastError(
                f"{store.path}: holds {held} of each day, but the source {request.source} has only "
                f"{', '.join(source_class.variables)}; choose another --source or --out"
            )
        old_status = store.status(days)
        fetched: set[dt.date] = set()
        unused: dict[str, str] = {}
        failures: dict[dt.date, list[str]] = {day: [] for day in days}
        absent_days: set[dt.date] = set()
        for source in source_class.open(replace(request, variables=("sst", *store.variables))):
            if not wanted.issubset(source.variables):
                continue
            status = zip(days, store.status(days).tolist(), strict=True)
            # Only a final version replaces a preliminary day.
            need = {d: code > 0 for d, code in status if not is_final(code) and d not in fetched}
            if not need:
                break
            with days_progress(source.name, len(need)) as progress:
                for read_batch in source.read(need, progress):
                    batch = {d: _refused_without(wanted, day) for d, day in read_batch.items()}
                    read_days = {d: day for d, day in batch.items() if isinstance(day, Day)}
                    rejections = store.put(read_days, request.end)
                    fetched.update(read_days.keys() - rejections.keys())
                    for d, reason in (batch | rejections).items():
                        if isinstance(reason, str):
                            failures[d].append(f"{source.name}: {reason}")
                            if d not in rejections and not isinstance(reason, Failure):
                                absent_days.add(d)
            unused |= source.unused
        new_status = dict(zip(days, store.status(days).tolist(), strict=True))
    missing = {d: "; ".join(dict.fromkeys(failures[d])) for d, code in new_status.items() if not code}
    report = FetchReport(
        path=request.path,
        fetched=len(fetched),
        present=int((old_status > 0).sum()),
        preliminary=tuple(d for d, code in new_status.items() if code and not is_final(code)),
        unused=unused,
        missing=missing,
        down=next((reason for d, reason in missing.items() if d not in absent_days), ""),
    )
    for line in report.lines():
        LOG.info(line)
    return report


def _refused_without(wanted: set[str], day: Day | str) -> Day | str:
    """Return a day that has all wanted variables unchanged, and otherwise the reason to refuse it."""
    if isinstance(day, str) or not (absent := sorted(wanted - day.optional.keys())):
        return day
    return f"its file has no {' and no '.join(absent)}"

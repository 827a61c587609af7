"""Checks that a run's data and weights are those it was trained with. `data.json` holds their digests."""

from sstcast.log import warn_once
from sstcast.ocean.prepared import Prepared, Record
from sstcast.runs import Run
from sstcast.workers import FIRST_PROCESS

WEIGHTS_REMEDY = "restore it, or train again under another name"
REMEDY = "restore the source and run `sstcast prepare`, or score again, or train again with --set name=..."


def record_of(run: Run) -> Record | None:
    """Read a run's record. Returns None if there is none. Raises SSTCastError if it is damaged."""
    return Record.load(run.data, WEIGHTS_REMEDY) if run.data.exists() else None


def check_data(run: Run, prepared: Prepared | None = None) -> None:
    """Raise SSTCastError unless the prepared stores hold the data that a run was trained or scored on.

    By default they are the stores of the run's own data. For a run without data.json, print a warning instead.
    """
    prepared = prepared or Prepared.of(run.config.data)
    current_record = prepared.record()  # raises an error if the stores are absent
    for recorded in run.recorded:
        message = f"{recorded.folder}: was {'trained' if recorded.trained == recorded else 'scored'}"
        if (record := record_of(recorded)) is not None:
            record.check(current_record, prepared, message, REMEDY)
        elif FIRST_PROCESS and recorded.best.exists():
            warn_once(f"{recorded.folder}: has no {recorded.data.name}; its data are not checked")

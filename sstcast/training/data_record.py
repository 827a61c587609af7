"""Checks that the prepared stores hold the data that a run was trained on."""

from sstcast.errors import SSTCastError, warn
from sstcast.ocean.prepared import Prepared, Record
from sstcast.runs import Run
from sstcast.storage.artefacts import FIRST_PROCESS

REMEDY = "restore it, or train again under another name"


def record_of(run: Run, number: int = 1) -> Record | None:
    """Read a run's record of its ocean `number`, counted from 1. Returns None if there is none.

    Raises SSTCastError if the record is damaged.
    """
    path = run.data_of(number)
    return Record.load(path, REMEDY) if path.exists() else None


def check_record(run: Run, then: Record, prepared: Prepared) -> None:
    """Raise SSTCastError if the prepared stores differ from the recorded data of a run."""
    now = prepared.record()
    for what in ("cube", "statistics"):
        ours, theirs = getattr(then, what), getattr(now, what)
        if ours != theirs:
            done = "trained" if run.trained == run else "scored"
            raise SSTCastError(
                f"{run.folder}: was {done} on other data than {prepared.cube} holds: {what} {ours[:12]} of "
                f"{then.source}, not {theirs[:12]} of {now.source}; restore the source and run `sstcast prepare`, "
                "or score again, or train again with --set name=..."
            )


def check_data(run: Run) -> None:
    """Raise SSTCastError unless the prepared stores hold the data that a run was trained on.

    For a run without data.json, print a warning instead.
    """
    prepared = Prepared.of(run.config.data)
    prepared.record()  # raises an error if the stores are absent
    for each in run.recorded:
        if (then := record_of(each)) is not None:
            check_record(each, then, prepared)
        elif FIRST_PROCESS and each.best.exists():
            warn(f"{each.folder}: has no data.json; its data are not checked")

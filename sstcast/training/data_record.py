"""Checks that a run's data and weights are those it was trained with. `data.json` holds their digests."""

from collections.abc import Sequence

from sstcast.log import warn_once
from sstcast.ocean.prepared import Prepared, Record
from sstcast.runs import Run
from sstcast.workers import FIRST_PROCESS

WEIGHTS_REMEDY = "restore it, or train again under another name"
REMEDY = "restore the source and run `sstcast prepare`, or score again, or train again with --set name=..."


def record_of(run: Run, number: int = 1) -> Record | None:
    """Read a run's record of its ocean `number`, counted from 1. Returns None if there is none.

    Raises SSTCastError if the record is damaged.
    """
    path = run.data_of(number)
    return Record.load(path, WEIGHTS_REMEDY) if path.exists() else None


def check_data(run: Run, oceans: Sequence[Prepared] = ()) -> None:
    """Raise SSTCastError unless the prepared stores hold the data that a run was trained or scored on.

    Only the run's first ocean is compared, unless the stores of all `oceans` are given. For a run without
    data.json, print a warning instead.
    """
    for number, prepared in enumerate(oceans or [Prepared.of(run.config.data)], 1):
        current_record = prepared.record()  # raises an error if the stores are absent
        for recorded in run.recorded:
            message = f"{recorded.folder}: was {'trained' if recorded.trained == recorded else 'scored'}"
            if (record := record_of(recorded, number)) is not None:
                record.check(current_record, prepared, message, REMEDY)
            elif FIRST_PROCESS and recorded.best.exists():
                warn_once(f"{recorded.folder}: has no {recorded.data_of(number).name}; its data are not checked")

"""Checks that a run's data and weights are those it was trained with. `data.json` holds their digests."""

from typing import Any

from sstcast.config import DataConfig, differing_key
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

    By default they are the stores of the run's own data. They may be of other splits. For a run without data.json,
    print a warning instead.
    """
    prepared = prepared or Prepared.of(run.config.data)
    current_record = prepared.record(run.config.data)  # raises an error if the stores are absent
    for recorded in run.recorded:
        message = f"{recorded.folder}: was {'trained' if recorded.trained == recorded else 'scored'}"
        if (record := record_of(recorded)) is not None:
            record.check(current_record, prepared, message, REMEDY)
        elif FIRST_PROCESS and recorded.best.exists():
            warn_once(f"{recorded.folder}: has no {recorded.data.name}; its data are not checked")


def is_own(run: Run, prepared: Prepared) -> bool:
    """Return whether stores hold the data that a run was trained on, wherever they and their source lie.

    Stores of the run's own configuration are taken to (see `check_data`). Others do if the configurations differ
    in no more than the paths, and the digests are those in data.json.
    """
    data = run.config.data
    if prepared.data == data:
        return True
    record = record_of(run.recorded[0])
    if record is None or differing_key(without_paths(data), without_paths(prepared.data)):
        return False
    now = prepared.record()
    digests = ("cube", "test", "statistics", "predictors")
    return all(getattr(record, name) == getattr(now, name) for name in digests)


def is_own_ocean(run: Run, prepared: Prepared) -> bool:
    """Return whether stores hold the ocean that a run was trained on, perhaps with other splits."""
    data = run.config.data
    if prepared.data.model_copy(update={"splits": data.splits}) == data:
        return True
    record = record_of(run.recorded[0])
    return record is not None and prepared.digest_of_days(data) == record.cube


def ocean_of(run: Run) -> str:
    """Return the digest of the days of a run's own ocean, which tells it wherever it lies, if it is recorded."""
    record = record_of(run.recorded[0])
    return "not recorded" if record is None else record.cube


def without_paths(data: DataConfig) -> dict[str, Any]:
    """Return all keys that decide results on given days, as plain data: all but paths, and predictors in order."""
    predictors = [[name, one.delay, one.reading] for name, one in data.predictors.items()]
    keys = data.model_dump(mode="json", exclude={"source", "directory"})
    return keys | data.reading | {"predictors": predictors}

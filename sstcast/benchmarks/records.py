"""What a benchmark run keeps of its data and its score, and what must be so when it is taken up again."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, TypeVar

from pydantic import BaseModel, Field, FiniteFloat, ValidationError, model_validator

from sstcast.config import Strict
from sstcast.errors import SSTCastError
from sstcast.files import atomic
from sstcast.runs import Run

SHOWN = 12  # digits of a digest in a message
Record = TypeVar("Record", bound=BaseModel)
Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class Data(Strict):
    """The SHA-256 of each raw file, and of the graphs and splits that were read of them."""

    files: dict[str, Digest]
    loaded: Digest


class Score(Strict):
    """What `metrics.json` says; those made before digests were kept lack `data`."""

    dataset: str
    model: str
    seed: int
    metric: str
    test: FiniteFloat
    validation: FiniteFloat
    best_epoch: int = Field(ge=0)
    epochs: int = Field(ge=1)
    parameters: int = Field(ge=0)
    seconds: FiniteFloat = Field(ge=0)
    device: str
    data: Data | None = None

    @model_validator(mode="after")
    def _epochs(self) -> "Score":
        if self.best_epoch >= self.epochs:
            raise ValueError("best_epoch: must be one of the epochs")
        return self


def write_record(record: BaseModel, path: Path) -> None:
    """Write a record as JSON, whole or not at all."""
    with atomic(path) as temporary:
        temporary.write_text(json.dumps(record.model_dump(mode="json"), indent=2) + "\n")


def read_record(kind: type[Record], path: Path, remedy: str) -> Record:
    """Read a record; raise SSTCastError, with the remedy, if it is damaged."""
    try:
        return kind.model_validate_json(path.read_bytes(), strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        key = ".".join(str(part) for part in first["loc"])
        reason = f"{key}: {first['msg']}" if key else first["msg"]
    except OSError as error:
        reason = f"cannot be read: {error.strerror}"
    raise SSTCastError(f"{path}: damaged ({' '.join(reason.split())}); {remedy}")


def data_file(run: Run) -> Path:
    """Return where a run keeps the digests of its data."""
    return run.folder / "data.json"


def recorded(run: Run) -> Data | None:
    """Return the digests of a run's data; None, said in a line, if it is older than these.

    Raises SSTCastError if the record is damaged.
    """
    if data_file(run).exists():
        return read_record(Data, data_file(run), "delete the run's folder to train anew")
    print(f"{run.folder}: made before digests of raw files were kept; whether its data are the same is not known")
    return None


def read_score(run: Run, known: Data | None, **expected: object) -> Score:
    """Read `metrics.json`; raise SSTCastError if it is damaged, of another run or of other data."""
    remedy = "delete the file, and the same command scores the run again"
    score = read_record(Score, run.metrics, remedy)
    for key, value in expected.items():
        if getattr(score, key) != value:
            raise SSTCastError(
                f"{run.metrics}: {key} is {getattr(score, key)!r}, and the run's is {value!r}; {remedy}"
            )
    if known is not None and score.data != known:
        raise SSTCastError(f"{run.metrics}: a score of other data than {data_file(run).name} says; {remedy}")
    return score


def check_files(run: Run, known: Data, files: Mapping[str, str], folder: Path) -> None:
    """Raise SSTCastError, naming run and file, if a raw file is not what the run was trained on."""
    for name in sorted({*known.files, *files}):
        then, now = known.files.get(name), files.get(name)
        if then != now:
            _refuse(run, f"{folder / name}", then, now)


def check_loaded(run: Run, known: Data, digest: str, name: str) -> None:
    """Raise SSTCastError if the same raw files are read otherwise than when the run began."""
    if known.loaded != digest:
        _refuse(run, f"{name}, as read from the same files by this version", known.loaded, digest)


def _refuse(run: Run, what: str, then: str | None, now: str | None) -> None:
    before, after = (f"SHA-256 {d[:SHOWN]}..." if d else "none" for d in (then, now))
    raise SSTCastError(
        f"{run.folder}: trained on other data: {what}: {before} then, {after} now; put the old data back, "
        "or train anew with --set runs=... or without this folder"
    )

"""Records of a benchmark run's data and score, and the checks made when the run is resumed."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

from pydantic import Field, FiniteFloat, model_validator

from sstcast.benchmarks.dataset import Dataset
from sstcast.errors import SSTCastError
from sstcast.runs import Record, Run

SHOWN = 12  # digits of a digest shown in a message
Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class Data(Record):
    """The SHA-256 of each raw file, and of the graphs and splits that were read from them."""

    files: dict[str, Digest]
    loaded: Digest

    @classmethod
    def of(cls, run: Run) -> "Data":
        """Return the record of a run's data; raise SSTCastError if it is damaged or absent."""
        return cls.load(run.data, "delete the run's folder to train again")

    def check(
        self, run: Run, dataset: Dataset, root: Path, files: Mapping[str, str], loaded: str | None = None
    ) -> None:
        """Raise SSTCastError, naming run and file, if a raw file differs from the one the run was trained on.

        Also raise it if the same files now give other graphs than when the run began, if `loaded` is known.
        """
        folder, names = root / dataset.folder, {*self.files, *files}
        pairs = {str(folder / name): (self.files.get(name), files.get(name)) for name in names}
        if loaded is not None:
            pairs[f"{dataset.name}, as read from the same files by this version"] = (self.loaded, loaded)
        for what, digests in sorted(pairs.items()):
            if digests[0] != digests[1]:
                then, now = (f"SHA-256 {digest[:SHOWN]}..." if digest else "none" for digest in digests)
                raise SSTCastError(
                    f"{run.folder}: trained on other data: {what}: {then} then, {now} now; put the old data back, "
                    "or train again with --set runs=... or without this folder"
                )


class Score(Record):
    """The content of `metrics.json`.

    `epochs` counts the epochs of all stages, and `best_epoch` is counted from the first stage.
    """

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
    data: Data

    @model_validator(mode="after")
    def _epochs(self) -> "Score":
        if self.best_epoch >= self.epochs:
            raise ValueError("best_epoch: must be one of the epochs")
        return self

    @classmethod
    def of(cls, run: Run, known: Data, **expected: object) -> "Score":
        """Read `metrics.json`; raise SSTCastError if it is damaged, or belongs to another run or other data."""
        remedy = "delete the file and re-run the command, which scores the run again"
        score = cls.load(run.metrics, remedy)
        for key, value in expected.items():
            if getattr(score, key) != value:
                raise SSTCastError(
                    f"{run.metrics}: {key} is {getattr(score, key)!r}, but the run's is {value!r}; {remedy}"
                )
        if score.data != known:
            raise SSTCastError(f"{run.metrics}: its data are not those of {run.data.name}; {remedy}")
        return score

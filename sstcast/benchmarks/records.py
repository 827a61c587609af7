"""The score of a benchmark run, and the digest of the data that it belongs to."""

from typing import Annotated

from pydantic import Field, FiniteFloat, model_validator

from sstcast.errors import SSTCastError
from sstcast.runs import Record, Run

SHOWN = 12  # digits of a digest shown in a message


class Data(Record):
    """The SHA-256 of the graphs and splits."""

    graphs: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]

    def check(self, run: Run) -> None:
        """Raise SSTCastError if a run was trained on other data, or the record of them is damaged or absent."""
        then = Data.load(run.data, "delete the run's folder to train again").graphs
        if then != self.graphs:
            raise SSTCastError(
                f"{run.folder}: trained on other data: SHA-256 of its graphs {then[:SHOWN]}... then, "
                f"{self.graphs[:SHOWN]}... now; put the old data back, or train again with another runs=FOLDER or "
                "without this folder"
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
    def of(cls, run: Run, **expected: object) -> "Score":
        """Read `metrics.json`; raise SSTCastError if it is damaged, or belongs to another run or other data."""
        remedy = "delete the file and re-run the command, which scores the run again"
        score = cls.load(run.metrics, remedy)
        for key, value in expected.items():
            if getattr(score, key) != value:
                raise SSTCastError(
                    f"{run.metrics}: {key} is {getattr(score, key)!r}, but the run's is {value!r}; {remedy}"
                )
        return score

"""The YAML in `configs/`, as objects that validate themselves.

One file describes one run. Unknown keys are refused, `--set a.b=value` overrides any key, and the resolved
configuration is saved with the run.
"""

import datetime as dt
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    SerializerFunctionWrapHandler,
    Tag,
    model_serializer,
    model_validator,
)

from sstcast.files import packaged
from sstcast.plain_yaml import apply_overrides, read_config
from sstcast.region import Region, load_region
from sstcast.validation import LARGEST_SEED, Strict, usable_path, validate

RETIRED = ("cuda_graphs", "tf32", "fused")  # training keys of older runs: a GPU always does so
FIRST_YEAR, LAST_YEAR = 1678, 2261  # of time in nanoseconds

Count = Annotated[int, Field(ge=1, le=10**9)]
Days = Annotated[int, Field(ge=1, le=10_000)]
Folder = Annotated[Path, AfterValidator(usable_path)]
Place = Annotated[
    str, AfterValidator(lambda text: str(usable_path(Path(text))) if text[:1] == "~" or "\0" in text else text)
]


def _span(value: Any) -> Any:
    """Read `[first, last]`, years or ISO dates, both inclusive, as two dates."""
    if not isinstance(value, (list, tuple)) or len(value) != 2:
        raise ValueError("give [first, last], years or ISO dates")

    def day(item: Any, month_day: str) -> Any:
        if isinstance(item, bool) or not isinstance(item, (int, str, dt.date)):
            raise ValueError(f"{item}: give a year or an ISO date")
        year = item if isinstance(item, int) else getattr(item, "year", FIRST_YEAR)
        if not FIRST_YEAR <= year <= LAST_YEAR:
            raise ValueError(f"{str(year)[:20]}: give years from {FIRST_YEAR} to {LAST_YEAR}")
        return f"{item:04d}-{month_day}" if isinstance(item, int) else item

    return day(value[0], "01-01"), day(value[1], "12-31")


Span = Annotated[tuple[dt.date, dt.date], BeforeValidator(_span)]


class Splits(Strict):
    """Which days train, validate and test: inclusive spans in this order, without overlap.

    Climatology, scale and heatwave threshold are those of the `base_period`, by default the training days. It may
    cover validation days too, as a forecaster's at work would, but no test day.
    """

    train: Span
    validation: Span
    test: Span
    base_period: Span | None = None

    @property
    def base(self) -> tuple[dt.date, dt.date]:
        """The days that statistics are of."""
        return self.base_period or self.train

    @property
    def given(self) -> dict[str, tuple[dt.date, dt.date]]:
        """The spans by name."""
        return {name: span for name, span in self if span is not None}

    @property
    def whole(self) -> tuple[dt.date, dt.date]:
        """From the first day that anything is learnt from to the last of testing."""
        return min(self.train[0], self.base[0]), self.test[1]

    @model_validator(mode="after")
    def _ordered(self) -> "Splits":
        days = [*self.train, *self.validation, *self.test]
        if days != sorted(days) or self.train[1] >= self.validation[0] or self.validation[1] >= self.test[0]:
            raise ValueError("train, validation and test must follow one another without overlap")
        if self.base[0] > self.base[1] or self.base[1] >= self.test[0]:
            raise ValueError("base_period: give [first, last], and end it before the test days")
        return self

    @model_serializer(mode="wrap")
    def _as_before(self, plain: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave out a base period that was not given: what is written is then what older versions wrote."""
        return {key: value for key, value in plain(self).items() if value is not None}


def _name_or_box(value: Any) -> str:
    return "name" if isinstance(value, str) else "box"


class DataConfig(Strict):
    """Where the temperatures come from and what becomes of them.

    `source` is `sample` (the ocean that ships with sstcast), or a NetCDF file, a folder of NetCDF files or
    a Zarr store. `variable` and `units` are for sources that do not tell them, or wrongly. Up to `gaps` days in a
    row without a value are filled linearly in time. `region` is a name in `configs/regions.yaml` or a `Region`.
    Prepared stores go to `directory`. `history` and `horizon` are in days.
    """

    source: Place = "sample"
    variable: str | None = None
    units: str | None = None
    gaps: int = Field(default=0, ge=0, le=366)
    region: Annotated[Annotated[str, Tag("name")] | Annotated[Region, Tag("box")], Discriminator(_name_or_box)] = (
        "tasman"
    )
    protocol: Literal["physical", "paper"] = "physical"
    directory: Folder = Path("data/prepared")
    history: Days = 42
    horizon: Days = 28
    splits: Splits

    @property
    def box(self) -> Region:
        """The region itself, looked up when given by name."""
        return self.region if isinstance(self.region, Region) else load_region(self.region)


class TrainingConfig(Strict):
    """How a model is fitted.

    - An epoch draws `windows_per_epoch` training windows without replacement (all of them by default) and takes a
      step for each `batch_size` of them, on however many `devices`; each device works through its part in
      `accumulate` pieces. Training stops after `patience` epochs without a better validation score, if given.
    - The learning rate rises over `warmup` steps, then stays (`constant`) or falls to 0 (`cosine`); `one-cycle` is
      Smith's, with a rise of its own. `clip` bounds the gradient's norm. With `ema`, a running mean of the weights
      with this decay is what is validated and kept.
    - `device` is auto, cpu or cuda; `devices`, `strategy` (auto, ddp) and `precision` (auto, 32-true, bf16-mixed)
      are Lightning Fabric's. `compile` auto compiles on a GPU, and on a CPU runs of at least 2,000 steps.
    - A checkpoint is written every `checkpoint_minutes`, or `checkpoint_steps` if given, and the last `keep` stay.
      Up to `skip_nonfinite` steps whose loss is not finite are left out; one more stops the run.
    """

    epochs: Count = 100
    batch_size: Count = 20
    windows_per_epoch: Count | None = None
    patience: Count | None = None
    seed: int = Field(default=0, ge=0, le=LARGEST_SEED)
    optimizer: Literal["adam", "adamw"] = "adam"
    learning_rate: float = Field(default=1e-3, gt=0)
    weight_decay: float = Field(default=0.0, ge=0)
    schedule: Literal["constant", "cosine", "one-cycle"] = "constant"
    warmup: int = Field(default=0, ge=0, le=10**9)
    clip: float | None = Field(default=None, gt=0)
    ema: float | None = Field(default=None, gt=0, lt=1)
    accumulate: Count = 1
    precision: Literal["auto", "32-true", "bf16-mixed"] = "auto"
    compile: bool | Literal["auto"] = "auto"
    skip_nonfinite: int = Field(default=0, ge=0, le=10**9)
    device: str = "auto"
    devices: int = Field(default=1, ge=1, le=10_000)
    strategy: Literal["auto", "ddp"] = "auto"
    checkpoint_minutes: float = Field(default=1.0, gt=0)
    checkpoint_steps: Count | None = None
    keep: Count = 2

    @model_validator(mode="before")
    @classmethod
    def _without_retired(cls, raw: Any) -> Any:
        return {key: raw[key] for key in raw if key not in RETIRED} if isinstance(raw, dict) else raw

    @model_validator(mode="after")
    def _parts(self) -> "TrainingConfig":
        if self.batch_size < self.devices * self.accumulate:
            raise ValueError("batch_size: must be at least devices x accumulate")
        if self.windows_per_epoch is not None and self.windows_per_epoch < self.devices:
            raise ValueError("windows_per_epoch: must be at least devices")
        if self.schedule == "one-cycle" and self.warmup:
            raise ValueError("warmup: one-cycle has a rise of its own; leave it at 0")
        return self


FOLDER_NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]*$"  # of a run: it must stay where runs are
WHERE = {"device", "devices", "strategy", "checkpoint_minutes", "checkpoint_steps", "keep", "skip_nonfinite"}
"""Training keys that say where and how safely a run is made, not what it is: they may differ when it goes on."""


class ModelConfig(BaseModel):
    """A model's name and its options, which are the arguments of its class (see `sstcast.models`)."""

    model_config = ConfigDict(extra="allow", frozen=True)
    name: str

    @property
    def options(self) -> dict[str, Any]:
        """Everything but the name."""
        return dict(self.model_extra or {})


COMBINATION = "combination"  # `model.name` of what `sstcast combine` makes


class RunConfig(Strict):
    """One run: what `sstcast train` reads.

    `data` may be a list of oceans, the later of which say only what differs from the first: one model is trained
    on all of them, each with its own climatology and scale, and scored on the first. The others become `also`.
    `trained_on` is written by `sstcast evaluate` alone: the data that a model was trained on which is scored on
    other `data`.
    """

    name: str = Field(pattern=FOLDER_NAME, max_length=100)
    runs: Folder = Path("runs")
    data: DataConfig
    also: tuple[DataConfig, ...] = ()
    model: ModelConfig
    training: TrainingConfig = TrainingConfig()
    trained_on: DataConfig | None = None

    @property
    def oceans(self) -> tuple[DataConfig, ...]:
        """All that is trained on."""
        return self.data, *self.also

    @model_validator(mode="before")
    @classmethod
    def _several(cls, raw: Any) -> Any:
        if not isinstance(raw, dict) or not isinstance(raw.get("data"), list):
            return raw
        if not raw["data"] or not all(isinstance(one, dict) for one in raw["data"]):
            raise ValueError("data: give the keys of one ocean, or a list of such")
        first = raw["data"][0]
        return raw | {"data": first, "also": [first | other for other in raw["data"][1:]]}

    @model_validator(mode="after")
    def _alike(self) -> "RunConfig":
        for other in self.also:
            for key in ("history", "horizon", "protocol"):
                if getattr(other, key) != getattr(self.data, key):
                    raise ValueError(f"data.{key}: is {getattr(other, key)} of one ocean and another of the first")
            if other.splits.validation[1] >= self.data.splits.test[0]:
                raise ValueError("data.splits: an ocean's validation ends after the first one's test days begin")
        return self

    @property
    def folder(self) -> Path:
        """The run's folder, `runs/NAME`."""
        return self.runs / self.name

    def same_experiment(self, other: "RunConfig") -> bool:
        """Whether both describe one run, wherever it is computed and its folder lies."""
        ours, theirs = (
            c.model_dump(exclude={"name": True, "runs": True, "training": WHERE}) for c in (self, other)
        )
        return ours == theirs


def load_config(path: Path, overrides: list[str] | None = None) -> RunConfig:
    """Read a run's YAML and apply `key.sub=value` overrides.

    A relative path that is not there is looked up among the files that ship with sstcast, so that
    `configs/demo.yaml` works outside a checkout too. A file may name another as its `base`, relative to itself:
    it then says only which keys of a section differ.

    Raises SSTCastError, naming the file and the key, if the file is absent or anything in it is wrong.
    """
    shipped = packaged(str(path))
    raw = read_config(shipped if not path.exists() and shipped.exists() else path)
    apply_overrides(raw, overrides)
    raw.setdefault("name", path.stem)
    return validate(RunConfig, raw, str(path))

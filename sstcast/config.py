"""Configurations of runs: Pydantic models of the YAML files in `configs/`.

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
    field_validator,
    model_serializer,
    model_validator,
)

from sstcast.artefacts import at_home, packaged
from sstcast.errors import SSTCastError
from sstcast.geo import Box
from sstcast.yaml_files import (
    LARGEST_SEED,
    Strict,
    apply_overrides,
    read_config,
    read_yaml,
    span,
    suggest,
    validate,
)

Count = Annotated[int, Field(ge=1, le=10**9)]
Share = Annotated[float, Field(ge=0, lt=1)]
Days = Annotated[int, Field(ge=1, le=10_000)]
Folder = Annotated[Path, AfterValidator(at_home)]
Place = Annotated[str, AfterValidator(lambda text: str(at_home(text)) if text[:1] == "~" else text)]
Side = Annotated[int, Field(ge=1, le=10_000)]  # of a tile or a node, in cells
Span = Annotated[tuple[dt.date, dt.date], BeforeValidator(span)]


class Splits(Strict):
    """The days for training, validation and testing: inclusive periods in this order, without overlap.

    Climatology, scale and heatwave threshold are computed from the `base_period`, by default the training days. It
    may include validation days, as in operational forecasting, but no test day.
    """

    train: Span
    validation: Span
    test: Span
    base_period: Span | None = None

    @property
    def base(self) -> tuple[dt.date, dt.date]:
        """The period that statistics are computed from."""
        return self.base_period or self.train

    @property
    def before_test(self) -> tuple[dt.date, dt.date]:
        """From the first training day to the last validation day."""
        return self.train[0], self.validation[1]

    @property
    def given(self) -> dict[str, tuple[dt.date, dt.date]]:
        """The periods by name, without those that were not given."""
        return {name: span for name, span in self if span is not None}

    @property
    def whole(self) -> tuple[dt.date, dt.date]:
        """From the first day used for training or statistics to the last test day."""
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
        """Leave out a base period that was not given, so that files are the same as from older versions."""
        return {key: value for key, value in plain(self).items() if value is not None}


class Region(Strict):
    """A box of the ocean and how it is divided into tiles.

    `lon` and `lat` are cell edges in degrees (longitudes in any convention, west first, so a box may cross
    the date line or Greenwich). `coarsen` x `coarsen` cells of the source become one node, if at least a
    fraction `min_ocean` of them is ocean. `tile` is (rows, columns) of nodes. Tiles are numbered row by row from
    the south-west, and those in `skip` are left out. A tile that is all land is refused unless `land_tiles`
    is `keep`.
    """

    lon: tuple[float, float]
    lat: tuple[float, float]
    coarsen: Side = 1
    min_ocean: float = Field(default=0.5, gt=0, le=1)
    tile: tuple[Side, Side] = (30, 30)
    skip: tuple[int, ...] = ()
    land_tiles: Literal["refuse", "keep"] = "refuse"

    @property
    def bounds(self) -> Box:
        return Box(*self.lon, *self.lat)

    @field_validator("lat")
    @classmethod
    def _south_to_north(cls, lat: tuple[float, float]) -> tuple[float, float]:
        if lat[0] > lat[1]:
            raise ValueError(f"[{lat[0]:g}, {lat[1]:g}] is north first; write [{lat[1]:g}, {lat[0]:g}]")
        if not -90 <= lat[0] < lat[1] <= 90:
            raise ValueError("must be [south, north] within -90..90, and not empty")
        return lat

    @field_validator("lon")
    @classmethod
    def _west_to_east(cls, lon: tuple[float, float]) -> tuple[float, float]:
        west, east = lon
        if not (-360 <= west <= 720 and -360 <= east <= 720) or west == east or east - west > 360:
            raise ValueError("must be [west, east] within -360..720, not empty and no more than once around")
        return lon


class DataConfig(Strict):
    """Where the temperatures come from and how they are prepared.

    `source` is `sample` (the data that ship with sstcast), or a NetCDF file, a Zarr store or a folder of either.
    `variable` and `units` are for sources that do not state them, or state them wrongly. Gaps of up to `gaps` days
    are filled linearly in time. `region` is a name in `configs/regions.yaml` or a `Region`. Prepared stores go to
    `directory`. `history` and `horizon` are in days.
    """

    source: Place = "sample"
    variable: str | None = None
    units: str | None = None
    gaps: int = Field(default=0, ge=0, le=366)
    region: Annotated[
        Annotated[str, Tag("name")] | Annotated[Region, Tag("box")],
        Discriminator(lambda value: "name" if isinstance(value, str) else "box"),
    ] = "tasman"
    protocol: Literal["physical", "paper"] = "physical"
    directory: Folder = Path("data/prepared")
    history: Days = 42
    horizon: Days = 28
    splits: Splits

    @property
    def box(self) -> Region:
        """The region; looked up if it is given by name."""
        return self.region if isinstance(self.region, Region) else load_region(self.region)

    @property
    def place(self) -> str:
        """The region's name, or its edges `W,E,S,N`."""
        box = self.box
        return (
            self.region if isinstance(self.region, str) else ",".join(f"{edge:g}" for edge in (*box.lon, *box.lat))
        )


class TrainingConfig(Strict):
    """How a model is trained.

    - An epoch draws `windows_per_epoch` training windows without replacement (all of them by default). Each step
      uses `batch_size` of them in total over all `devices`; each device processes its part in `accumulate` pieces.
      If `patience` is given, training stops after that many epochs without a better validation score.
    - `betas` and `eps` are those of Adam (arXiv:1412.6980); `adagrad` (Duchi et al. 2011) uses `eps` alone.
    - The learning rate rises over `warmup` steps, then stays (`constant`) or falls to 0 (`cosine`, `linear`);
      `one-cycle` is Smith's schedule, which has its own rise. `clip` limits the norm of the gradient. With `ema`,
      a running mean of the weights with this decay is validated and saved instead of the weights themselves.
    - `device` is auto, cpu or cuda; `devices`, `strategy` (auto, ddp) and `precision` (auto, 32-true, bf16-mixed)
      are options of Lightning Fabric. `compile: auto` compiles on a GPU, and on a CPU from 2,000 steps on.
    - With `include_validation`, a network learns from the validation days too, as linear systems do. Then nothing
      can be chosen on them: `epochs` must be 1.
    - With `cross_fit`, a network on a linear base adds only a share of its change to the base, which is found by
      training it again without each of so many blocks of years (2 or more).
    - A checkpoint is written every `checkpoint_minutes`, or every `checkpoint_steps` if given; the last `keep` are
      kept.
    """

    epochs: Count = 100
    batch_size: Count = 20
    windows_per_epoch: Count | None = None
    patience: Count | None = None
    seed: int = Field(default=0, ge=0, le=LARGEST_SEED)
    optimizer: Literal["adam", "adamw", "adagrad"] = "adam"
    learning_rate: float = Field(default=1e-3, gt=0)
    weight_decay: float = Field(default=0.0, ge=0)
    betas: tuple[Share, Share] = (0.9, 0.999)
    eps: float = Field(default=1e-8, gt=0)
    schedule: Literal["constant", "cosine", "linear", "one-cycle"] = "constant"
    warmup: int = Field(default=0, ge=0, le=10**9)
    clip: float | None = Field(default=None, gt=0)
    ema: float | None = Field(default=None, gt=0, lt=1)
    include_validation: bool = False
    cross_fit: int = Field(default=0, ge=0, le=20)
    accumulate: Count = 1
    precision: Literal["auto", "32-true", "bf16-mixed"] = "auto"
    compile: bool | Literal["auto"] = "auto"
    device: str = "auto"
    devices: int = Field(default=1, ge=1, le=10_000)
    strategy: Literal["auto", "ddp"] = "auto"
    checkpoint_minutes: float = Field(default=1.0, gt=0)
    checkpoint_steps: Count | None = None
    keep: Count = 2

    @model_validator(mode="after")
    def _parts(self) -> "TrainingConfig":
        if self.batch_size < self.devices * self.accumulate:
            raise ValueError("batch_size: must be at least devices x accumulate")
        if self.windows_per_epoch is not None and self.windows_per_epoch < self.devices:
            raise ValueError("windows_per_epoch: must be at least devices")
        if self.include_validation and self.epochs > 1:
            raise ValueError("include_validation: nothing may be chosen on days that were learnt; set epochs to 1")
        if self.cross_fit == 1:
            raise ValueError("cross_fit: a single block leaves nothing to train on; give 0, or 2 or more")
        if self.schedule == "one-cycle" and self.warmup:
            raise ValueError("warmup: one-cycle has its own rise; leave it at 0")
        return self


LONGEST_NAME = 100
FOLDER_NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]*$"  # a run's name must not lead out of the folder of runs
# Training keys that do not change the result of a run; they may differ when it is resumed.
WHERE = {"device", "devices", "strategy", "checkpoint_minutes", "checkpoint_steps", "keep"}


class ModelConfig(BaseModel):
    """A model's name and its options, the arguments of its class (see `sstcast.models`)."""

    model_config = ConfigDict(extra="allow", frozen=True)
    name: str

    @property
    def options(self) -> dict[str, Any]:
        """All keys except the name."""
        return dict(self.model_extra or {})


COMBINATION = "combination"  # `model.name` of runs made by `sstcast combine`


class RunConfig(Strict):
    """The configuration of one run, as `sstcast train` reads it.

    `data` may be a list of oceans, the later of which say only what differs from the first: one model is trained
    on all of them, each with its own climatology and scale, and scored on the first. The others become `also`.
    Only `sstcast evaluate` writes `trained_on`: if a model is scored on other `data`, it holds the data that the
    model was trained on.
    """

    name: str = Field(pattern=FOLDER_NAME, max_length=LONGEST_NAME)
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
        if raw.get("also"):
            raise ValueError("also: `data` is a list already; add the further oceans to it")
        first = raw["data"][0]
        oceans = [first, *(first | other for other in raw["data"][1:])]
        try:
            for number, ocean in enumerate(oceans):
                validate(DataConfig, ocean, f"data.{number}")
        except SSTCastError as error:
            raise ValueError(str(error)) from None
        return raw | {"data": oceans[0], "also": oceans[1:]}

    @model_validator(mode="after")
    def _alike(self) -> "RunConfig":
        for number, other in enumerate(self.also, 1):
            for key in ("history", "horizon", "protocol"):
                theirs, ours = getattr(other, key), getattr(self.data, key)
                if theirs != ours:
                    raise ValueError(
                        f"data.{number}.{key}: is {theirs}, and {ours} in the first ocean; make it the same"
                    )
            if max(other.splits.validation[1], other.splits.base[1]) >= (test := self.data.splits.test[0]):
                raise ValueError(
                    f"data.{number}.splits: end validation and base_period before {test}, when the first is tested"
                )
        return self

    @property
    def folder(self) -> Path:
        """The run's folder, `runs/NAME`."""
        return self.runs / self.name

    def same_experiment(self, other: "RunConfig") -> bool:
        """Return whether both describe the same run, apart from its folder, its device and the like."""
        ours, theirs = (
            c.model_dump(exclude={"name": True, "runs": True, "training": WHERE}) for c in (self, other)
        )
        return ours == theirs


def load_config(path: Path, overrides: list[str] | None = None) -> RunConfig:
    """Read a run's YAML and apply `key.sub=value` overrides.

    A relative path that does not exist is looked up among the files that ship with sstcast, so that
    `configs/demo.yaml` works outside a checkout too. A file may name another as its `base`, by a path relative to
    itself; it then needs to give only the keys that differ.

    Raises SSTCastError, naming the file and the key, if the file is absent or anything in it is wrong.
    """
    if path.suffix in (".nc", ".nc4", ".zarr") and path.exists():
        raise SSTCastError(f"{path}: is data, no configuration; run `sstcast init {path}`, which writes one")
    shipped = packaged(str(path))
    raw = read_config(shipped if not path.exists() and shipped.exists() else path)
    if overrides and raw.get("also") and isinstance(raw["also"], list):
        # Saved so; overrides are written as for the list that the user gave.
        raw["data"] = [raw.get("data"), *raw.pop("also")]
    apply_overrides(raw, overrides)
    raw.setdefault("name", path.stem)
    return validate(RunConfig, raw, str(path))


def load_region(name: str) -> Region:
    """Look a region up in `configs/regions.yaml`."""
    path = packaged("configs/regions.yaml")
    regions = read_yaml(path)
    if name not in regions:
        raise SSTCastError(f"data.region: no region {name!r}{suggest(name, regions)}; known: {', '.join(regions)}")
    return validate(Region, regions[name], f"{path.name}: {name}")


def parse_box(region: str) -> Box:
    """Read `global`, a name in `configs/regions.yaml` or `W,E,S,N` in degrees.

    Raises SSTCastError if `region` is none of these, or contains no 0.25 degree cell.
    """
    if region == "global":
        return Box(0, 360, -90, 90)
    if "," not in region:
        box = load_region(region).bounds
    else:
        try:
            edges = [float(edge) for edge in region.split(",")]
            if len(edges) != 4 or not all(abs(edge) <= 360 for edge in edges):  # also refuses nan
                raise ValueError
        except ValueError:
            raise SSTCastError(
                f"--region {region}: write W,E,S,N in degrees, for instance 180,270,-15,15"
            ) from None
        box = validate(Region, {"lon": edges[:2], "lat": edges[2:]}, f"--region {region}").bounds
    if 0 in box.shape:
        raise SSTCastError(f"--region {region}: contains no 0.25 degree cell; make it larger")
    return box

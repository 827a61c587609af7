"""Run configurations: Pydantic models of the YAML files in `configs/`.

One file describes one run. Unknown keys are errors, `--set a.b=value` overrides any key, and the resolved
configuration is saved with the run.
"""

import datetime as dt
import re
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    field_validator,
    model_validator,
)

from sstcast.errors import SSTCastError
from sstcast.geo import NINO, Box
from sstcast.storage.paths import expand_user, packaged, path_of
from sstcast.storage.yaml_files import (
    LARGEST_SEED,
    Strict,
    apply_overrides,
    read_config,
    read_yaml,
    span,
    suggest,
    unwritten,
    validate,
)


def expanded(source: Any) -> Any:
    """Return a path as text, with a leading `~` expanded, and anything else unchanged."""
    home = isinstance(source, Path) or (isinstance(source, str) and source.startswith("~"))
    return str(expand_user(source)) if home else source


SAMPLE = "data/sample/tasman_oisst_daily_1982_2016.nc"
COAST_DISTANCE = "distance-to-coast"  # a source of `kind: static` that is computed from the mask of the region
Count = Annotated[int, Field(ge=1, le=10**9)]
Share = Annotated[float, Field(ge=0, lt=1)]
Days = Annotated[int, Field(ge=1, le=10_000)]
Folder = Annotated[Path, AfterValidator(expand_user)]
Place = Annotated[str, BeforeValidator(expanded)]
Side = Annotated[int, Field(ge=1, le=10_000)]  # of a tile or a node, in cells
Span = Annotated[tuple[dt.date, dt.date], BeforeValidator(span)]
VARIABLE_NAME = r"^[A-Za-z][A-Za-z0-9_]*$"


class Splits(Strict):
    """The training, validation and test periods, inclusive, in this order and without overlap.

    Climatology, scale and heatwave thresholds are computed over `base_period`, by default the training period. It
    may include validation days, as in operational forecasting, but no test days.
    """

    train: Span
    validation: Span
    test: Span
    base_period: Span | None = unwritten()

    @property
    def base(self) -> tuple[dt.date, dt.date]:
        """The period over which statistics are computed."""
        return self.base_period or self.train

    @property
    def before_test(self) -> tuple[dt.date, dt.date]:
        """From the first training day to the last validation day."""
        return self.train[0], self.validation[1]

    @property
    def given(self) -> dict[str, tuple[dt.date, dt.date]]:
        """The periods by name. `base_period` is left out if it was not given."""
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


class Region(Strict):
    """A box of the ocean and its division into tiles.

    `lon` and `lat` are cell edges in degrees. Longitudes may follow any convention, west first, so a box may cross
    the date line or Greenwich. Blocks of `coarsen` x `coarsen` source cells are averaged to one node, which is
    ocean if at least a fraction `min_ocean` of its cells is. `tile` gives rows and columns of nodes. Tiles are
    numbered row by row from the south-west, and `skip` lists tiles to leave out. A tile without ocean is an error
    unless `land_tiles` is `keep`.
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
            raise ValueError("must be [west, east] within -360..720, not empty and at most 360 degrees wide")
        return lon


class FieldSource(Strict):
    """Where the days of a field come from, and how they are read.

    `source` is `sample` (the data that ship with sstcast), a NetCDF file, a Zarr store or a folder of either, the
    URL of a Zarr store (`reading.remote_stores`), or `object:TOKEN` for an xarray object
    (`reading.xarray_objects`). Set `variable` or `units` if the source does not state them, or states them
    wrongly. Gaps of up to `gaps` days are filled linearly in time. `region` is a name in `configs/regions.yaml` or
    a `Region`. Grids that are not regular are brought to `grid` degrees.
    """

    source: Place = "sample"
    variable: str | None = None
    units: str | None = None
    gaps: int = Field(default=0, ge=0, le=366)
    region: Annotated[
        Annotated[str, Tag("name")] | Annotated[Region, Tag("box")],
        Discriminator(lambda value: "name" if isinstance(value, str) else "box"),
    ] = "tasman"
    grid: Annotated[float, Field(gt=0, le=10)] | None = unwritten()
    OTHER_KEYS: ClassVar[frozenset[str]] = frozenset()  # that decide neither what is read nor where it is brought

    @property
    def box(self) -> Region:
        """The region, looked up in `configs/regions.yaml` if given by name."""
        return self.region if isinstance(self.region, Region) else load_region(self.region)

    @property
    def path(self) -> Path:
        """The path of `source`, an `Address` if it is a URL."""
        return packaged(SAMPLE) if self.source == "sample" else path_of(self.source)

    @property
    def cells(self) -> Any:
        """What `region` stands for, as plain data: a name alone does not tell what it means later."""
        return self.box.model_dump(mode="json")

    @property
    def reading(self) -> dict[str, Any]:
        """All keys that decide what is read and where it is brought, except `source` (see `reading.identified`).

        They are all but `OTHER_KEYS`, so that a key which is added later counts by itself.
        """
        return self.model_dump(mode="json", exclude={"source", *self.OTHER_KEYS}) | {"region": self.cells}

    @property
    def given(self) -> dict[str, Any]:
        """The keys that were given, without those that have their defaults."""
        return {key: getattr(self, key) for key in self.model_fields_set}


def months(value: Any) -> Any:
    """Convert `3 months` to 3. Anything else is returned unchanged."""
    given = re.fullmatch(r"([0-9]{1,2}) months?", value) if isinstance(value, str) else None
    return int(given[1]) if given else value


class PredictorConfig(FieldSource):
    """A predictor besides SST, and how it becomes known (docs/predictors.md).

    - `kind: index` is one number a day or a month: a CSV of dates and values, a table of CPC or PSL with the
      column `variable`, a NetCDF series, or the mean of daily SST over the box `region` (`nino34`, a name in
      `configs/regions.yaml` or `W,E,S,N`).
    - `kind: grid` is a daily field, of which past values are read. `variable` names it if the file has several.
    - `kind: forecast` is a forecast of a daily field, of which the newest issue is read on the days ahead. With
      `perfect`, the source is an analysis instead, which nobody has on the initial date.
    - `kind: static` is a field that does not change, such as `distance-to-coast`. Linear systems do not read it.
    - A value is known `delay` days after the last day of its span: a day, a month or, for running means of months,
      `span`, which is counted from the month in the label, so that no label can be too late.
    - If the value that an initial date needs is missing, training reads the climatology. A forecast is refused,
      unless `missing` is `climatology`.
    - A number that marks a missing value, or is far from all others, is an error, unless `implausible` is `keep`.
    """

    kind: Literal["index", "grid", "forecast", "static"]
    source: Place
    region: str = unwritten("")
    delay: int = Field(default=0, ge=0, le=366)
    span: Annotated[int, BeforeValidator(months), Field(ge=1, le=24)] = unwritten(1)
    missing: Literal["error", "climatology"] = unwritten("error")
    perfect: bool = unwritten(False)
    implausible: Literal["error", "keep"] = unwritten("error")
    grid: None = unwritten()
    OTHER_KEYS: ClassVar[frozenset[str]] = frozenset({"delay", "missing"})

    @property
    def mean_over(self) -> Box | None:
        """The box whose mean SST is the index. Raises SSTCastError if `region` is none."""
        if not self.region:
            return None
        return NINO[self.region] if self.region in NINO else parse_box(self.region)

    @property
    def cells(self) -> Any:
        return (box := self.mean_over) and [box.west, box.east, box.south, box.north]

    @property
    def path(self) -> Path:
        """The path of `source`, which may be that of a file that ships with sstcast."""
        path = super().path
        shipped = packaged(self.source)
        return shipped if not path.exists() and shipped.exists() else path

    @model_validator(mode="after")
    def _no_gaps(self) -> "PredictorConfig":
        if self.gaps:
            raise ValueError("gaps: a filled day would tell of later ones; leave it out, missing days are counted")
        if self.perfect and self.kind != "forecast":
            raise ValueError("perfect: is for kind: forecast alone; leave it out")
        if self.source == COAST_DISTANCE and self.kind != "static":
            raise ValueError(f"source: {COAST_DISTANCE} is for kind: static alone; give a file")
        if self.source == COAST_DISTANCE and (self.variable or self.units):
            raise ValueError(f"variable, units: {COAST_DISTANCE} is computed, in km; leave them out")
        if self.kind == "static" and self.delay:
            raise ValueError("delay: a field that does not change is always known; leave it out")
        if self.kind != "index" and (self.region or self.span != 1):
            raise ValueError(f"{'region' if self.region else 'span'}: is for kind: index alone; leave it out")
        return self


class DataConfig(FieldSource):
    """The SST data and how to prepare them, in `directory`, for forecasts from `history` to `horizon` days.

    `predictors` are read besides SST, in this order.
    """

    protocol: Literal["physical", "paper"] = "physical"
    directory: Folder = Path("data/prepared")
    history: Days = 42
    horizon: Days = 28
    splits: Splits
    predictors: dict[Annotated[str, Field(pattern=VARIABLE_NAME, max_length=40)], PredictorConfig] = unwritten({})
    OTHER_KEYS: ClassVar[frozenset[str]] = frozenset(
        {"protocol", "directory", "history", "horizon", "splits", "predictors"}
    )

    @property
    def place(self) -> str:
        """The region's name, or its edges `W,E,S,N`."""
        return self.region if isinstance(self.region, str) else str(self.region.bounds)

    @property
    def kinds(self) -> dict[str, str]:
        """The kind of each predictor by name."""
        return {name: predictor.kind for name, predictor in self.predictors.items()}


class TrainingConfig(Strict):
    """The optimiser, its schedule, the device and the checkpoints.

    - An epoch draws `windows_per_epoch` training windows without replacement, by default all of them. A step uses
      `batch_size` windows, summed over all `devices`. Each device processes its share in `accumulate` pieces. If
      `patience` is set, training stops after that many epochs without a better validation score.
    - `betas` and `eps` are Adam's parameters (arXiv:1412.6980). `adagrad` (Duchi et al. 2011) uses only `eps`.
    - The learning rate rises over `warmup` steps, then stays (`constant`) or falls to 0 (`cosine`, `linear`).
      `one-cycle` is Smith's schedule and includes a rise. `clip` limits the gradient norm. If `ema` is set, an
      exponential moving average of the weights with this decay is validated and saved in place of the weights.
    - `device` is auto, cpu or cuda. `devices`, `strategy` (auto, ddp) and `precision` (auto, 32-true, bf16-mixed)
      are options of Lightning Fabric. `compile: auto` compiles on GPUs, and on CPUs from 2,000 steps on.
    - With `include_validation`, a network also learns from the validation days, as linear systems do. The weights
      then cannot be selected on these days, so `epochs` must be 1.
    - With `cross_fit: K`, a network on a linear base adds only a share of its correction. The share is estimated
      by training again K times (at least 2), each time without one of K blocks of years.
    - With `weights`, a network begins with the weights of a run, of a checkpoint, or of `pretrained`. Its linear
      base is fitted as usual.
    - A checkpoint is written every `checkpoint_minutes`, or every `checkpoint_steps` if set. The newest `keep`
      checkpoints stay on disk.
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
    weights: Place | None = unwritten()
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
            raise ValueError("include_validation: weights cannot be selected on training days; set epochs to 1")
        if self.cross_fit == 1:
            raise ValueError("cross_fit: a single block leaves nothing to train on; give 0, or 2 or more")
        if self.cross_fit and self.weights is not None:
            raise ValueError(
                "weights: may have seen the years that cross_fit leaves out; leave out one of the two"
            )
        if self.schedule == "one-cycle" and self.warmup:
            raise ValueError("warmup: one-cycle includes a rise; leave it at 0")
        return self


LONGEST_NAME = 100
FOLDER_NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]*$"  # a run's name must not lead out of the folder of runs


def folder_name(text: str, default: str) -> str:
    """Return `text` as a valid name of a folder, or `default` if nothing of it is valid."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text).lstrip("._-")[:LONGEST_NAME] or default


# Training keys that do not affect the result, so they may change when a run is resumed.
RUNTIME_KEYS = {"device", "devices", "strategy", "checkpoint_minutes", "checkpoint_steps", "keep"}


class ModelConfig(BaseModel):
    """A model's name and options. The options are the arguments of its class in `sstcast.models`."""

    model_config = ConfigDict(extra="allow", frozen=True)
    name: str

    @property
    def options(self) -> dict[str, Any]:
        """All keys except `name`."""
        return dict(self.model_extra or {})


COMBINATION = "combination"  # `model.name` of runs made by `sstcast combine`


class RunConfig(Strict):
    """The configuration of one run, which `sstcast train` reads.

    When `sstcast evaluate` scores a model on other data, it writes the data of the training to `trained_on`.
    """

    name: str = Field(pattern=FOLDER_NAME, max_length=LONGEST_NAME)
    runs: Folder = Path("runs")
    data: DataConfig
    model: ModelConfig
    training: TrainingConfig = TrainingConfig()
    trained_on: DataConfig | None = None

    @model_validator(mode="before")
    @classmethod
    def _one_ocean(cls, raw: Any) -> Any:
        if isinstance(raw, dict) and isinstance(raw.get("data"), list):
            raise ValueError("data: is a list; give the keys of one ocean (--source scores other oceans)")
        if isinstance(raw, dict) and raw.get("also") == []:  # in configurations that are already saved
            return {key: value for key, value in raw.items() if key != "also"}
        return raw

    @property
    def folder(self) -> Path:
        """The run's folder, `runs/NAME`."""
        return self.runs / self.name

    def experiment(self, moved: bool = True) -> dict[str, Any]:
        """Return the keys that determine the result, without the run's folder, device and checkpoint settings.

        Data may be `moved`: their digests tell whether they are the same, so their paths are left out as well.
        Whether a predictor may be missing or implausible is always left out.
        """
        allowed = {"missing", "implausible"}
        paths: Any = {"predictors": {"__all__": {*allowed, "source"} if moved else allowed}}
        paths |= {"source": True, "directory": True} if moved else {}
        exclusions: Any = {"name": True, "runs": True, "training": RUNTIME_KEYS}
        exclusions |= {"data": paths, "trained_on": paths}
        return self.model_dump(mode="json", exclude=exclusions)

    def difference(self, other: "RunConfig", moved: bool = False) -> str:
        """Return the first key that gives another result (see `experiment`), or "" if there is none."""
        key = differing_key(self.experiment(moved), other.experiment(moved))
        is_reordered = [*self.data.predictors] != [*other.data.predictors]  # models read them in this order
        return key or ("data.predictors" if is_reordered else "")


def differing_key(mapping: Any, other_mapping: Any) -> str:
    """Return the path of the first key whose values differ in two nested mappings, or "" if none does."""
    for key in [*mapping, *(key for key in other_mapping if key not in mapping)]:
        value, other_value = mapping.get(key), other_mapping.get(key)
        if isinstance(value, dict) and isinstance(other_value, dict):
            if inner := differing_key(value, other_value):
                return f"{key}.{inner}"
        elif value != other_value:
            return str(key)
    return ""


def load_config(path: Path, overrides: list[str] | None = None) -> RunConfig:
    """Read a run's YAML and apply `key.sub=value` overrides.

    If a relative path does not exist, it is looked up among the files that ship with sstcast, so
    `configs/demo.yaml` also works outside a checkout. A file may give the path of another, relative to itself, as
    its `base`. It then contains only the keys that differ. Another `model.name` begins with that model's own
    options.

    Raises SSTCastError, naming the file and the key, if the file is absent or invalid.
    """
    if path.suffix in (".nc", ".nc4", ".zarr") and path.exists():
        raise SSTCastError(f"{path}: is data, not a configuration; run `sstcast init {path}` to write one")
    shipped = packaged(str(path))
    raw = read_config(shipped if not path.exists() and shipped.exists() else path, own_options=True)
    if "dataset" in raw:
        raise SSTCastError(f"{path}: configures a benchmark; use `sstcast benchmark`, which also scores it")
    apply_overrides(raw, overrides)
    raw.setdefault("name", path.stem)
    return validate(RunConfig, raw, str(path))


def load_region(name: str) -> Region:
    """Look up a region in `configs/regions.yaml`. Raises SSTCastError if it is unknown."""
    path = packaged("configs/regions.yaml")
    regions = read_yaml(path)
    if name not in regions:
        raise SSTCastError(f"region: no region {name!r}{suggest(name, regions)}; known: {', '.join(regions)}")
    return validate(Region, regions[name], f"{path.name}: {name}")


def parse_box(region: str) -> Box:
    """Parse `global`, a name in `configs/regions.yaml` or `W,E,S,N` in degrees.

    Raises SSTCastError if `region` has none of these forms, or contains no 0.25 degree cell.
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
            raise SSTCastError(f"--region {region}: write W,E,S,N in degrees, such as 180,270,-15,15") from None
        box = validate(Region, {"lon": edges[:2], "lat": edges[2:]}, f"--region {region} (W,E,S,N)").bounds
    if 0 in box.shape:
        raise SSTCastError(f"--region {region}: contains no 0.25 degree cell; make it larger")
    return box

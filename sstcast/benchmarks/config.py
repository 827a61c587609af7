"""The configuration of a benchmark run: a data set, a model with encoders and head, and its training."""

from collections.abc import Iterable
from copy import deepcopy
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from sstcast.benchmarks.registry import (
    DGL_GRAPH,
    MANY_GRAPHS,
    OWN_DATA_KINDS,
    Dataset,
    OwnData,
    SplitName,
    find_dataset,
    named,
)
from sstcast.config import (
    FOLDER_NAME,
    LONGEST_NAME,
    RUNTIME_KEYS,
    Count,
    Folder,
    ModelConfig,
    TrainingConfig,
    differing_key,
)
from sstcast.errors import SSTCastError, shorten
from sstcast.models import MODELS, default_options
from sstcast.models.base import Positional
from sstcast.models.layers import CONVS, layer_of
from sstcast.models.norms import ActivationName
from sstcast.storage.paths import packaged
from sstcast.storage.yaml_files import Strict, apply_overrides, merge, read_config, read_yaml, suggest, validate

ReadoutName = Literal["mean", "sum", "max", "virtual-node", "token"]
Epochs = Annotated[int, Field(ge=0, le=10**9)]
Stages = Annotated[
    dict[str, Epochs], AfterValidator(lambda stages: {name: epochs for name, epochs in stages.items() if epochs})
]
DATASET_NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]*(:[A-Za-z0-9][A-Za-z0-9._-]*)?$"
PRESETS = "configs/benchmarks/presets"  # a file for each data set that has presets
ANY = "any"  # stands for every data set, in the names of presets
YAML = (".yaml", ".yml")
# Keys of `training` that only windows of the sea have.
OF_WINDOWS = "windows_per_epoch", "include_validation", "cross_fit"
# Batches of graphs vary in size, and sums over many edges need single precision.
TRAINING = {"batch_size": 128, "compile": False, "precision": "32-true"}


class PredictorConfig(Strict):
    """The encoders, the readout and the head of a model.

    `positional` is `none`, `lap` (with `pairs` eigenpairs) or `rwse` (walks of up to `steps` steps). `degree`
    embeds the number of neighbours. `readout` reduces the nodes' vectors to one vector a graph. The head has
    `head_layers` hidden layers. With `normalise: row`, each node's real-valued features are divided by the sum of
    their absolute values. `input_dropout` drops real-valued features. Without `encoder`, the model's first layer
    reads the features directly. Without `head`, its last layer returns the outputs.
    """

    positional: Positional = "none"
    pairs: int = Field(default=16, ge=1, le=10_000)
    steps: int = Field(default=16, ge=1, le=10_000)
    degree: bool = False
    readout: ReadoutName = "mean"
    head_layers: int = Field(default=1, ge=0, le=1000)
    head_activation: ActivationName = "relu"
    input_dropout: float = Field(default=0.0, ge=0, lt=1)
    normalise: Literal["none", "row"] = "none"
    encoder: bool = True
    head: bool = True


class BenchmarkConfig(Strict):
    """One model on one data set, for one or more seeds.

    `stages` maps a stage of the model to the number of epochs that train this part before the whole model. With
    0, the stage is skipped. `part` is the number of nodes in each random part of a graph that is too large for
    memory. `split` replaces the data set's usual split. Raw files are below `root`. `cache` keeps the features of
    molecules and the positional encodings.
    """

    dataset: str = Field(pattern=DATASET_NAME, max_length=LONGEST_NAME)
    data: OwnData | None = None
    split: SplitName | None = None
    label: str = Field(pattern=FOLDER_NAME, max_length=LONGEST_NAME)
    model: ModelConfig
    predictor: PredictorConfig = PredictorConfig()
    training: TrainingConfig = TrainingConfig()
    stages: Stages = Field(default_factory=dict)
    part: Count | None = None
    root: Folder = Path("data/graphs")
    cache: Folder = Path("data/prepared/graphs")
    runs: Folder = Path("runs/benchmarks")

    @property
    def folder(self) -> Path:
        """The run's folder, which holds the folders of its seeds."""
        return self.runs / self.dataset.replace(":", "-") / self.label

    @property
    def declaration(self) -> Dataset:
        declared = self.data.declare(self.dataset) if self.data else find_dataset(self.dataset)
        return declared if self.split is None else replace(declared, split=self.split)

    def with_seed(self, seed: int) -> "BenchmarkConfig":
        return self.model_copy(update={"training": self.training.model_copy(update={"seed": seed})})

    def difference(self, other: "BenchmarkConfig", moved: bool = False) -> str:
        """Return the first key in which two runs differ, or "".

        Device, folders and the like do not count, nor keys that do nothing here. The other may have more epochs,
        unless the learning rate of an epoch depends on their number. If data may be `moved`, their path may differ
        too.
        """
        grows = self.training.epochs < other.training.epochs and self.training.schedule == "constant"
        free = {*RUNTIME_KEYS, *OF_WINDOWS} | ({"epochs"} if grows else set())
        exclude: Any = {"root": True, "cache": True, "runs": True, "training": free}
        exclude |= {"data": {"path"}} if moved else {}
        return differing_key(*(config.model_dump(mode="json", exclude=exclude) for config in (self, other)))


def load_benchmark(
    dataset: str | None,
    model: str,
    root: Path | None = None,
    overrides: list[str] | None = None,
    read: Dataset | None = None,
) -> BenchmarkConfig:
    """Return the configuration of a benchmark: a preset for this model, or the model's defaults.

    `dataset` is a name, or the path of a YAML that describes a user's own data, or None for graphs in memory.
    `read` is the complete declaration of the latter two, once they are read. `model` is looked up in
    `presets_of(dataset)`. Otherwise, it is the name of a model, or of a local layer (`gcn`, `gatedgcn-vn`), which
    stands for `mpnn` with that layer. Such a model gets the defaults in `configs/benchmarks/defaults.yaml`.
    `model` may also be the path of a user's own preset.
    Raises SSTCastError for unknown names and wrong keys.
    """
    preset_file = Path(model) if model.endswith(YAML) else None
    model = preset_file.stem if preset_file else model
    where = str(preset_file or f"{dataset or 'graphs'}, {model}")
    if dataset is None:
        raw: dict[str, Any] = {"dataset": read.name if read else "graphs", "data": {"kind": "memory"}}
    elif dataset.endswith(YAML):
        raw = _own_data(Path(dataset))
    else:
        raw = {"dataset": find_dataset(dataset).name} | ({} if root is None else {"root": str(root)})
    has_data = "data" in raw
    presets = presets_of(ANY if has_data else raw["dataset"])
    preset = _own_preset(preset_file) if preset_file else deepcopy(presets.get(model))
    network = {"model": _model(model, presets)} if preset is None else preset
    raw = network | raw | {"label": model}
    apply_overrides(raw, overrides)
    if not has_data and raw.get("data"):
        raise SSTCastError(
            f"data: leave it out; {raw['dataset']} has a task and a metric, and split=... changes its split"
        )
    declared = read or validate(BenchmarkConfig, raw, where).declaration
    defaults = _usual(declared.kind, raw["model"]) if preset is None else {}
    defaults["training"] = TRAINING | defaults.get("training", {})
    if declared.words:
        defaults["predictor"] = {"normalise": "row"} | defaults.get("predictor", {})
    for section, keys in defaults.items():
        raw[section] = keys | (raw.get(section) or {})
    if unused := unused_keys(raw["training"]):
        raise SSTCastError(f"{where}: training.{unused[0]}: does nothing on graphs; leave it out")
    return validate(BenchmarkConfig, raw, where)


def unused_keys(training: dict[str, Any]) -> list[str]:
    """Return the keys of a section `training` that do nothing on graphs, unless they have their defaults."""
    fields = TrainingConfig.model_fields
    return [key for key in OF_WINDOWS if key in training and training[key] != fields[key].default]


def presets_of(dataset: str) -> dict[str, dict[str, Any]]:
    """Return the presets for a data set by name, each merged into its base. They share parts: change none.

    They are the keys of `configs/benchmarks/presets/DATASET.yaml`, in lower case, and then those of `any.yaml`.
    `base: PRESET` names a preset of the same file, and `base: SET/PRESET` one of another file. A base has no base.
    """
    presets = {}
    for place in (ANY, dataset.lower()):
        for name, preset in _presets_in(place).items():
            other, _, base = preset.get("base", "").rpartition("/")
            sections = {key: value for key, value in preset.items() if key != "base"}
            presets[name] = merge(sections, _presets_in(other or place)[base]) if base else sections
    return presets


@cache
def _presets_in(place: str) -> dict[str, dict[str, Any]]:
    """Return the presets of a file by name, with the names of their bases, or none if there is no such file."""
    paths = {path.stem: path for path in packaged(PRESETS).glob("*.yaml")}
    return read_yaml(paths[place]) if place in paths else {}


def _own_preset(path: Path) -> dict[str, Any]:
    """Return the sections of a user's own preset, whose base is another file or SET/PRESET."""
    raw = read_yaml(path)
    base = raw.get("base")
    if not isinstance(base, str) or base.endswith(YAML):
        return read_config(path)
    place, _, name = raw.pop("base").rpartition("/")
    sets, place = [ANY, *named()], place.lower()
    presets = presets_of(place) if place in sets else {}
    if name not in presets:
        hint = suggest(base, [f"{known}/{preset}" for known in sets for preset in presets_of(known)])
        raise SSTCastError(
            f"{path}: base: no preset {shorten(base)!r}{hint}; name one as in zinc/gps or any/lsat, or give the "
            "path of a YAML file, relative to this one"
        )
    return merge(raw, deepcopy(presets[name]))


def _own_data(path: Path) -> dict[str, Any]:
    """Return the keys of a configuration for the data that a YAML describes."""
    data = read_config(path)
    if "kind" not in data and "node_data" in data:
        remedy = MANY_GRAPHS if "graph_data" in data else DGL_GRAPH
        raise SSTCastError(f"{path}: describes DGL's CSVDataset; {remedy}")
    if data.get("kind") not in OWN_DATA_KINDS:
        raise SSTCastError(f"{path}: kind: give {', '.join(OWN_DATA_KINDS[:-1])} or {OWN_DATA_KINDS[-1]}")
    name = str(data.pop("name", path.stem))
    if isinstance(data.get("path"), str):
        data["path"] = str(path.parent / data["path"])
    return {"dataset": name, "data": data, "root": "."}


def published(config: BenchmarkConfig, row: str | None = None) -> tuple[float, str] | None:
    """Return a paper's number on this data set and its source, or None if it is not listed.

    `row` is the number's name in `published.yaml`, for instance `best`. By default, it is this model's name
    without the `-paper` of a preset with the paper's training. A changed model has no number in any paper.
    """
    if config.data is not None:
        return None
    numbers = published_numbers().get(config.dataset, {}).get(row or config.label.removesuffix("-paper"), [])
    number = next(((score, source) for score, source, reason in numbers if reason is None), None)
    return number if number is None or row or is_preset(config) else None


Number = tuple[float, str, str | None]  # a published score, its source, and why it cannot be repeated


@cache
def published_numbers() -> dict[str, dict[str, list[Number]]]:
    """Return the numbers of `published.yaml` by data set and row."""
    numbers: dict[str, dict[str, list[Number]]] = {}
    for dataset, rows in read_config(packaged("configs/benchmarks/published.yaml")).items():
        for row, raw_entries in rows.items():
            entries = raw_entries if isinstance(raw_entries[0], list) else [raw_entries]
            numbers.setdefault(dataset, {})[row] = [
                (float(score), str(source), *(reason or [None])) for score, source, *reason in entries
            ]
    return numbers


def is_preset(config: BenchmarkConfig) -> bool:
    """Return whether model, encoders and head are those of the shipped preset, or default, of this name."""
    preset = load_benchmark(config.dataset, config.label)

    def architecture(setup: BenchmarkConfig) -> tuple[Any, ...]:
        return setup.model.name, default_options(setup.model.name) | setup.model.options, setup.predictor

    return architecture(config) == architecture(preset)


def _usual(kind: str, model: dict[str, Any]) -> dict[str, Any]:
    """Return the default keys, by section, of a model without a preset on data of this kind."""
    defaults_by_kind = read_config(packaged("configs/benchmarks/defaults.yaml"))
    defaults: dict[str, dict[str, Any]] = defaults_by_kind.get(kind, defaults_by_kind["others"])
    options = default_options(model["name"]) | model
    conv = CONVS[options["conv"]] if model["name"] in ("mpnn", "mpnn-vn") else None
    of_mpnn = defaults.pop("mpnn", {})
    if conv is not None and not conv.residual:
        defaults |= {section: defaults.get(section, {}) | keys for section, keys in of_mpnn.items()}
    own_norm = {"norm"} if conv is not None and conv.residual else set()
    return defaults | {
        "model": {key: defaults["model"][key] for key in (defaults["model"].keys() & options) - own_norm}
    }


def _model(name: str, presets: Iterable[str]) -> dict[str, Any]:
    if name in MODELS:
        return {"name": name}
    if (options := layer_of(name)) is not None:
        return {"name": "mpnn"} | options
    names = [*MODELS, *CONVS, *presets]
    raise SSTCastError(f"--model: no model {name!r}{suggest(name, names)}; known: {', '.join(sorted({*names}))}")

"""The weights that training begins from (`training.weights`): those of a run, or of a checkpoint."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from torch import Tensor, nn

from sstcast.config import DataConfig
from sstcast.errors import SSTCastError
from sstcast.log import LOG
from sstcast.runs import PRETRAINED, Run
from sstcast.storage.artefacts import digest
from sstcast.storage.paths import packaged
from sstcast.storage.yaml_files import Model, validate
from sstcast.training.checkpoint import load_checkpoint, load_weights

OF_WEIGHTS = ("kind", "units", "region", "span", "delay", "perfect", "variable")  # keys of a predictor


@dataclass(frozen=True)
class InitialWeights:
    """A checkpoint whose weights another training begins from.

    `key` is `training.weights` with its value, for messages. `weights` holds tensors by name, and `config` the
    configuration that trained them, as plain values. `digest` is the SHA-256 of the file. `learnt` holds the
    keys of the samples that they learnt from, if the checkpoint has them.
    """

    key: str
    weights: Mapping[str, Tensor]
    config: Any
    digest: str
    learnt: Tensor | None = None

    @classmethod
    def read(cls, source: str) -> Self:
        """Read the best weights of a run, those that ship with sstcast (`pretrained`), or a checkpoint file.

        Raises SSTCastError if `source` is none of these, an ensemble, or damaged.
        """
        key, path = f"training.weights: {source}", Path(source)
        if source == PRETRAINED and not path.exists():
            path = packaged(f"data/{PRETRAINED}")
        if path.is_dir():
            if (first := Run(path).members[0]).folder != path:
                raise SSTCastError(f"{key}: has several members; name one of them, for instance {first.folder}")
            path = first.best
        if not path.exists():
            raise SSTCastError(f"{key}: no {path}; name a trained run, its checkpoint or {PRETRAINED}")
        try:
            checkpoint = load_checkpoint(path)
        except SSTCastError as error:
            raise SSTCastError(f"training.weights: {error}") from None
        return cls(key, checkpoint["model"], checkpoint.get("config"), digest(path), checkpoint.get("learnt"))

    def config_as(self, kind: type[Model]) -> Model:
        """Return the configuration that trained them. Raises SSTCastError if it is not of this kind."""
        if isinstance(self.config, dict) and ("dataset" in self.config) != ("dataset" in kind.model_fields):
            actual, expected = (
                ("a benchmark", "an ocean") if "dataset" in self.config else ("an ocean", "a benchmark")
            )
            raise SSTCastError(f"{self.key}: was trained on {actual}; name weights trained on {expected}")
        return validate(kind, self.config, self.key)

    def check_predictors(self, own: DataConfig, data: DataConfig) -> None:
        """Raise SSTCastError unless the predictors of `data` are those of the `own` data of the weights.

        Other sources are logged, because data of other years may be in another file.
        """
        remedy = "make data.predictors equal"
        if [*own.predictors] != [*data.predictors]:
            names = [", ".join(each.predictors) or "none" for each in (own, data)]
            raise SSTCastError(f"{self.key}: read the predictors {names[0]}, but this run {names[1]}; {remedy}")
        for name, key in ((name, key) for name in data.predictors for key in (*OF_WEIGHTS, "source")):
            own_value, value = (getattr(each.predictors[name], key) for each in (own, data))
            text = f"{self.key}: read data.predictors.{name} with {key}: {own_value}, but this run with {value}"
            if own_value != value and key != "source":
                raise SSTCastError(f"{text}; {remedy}")
            if own_value != value:
                LOG.info(text)

    def put_into(self, model: nn.Module, fitted: tuple[str, ...] = ()) -> None:
        """Load the weights into `model`, except those whose names begin with one of `fitted`.

        Raises SSTCastError if names or shapes differ, or a weight is not finite.
        """
        saved_weights = {name: weight for name, weight in self.weights.items() if not name.startswith(fitted)}
        state = model.state_dict()
        model_weights = {name: weight for name, weight in state.items() if not name.startswith(fitted)}
        for name in [*model_weights, *(name for name in saved_weights if name not in model_weights)]:
            saved_shape, model_shape = (
                list(weights[name].shape) if name in weights else "absent"
                for weights in (saved_weights, model_weights)
            )
            if saved_shape != model_shape:
                raise SSTCastError(
                    f"{self.key}: do not fit this model: {name} is {saved_shape} there and {model_shape} here; "
                    "give this model their options, history and horizon, or choose other weights"
                )
        load_weights(model, {"model": state | saved_weights}, Path(self.key))

    def check_recorded(self, run: Run, recorded: str | None) -> None:
        """Raise SSTCastError unless `recorded`, the digest in the record of an interrupted run, is theirs."""
        if recorded != self.digest:
            raise SSTCastError(
                f"{self.key}: has other weights than {run.folder} began with; restore them or delete that folder"
            )

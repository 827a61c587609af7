"""The verb `benchmark`: fit a model to a data set, seed by seed, and score the best weights on the test samples.

RUNS/DATASET/MODEL/seed-K/
  config.yaml       the resolved configuration
  data.json         SHA-256 of the raw files, and of what was read of them
  provenance.json   versions, machine, time, and the command
  history.csv       one row an epoch
  checkpoints/      best.pt and step-N.pt
  local/            the same of Polynormer's first stage, where there is one
  metrics.json      the test score at the best validation score, parameters, seconds, and the digests again
"""

import json
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import torch
from lightning_fabric import Fabric

from sstcast.benchmarks.config import BenchmarkConfig
from sstcast.benchmarks.digests import digest_files
from sstcast.benchmarks.graphs import Loaded
from sstcast.benchmarks.load import choose_split, load
from sstcast.benchmarks.objectives import build_objective
from sstcast.benchmarks.positions import with_positions
from sstcast.benchmarks.predictor import GraphPredictor, build_predictor, positions_of
from sstcast.benchmarks.records import (
    Data,
    Score,
    check_files,
    check_loaded,
    data_file,
    read_score,
    recorded,
    write_record,
)
from sstcast.benchmarks.tasks import BenchmarkTask, ManyGraphs, OneGraph, PartsOfOneGraph
from sstcast.config import read_config, save_config, validate
from sstcast.errors import SSTCastError
from sstcast.files import alone, atomic
from sstcast.models.polynormer import Polynormer
from sstcast.runs import Run, provenance
from sstcast.training.checkpoint import load_checkpoint, load_weights
from sstcast.training.devices import start
from sstcast.training.engine import Trainer

Result = dict[str, Any]


def run_benchmark(config: BenchmarkConfig, seeds: list[int], trust: bool = False) -> list[Result]:
    """Fit and score each seed whose `metrics.json` is not there yet; return what all of them say.

    With `trust`, raw files that are pickles are opened even if they are not known, and may run any code. Raises
    SSTCastError for raw files that are missing or wrong or not what a run was trained on, and folders that hold
    another run, and Interrupted after Ctrl-C or SIGTERM: the same call then goes on.
    """
    dataset = replace(config.declaration, trust=trust)
    runs = [_open(_of_seed(config, seed)) for seed in seeds]
    files = digest_files(dataset, config.root, config.cache)
    known = [_check(run, files, config) for run in runs]
    results: list[Result] = []
    loaded = fabric = None
    for seed, run, data in zip(seeds, runs, known, strict=True):
        ours = _of_seed(config, seed)
        if run.metrics.exists():
            results.append(_score(ours, run, data))
            print(f"{run.folder}: nothing to do")
            continue
        if loaded is None or fabric is None:
            loaded = load(dataset, config.root, config.cache)
            fabric = start(config.training)
        print(f"{run.folder}: {_describe(loaded)}", flush=True)
        task, model = build_task(ours, loaded, fabric)  # before the folder is made: options may be wrong
        with alone(run.checkpoints) if fabric.is_global_zero else nullcontext():
            if fabric.is_global_zero:
                data = _create(ours, run, loaded)
            result = _fit_and_score(ours, run, task, model, fabric)
            if data is not None:
                result["data"] = data.model_dump()
            if fabric.is_global_zero:
                write_record(Score(**result), run.metrics)
        results.append(result)
    return results


def build_task(config: BenchmarkConfig, loaded: Loaded, fabric: Fabric) -> tuple[BenchmarkTask, GraphPredictor]:
    """Return the task of the configured seed, and the untrained model it is for."""
    dataset, seed, graphs = config.declaration, config.training.seed, loaded.graphs
    split = choose_split(dataset, loaded, seed)
    torch.manual_seed(seed)
    objective = build_objective(dataset, graphs, split.train)
    model = build_predictor(config, dataset, graphs, objective.outputs)
    graphs = with_positions(graphs, dataset.name, *positions_of(model), config.cache)
    if config.part and not graphs.transductive:
        raise SSTCastError(f"part: {config.dataset} has many graphs; set training.batch_size")
    common = (dataset, graphs, split, objective, config.part or config.training.batch_size, fabric)
    if not graphs.transductive:
        return ManyGraphs(*common, bucket=config.bucket), model
    return (OneGraph if config.part is None else PartsOfOneGraph)(*common), model


def _fit_and_score(
    config: BenchmarkConfig, run: Run, task: BenchmarkTask, model: GraphPredictor, fabric: Fabric
) -> Result:
    seconds = 0.0
    if config.local_epochs:
        seconds = _fit_local(config, Run(run.folder / "local"), model, task, fabric)
    trainer = Trainer(run, config, config.training, model, task, fabric)
    if not trainer.finished:
        trainer.fit()
    best = load_checkpoint(run.best)
    load_weights(model, best, run.best)
    model.eval()
    epochs, epoch = len(trainer.state.history), best.get("epoch")
    if not isinstance(epoch, int) or not 0 <= epoch < epochs:
        raise SSTCastError(
            f"{run.best}: not of the training in {run.checkpoints}; delete {run.folder} to train anew"
        )
    metric = task.dataset.metric
    return {
        "dataset": config.dataset,
        "model": config.label,
        "seed": config.training.seed,
        "metric": metric,
        "test": task.score(model, task.split.test),
        "validation": task.score(model, task.split.validation),
        "best_epoch": epoch,
        "epochs": epochs,
        "parameters": sum(p.numel() for p in model.parameters()),
        "seconds": round(seconds + trainer.state.seconds, 1),
        "device": str(fabric.device),
    }


def _fit_local(
    config: BenchmarkConfig, run: Run, model: GraphPredictor, task: BenchmarkTask, fabric: Fabric
) -> float:
    """Fit Polynormer's local layers, leave the best in `model`, and switch global attention on.

    Returns the seconds. The head starts anew, as the paper's models have one of their own for each stage.
    """
    if not isinstance(model.backbone, Polynormer):
        raise SSTCastError(f"local_epochs: {config.model.name} has no local stage; leave it out")
    options = config.training.model_copy(update={"epochs": config.local_epochs})
    run.checkpoints.mkdir(parents=True, exist_ok=True)
    fresh = {name: value.clone() for name, value in model.head.state_dict().items()}
    model.backbone.global_attention = False
    trainer = Trainer(run, config, options, model, task, fabric)
    if not trainer.finished:
        trainer.fit()
    load_weights(model, load_checkpoint(run.best), run.best)
    model.head.load_state_dict(fresh)
    model.backbone.global_attention = True
    return trainer.state.seconds


def _of_seed(config: BenchmarkConfig, seed: int) -> BenchmarkConfig:
    return config.model_copy(update={"training": config.training.model_copy(update={"seed": seed})})


def _open(config: BenchmarkConfig) -> Run:
    """Return the run of the configured seed; raise SSTCastError if its folder holds another."""
    run = Run(config.folder / f"seed-{config.training.seed}")
    if not run.config_file.exists():
        if run.metrics.exists() or any(run.checkpoints.glob("*.pt")):
            raise SSTCastError(
                f"{run.config_file} is missing, so what this run is is not known; delete its folder"
            )
        return run
    saved = validate(BenchmarkConfig, read_config(run.config_file), str(run.config_file))
    if not saved.same_experiment(config):
        raise SSTCastError(
            f"{run.config_file}: a run of this name has another configuration; choose another folder with "
            "--set runs=..., or delete this one"
        )
    return run


def _check(run: Run, files: Mapping[str, str], config: BenchmarkConfig) -> Data | None:
    """Return the digests of a run's data, if it has them; raise SSTCastError if the files are others."""
    known = recorded(run) if run.config_file.exists() else None
    if known is not None:
        check_files(run, known, files, config.root / config.declaration.folder)
    return known


def _score(config: BenchmarkConfig, run: Run, known: Data | None) -> Result:
    expected = {"dataset": config.dataset, "model": config.label, "seed": config.training.seed}
    metric = config.declaration.metric
    return read_score(run, known, **expected, metric=metric).model_dump(mode="json", exclude_none=True)


def _create(config: BenchmarkConfig, run: Run, loaded: Loaded) -> Data | None:
    """Make the run's folder, if it is not there; return the digests of its data if it has them.

    Raises SSTCastError if it has others.
    """
    if _open(config).config_file.exists():
        known = recorded(run) if data_file(run).exists() else None
        if known is not None:
            check_files(run, known, loaded.files, config.root / config.declaration.folder)
            check_loaded(run, known, loaded.digest, config.dataset)
        return known
    data = Data(files=dict(loaded.files), loaded=loaded.digest)
    run.checkpoints.mkdir(parents=True, exist_ok=True)
    with atomic(run.folder / "provenance.json") as temporary:
        temporary.write_text(json.dumps(provenance(), indent=2) + "\n")
    write_record(data, data_file(run))
    with atomic(run.config_file) as temporary:  # last: a folder with a configuration is a run
        save_config(config, temporary)
    return data


def _describe(loaded: Loaded) -> str:
    graphs = loaded.graphs
    if graphs.transductive:
        return f"1 graph, {int(graphs.nodes[0]):,} nodes, {int(graphs.edges[0]):,} directed edges"
    nodes, edges = graphs.nodes.double().mean(), graphs.edges.double().mean()
    return f"{len(graphs):,} graphs of {nodes:.1f} nodes and {edges:.1f} directed edges on average"

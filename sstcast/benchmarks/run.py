"""The verb `benchmark`: fit a model to a data set, seed by seed, and score the best weights on the test samples.

RUNS/DATASET/MODEL/seed-K/
  config.yaml       the resolved configuration
  provenance.json   versions, machine, time, and the command
  history.csv       one row an epoch
  checkpoints/      best.pt and step-N.pt
  local/            the same of Polynormer's first stage, where there is one
  metrics.json      the test score at the best validation score, parameters, seconds
"""

import csv
import json
from contextlib import nullcontext
from typing import Any

import torch
from lightning_fabric import Fabric

from sstcast.benchmarks.config import BenchmarkConfig
from sstcast.benchmarks.graphs import Loaded
from sstcast.benchmarks.load import choose_split, load
from sstcast.benchmarks.objectives import build_objective
from sstcast.benchmarks.positions import with_positions
from sstcast.benchmarks.predictor import GraphPredictor, build_predictor, positions_of
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


def run_benchmark(config: BenchmarkConfig, seeds: list[int]) -> list[Result]:
    """Fit and score each seed whose `metrics.json` is not there yet; return what all of them say.

    Raises SSTCastError for raw files that are missing or wrong and folders that hold another run, and Interrupted
    after Ctrl-C or SIGTERM: the same call then goes on.
    """
    runs = [_open(_of_seed(config, seed)) for seed in seeds]
    loaded = fabric = None
    for seed, run in zip(seeds, runs, strict=True):
        if run.metrics.exists():
            print(f"{run.folder}: nothing to do")
            continue
        if loaded is None or fabric is None:
            loaded = load(config.declaration, config.root, config.cache)
            fabric = start(config.training)
        print(f"{run.folder}: {_describe(loaded)}", flush=True)
        ours = _of_seed(config, seed)
        task, model = build_task(ours, loaded, fabric)  # before the folder is made: options may be wrong
        with alone(run.checkpoints) if fabric.is_global_zero else nullcontext():
            if fabric.is_global_zero:
                _create(ours, run)
            result = _fit_and_score(ours, run, task, model, fabric)
            if fabric.is_global_zero:
                with atomic(run.metrics) as temporary:
                    temporary.write_text(json.dumps(result, indent=2) + "\n")
    return [json.loads(run.metrics.read_text()) for run in runs]


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
    stages = [run]
    if config.local_epochs:
        stages = [Run(run.folder / "local"), run]
        _fit_local(config, stages[0], model, task, fabric)
    trainer = Trainer(run, config, config.training, model, task, fabric)
    if not trainer.finished:
        trainer.fit()
    best = load_checkpoint(run.best)
    load_weights(model, best, run.best)
    model.eval()
    metric = task.dataset.metric
    return {
        "dataset": config.dataset,
        "model": config.label,
        "seed": config.training.seed,
        "metric": metric,
        "test": task.score(model, task.split.test),
        "validation": task.score(model, task.split.validation),
        "best_epoch": best["epoch"],
        "epochs": len(trainer.state.history),
        "parameters": sum(p.numel() for p in model.parameters()),
        "seconds": round(sum(_seconds(stage) for stage in stages), 1),
        "device": str(fabric.device),
    }


def _fit_local(
    config: BenchmarkConfig, run: Run, model: GraphPredictor, task: BenchmarkTask, fabric: Fabric
) -> None:
    """Fit Polynormer's local layers, leave the best in `model`, and switch global attention on.

    The head starts anew, as the paper's models have one of their own for each stage.
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


def _of_seed(config: BenchmarkConfig, seed: int) -> BenchmarkConfig:
    return config.model_copy(update={"training": config.training.model_copy(update={"seed": seed})})


def _open(config: BenchmarkConfig) -> Run:
    """Return the run of the configured seed; raise SSTCastError if its folder holds another."""
    run = Run(config.folder / f"seed-{config.training.seed}")
    if not run.config_file.exists():
        return run
    saved = validate(BenchmarkConfig, read_config(run.config_file), str(run.config_file))
    if not saved.same_experiment(config):
        raise SSTCastError(
            f"{run.config_file}: a run of this name has another configuration; choose another folder with "
            "--set runs=..., or delete this one"
        )
    return run


def _create(config: BenchmarkConfig, run: Run) -> None:
    if _open(config).config_file.exists():
        return
    run.checkpoints.mkdir(parents=True, exist_ok=True)
    with atomic(run.folder / "provenance.json") as temporary:
        temporary.write_text(json.dumps(provenance(), indent=2) + "\n")
    with atomic(run.config_file) as temporary:  # last: a folder with a configuration is a run
        save_config(config, temporary)


def _seconds(run: Run) -> float:
    with run.history.open() as file:
        return float(list(csv.DictReader(file))[-1]["seconds"])


def _describe(loaded: Loaded) -> str:
    graphs = loaded.graphs
    if graphs.transductive:
        return f"1 graph, {int(graphs.nodes[0]):,} nodes, {int(graphs.edges[0]):,} directed edges"
    nodes, edges = graphs.nodes.double().mean(), graphs.edges.double().mean()
    return f"{len(graphs):,} graphs of {nodes:.1f} nodes and {edges:.1f} directed edges on average"

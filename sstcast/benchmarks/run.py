"""Trains a model on a data set, one run per seed, and scores it on the test samples."""

from collections.abc import Iterator
from contextlib import nullcontext
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import numpy as np
import torch
from lightning_fabric import Fabric
from torch import Tensor
from torch.nn import functional as F

from sstcast.benchmarks.cache import with_positions
from sstcast.benchmarks.config import BenchmarkConfig, published, unused_keys
from sstcast.benchmarks.equal_graphs import equal_graphs, repeats_line
from sstcast.benchmarks.graph_model import (
    GraphModel,
    build_graph_model,
    check_model,
    edge_weights,
    positions_of,
)
from sstcast.benchmarks.load import LoadedDataset, load
from sstcast.benchmarks.objectives import TASKS, objective_of
from sstcast.benchmarks.packed import Graphs, Split, standardise
from sstcast.benchmarks.registry import BY_ROWS, Kind
from sstcast.benchmarks.results import SCORED, DataDigest, SplitScore
from sstcast.benchmarks.sample_keys import without_labels
from sstcast.benchmarks.splits import choose_split
from sstcast.benchmarks.tasks import LISTED, BenchmarkTask, OneGraph, PartsOfOneGraph
from sstcast.errors import SSTCastError
from sstcast.graphs.graph import check_full_attention
from sstcast.log import LOG
from sstcast.models import reads_edges
from sstcast.models.attention import SoftmaxAttention
from sstcast.runs import Run
from sstcast.storage.artefacts import atomic, locked
from sstcast.storage.yaml_files import read_config, save_config
from sstcast.training.checkpoint import load_checkpoint, load_weights
from sstcast.training.devices import start
from sstcast.training.engine import State, Trainer
from sstcast.training.initial_weights import InitialWeights


def run_benchmark(
    config: BenchmarkConfig,
    seeds: list[int] | None = None,
    trust: bool = False,
    evaluate: bool = False,
    loaded: LoadedDataset | None = None,
) -> list[dict[str, Any]]:
    """Train and score each seed that has no `metrics.json` yet. Return the results of all seeds.

    By default, `seeds` is `[0]`, or one seed per fold if the split consists of folds. `loaded` holds data in
    memory. Otherwise, missing raw files are downloaded. With `evaluate`, only score the best weights so far, even
    if there is a score already. With `trust`, use classes and raw files that may run code. Raises SSTCastError if
    raw files are damaged, cannot be downloaded or have changed since the training, a folder holds another run, or
    `training.weights` do not fit the model or may have learnt from test samples. Raises Interrupted after Ctrl-C
    or SIGTERM. The same call then resumes.
    """
    backbone = check_model(config)  # before a download
    loaded = loaded or load(config.declaration, config.root, config.cache, trust)
    weighted = edge_weights(backbone, loaded.dataset, loaded.graphs) is not None
    data = DataDigest(graphs=loaded.digest, weighted=weighted)
    configs = [config.with_seed(seed) for seed in (_usual_seeds(loaded) if seeds is None else seeds)]
    runs = [find_run(seed_config) for seed_config in configs]
    for run in runs:
        if run.config_file.exists():
            data.check(run)
            for key in unused_keys(read_config(run.config_file)["training"]):
                LOG.info(f"{run.config_file}: training.{key} does nothing on graphs, and is not compared")
    pairs = list(zip(configs, runs, strict=True))
    left = [pair for pair in pairs if evaluate or not pair[1].metrics.exists() or _has_grown(*pair)]
    for seed_config, run in left:  # before the first is trained
        if evaluate and not _best(seed_config, run).exists():
            raise SSTCastError(f"{run.folder}: not trained; run the command without --evaluate")
        split_of(loaded, seed_config.training.seed)
    if left and (line := _repeats(loaded, config)):
        LOG.info(f"{left[0][1].folder}: {line}")
    fabric = start(config.training) if left else None
    scores = [
        _finished(run)
        if fabric is None or (seed_config, run) not in left
        else _trained(seed_config, run, loaded, data, fabric, evaluate)
        for seed_config, run in pairs
    ]
    return [score.model_dump(mode="json") for score in scores]


def _usual_seeds(loaded: LoadedDataset) -> list[int]:
    """Return a seed for each fold if the split consists of folds, else the seed 0."""
    kind, _, count = loaded.dataset.split.removeprefix(BY_ROWS).partition(":")
    return list(range(int(count))) if kind == "folds" else [0]


def _has_grown(config: BenchmarkConfig, run: Run) -> bool:
    """Return whether the configuration has more epochs than the run."""
    return run.config_file.exists() and (
        read_config(run.config_file)["training"]["epochs"] < config.training.epochs
    )


def _repeats(loaded: LoadedDataset, config: BenchmarkConfig) -> str:
    """Return how many graphs equal another, or "" if none does."""
    if len(loaded.graphs) == 1:
        return ""
    groups = equal_graphs(loaded.graphs, None, config.cache) if loaded.groups is None else loaded.groups
    line = repeats_line(loaded.graphs, groups, objective_of(loaded.dataset))
    return f"{line}; they stay in one part" if line and loaded.grouped else line


def _finished(run: Run) -> SplitScore:
    LOG.info(f"{run.folder}: nothing to do")
    return SplitScore.load(run.metrics, SCORED)


def _trained(
    config: BenchmarkConfig, run: Run, loaded: LoadedDataset, data: DataDigest, fabric: Fabric, evaluate: bool
) -> SplitScore:
    """Train the run of the configured seed, or with `evaluate` only score it."""
    LOG.info(f"{run.folder}: {_describe(loaded, config)}")
    task, model = build_task(config, loaded, fabric)  # before the folder is made, because options may be wrong
    for line in _doubts(loaded, config, task):
        LOG.info(f"{run.folder}: {line}")
    initial = None if evaluate else _begin(config, run, loaded, task, model)
    record = data.model_copy(update={"initial_weights": initial.digest}) if initial is not None else data
    if initial is not None and run.config_file.exists():
        initial.check_recorded(run, DataDigest.load(run.data, "delete the run's folder").initial_weights)
    with locked(run.checkpoints) if fabric.is_global_zero else nullcontext():
        if fabric.is_global_zero:
            grown = _has_grown(config, run)
            Run.create(config, folder=run.folder, data=record)
            if grown and not evaluate:
                run.metrics.unlink(missing_ok=True)
                with atomic(run.config_file) as temporary:
                    save_config(config, temporary)
        score = _fit_and_score(config, run, task, model, data, train=not evaluate)
        if fabric.is_global_zero and not evaluate:
            score.save(run.metrics)
    return score


def split_of(loaded: LoadedDataset, seed: int) -> Split:
    """Return the split for a seed. Raises SSTCastError as `choose_split`."""
    return choose_split(loaded.dataset, loaded.graphs, loaded.splits, seed, loaded.groups)


def result_lines(config: BenchmarkConfig, results: list[dict[str, Any]]) -> Iterator[str]:
    """Yield a line per seed and one for all seeds, with the paper's number and the best known."""
    for r in results:
        yield (
            f"seed {r['seed']}: test {r['metric']} {r['test']:.4f}, validation {r['validation']:.4f} "
            f"at epoch {r['epoch']} of {r['epochs']}, {r['seconds']:.0f} s"
        )
    scores = [r["test"] for r in results]
    spread = f" ± {stdev(scores):.4f}" if len(scores) > 1 else ""
    remark = ", on its own split" if config.split is not None else ""
    numbers = {f"published{remark}": published(config), f"best known{remark}": published(config, "best")}
    papers = "".join(
        f"; {label}: {number[0]:g} ({number[1]})" for label, number in numbers.items() if number is not None
    )
    first = results[0]
    label = "fold" if config.declaration.split.removeprefix(BY_ROWS).startswith("folds:") else "seed"
    yield (
        f"{first['dataset']}, {first['model']}: test {first['metric']} {mean(scores):.4f}{spread} over "
        f"{len(scores)} {label}{'s' * (len(scores) > 1)}, {first['parameters']:,} parameters{papers}"
    )


def build_task(config: BenchmarkConfig, loaded: LoadedDataset, fabric: Fabric) -> tuple[BenchmarkTask, GraphModel]:
    """Return the task for the configured seed, and its untrained model."""
    check_model(config)
    dataset, seed, graphs = loaded.dataset, config.training.seed, loaded.graphs
    split = split_of(loaded, seed)
    torch.manual_seed(seed)
    training = graphs.y if graphs.level == "pair" else graphs.y[training_rows(graphs, split)]
    objective = objective_of(dataset)(graphs.y, training, dataset)
    if not objective.known(training).any():
        raise SSTCastError(f"{dataset.name}: no label of the training samples is known; choose another split")
    model = build_graph_model(config, dataset, graphs, objective.outputs)
    if any(isinstance(module, SoftmaxAttention) for module in model.modules()):
        check_full_attention(int(graphs.nodes.max()), fabric.device)
    if config.predictor.normalise == "row":  # as Kipf & Welling 2017 do for words
        assert graphs.x is not None
        graphs = replace(graphs, x=F.normalize(graphs.x.float(), p=1, dim=1))
    if dataset.options.get("standardise"):
        x, edge_attr = (
            table if table is None else standardise(table, _of_graphs(counts, split.train))
            for table, counts in ((graphs.x, graphs.nodes), (graphs.edge_attr, graphs.edges))
        )
        graphs = replace(graphs, x=x, edge_attr=edge_attr)
    graphs = replace(graphs, edge_weight=edge_weights(model.backbone, dataset, graphs))
    graphs = with_positions(graphs, dataset.name.replace(":", "-"), *positions_of(model), config.cache)
    if config.part and not graphs.transductive:
        raise SSTCastError(f"part: {config.dataset} has many graphs; set training.batch_size")
    if config.part and config.training.accumulate * fabric.world_size > 1:  # both would divide each part again
        raise SSTCastError("part: leave out training.accumulate and training.devices, or choose a smaller part")
    common = (dataset, graphs, split, objective, config.part or config.training.batch_size, fabric)
    kind = BenchmarkTask if not graphs.transductive else OneGraph if config.part is None else PartsOfOneGraph
    task = kind(*common)
    task.learnt = loaded.keys[torch.cat([split.train, split.validation])].unique()
    return task, model


def training_rows(graphs: Graphs, split: Split) -> Tensor:
    """Return the numbers, or a mask, of the rows of labels that belong to the training samples."""
    nodes_of_many = graphs.level == "node" and not graphs.transductive
    return _of_graphs(graphs.nodes, split.train) if nodes_of_many else split.train


def _of_graphs(counts: Tensor, numbers: Tensor) -> Tensor:
    """Return a mask of the packed rows, `counts [graphs]` of each graph, that belong to the graphs `numbers`."""
    return torch.isin(torch.arange(len(counts)).repeat_interleave(counts), numbers)


def _begin(
    config: BenchmarkConfig, run: Run, loaded: LoadedDataset, task: BenchmarkTask, model: GraphModel
) -> InitialWeights | None:
    """Load the weights that a training begins from. Return None if there are none, or the training has begun.

    Raises SSTCastError if they do not fit the model, or learnt from samples that the run is tested on.
    """
    if config.training.weights is None or any(run.folder.glob("**/step-*.pt")):
        return None
    initial = InitialWeights.read(config.training.weights)
    source_config = initial.config_as(BenchmarkConfig)
    if initial.learnt is not None and task.learnt is not None:
        _check_unlearnt(initial.key, initial.learnt, loaded.keys, task)
        task.learnt = torch.cat([task.learnt, initial.learnt]).unique()
    else:
        LOG.info(f"{initial.key}: holds no keys of the samples that it learnt; the names of the data are compared")
        _check_names(initial.key, config, source_config, loaded, task.split)
        task.learnt = None  # not all are known
    initial.put_into(model)
    model.initial_head = deepcopy(model.head.state_dict())  # `enter` returns to it
    return initial


def _check_unlearnt(key: str, learnt: Tensor, samples: Tensor, task: BenchmarkTask) -> None:
    """Raise SSTCastError if weights have `learnt` a test sample that this run does not learn itself.

    Print how many test samples they know with another label. `samples` are the keys of all samples.
    """
    train, validation, test = task.split
    own, unit = samples[torch.cat([train, validation])], "node" if task.graphs.transductive else "graph"
    seen = torch.isin(samples[test], learnt)
    known = seen & ~torch.isin(samples[test], own)
    if known.any():
        raise SSTCastError(
            f"{key}: learnt {int(known.sum()):,} of {len(test):,} test samples of this run, the first is {unit} "
            f"{int(test[known][0])}; choose weights with this run's seed and split, or of other samples"
        )
    relabelled = torch.isin(without_labels(samples[test]), without_labels(learnt)) & ~seen
    if relabelled.any():
        LOG.info(
            f"{key}: learnt {int(relabelled.sum()):,} of {len(test):,} test samples with another label, the first "
            f"is {unit} {int(test[relabelled][0])}"
        )


def _check_names(
    key: str, config: BenchmarkConfig, source: BenchmarkConfig, loaded: LoadedDataset, split: Split
) -> None:
    """Raise SSTCastError if weights of the configuration `source` learnt from the same data by another split."""
    if source.dataset != config.dataset:
        return
    other = split_of(loaded, source.training.seed)
    same_split = source.declaration.split == config.declaration.split
    if not same_split or torch.isin(split.test, torch.cat([other.train, other.validation])).any():
        raise SSTCastError(
            f"{key}: may have learnt from test samples of this run, because their split differs (seed "
            f"{source.training.seed}); choose weights with this run's seed and split"
        )


def _fit_and_score(
    config: BenchmarkConfig, run: Run, task: BenchmarkTask, model: GraphModel, data: DataDigest, train: bool
) -> SplitScore:
    stages = _fit(config, run, task, model, train)
    if not any(state.epoch for state in stages.values()):
        raise SSTCastError(f"{run.folder}: no epoch is finished; run the command without --evaluate")
    path = _best(config, run)
    best = load_checkpoint(path, config)
    model.enter(best["stage"])
    load_weights(model, best, path)
    model.eval()
    earlier_stages = list(stages)[: list(stages).index(best["stage"])]
    scores = {part: task.predict(model, getattr(task.split, part)) for part in ("test", "validation")}
    if task.fabric.is_global_zero:
        arrays: dict[str, Any] = {
            f"{part}_{name}": values for part, (_, outputs) in scores.items() for name, values in outputs.items()
        }
        with atomic(run.folder / "predictions.npz") as temporary, temporary.open("wb") as file:
            np.savez_compressed(file, **arrays)
    return SplitScore(
        dataset=config.dataset,
        split=task.dataset.split,
        model=config.label,
        seed=config.training.seed,
        metric=task.dataset.metric,
        test=scores["test"][0],
        validation=scores["validation"][0],
        constant=task.constant_score(),
        test_samples=task.labelled(task.split.test),
        epoch=sum(stages[name].epoch for name in earlier_stages) + best["epoch"] + 1,
        epochs=sum(state.epoch for state in stages.values()),
        parameters=sum(p.numel() for p in model.parameters()),
        seconds=round(sum(state.seconds for state in stages.values()), 1),
        peak_memory=max(state.peak_memory for state in stages.values()) or None,
        device=str(task.fabric.device),
        data=data,
    )


def _fit(
    config: BenchmarkConfig, run: Run, task: BenchmarkTask, model: GraphModel, train: bool
) -> dict[str | None, State]:
    """Train the model stage by stage, and finally the whole model (stage None). Return the state of each stage.

    Each stage starts from the best weights of the previous one, its optimiser's state and its best score.
    """
    states: dict[str | None, State] = {}
    previous = None
    for stage, epochs in [*config.stages.items(), (None, config.training.epochs)]:
        stage_run = run if stage is None else Run(run.folder / stage)
        stage_run.checkpoints.mkdir(parents=True, exist_ok=True)
        model.enter(stage)
        options = config.training.model_copy(update={"epochs": epochs})
        trainer = Trainer(stage_run, config, options, model, task, task.fabric, stage, previous if train else None)
        if train and not trainer.finished:
            trainer.fit()
        states[stage], previous = trainer.state, stage_run
    return states


def _best(config: BenchmarkConfig, run: Run) -> Path:
    """Return the file of the best weights so far, which a stage holds until the whole model trains."""
    stages = [Run(run.folder / stage).best for stage in reversed(config.stages)]
    return next((path for path in (run.best, *stages) if path.exists()), run.best)


def find_run(config: BenchmarkConfig) -> Run:
    """Return the run of the configured seed. Raises SSTCastError if its folder holds another one."""
    run = Run.find(config, config.folder / f"seed-{config.training.seed}")
    if not run.config_file.exists() and (run.metrics.exists() or any(run.checkpoints.glob("*.pt"))):
        raise SSTCastError(f"{run.config_file} is missing, so the run is unknown; delete its folder")
    return run


def _describe(loaded: LoadedDataset, config: BenchmarkConfig) -> str:
    """Return sizes, task and features in a line, so that users see what was inferred and what the model reads."""
    graphs, dataset = loaded.graphs, loaded.dataset
    nodes, edges = graphs.nodes.double().mean(), graphs.edges.double().mean()
    sizes = f"{len(graphs):,} graphs of {nodes:.1f} nodes and {edges:.1f} directed edges on average"
    if graphs.transductive:
        sizes = f"1 graph, {int(nodes):,} nodes, {int(edges):,} directed edges"
    features = [
        f"{element} features: {kind if table is None else f'{table.shape[1]} {kind}'}"
        for element, kind, table in (
            ("node", _kind(dataset.node), graphs.x),
            ("edge", _kind(dataset.edge), graphs.edge_attr),
        )
    ]
    reads_weights = check_model(config).reads_weights
    if graphs.edge_attr is not None and not reads_edges(config.model.name, config.model.options):
        columns = graphs.edge_attr.shape[1]
        features[1] = f"edge features: {columns}, not read by {config.label}"
        if reads_weights and columns == 1 and dataset.own and graphs.edge_weight is None:
            features.append("if they are weights, call them edge_weight")
    if graphs.edge_weight is not None:
        features.append(f"edge weights, {'not ' * (not reads_weights)}read by {config.label}")
    return "; ".join([sizes, f"{dataset.task} by {dataset.metric}, split {dataset.split}", *features])


def _doubts(loaded: LoadedDataset, config: BenchmarkConfig, task: BenchmarkTask) -> Iterator[str]:
    """Yield what may not be as meant: classes taken as numbers, classes and targets without training samples."""
    dataset, y = loaded.dataset, loaded.graphs.y
    if not config.declaration.task and dataset.task.endswith("regression") and y.shape[1] == 1:
        known = y[~y.isnan()]
        if (known == known.floor()).all():
            kinds, unknown = len(known.unique()), len(y) - len(known)
            unknown_words = f" and {unknown} NaN" if unknown else ""
            yield (
                f"labels: {kinds} different whole numbers{unknown_words}, taken as regression; for classes set "
                f"data.task={dataset.task.replace('regression', 'classification')}"
            )
    if not TASKS[dataset.task].classes and y.numel() > len(y):
        known, rows = objective_of(dataset).known(y).reshape(len(y), -1), training_rows(loaded.graphs, task.split)
        names = dataset.options.get("targets", ())
        absent = (known.any(0) & ~known[rows].any(0)).nonzero().flatten().tolist()
        if absent:
            columns = [names[i] if len(names) == known.shape[1] else str(i) for i in absent[:LISTED]]
            more = f" and {len(absent) - LISTED} more" if len(absent) > LISTED else ""
            yield f"scored without a training label, column: {', '.join(columns)}{more}"
    if TASKS[dataset.task].classes and y.numel() == len(y):
        labels = y.flatten().nan_to_num(-1).long()
        known, learnt = labels[labels >= 0], labels[training_rows(loaded.graphs, task.split)]
        classes, sizes = known[~torch.isin(known, learnt)].unique(return_counts=True)
        if len(classes):
            absent = [f"{c} ({size})" for c, size in zip(classes[:LISTED].tolist(), sizes.tolist(), strict=False)]
            more = f" and {len(classes) - LISTED} more" if len(classes) > LISTED else ""
            yield f"absent from training, class (samples): {', '.join(absent)}{more}"


def _kind(kind: Kind) -> str:
    return "categorical" if isinstance(kind, tuple) else kind

"""The verb `hindcast`: train every system anew for every fold, forecast the years, and score all folds as one."""

import csv

from sstcast import __version__
from sstcast.artefacts import atomic, locked
from sstcast.cf import describe, references, write
from sstcast.hindcasts.files import RECIPE
from sstcast.hindcasts.fold import combine_runs, read_recipe, score_baselines, score_run, train_run
from sstcast.hindcasts.joining import join_forecasts, open_errors, recipes
from sstcast.hindcasts.plan import Plan
from sstcast.hindcasts.running import Say, Task, run_tasks
from sstcast.hindcasts.scores import Scores, best_linear, lengths, rows, score_heatwaves, summarise, tabulate
from sstcast.hindcasts.selection import select_run
from sstcast.manifest import damage
from sstcast.models import LINEAR
from sstcast.ocean.prepare import prepare
from sstcast.ocean.prepared import warn_of_source
from sstcast.scores.saved import read_sealed, write_metrics
from sstcast.workers import cluster

CHANGED = "the scores are of the days before; for the new ones choose another --out"


def hindcast(plan: Plan, jobs: int = 1, scheduler: str | None = None, say: Say = print) -> tuple[Scores, bool]:
    """Do what is not done yet of a hindcast; return its scores, and whether there was anything to do.

    What was interrupted goes on where it stopped: at the step of a training, at the fold of all else. `jobs`
    trainings run side by side in processes, or all on the cluster at `scheduler`; `say` gets a line for each step.
    A line on stderr says so if the source of a finished hindcast has changed since.

    Raises SSTCastError if the plan cannot be carried out, and Interrupted after Ctrl-C or SIGTERM.
    """
    plan.check()
    if (known := _known(plan)) is not None:
        for oceans in plan.oceans.values():
            warn_of_source(oceans[-1], CHANGED)
        return known, False
    plan.check_days()
    with locked(plan.hindcast.metrics):
        if (known := _known(plan)) is not None:
            return known, False
        return _hindcast(plan, jobs, scheduler, say), True


def _known(plan: Plan) -> Scores | None:
    metrics = read_sealed(plan.hindcast.metrics, plan.hindcast.tables)
    if metrics is None or metrics.get(RECIPE) != plan.recipe or not plan.hindcast.csv.exists():
        return None
    stores = [plan.hindcast.forecasts(system.name) for system in plan.scored]
    return None if any(not store.exists() or damage(store) for store in stores) else metrics


def _hindcast(plan: Plan, jobs: int, scheduler: str | None, say: Say) -> Scores:
    every, folds = plan.protocol.every, plan.protocol.folds
    runs = [(system, fold, plan.run(system, fold)) for system in plan.scored for fold in folds]
    with cluster(scheduler):
        needed = [one for data in plan.oceans.values() for one in data]
        needed += [other for _, _, run in runs for other in run.also]
        for one in needed:
            prepare(one, lambda line: None if line.endswith("nothing to do") else say(line))
    trained = [plan.run(system, fold) for system in plan.systems for fold in folds]
    tasks = [Task(train_run, (member,)) for run in trained for member in plan.members(run)]
    tasks += [
        Task(score_baselines, (one, every, plan.baselines(one), plan.thresholds(fold)))
        for data in plan.oceans.values()
        for fold, one in zip(folds, data, strict=True)
    ]
    run_tasks(tasks, jobs, scheduler, say)
    tasks = []
    for fold in folds:
        for combination in plan.combinations:
            systems, run = plan.parts(combination), plan.run(combination, fold)
            parts = [plan.run(system, fold).folder for system in systems]
            if combination.name in (plan.fitted, plan.equal):
                tasks.append(Task(combine_runs, (parts, run, combination.name == plan.equal)))
            else:
                tasks.append(Task(select_run, (systems, parts, run, plan.protocol, fold)))
    run_tasks(tasks, jobs, scheduler, say)
    joined = {s.name: read_recipe(plan.hindcast.forecasts(s.name)) == recipes(plan, s) for s in plan.scored}
    tasks = [Task(score_run, (run, every, joined[s.name], plan.thresholds(fold))) for s, fold, run in runs]
    run_tasks(tasks, jobs, scheduler, say)
    for system in plan.scored:
        join_forecasts(plan, system)
    return _score(plan)


def _score(plan: Plan) -> Scores:
    every, data = plan.protocol.every, plan.systems[0].data
    errors = open_errors(plan)
    models = {system.name: system.model.name for system in plan.scored}
    members = {name: len(folds[plan.protocol.folds[0].name]) for name, folds in plan.recipe["runs"].items()}
    names = [str(name) for name in errors["system"].values]
    linear = [name for name in names if name not in models or models[name] in LINEAR]
    reference = best_linear(errors["mse"], linear)
    source = str(errors.attrs["source"])
    tables = describe(
        tabulate(errors, reference, every),
        title=f"Scores of the hindcast {plan.hindcast.folder.name}",
        summary="Squared errors in degC2 of all systems by date, lead week and cell, and their significance; "
        "Brier scores and cases of heatwave probabilities",
        source=source,
        history=f"sstcast {__version__} hindcast",
        **references(source, ""),
    )
    write(tables, plan.hindcast.tables)
    systems = {
        name: {"model": models.get(name), "members": members.get(name, 1), "linear": name in linear, **scores}
        for name, scores in summarise(tables, reference, every).items()
    }
    metrics = {
        RECIPE: plan.recipe,
        **plan.protocol.plain(),
        "source": source,
        "region": data.region if isinstance(data.region, str) else data.box.bounds.yaml,
        "history": data.history,
        "horizon": data.horizon,
        "forecasts": tables.sizes["init_time"],
        "block_days": lengths(data.horizon, every).block * every,
        "ocean_cells": int(tables["mse_by_cell"][0, 0].notnull().sum()),
        "reference": reference,
        "systems": systems,
        "heatwaves": score_heatwaves(tables, [*systems], reference),
    }
    with atomic(plan.hindcast.csv) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(rows(metrics))
    return write_metrics(plan.hindcast.metrics, metrics, plan.hindcast.tables)

"""The command `hindcast`: retrains systems for each fold, forecasts the fold, and scores all folds together."""

from collections.abc import Iterator
from dataclasses import asdict
from functools import partial
from typing import Any

import pandas as pd

from sstcast.config import DataConfig
from sstcast.dask_schedulers import cluster
from sstcast.errors import SSTCastError
from sstcast.extremes.heatwaves import short_base_period
from sstcast.hindcasts.executors import Task, run_tasks
from sstcast.hindcasts.fold import (
    combine_runs,
    join_forecasts,
    open_tables,
    recipes,
    score_baselines,
    score_run,
    select_run,
    train_run,
)
from sstcast.hindcasts.plan import Plan
from sstcast.models import LINEAR
from sstcast.names import BASE_RATE, COVERED
from sstcast.ocean.filled_days import check_test_dates, left_out
from sstcast.ocean.prepare import prepare
from sstcast.ocean.prepared import Prepared, check_source
from sstcast.predictors.grid import ShortRecord
from sstcast.reading.daily_field import source_of
from sstcast.scores.analysis import Analysis
from sstcast.scores.evaluate import tell_weights
from sstcast.scores.joining import join_folds
from sstcast.scores.kinds.points import check_observations
from sstcast.scores.score_files import errors_of, part_of, skill_of
from sstcast.scores.summary import assemble, lowest_error, predictors_of
from sstcast.scores.system_records import RUN, record
from sstcast.storage.artefacts import atomic, is_intact, is_up_to_date, locked, remove
from sstcast.training.train import ensemble
from sstcast.types import Scores

REMEDY = "the scores use the old data; to use the new data, choose another --out"


def hindcast(plan: Plan, jobs: int = 1, scheduler: str | None = None) -> tuple[Scores, bool]:
    """Run a hindcast, or what is left of it. Return its scores, and whether there was anything to do.

    After an interruption, a training resumes at its last saved step, and other work at its fold. Tasks run in
    `jobs` processes, or on the cluster at `scheduler`. Logs each task. Warns if the
    source of a finished hindcast has changed.

    Raises SSTCastError if the plan cannot be carried out, and Interrupted after Ctrl-C or SIGTERM.
    """
    plan.check()
    if (scores := _known(plan)) is not None:
        last, datasets = plan.protocol.folds[-1], [system.data for system in plan.systems]
        for number, data in enumerate(datasets):
            if data not in datasets[:number]:
                check_source(Prepared.of(last.split(data)), REMEDY, only_warn=True)
        return scores, False
    plan.check_days()
    with locked(plan.hindcast.metrics):
        if (scores := _known(plan)) is not None:
            return scores, False
        return _hindcast(plan, jobs, scheduler), True


def _known(plan: Plan) -> Scores | None:
    metrics = plan.hindcast.known(plan.recipe)
    if metrics is None or not plan.hindcast.csv.exists():
        return None
    stores = [plan.hindcast.forecasts(system.name) for system in plan.scored]
    return metrics if all(map(is_intact, stores)) else None


def _hindcast(plan: Plan, jobs: int, scheduler: str | None) -> Scores:
    every, folds = plan.protocol.every, plan.protocol.folds
    runs = [(system, fold, plan.run(system, fold)) for system in plan.scored for fold in folds]
    needed: list[DataConfig] = []
    for run in plan.trained:
        needed += [run.data] if run.data not in needed else []
    with cluster(scheduler):
        for ocean in needed:
            try:
                prepare(ocean)
            except ShortRecord as error:
                served = [
                    str(later.splits.test[0].year) for later in needed if later.splits.base[1] >= error.needed
                ]
                raise SSTCastError(
                    f"{error}; the first fold that it serves begins in {[*served, 'no year'][0]}"
                ) from None
    for ocean in needed:
        check_test_dates(Prepared.of(ocean), every)
    if plan.asked.places is not None:
        tell_weights(plan.asked.places, Prepared.of(needed[0]))
    first, *_ = plan.oceans.values()
    check_observations((Analysis.open(Prepared.of(data), every=every) for data in first), plan.asked)
    tasks: list[Task] = []
    for run in plan.trained:
        for member in plan.dropped(run):
            remove(member.folder)
        members = plan.members(run)
        if members != [run]:
            ensemble(run, plan.seeds)
        tasks += [partial(train_run, member) for member in members]
    tasks += [
        partial(score_baselines, ocean, every, plan.baselines(ocean), plan.thresholds(fold), plan.asked)
        for data in plan.oceans.values()
        for fold, ocean in zip(folds, data, strict=True)
    ]
    run_tasks(tasks, jobs, scheduler)
    tasks = []
    for fold in folds:
        for combination in plan.combinations:
            systems, run = plan.parts(combination), plan.run(combination, fold)
            parts = [plan.run(system, fold).folder for system in systems]
            if combination.name in (plan.fitted, plan.equal):
                tasks.append(partial(combine_runs, parts, run, combination.name == plan.equal))
            else:
                earlier_folds = plan.protocol.before(fold).folds
                earlier_runs = [
                    [plan.run(system, earlier).folder for earlier in earlier_folds] for system in systems
                ]
                tasks.append(partial(select_run, dict(zip(parts, earlier_runs, strict=True)), run, every))
    run_tasks(tasks, jobs, scheduler)
    joined = {name: is_up_to_date(plan.hindcast.forecasts(name), recipe) for name, recipe in recipes(plan).items()}
    tasks = [
        partial(score_run, run, every, joined[s.name], plan.thresholds(fold), plan.asked) for s, fold, run in runs
    ]
    run_tasks(tasks, jobs, scheduler)
    recipe_by_name = recipes(plan)
    for system in plan.scored:
        join_forecasts(plan, system, recipe_by_name[system.name])
    return _score(plan)


def _score(plan: Plan) -> Scores:
    tables = join_folds([open_tables(plan, fold) for fold in plan.protocol.folds])
    models = {system.name: system.model.name for system in plan.scored}
    recipe = plan.recipe
    members = {name: len(folds[plan.protocol.folds[0].name]) for name, folds in recipe["runs"].items()}
    names = [str(name) for name in tables["system"].values]
    linear = [name for name in names if models.get(name) is None or models[name] in LINEAR]
    reference = lowest_error(tables, linear)
    first, last = (plan.protocol.folds[end] for end in (0, -1))
    first_ocean, *_ = plan.oceans.values()
    tables, metrics = assemble(
        tables,
        (names, [reference]),
        reference,
        {
            name: {"model": models.get(name), "members": members.get(name, 1), "linear": name in linear}
            | (record(RUN) if name in models else plan.records_of_baselines[name])
            for name in names
        },
        plan.systems[0].data,
        plan.asked,
        sum(left_out(Prepared.of(data), plan.protocol.every) for data in first_ocean),
        kind="hindcast",
        protocol_of_hindcast=asdict(plan.protocol),
        source=source_of(plan.systems[0].data.source).called(str(tables.attrs["source"])),
        **predictors_of({system.name: system.data for system in plan.systems}),
        short_base_period=short_base_period(*plan.thresholds(plan.protocol.folds[0]).splits.base),
        test=[f"{first.first}-01-01", f"{last.last}-12-31"],
    )
    best_first = sorted(names, key=lambda name: errors_of(metrics, name)["mse"])
    metrics["systems"] = {name: metrics["systems"][name] for name in best_first}
    with atomic(plan.hindcast.csv) as temporary:
        rows(metrics).to_csv(temporary, index=False)
    title = f"Scores of the hindcast {plan.hindcast.folder.name}"
    return plan.hindcast.write(tables, metrics, recipe, title=title)


def rows(metrics: Scores) -> pd.DataFrame:
    """Return the scores as a table with a row for each system and each part (lead, lead week, season or fold)."""
    reference, climate = metrics["reference"], metrics["climate"]
    table = []
    for name, system in metrics["systems"].items():
        mse, crps = errors_of(metrics, name), metrics["probabilities"][name]
        ratios = {loss: by_system[name] for loss, by_system in metrics["ratios"].items()}
        for label, split, part in _parts_in(mse):
            of = partial(part_of, split=split, part=part)
            row = {"system": name, "model": system["model"], "members": system["members"], "part": label}
            row |= {"mse_degC2": of(mse)["mse"], **_ratio(of(ratios["mse"][reference]))}
            row |= {"crps_degC": of(crps)["crps"], **_ratio(of(ratios["crps"][reference]), "crps_")}
            row |= {"crps_skill": skill_of(of(ratios["crps"][climate]))}
            row |= {key: of(crps)[key] for key in COVERED}
            for kind, by_system in metrics["heatwaves"].items():
                row[f"{kind}_brier"] = of(by_system[name]).get("brier")
                row[f"{kind}_ratio"] = of(ratios[kind][reference])["ratio"]
                row[f"{kind}_skill"] = skill_of(of(ratios[kind][BASE_RATE]))
            table.append(row)
    return pd.DataFrame(table)


def _parts_in(scores: Scores) -> Iterator[tuple[str, str, Any]]:
    """Yield the label, split and position or name of each part of some scores."""
    yield "all", "", None
    for by in ("lead", "week", "season", "fold"):
        values = scores[f"by_{by}"]["mse"]
        for part in values if isinstance(values, dict) else range(len(values)):
            yield f"{by} {part + 1 if isinstance(part, int) else part}", f"by_{by}", part


def _ratio(compared: Scores, prefix: str = "") -> Scores:
    low, high = compared["interval"]
    return {f"{prefix}ratio": compared["ratio"], f"{prefix}low": low, f"{prefix}high": high}

"""The verb `benchmark`: every backbone on every task, resuming, stages, seeds, and its output."""

import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
import yaml
from lightning_fabric import Fabric
from logged import logged
from refusals import refused
from small_raw import TASKS

from sstcast.benchmarks import run as run_module
from sstcast.benchmarks.config import BenchmarkConfig
from sstcast.benchmarks.load import load
from sstcast.benchmarks.run import build_task, run_benchmark
from sstcast.benchmarks.tasks import OneGraph
from sstcast.config import TrainingConfig
from sstcast.errors import Interrupted, SSTCastError
from sstcast.models import MODELS
from sstcast.storage.artefacts import write_json
from sstcast.training.checkpoint import load_checkpoint

Command, Configure = Callable[..., tuple[int, str, str]], Callable[..., BenchmarkConfig]
BACKBONES = [name for name in MODELS if name not in ("mlp", "mlp-pointwise", "tfnet")]


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("model", BACKBONES)
def test_every_backbone_learns_every_task_for_two_epochs(model: str, task: str, build: Callable[..., Any]) -> None:
    bench, predictor = build(TASKS[task], model)
    optimizer = torch.optim.Adam(predictor.parameters(), 1e-2)
    losses = []
    for epoch in range(2):
        for index in bench.order(0, epoch):
            batch = bench.batch(index)
            loss = bench.loss(predictor.train(), batch) / bench.weight(batch) + predictor.auxiliary_loss()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        score, found = bench.predict(predictor.eval(), bench.split.test)
    assert torch.isfinite(torch.tensor(losses)).all()
    assert score >= 0
    assert set(found["index"].tolist()) == set(bench.split.test.tolist())
    assert bench.lower_is_better == (task == "graph regression")


def test_a_run_is_recorded_and_not_repeated(configure: Configure, monkeypatch: pytest.MonkeyPatch) -> None:
    config = configure("MUTAG", "mpnn")
    results = run_benchmark(config, [0, 3])
    assert [r["seed"] for r in results] == [0, 3]
    folder = config.folder / "seed-3"
    for name in ("config.yaml", "provenance.json", "history.csv", "checkpoints/best.pt", "metrics.json"):
        assert (folder / name).exists(), name
    assert "seed: 3" in (folder / "config.yaml").read_text()
    monkeypatch.setattr(run_module, "_fit_and_score", None)  # would be called otherwise
    assert run_benchmark(config, [0, 3]) == results
    with pytest.raises(SSTCastError, match="another configuration"):
        run_benchmark(configure("MUTAG", "mpnn", "model.width=16"), [0])


@pytest.mark.parametrize("key", ["windows_per_epoch=50", "include_validation=true", "cross_fit=2"])
def test_keys_that_do_nothing_on_graphs_are_refused_and_not_compared(key: str, configure: Configure) -> None:
    name, _, value = key.partition("=")
    with refused("MUTAG, mpnn: training." + name, "does nothing on graphs; leave it out"):
        configure("MUTAG", "mpnn", f"training.{key}", "training.epochs=1")
    default = json.dumps(TrainingConfig().model_dump()[name])
    config = configure("MUTAG", "mpnn", "training.epochs=1", f"training.{name}={default}")
    (result,) = run_benchmark(config, [0])
    file = config.folder / "seed-0/config.yaml"
    saved = yaml.safe_load(file.read_text())
    saved["training"][name] = yaml.safe_load(value)
    file.write_text(yaml.safe_dump(saved))
    with logged() as lines:
        assert run_benchmark(config, [0]) == [result]
    assert f"{file}: training.{name} does nothing on graphs, and is not compared" in lines


def test_a_run_without_a_finished_epoch_has_no_score(
    configure: Configure, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = configure("MUTAG", "mpnn")
    step = run_module.Trainer._step

    def stopped(trainer: run_module.Trainer, index: torch.Tensor) -> torch.Tensor:
        signal.raise_signal(signal.SIGTERM)
        return step(trainer, index)

    monkeypatch.setattr(run_module.Trainer, "_step", stopped)
    with pytest.raises(Interrupted):
        run_benchmark(config, [0])
    with refused(config.folder / "seed-0", "no epoch is finished; run the command without --evaluate"):
        run_benchmark(config, [0], evaluate=True)
    monkeypatch.undo()
    run_benchmark(config, [0])
    assert run_benchmark(config, [0], evaluate=True)[0]["epochs"] == 2


def test_peak_memory_is_recorded_and_optional(configure: Configure) -> None:
    """On a CPU, it is what the kernel calls the high water mark of the process, in KiB."""
    config = configure("MUTAG", "mpnn")
    result = run_benchmark(config, [0])[0]
    if (status := Path("/proc/self/status")).exists():
        mark = next(line.split()[1] for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        assert result["peak_memory"] == pytest.approx(1024 * int(mark), rel=0.1)
    metrics = config.folder / "seed-0/metrics.json"
    earlier = json.loads(metrics.read_text())
    assert earlier.pop("peak_memory") > 2**20
    write_json(metrics, earlier)
    assert run_benchmark(config, [0]) == [result | {"peak_memory": None}]


def test_a_longer_run_continues_and_ends_with_the_same_weights(configure: Configure, tmp_path: Path) -> None:
    found = []
    for place, lengths in (("whole", [4]), ("parts", [2, 4])):
        for epochs in lengths:
            config = configure("MUTAG", "gps", f"training.epochs={epochs}", f"runs={tmp_path / place}")
            (result,) = run_benchmark(config, [1])
        newest = max((config.folder / "seed-1/checkpoints").glob("step-*.pt"))
        found.append((load_checkpoint(newest)["model"], result["test"]))
    torch.testing.assert_close(*found, rtol=0, atol=0)


def test_stages_train_one_after_the_other(configure: Configure, fabric: Fabric) -> None:
    """The second starts from the best weights, Adam state and score of the first, with a new head."""
    config = configure("minesweeper", "polynormer", "stages.local=3")
    assert config.stages == {"local": 3}
    (result,) = run_benchmark(config, [0])
    folder = config.folder / "seed-0"
    assert len((folder / "local/history.csv").read_text().splitlines()) == 1 + 3
    assert len((folder / "history.csv").read_text().splitlines()) == 1 + 2
    assert result["epochs"] == 3 + 2

    task, model = build_task(config, load(config.declaration, config.root, config.cache), fabric)
    initial = {name: value.clone() for name, value in model.state_dict().items()}
    model.enter("local")
    assert not model.backbone.global_attention
    torch.nn.init.zeros_(model.head[-1].weight)  # as if it had been trained
    model.enter(None)
    second = run_module.Run(folder / "anew")
    second.checkpoints.mkdir(parents=True)
    first = run_module.Run(folder / "local")
    trainer = run_module.Trainer(second, config, config.training, model, task, fabric, None, first)
    best = load_checkpoint(first.best)
    for name, parameter in model.named_parameters():
        fresh = name.startswith(("head", "backbone.global_layers", "backbone.out", "backbone.norm."))
        assert torch.equal(parameter, initial[name] if fresh else best["model"][name]), name
        assert (parameter in trainer.optimizer.state) == (not fresh), name
    assert [trainer.state.best, trainer.state.best_loss] == best["score"]
    assert load_checkpoint(second.best)["stage"] == "local"  # until the second stage does better


def test_the_best_of_all_stages_is_scored(configure: Configure, monkeypatch: pytest.MonkeyPatch) -> None:
    """The best weights are those of the first stage, also with `evaluate`."""
    config = configure("minesweeper", "polynormer", "stages.local=3")
    validate = OneGraph.validate

    def worse_as_a_whole(task: OneGraph, model: torch.nn.Module) -> dict[str, float]:
        whole = model.backbone.global_attention  # type: ignore[union-attr]
        return {"roc-auc": 0.0, "loss": 9.0} if whole else validate(task, model)

    monkeypatch.setattr(OneGraph, "validate", worse_as_a_whole)
    (result,) = run_benchmark(config, [0])
    folder = config.folder / "seed-0"
    history = pd.read_csv(folder / "local/history.csv")
    assert result["validation"] == pytest.approx(history["validation_roc-auc"].max())
    best = folder / "checkpoints/best.pt"
    before = best.read_bytes()
    assert load_checkpoint(best)["stage"] == "local"
    assert 1 + load_checkpoint(best)["epoch"] == result["epoch"] <= 3
    for path in best.parent.glob("step-*.pt"):
        path.unlink()
    assert run_benchmark(config, [0], evaluate=True)[0]["test"] == result["test"]
    assert best.read_bytes() == before
    best.unlink()  # as if the local stage were still in training
    assert run_benchmark(config, [0], evaluate=True)[0]["epoch"] == result["epoch"]
    assert not best.exists()


def test_the_verb_prints_seeds_mean_and_the_paper_s_number(root: Path, tmp_path: Path, command: Command) -> None:
    keys = ("training.epochs=1", "training.device=cpu", f"cache={tmp_path / 'cache'}")
    sets = [part for key in (f"runs={tmp_path}", *keys) for part in ("--set", key)]
    code, out, _ = command("benchmark", "mutag", "--model", "lsat", "--root", root, "--seeds", "0..1", *sets)
    assert code == 0
    last = out.splitlines()[-3:]
    scores = [json.loads((tmp_path / f"MUTAG/lsat/seed-{s}/metrics.json").read_text())["test"] for s in (0, 1)]
    assert last[0].startswith(f"seed 0: test accuracy {scores[0]:.4f}")
    assert f"MUTAG, lsat: test accuracy {sum(scores) / 2:.4f} ± " in last[2]
    assert "published: 0.9018 (KDLGT Table 2)" in last[2]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["minesweeper", "--model", "gatedgnc"], "did you mean 'gatedgcn'"),
        (["minesweeper", "--model", "mlp"], "it forecasts tiles"),
        (["minesweeper", "--model", "gps", "--set", "predictor.readuot=sum"], "did you mean 'readout'"),
        (["minesweeper", "--model", "gps", "--set", "data.metric=ap"], "data: leave it out; minesweeper"),
        (["minesweeper", "--model", "gcn-vn", "--set", "model.layers=1"], "one layer would not use the virtual"),
        (["none.yaml", "--model", "gps"], "none.yaml: cannot read it"),
    ],
)
def test_wrong_arguments(arguments: list[str], words: str, root: Path, tmp_path: Path, command: Command) -> None:
    extra = ["--root", root, "--set", f"runs={tmp_path}", "--set", "training.device=cpu"]
    code, _, err = command("benchmark", *arguments, *extra)
    assert code == 2
    assert err.count("\n") == 1
    assert words in err


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("model.cnov=gcn", "cnov"),
        ("model.conv=gnc", "conv"),
        ("model.heads=7", "7 heads cannot share a width of 64"),
        ("stages.local=3", "stages: gps has no local stage"),
        ("predictor.head=false", "predictor.head: gps cannot replace it"),
    ],
)
def test_wrong_options_are_refused_before_a_download(
    change: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: Callable[..., None]
) -> None:
    monkeypatch.setattr("sstcast.benchmarks.run.load", lambda *_: pytest.fail("reads or downloads"))
    fails([words], "benchmark", "CiteSeer", "--model", "gps", "--root", tmp_path / "graphs", "--set", change)
    assert not (tmp_path / "graphs").exists()


def test_datasets_are_listed_with_their_presence(root: Path, command: Command) -> None:
    _, out, _ = command("datasets", "--root", root)
    lines = out.splitlines()
    assert max(map(len, lines)) <= 100
    found, heading = {}, ""
    for line in lines[1:]:
        heading = line if line.endswith(":") else heading
        found[line.split()[0]] = heading, line.split()[-1]
    assert found["minesweeper"] == ("node-classification, roc-auc:", "yes")
    assert found["CiteSeer"] == ("node-classification, accuracy:", "no")
    assert found["peptides-func"][0] == "multi-label, ap:"

"""Presets of the papers' rows, and the numbers beside them; those here are copied from the papers."""

from pathlib import Path
from typing import Any

import pytest
import torch

import sstcast
from sstcast.benchmarks.config import PRESETS, BenchmarkConfig, load_benchmark, published
from sstcast.benchmarks.registry import find_dataset
from sstcast.benchmarks.table import result_lines
from sstcast.models import build_model
from sstcast.models.base import Model
from sstcast.plain_yaml import read_config

FOLDER = Path(sstcast.__file__).parents[1] / PRESETS
PUBLISHED: dict[str, dict[str, Any]] = read_config(FOLDER / "published.yaml")
FOLDERS = sorted({path.parent.name for path in FOLDER.glob("*/*.yaml")})
KINDS = ["none", "softmax", "bigbird", "performer", "primal", "exphormer", "primphormer"]
PRIMPHORMER = Path(__file__).parents[3] / "shared/papers/primphormer.txt"
COMPARED = ["CIFAR10", "MalNet-Tiny", "PascalVOC-SP", "peptides-func", "ogbn-products"]


def preset(dataset: str, name: str) -> BenchmarkConfig:
    return load_benchmark(dataset, name, None, None)


def network(config: BenchmarkConfig, **options: Any) -> Model:
    with torch.device("meta"):  # no numbers: the largest has 85 million of them
        return build_model(config.model.name, **config.model.options | options)


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_preset_builds_its_network(folder: str) -> None:
    for path in (FOLDER / folder).glob("*.yaml"):
        config = preset("MUTAG" if folder == "default" else folder, path.stem)
        assert set(config.stages) <= set(network(config).stages)


@pytest.mark.parametrize("dataset", PUBLISHED)
def test_every_published_number_is_that_of_a_model(dataset: str) -> None:
    for row, (score, source) in PUBLISHED[dataset].items():
        assert 0 < score < 1
        assert source
        if row != "best":
            config = preset(dataset, row)
            network(config)
            assert published(config) == (score, source)


@pytest.mark.parametrize("dataset", [name for name, rows in PUBLISHED.items() if "best" in rows])
def test_none_is_better_than_the_best(dataset: str) -> None:
    sign = -1 if find_dataset(dataset).task.endswith("regression") else 1
    scores = {row: sign * score for row, (score, _) in PUBLISHED[dataset].items()}
    assert max(scores.values()) == scores["best"]


@pytest.mark.parametrize(
    ("dataset", "model", "end"),
    [
        (
            "peptides-func",
            "gps",
            "; published: 0.6535 (Primphormer Table 1); best known: 0.7261 (GCN+, Luo et al. 2025)",
        ),
        ("peptides-func", "gat", "; best known: 0.7261 (GCN+, Luo et al. 2025)"),
        ("MUTAG", "lsat", "; published: 0.9018 (KDLGT Table 2)"),
        ("MUTAG", "gat", " parameters"),
    ],
)
def test_results_stand_beside_the_paper_s_number_and_the_best(dataset: str, model: str, end: str) -> None:
    result = {
        "seed": 0,
        "metric": "ap",
        "test": 0.5,
        "validation": 0.5,
        "best_epoch": 0,
        "epochs": 1,
        "seconds": 1,
    }
    result |= {"dataset": dataset, "model": model, "parameters": 1}
    *_, line = result_lines(preset(dataset, model), [result])
    assert line.endswith(end)
    config = preset(dataset, model).model_copy(update={"split": "folds:10"})
    *_, line = result_lines(config, [result])
    assert ("published, on its own split: " in line) is ("published: " in end)
    assert ("best known, on its own split: " in line) is ("best known: " in end)


@pytest.mark.parametrize("table", ["Table A2", "Table A3"])
def test_hyperparameters_of_primphormer_are_the_papers(table: str) -> None:
    if not PRIMPHORMER.exists():
        pytest.skip("needs ../shared/papers")
    lines = PRIMPHORMER.read_text().partition(f"\n{table} ")[2].splitlines()[2:]
    cells = [line.split("\t") for line in lines[: lines.index("")]]
    rows = {name: values for name, *values in cells}
    for column, dataset in enumerate(rows.pop("Hyperparameter")):
        said = {name: values[column] for name, values in rows.items()}
        config = preset(dataset, "primphormer")
        options, training, predictor = config.model.options, config.training, config.predictor
        stable, attention = options.get("stable_pairs", 0), options["attention_options"]
        positional = "es" if stable else predictor.positional
        ours = {
            "#Layers": options["layers"],
            "Hidden dim": options["width"],
            "# Heads": options["heads"],
            "#Heads": options["heads"],
            "Dropout": options["dropout"],
            "Attention dropout": options["attention_dropout"],
            "PE": {"lap": "LapPE", "rwse": "RWSE", "es": "ESLapPE", "none": "-"}[positional],
            "PE dim": {"lap": predictor.pairs, "rwse": predictor.steps, "es": stable, "none": "-"}[positional],
            "Batch size": training.batch_size,
            "Learning rate": training.learning_rate,
            "#Epochs": training.epochs,
            "Weight decay": training.weight_decay,
            "N_s": attention["projections"],
            "η": attention["eta"],
            "s": attention["rank"],
        }
        assert len(said) == 15
        for name, value in said.items() - {("#Parameters", said["#Parameters"])}:
            assert value == ours[name] or float(value) == ours[name], (dataset, name)


@pytest.mark.parametrize(
    ("dataset", "layers", "width", "batch"),  # Primphormer, Table A4
    [
        ("CIFAR10", 5, 40, 128),
        ("MalNet-Tiny", 5, 64, 4),
        ("PascalVOC-SP", 4, 96, 32),
        ("peptides-func", 4, 96, 128),
        ("ogbn-products", 2, 128, None),
    ],
)
def test_attentions_are_compared_with_all_else_equal(
    dataset: str, layers: int, width: int, batch: int | None
) -> None:
    configs = {
        kind: preset(dataset, f"gps-{kind}") for kind in KINDS if (dataset, kind) != ("ogbn-products", "softmax")
    }
    first = configs["none"].model_dump(exclude={"label", "model"})
    for kind, config in configs.items():
        assert config.model_dump(exclude={"label", "model"}) == first
        options = config.model.options
        assert options.get("attention", "softmax") == kind
        assert (options["layers"], options["width"]) == (layers, width)
        changed = {"attention", "attention_options"}
        assert {key: value for key, value in options.items() if key not in changed} == {
            key: value for key, value in configs["none"].model.options.items() if key not in changed
        }
    assert batch in (None, configs["none"].training.batch_size)


@pytest.mark.parametrize(
    ("kind", "scores"),  # Primphormer, Table 3, in the order of COMPARED
    [
        ("none", [0.6995, 0.9223, 0.3016, 0.6159, 0.7425]),
        ("performer", [0.7067, 0.9264, 0.3724, 0.6475, 0.7430]),
        ("exphormer", [0.7469, 0.9402, 0.3975, 0.6527, 0.7467]),
        ("primphormer", [0.7413, 0.9362, 0.3980, 0.6612, 0.7489]),
    ],
)
def test_scores_of_the_attentions(kind: str, scores: list[float]) -> None:
    assert [PUBLISHED[dataset][f"gps-{kind}"][0] for dataset in COMPARED] == scores


def test_deepsets_take_the_place_of_attention() -> None:
    """Cai et al. 2023, Tables 3 and 4: with and without positions, all else as in GPS."""
    for dataset in ("ogbg-molhiv", "ogbg-molpcba", "ogbg-ppa", "ogbg-code2", "PCQM4Mv2"):
        for size in ("", "-medium") if dataset == "PCQM4Mv2" else ("",):
            gps, both, none = (preset(dataset, f"gps{kind}{size}") for kind in ("", "-deepsets", "-deepsets-nope"))
            assert both.model == none.model
            assert both.model.options == gps.model.options | {"attention": "deepsets"}
            assert both.training == none.training == gps.training
            assert none.predictor.positional == "none" != both.predictor.positional


def test_superpixels_with_and_without_a_virtual_node() -> None:
    """Cai et al. 2023, Table 8: 8 layers and 500,000 parameters with the encoders and the head."""
    for name in ("gcn", "gine", "gatedgcn", "gatedgcn-lap"):
        plain, virtual = preset("pascalvoc-sp", name), preset("pascalvoc-sp", f"{name}-vn")
        assert (plain.training, plain.predictor) == (virtual.training, virtual.predictor)
        options = {key: value for key, value in virtual.model.options.items() if key != "width"}
        assert options == {k: v for k, v in plain.model.options.items() if k != "width"} | {"virtual_node": True}
        for config in (plain, virtual):
            parts = network(config, edge_dim=config.model.options["width"]).parameters()
            assert 420_000 < sum(p.numel() for p in parts) < 500_000


@pytest.mark.parametrize("dataset", ["PCQM4Mv2", "ZINC"])
def test_identifiers_of_tokens_change_nothing_else(dataset: str) -> None:
    """Kim et al. 2022, Table 2."""
    theirs = preset("PCQM4Mv2", "tokengt").training
    assert (theirs.optimizer, theirs.betas, theirs.weight_decay) == ("adamw", (0.99, 0.999), 0.1)
    assert (theirs.schedule, theirs.warmup, theirs.batch_size) == ("linear", 60_000, 1024)
    lap, orf, none = (preset(dataset, f"tokengt{kind}") for kind in ("", "-orf", "-none"))
    assert lap.training == orf.training == none.training
    assert none.model.options == lap.model.options | {"identifiers": "none"}
    size = orf.model.options["identifier_size"]
    assert orf.model.options == lap.model.options | {"identifiers": "orf", "identifier_size": size}


@pytest.mark.parametrize("dataset", ["MUTAG", "NCI1", "Cora", "CiteSeer"])
def test_gps_with_and_without_a_local_layer(dataset: str) -> None:
    """Wu et al. 2023, KDLGT, Table 2: Performer, alone or beside a local layer, with two kinds of positions."""
    for positional in ("lap", "rwse"):
        beside, alone = (preset(dataset, f"gps-{kind}{positional}") for kind in ("", "no-conv-"))
        assert beside.predictor == alone.predictor
        assert beside.predictor.positional == positional
        assert alone.model.options == beside.model.options | {"conv": "none"}
        assert alone.model.options["attention"] == "performer"

"""Presets of the papers' rows, and the numbers beside them; those here are copied from the papers."""

from pathlib import Path
from typing import Any

import pytest
import torch

import sstcast
from sstcast.benchmarks.config import PRESETS, BenchmarkConfig, load_benchmark, published
from sstcast.benchmarks.registry import find_dataset
from sstcast.benchmarks.run import result_lines
from sstcast.models import build_model
from sstcast.models.base import Model
from sstcast.yaml_files import read_config

FOLDER = Path(sstcast.__file__).parents[1] / PRESETS
PUBLISHED: dict[str, dict[str, Any]] = read_config(FOLDER / "published.yaml")
FOLDERS = sorted({path.parent.name for path in FOLDER.glob("*/*.yaml")})


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
        ("MUTAG", "gin", "; published: 0.894 (GIN-0, ten folds, Xu et al. 2019 Table 1)"),
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

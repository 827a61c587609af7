"""Presets for rows of the papers' tables, and the published numbers."""

from pathlib import Path

import pytest
import torch

import sstcast
from sstcast.benchmarks.config import PRESETS, BenchmarkConfig, load_benchmark, published, published_numbers
from sstcast.benchmarks.registry import find_dataset
from sstcast.benchmarks.run import result_lines
from sstcast.models import build_model

FOLDER = Path(sstcast.__file__).parents[1] / PRESETS
PUBLISHED = published_numbers()
BEST = "; best known: 0.7261 (GCN+, Luo et al. 2025)"
FOLDERS = sorted({path.parent.name for path in FOLDER.glob("*/*.yaml")})


def preset(dataset: str, name: str) -> BenchmarkConfig:
    return load_benchmark(dataset, name, None, None)


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_preset_builds_its_network(folder: str) -> None:
    for path in (FOLDER / folder).glob("*.yaml"):
        config = preset("MUTAG" if folder == "default" else folder, path.stem)
        with torch.device("meta"):  # no numbers: the largest has 85 million of them
            network = build_model(config.model.name, **config.model.options)
        assert set(config.stages) <= set(network.stages)


@pytest.mark.parametrize("dataset", PUBLISHED)
def test_published_numbers_have_models_and_none_is_better_than_the_best(dataset: str) -> None:
    sign, rows = -1 if find_dataset(dataset).task.endswith("regression") else 1, PUBLISHED[dataset]
    for row, numbers in rows.items():
        for score, source, missing in numbers:
            assert 0 < score < 1
            assert source
            assert missing or "best" not in rows or sign * score <= sign * rows["best"][0][0]
            folders = [] if row == "best" else [dataset.lower(), "default"]
            there = any((FOLDER / folder / f"{row}.yaml").exists() for folder in folders)
            assert row == "best" or there is (missing is None), (row, "a third entry says why it has no preset")


@pytest.mark.parametrize(
    ("dataset", "model", "end"),
    [
        ("peptides-func", "gps", "; published: 0.6535 (Primphormer Table 1)" + BEST),
        ("peptides-func", "gat", BEST),
        ("MUTAG", "lsat", "; published: 0.9018 (KDLGT Table 2)"),
        ("MUTAG", "gat", " parameters"),
    ],
)
def test_results_stand_beside_the_paper_s_number_and_the_best(dataset: str, model: str, end: str) -> None:
    result = {"dataset": dataset, "model": model, "seed": 0, "metric": "ap", "test": 0.5, "validation": 0.5}
    result |= {"best_epoch": 0, "epochs": 1, "seconds": 1, "parameters": 1}
    *_, line = result_lines(preset(dataset, model), [result])
    assert line.endswith(end)
    *_, line = result_lines(load_benchmark(dataset, model, overrides=["training.epochs=3"]), [result])
    assert line.endswith(end)
    config = preset(dataset, model).model_copy(update={"split": "folds:10"})
    *_, line = result_lines(config, [result])
    assert ("published, on its own split: " in line) is ("published: " in end)
    assert ("best known, on its own split: " in line) is ("best known: " in end)


@pytest.mark.parametrize("change", ["model.dropout=0.3", "model.heads=2", "predictor.degree=false"])
def test_a_changed_model_has_no_published_number(change: str, tmp_path: Path) -> None:
    """By `--set`, or in a preset of one's own with the name of another."""
    assert published(load_benchmark("MUTAG", "sat")) == (0.9226, "KDLGT Table 2")
    assert published(load_benchmark("MUTAG", "sat", overrides=["model.dropout=0"])) is not None  # the default
    assert published(load_benchmark("MUTAG", "sat", overrides=[change])) is None
    assert published(load_benchmark("MUTAG", "gps", overrides=["label=sat"])) is None
    assert published(load_benchmark("CIFAR10", "gin")) is None  # without a preset
    own = tmp_path / "sat.yaml"
    own.write_text("model: {name: sat, layers: 7}")
    assert published(load_benchmark("MUTAG", str(own))) is None


MOLECULES, OTHERS = ("ogbg-molhiv", "ogbg-molpcba", "PCQM4Mv2"), ("ogbg-ppa", "ogbg-code2")
PEPTIDES = ("peptides-func", "peptides-struct")
LAYERS = ("gcn", "gine", "gatedgcn", "gatedgcn-lap")
COMPARED = [  # data set, two presets, and the options that differ between them
    # Cai et al. 2023, Tables 3 and 4: DeepSets in the place of attention, with and without positions
    *((name, "gps", "gps-deepsets", {"attention"}) for name in MOLECULES),
    *((name, "gps", "gps-deepsets", {"attention", "positional", "pairs"}) for name in OTHERS),
    *((name, "gps-deepsets", "gps-deepsets-nope", {"positional"}) for name in MOLECULES),
    *((name, "gps-deepsets", "gps-deepsets-nope", {"positional", "pairs"}) for name in OTHERS),
    ("PCQM4Mv2", "gps-medium", "gps-deepsets-medium", {"attention"}),
    ("PCQM4Mv2", "gps-deepsets-medium", "gps-deepsets-nope-medium", {"positional"}),
    # the same, Tables 2 and 8: nothing but a further node
    *(("pascalvoc-sp", name, f"{name}-vn", {"virtual_node"}) for name in LAYERS),
    *((name, of, f"{of}-vn", {"virtual_node"}) for name in PEPTIDES for of in (*LAYERS[:3], "gatedgcn-rwse")),
    # Kim et al. 2022, Table 2: identifiers of tokens
    *((name, "tokengt", "tokengt-none", {"identifiers"}) for name in ("PCQM4Mv2", "ZINC")),
    *((name, "tokengt", "tokengt-orf", {"identifiers", "identifier_size"}) for name in ("PCQM4Mv2", "ZINC")),
    # Wu et al. 2023, KDLGT, Table 2: Performer alone or beside a local layer
    *((name, "gps-lap", "gps-no-conv-lap", {"conv"}) for name in ("MUTAG", "NCI1", "Cora", "CiteSeer")),
    *((name, "gps-rwse", "gps-no-conv-rwse", {"conv"}) for name in ("MUTAG", "NCI1", "Cora", "CiteSeer")),
]


@pytest.mark.parametrize(("dataset", "one", "other", "keys"), COMPARED)
def test_presets_that_a_paper_compares(dataset: str, one: str, other: str, keys: set[str]) -> None:
    first, second = preset(dataset, one), preset(dataset, other)
    assert first.training == second.training
    ours, theirs = (c.model.options | c.predictor.model_dump() for c in (first, second))
    assert {key for key in ours | theirs if ours.get(key) != theirs.get(key)} == keys

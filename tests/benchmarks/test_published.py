"""Presets for rows of the papers' tables, and the published numbers."""

from pathlib import Path
from typing import Any

import pytest
import torch

from sstcast.benchmarks.config import (
    ANY,
    PRESETS,
    BenchmarkConfig,
    load_benchmark,
    presets_of,
    published,
    published_numbers,
)
from sstcast.benchmarks.registry import find_dataset
from sstcast.benchmarks.run import result_lines
from sstcast.errors import SSTCastError
from sstcast.models import build_model
from sstcast.storage.paths import packaged
from sstcast.storage.yaml_files import read_yaml

SETS = sorted(path.stem for path in packaged(PRESETS).glob("*.yaml"))
PUBLISHED = published_numbers()
BEST = "; best known: 0.7261 (GCN+, Luo et al. 2025)"


def preset(dataset: str, name: str) -> BenchmarkConfig:
    return load_benchmark(dataset, name, None, None)


@pytest.mark.parametrize("of", SETS)
def test_every_preset_builds_its_network(of: str) -> None:
    shared = presets_of(ANY) if of != ANY else {}
    for name in (name for name, sections in presets_of(of).items() if sections != shared.get(name)):
        config = preset("MUTAG" if of == ANY else of, name)
        with torch.device("meta"):  # no numbers: the largest has 85 million of them
            network = build_model(config.model.name, **config.model.options)
        assert set(config.stages) <= set(network.stages)


@pytest.mark.parametrize("of", SETS)
def test_a_preset_has_its_own_keys_and_those_of_a_base_without_a_base(of: str) -> None:
    def written(place: str) -> dict[str, Any]:
        return read_yaml(packaged(f"{PRESETS}/{place}.yaml"))

    for name, own in written(of).items():
        place, _, base = own.pop("base", "/").rpartition("/")
        inherited = written(place or of)[base] if base else {}
        assert "base" not in inherited
        both = {section: inherited[section] | own[section] for section in own.keys() & inherited.keys()}
        assert presets_of(of)[name] == inherited | own | both


def test_presets_of_a_set_come_before_those_for_any_set() -> None:
    assert presets_of("citeseer") == presets_of("no such set") == presets_of(ANY)
    assert presets_of("MUTAG").keys() - presets_of(ANY).keys() == {"gin"}
    assert presets_of("mutag")["lsat"] != presets_of(ANY)["lsat"]
    assert presets_of("mutag")["sat"] == presets_of(ANY)["sat"]


def test_overrides_leave_a_preset_as_it_is() -> None:
    """Also in a mapping that a preset shares with its base."""
    load_benchmark("ZINC", "primphormer", overrides=["model.attention_options.rank=5", "training.epochs=1"])
    assert preset("ZINC", "primphormer").model.options["attention_options"]["rank"] == 30
    assert preset("ZINC", "gps").training.epochs == 2000


@pytest.mark.parametrize("base", ["ZINC/gps", "zinc/primphormer", "any/spdgt", "mutag/sat", "other.yaml"])
def test_a_preset_of_one_s_own_has_a_base_that_ships_or_is_a_file(base: str, tmp_path: Path) -> None:
    (tmp_path / "other.yaml").write_text("model: {name: gps, width: 8}\npredictor: {degree: true}")
    own = tmp_path / "mine.yaml"
    own.write_text(f"base: {base}\nmodel: {{heads: 2}}")
    config = load_benchmark("MUTAG", str(own))
    place, _, name = base.rpartition("/")
    of_base = preset(place.replace(ANY, "NCI1") or "MUTAG", name if place else str(tmp_path / base))
    assert config.label == "mine"
    assert config.model.options == of_base.model.options | {"heads": 2}
    assert (config.predictor, config.training) == (of_base.predictor, of_base.training)


@pytest.mark.parametrize(
    ("base", "words"),
    [
        ("zinc/gpss", r"mine.yaml: base: no preset 'zinc/gpss' \(did you mean 'zinc/gps'\?\); name one as in"),
        ("zincc/gps", "did you mean 'zinc/gps'"),
        ("tokengt", "did you mean '[a-z0-9-]+/tokengt'"),
        ("../papers/mpnn-gt", "no preset '../papers/mpnn-gt'"),
        ("no.yaml", "mine.yaml: base: .*no.yaml: cannot read it"),
        ("[gps]", "mine.yaml: base: give the path"),
    ],
)
def test_a_base_that_does_not_exist_is_refused(base: str, words: str, tmp_path: Path) -> None:
    own = tmp_path / "mine.yaml"
    own.write_text(f"base: {base}\nmodel: {{heads: 2}}")
    with pytest.raises(SSTCastError, match=words):
        load_benchmark("MUTAG", str(own))


@pytest.mark.parametrize("dataset", PUBLISHED)
def test_published_numbers_have_models_and_none_is_better_than_the_best(dataset: str) -> None:
    sign, rows = -1 if find_dataset(dataset).task.endswith("regression") else 1, PUBLISHED[dataset]
    for row, numbers in rows.items():
        for score, source, missing in numbers:
            assert 0 < score < 1
            assert source
            assert missing or "best" not in rows or sign * score <= sign * rows["best"][0][0]
            there = row in presets_of(dataset)
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
    result |= {"epoch": 1, "epochs": 1, "seconds": 1, "parameters": 1}
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

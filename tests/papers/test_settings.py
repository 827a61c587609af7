"""What the papers print in words: parts, metrics and sizes of the presets, by `configs/benchmarks/papers.yaml`."""

import re
from inspect import signature

import pytest
from numbers_of_papers import PAPERS, checked_presets, columns

from sstcast.benchmarks.config import PRESETS, BenchmarkConfig, load_benchmark
from sstcast.benchmarks.registry import find_dataset
from sstcast.config import load_config
from sstcast.models import default_options
from sstcast.storage.paths import packaged
from sstcast.storage.yaml_files import read_yaml
from studies import kernel_speedup

CAI, PRIMPHORMER, KDLGT = PAPERS["mpnn-gt"], PAPERS["primphormer"], PAPERS["kdlgt"]
OGB = ("ogbg-molhiv", "ogbg-molpcba", "ogbg-ppa", "ogbg-code2")


def preset(dataset: str, name: str) -> BenchmarkConfig:
    return load_benchmark(dataset, name, None, None)


def options(dataset: str, name: str) -> dict[str, object]:
    """The options of a preset's model, with its defaults."""
    model = preset(dataset, name).model
    return default_options(model.name) | model.options


PRINTED = CAI["Metrics"] | KDLGT["Table 2"] | {name: row[-1] for name, row in PRIMPHORMER["Table A1"].items()}
METRICS = {
    "MAE": "mae",
    "AP": "ap",
    "Avg. Precision": "ap",
    "AUROC": "roc-auc",
    "AUCROC": "roc-auc",
    "Acc": "accuracy",
    "Accuracy": "accuracy",
    "F1": "macro-f1",
    "macro F1": "macro-f1",
    "F1 score": "f1",
    "MRR": "mrr",
}


@pytest.mark.parametrize("dataset", PRINTED)
def test_metrics_are_those_of_the_tables(dataset: str) -> None:
    """On graphs of block models, classes count equally in what the tables call accuracy (arXiv:2003.00982)."""
    balanced = dataset in ("PATTERN", "CLUSTER")
    assert find_dataset(dataset).metric == ("balanced-" if balanced else "") + METRICS[PRINTED[dataset]]


@pytest.mark.parametrize("dataset", [*OGB, "PCQM4Mv2"])
def test_deepsets_replace_attention(dataset: str) -> None:
    """Cai et al., section 7.2: MPNN + VN is GPS with DeepSets for attention. NoPE in a name means no positions."""
    for size in ("", "-medium") if dataset == "PCQM4Mv2" else ("",):
        gps = preset(dataset, f"gps{size}").model.options
        assert gps.get("conv") != "none"
        assert gps.get("attention", "softmax") in ("softmax", "performer")
        for positions in ("", "-nope"):
            config = preset(dataset, f"gps-deepsets{positions}{size}")
            assert config.model.options == gps | {"attention": "deepsets"}
            assert (config.predictor.positional == "none") is (positions == "-nope")


@pytest.mark.parametrize("name", ["gcn", "gine", "gatedgcn", "gatedgcn-lap", "transformer"])
def test_layers_of_table_8(name: str) -> None:
    kind = "transformer" if name == "transformer" else "message passing"
    assert options("PascalVOC-SP", name)["layers"] == CAI["Table 8"][kind]


@pytest.mark.parametrize("dataset", [name for table in ("Table A2", "Table A3") for name, _ in columns(table)])
def test_primphormer_stands_beside_gatedgcn(dataset: str) -> None:
    """Appendix B."""
    assert PRIMPHORMER["Appendix B"]["MPNN"] == "CustomGatedGCN"
    assert options(dataset, "primphormer")["conv"] == "gatedgcn"


def test_ten_parts_of_the_products() -> None:
    """Appendices A and B: random parts of the graph, and GCN in place of GatedGCN."""
    nodes, parts = PRIMPHORMER["Table A1"]["OGBN-products"][1], PRIMPHORMER["Appendix A"]["partitions"]
    for attention in ("none", "bigbird", "performer", "primal", "exphormer", "primphormer"):
        config = preset("ogbn-products", f"gps-{attention}")
        assert config.part == -(-nodes // parts)
        assert config.model.options["conv"] == PRIMPHORMER["Appendix B"]["MPNN on OGBN-products"].lower()


@pytest.mark.parametrize("dataset", ["Cora", "MUTAG", "ZINC"])
@pytest.mark.parametrize("positional", ["lap", "rwse"])
def test_parts_of_gps_in_table_2_of_kdlgt(dataset: str, positional: str) -> None:
    """Section 6.1: a GNN or none beside Performer, with LapPE or RWSE. Which GNN it does not say."""
    gnn = "gcn" if dataset == "Cora" else "gatedgcn"  # as in GPS
    for conv in ("", "no-conv-"):
        config = preset(dataset, f"gps-{conv}{positional}")
        chosen = options(dataset, f"gps-{conv}{positional}")
        assert chosen["conv"] == ("none" if conv else gnn)
        assert chosen["attention"] == "performer"
        assert config.predictor.positional == positional


@pytest.mark.parametrize("dataset", ["PCQM4Mv2", "ZINC", "ogbg-molhiv", "CSL"])
def test_tokengt_attends_by_equation_3(dataset: str) -> None:
    """With softmax, to Laplacian identifiers, unless the name says otherwise (section 5.2)."""
    named = {"": {}, "-orf": {"identifiers": "orf"}, "-none": {"identifiers": "none"}}
    named |= {"-performer": {"attention": "performer"}}
    for kind in named if dataset in ("PCQM4Mv2", "ZINC") else ("",):
        expected = {"attention": "softmax", "identifiers": "laplacian"} | named[kind]
        chosen = options(dataset, f"tokengt{kind}")
        assert {key: chosen[key] for key in expected} == expected


def of_sst(name: str) -> dict[str, object]:
    return load_config(packaged(f"configs/models/paper/{name}.yaml")).model.options


def test_forecasters_of_the_papers_sizes() -> None:
    """TokenGT's of section 5.2, Primphormer's on Peptides-func, Polynormer's on roman-empire, KDLGT's heads."""
    tokengt = PAPERS["tokengt"]["Section 5.2"]
    assert {key: of_sst("tokengt")[key] for key in ("layers", "width", "heads")} == {
        key: tokengt[key] for key in ("layers", "width", "heads")
    }
    primphormer = preset("peptides-func", "primphormer")
    kept = primphormer.model.options.keys() - {"norm"}
    shared = {key: primphormer.model.options[key] for key in kept}
    assert of_sst("primphormer") == shared | {"positional": primphormer.predictor.positional}
    without = {key: value for key, value in of_sst("primphormer").items() if key != "attention_options"}
    assert of_sst("gps") == without
    table = PAPERS["polynormer"]["Table 5"]
    romans = dict(zip(table["columns"], table["roman-empire"], strict=True))
    polynormer = of_sst("polynormer")
    assert polynormer.pop("gate") == "activation"
    assert polynormer == {key: romans[key] for key in polynormer}
    assert polynormer.keys() == romans.keys() - {
        "warm-up",
        "epochs",
        "input_dropout",
        "weight_decay",
        "learning_rate",
    }
    for name in ("lsat", "sat", "sapdgt", "spdgt"):
        assert of_sst(name)["heads"] == KDLGT["Section 6.2"]["heads"]


def test_settings_of_figure_2_of_kdlgt() -> None:
    said = KDLGT["Section 6.2"]
    assert said["classes"] == kernel_speedup.CLASSES
    assert said["heads"] == signature(kernel_speedup.study).parameters["heads"].default


# Presets that begin with our own numbers, not with those of a paper.
OURS = {"amazon-photo/mpnn-vn", "minesweeper/mpnn-vn", "cora/sapdgt", "csl/mpnn", "csl/tokengt", "any/lsat"}
FIVE = {"arXiv:2301.11956", "arXiv:2207.02505"}  # Cai et al. and TokenGT, whose sizes some presets cannot keep


# Each preset that ships, as SET/PRESET, with its comments and keys.
TEXTS = {
    f"{path.stem}/{name}": text
    for path in sorted(packaged(PRESETS).glob("*.yaml"))
    for text, name in re.findall(r"^((?:#.*\n)*([\w-]+):\n(?: +.*\n)+)", path.read_text(), re.MULTILINE)
}


def test_every_preset_has_a_text() -> None:
    files = packaged(PRESETS).glob("*.yaml")
    assert TEXTS.keys() == {f"{path.stem}/{name}" for path in files for name in read_yaml(path)}


@pytest.mark.parametrize("name", TEXTS)
def test_presets_are_compared_or_name_their_source(name: str) -> None:
    """Numbers that no test compares are ours, or of a source that `papers.yaml` lists as not at hand."""
    place, _, preset_name = name.partition("/")
    base = re.search(r"^  base: (.+)$", TEXTS[name], re.MULTILINE)
    root = name if base is None else base[1] if "/" in base[1] else f"{place}/{base[1]}"
    sources = set(re.findall(r"arXiv:\d+\.\d+", TEXTS[name] + TEXTS[root]))
    assert sources <= set(PAPERS["source not at hand"]) | FIVE
    checked = (place, preset_name) in checked_presets()
    assert checked or sources or root in OURS

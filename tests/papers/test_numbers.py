"""The presets of the papers against the numbers of `configs/benchmarks/papers.yaml`, which ship with sstcast."""

import re
from pathlib import Path
from typing import Any

import pytest
import torch
from numbers_of_papers import OF_POLYNORMER, PAPERS, VIRTUAL, columns, compared

from sstcast.benchmarks.config import BenchmarkConfig, load_benchmark
from sstcast.benchmarks.registry import find_dataset
from sstcast.config import RunConfig, TrainingConfig, load_config
from sstcast.models import build_forecaster, build_model
from sstcast.papers.table5 import HORIZONS, Table5, gains
from sstcast.storage.paths import packaged
from sstcast.training.engine import build_optimizer

SST, PRIMPHORMER = PAPERS["mpnn-gt"], PAPERS["primphormer"]


def preset(dataset: str, name: str) -> BenchmarkConfig:
    return load_benchmark(dataset, name, None, None)


def weights(config: BenchmarkConfig) -> int:
    """Return the number of weights of a preset's network, without encoders and head."""
    with torch.device("meta"):
        model = build_model(config.model.name, **config.model.options)
    return sum(p.numel() for p in model.parameters())


def of_sst(folder: str, name: str) -> RunConfig:
    return load_config(packaged(f"configs/models/{folder}/{name}.yaml"))


def sizes_of_sst(name: str) -> dict[str, Any]:
    """The options of a system of Table 5 from D.4, or else from the authors' code."""
    said = SST["D.4"]
    if name == "mlp":
        return {"hidden": said["hidden"]}
    if name.startswith("mpnn"):
        return {"width": said["width"], "layers": said["layers"]}
    extra = {"positional": "lap"} if name == "linear-transformer" else {}
    return SST["released"][name] | extra


@pytest.mark.parametrize("name", SST["Table 5"])
def test_systems_of_table_5_have_their_sizes(name: str) -> None:
    assert of_sst("paper", name).model.options == sizes_of_sst(name)


@pytest.mark.parametrize("name", sorted(path.stem for path in packaged("configs/models/paper").glob("*.yaml")))
def test_models_of_the_paper_s_size_train_as_in_d_4(name: str) -> None:
    said, config = SST["D.4"], of_sst("paper", name)
    training = config.training
    assert config.data.history == said["history"]
    assert training.model_dump(include={"epochs", "batch_size", "learning_rate", "optimizer"}) == {
        key: said[key] for key in ("epochs", "batch_size", "learning_rate", "optimizer")
    }
    assert (training.schedule, training.clip, training.precision) == ("constant", None, "32-true")
    assert config.data.protocol == "paper"


@pytest.mark.parametrize("name", SST["Table 5"])
def test_released_presets_differ_where_the_code_does(name: str) -> None:
    theirs, ours = of_sst("released", name), of_sst("paper", name)
    assert theirs.data == ours.data
    said = SST["released"]
    assert theirs.training == ours.training.model_copy(update={key: said[key] for key in ("optimizer", "eps")})
    options = {
        "mpnn": {"conv": "gcn", "norm": "batch", "residual": False, "dropout": 0.5},
        "mpnn-vn": {"encoder": "convolution", "conv": "gcn", "norm": "layer", "residual": True, "jumping": True},
    }
    assert theirs.model.options == ours.model.options | options.get(name, {})


def test_the_released_encoder_sees_the_whole_tile() -> None:
    """It has 2.4 million weights between nodes, and the paper's encoder none."""
    options = of_sst("released", "mpnn-vn").model.options
    with torch.device("meta"):
        model = build_forecaster("mpnn-vn", history=42, horizon=28, shape=(30, 30), **options)
    assert model.encoder.mix.weight.numel() == 900 * 900 * 3
    sizes = {"history": 6, "horizon": 2, "shape": (2, 3)}
    model = build_forecaster("mpnn-vn", **sizes, **options | {"width": 8}).eval()
    history = torch.randn(1, 6, 6)
    encoded = torch.nn.functional.conv1d(history, model.encoder.mix.weight, model.encoder.mix.bias, padding=1)
    encoded = torch.where(encoded > 0, encoded, 0.1 * encoded) @ model.encoder.linear.weight.T
    encoded = encoded + model.encoder.linear.bias
    torch.testing.assert_close(model.encoder(history), torch.where(encoded > 0, encoded, 0.1 * encoded))


def test_the_paper_s_encoder_and_head() -> None:
    said = SST["D.4"]
    for name in ("mpnn", "mpnn-vn"):
        options = of_sst("paper", name).model.options
        with torch.device("meta"):
            model = build_forecaster(name, history=42, horizon=28, shape=(30, 30), **options)
        assert model.encoder.weight.shape == (said["width"], said["history"])
        assert model.head[0].weight.shape == (said["hidden"], said["width"])
        assert len(model.backbone.convs) == said["layers"]
        assert len(model.backbone.virtual_nodes) == (said["layers"] - 1 if name == "mpnn-vn" else 0)
    with torch.device("meta"):
        options = of_sst("paper", "linear-transformer").model.options
        model = build_forecaster("linear-transformer", history=42, horizon=28, shape=(30, 30), **options)
    assert model.position.pairs == said["eigenvectors"]


def test_gains_of_the_virtual_node() -> None:
    """Section 7.3 gives the gains of the published numbers."""
    found = gains({"mpnn": {28: [[0.4, 0.5], [0.6, 0.5]], 7: [[0.2]]}, "mpnn-vn": {28: [[0.4, 0.4]]}})
    assert {str(n): round(100 * (found[n][0] or 0), 1) for n in HORIZONS} == SST["Section 7.3"]
    assert found[28][1] == pytest.approx(0.2)
    assert found[14][1] is None
    assert found[7][1] is None


def test_table_5_trains_the_presets() -> None:
    runs = Table5(Path("runs/table5")).runs
    assert len({run.folder for run in runs}) == len(runs) == 45
    for run in runs:
        ours = of_sst("paper", run.model.name)
        assert run.model.options == ours.model.options | {"base": "none"}
        assert run.training == ours.training.model_copy(update={"seed": run.training.seed})
        assert run.data == ours.data.model_copy(update={"horizon": run.data.horizon})


@pytest.mark.parametrize("horizon", SST["Table 9"])
def test_windows_of_table_9(horizon: str) -> None:
    """Eleven tiles have a window for each day except the length of a window."""
    data = of_sst("paper", "mpnn").data
    days = [
        (last - first).days + 1 for first, last in (data.splits.train, data.splits.validation, data.splits.test)
    ]
    assert [11 * (n - data.history - int(horizon)) for n in days] == SST["Table 9"][horizon]


@pytest.mark.parametrize(("dataset", "said"), [*columns("Table A2"), *columns("Table A3")])
def test_hyperparameters_of_primphormer(dataset: str, said: dict[str, Any]) -> None:
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
    del said["#Parameters"]
    assert said == {name: ours[name] for name in said}


@pytest.mark.parametrize(("dataset", "said"), [*columns("Table A2"), *columns("Table A3")])
def test_numbers_of_weights_of_primphormer(dataset: str, said: dict[str, Any]) -> None:
    """Without encoders and heads, which the printed numbers include and the paper leaves open."""
    assert 0.89 <= weights(preset(dataset, "primphormer")) / said["#Parameters"] <= 1


@pytest.mark.parametrize(("dataset", "said"), columns("Table A4"))
def test_hyperparameters_of_the_compared_attentions(dataset: str, said: dict[str, Any]) -> None:
    """Table A4 belongs to Table 4 (time, memory). The presets of Table 3, which the paper does not describe, use
    its numbers and differ in the attention alone.
    """
    dataset = dataset.replace("Pasv", "Pasc")
    first = preset(dataset, "gps-none")
    for config in (preset(dataset, name) for name in compared(dataset)):
        options = config.model.options
        assert options["attention"] == config.label.removeprefix("gps-")
        assert (options["layers"], options["width"]) == (said["#Layers"], said["Hidden dim"])
        assert said["Batch size"] in ("-", config.training.batch_size)
        assert config.model_dump(exclude={"label", "model"}) == first.model_dump(exclude={"label", "model"})
        changed = ("attention", "attention_options")
        same, own = ({k: v for k, v in o.items() if k not in changed} for o in (first.model.options, options))
        assert same == own


# Where the paper's statistics differ from the data: it counts edges once, repeats another row's, or rounds down.
OTHER_EDGES = {"PATTERN", "CLUSTER", "COCO-SP", "PCQM-Contact", "Peptides-struct", "CIFAR10"}


def numbers_of(dataset: str) -> list[float]:
    return [float(text.replace(",", "")) for text in re.findall(r"\d[\d,]*(?:\.\d+)?", find_dataset(dataset).size)]


@pytest.mark.parametrize("dataset", PRIMPHORMER["Table A1"])
def test_statistics_of_table_a1(dataset: str) -> None:
    graphs, nodes, edges, classes, _ = PRIMPHORMER["Table A1"][dataset]
    ours = numbers_of(dataset) if graphs > 1 else [1.0, *numbers_of(dataset)]
    assert ours[:2] == [graphs, nodes]
    assert (ours[2] == edges) is (dataset not in OTHER_EDGES)
    if len(ours) > 3:
        assert ours[3] == classes


# KDLGT counts edges of most molecules in its own way, and COX2's instead of COX2_MD's nodes.
OF_KDLGT = {"MUTAG", "PROTEINS", "NCI1", "Cora", "LastFM-Asia", "PubMed", "OGBG-MOLHIV"}


@pytest.mark.parametrize("dataset", PAPERS["kdlgt"]["Table 1"])
def test_statistics_of_table_1_of_kdlgt(dataset: str) -> None:
    graphs, _, nodes, _ = PAPERS["kdlgt"]["Table 1"][dataset]
    ours = numbers_of(dataset) if graphs > 1 else [1.0, *numbers_of(dataset)]
    same = ours[0] == graphs and ours[1] == pytest.approx(nodes, abs=0.11)
    assert same is (dataset in OF_KDLGT)


@pytest.mark.parametrize("dataset", OF_POLYNORMER)
def test_hyperparameters_of_polynormer(dataset: str) -> None:
    table = PAPERS["polynormer"]["Table 5"]
    said = dict(zip(table["columns"], table[dataset], strict=True))
    config = preset(dataset, "polynormer")
    ours = {"beta": None} | config.model.options
    ours |= {"warm-up": config.stages["local"], "input_dropout": config.predictor.input_dropout}
    ours |= config.training.model_dump(include={"epochs", "weight_decay", "learning_rate"})
    further = {"gate": "activation"} | ({"pre_norm": True} if dataset == "questions" else {})
    assert ours == said | further
    assert config.training.schedule == "constant"
    assert config.training.optimizer == "adam"


@pytest.mark.parametrize("kind", ["", "-orf", "-none", "-performer"])
def test_training_of_tokengt(kind: str) -> None:
    said, config = PAPERS["tokengt"]["Section 5.2"], preset("PCQM4Mv2", f"tokengt{kind}")
    options, training = config.model.options, config.training.model_dump()
    sizes = ("layers", "width", "heads")
    assert {key: options[key] for key in sizes} == {key: said[key] for key in sizes}
    assert {k: training[k] for k in said if k not in sizes} == {
        k: tuple(v) if isinstance(v, list) else v for k, v in said.items() if k not in sizes
    }
    assert config.predictor.head_layers == 0  # a linear head


@pytest.mark.parametrize(("name", "printed"), PAPERS["tokengt"]["Table 2"].items())
def test_numbers_of_weights_of_tokengt(name: str, printed: int) -> None:
    """Without encoders and head. With feed-forward networks of twice the width, there would be more."""
    config = preset("PCQM4Mv2", name)
    assert config.model.options["feed_forward_width"] == config.model.options["width"]
    assert 0.87 * printed < weights(config) < printed
    wider = load_benchmark("PCQM4Mv2", name, None, ["model.feed_forward_width=null"])
    assert weights(wider) > 1.15 * printed


@pytest.mark.parametrize(
    ("dataset", "name", "printed"),
    [(dataset, name, printed) for dataset, rows in SST["Parameters"].items() for name, printed in rows.items()],
)
def test_numbers_of_weights(dataset: str, name: str, printed: int) -> None:
    """Tables 2, 4 and 8: without encoders and heads, which take up to two fifths in the smallest networks.

    A virtual node that is a node of the graph adds none.
    """
    ours = weights(preset(dataset, name))
    assert (0.94 if printed > 4e6 else 0.6) * printed < ours < printed
    if (dataset, name) in VIRTUAL:
        assert weights(preset(dataset, f"{name}-vn")) == ours


@pytest.mark.parametrize(("name", "millions"), [("gcn-vn", 4.69), ("gine-vn", 6.50)])
def test_virtual_nodes_of_table_4_have_perceptrons_as_wide_as_the_layers(name: str, millions: float) -> None:
    """By default they are twice as wide, and the networks larger than the printed 4.9 and 6.7 million."""
    config, default = (
        load_benchmark("PCQM4Mv2", name, None, more) for more in ([], ["model.virtual_hidden=null"])
    )
    assert config.model.options["virtual_hidden"] == config.model.options["width"]
    assert weights(config) / 1e6 == pytest.approx(millions, abs=0.005)
    assert weights(default) > 1.3 * PAPERS["mpnn-gt"]["Parameters"]["PCQM4Mv2"][name]


@pytest.mark.parametrize("name", ["lsat", "sat", "sapdgt", "spdgt"])
def test_training_of_kdlgt(name: str) -> None:
    """Section 6.1, and no message passing beside SAPDGT's attention."""
    said, config = PAPERS["kdlgt"]["Section 6.1"], preset("ZINC", f"{name}-paper")
    training = config.training.model_dump(include=set(said))
    assert training == said | {"betas": tuple(said["betas"])}
    assert config.model.name == name
    assert not config.model.options.get("edge_messages", False)


@pytest.mark.parametrize(("name", "kind"), [("adagrad", torch.optim.Adagrad), ("adamw", torch.optim.AdamW)])
def test_optimizers_are_those_of_torch(name: Any, kind: type[torch.optim.Optimizer]) -> None:
    options = {"learning_rate": 0.1, "eps": 1e-10, "weight_decay": 0.01}
    optimizer = build_optimizer([torch.nn.Parameter(torch.zeros(1))], TrainingConfig(optimizer=name, **options))
    assert type(optimizer) is kind
    assert [optimizer.defaults[key] for key in ("lr", "eps", "weight_decay")] == list(options.values())

"""`papers.yaml` and `published.yaml` of the benchmarks against the papers, which do not ship with sstcast."""

import re
from pathlib import Path
from typing import Any

import pytest

from sstcast.artefacts import packaged
from sstcast.yaml_files import read_config

TEXTS = Path(__file__).parents[3] / "shared/papers"
PAPERS: dict[str, Any] = read_config(packaged("configs/benchmarks/papers.yaml"))
PUBLISHED: dict[str, Any] = read_config(packaged("configs/benchmarks/published.yaml"))
PRINTED = {  # systems of Table 5
    "mlp": "MLP",
    "tfnet": "TF-Net",
    "linear-transformer": "Linear Transformer + LapPE",
    "mpnn": "MPNN",
    "mpnn-vn": "MPNN + VN",
}
FILES = {"Cai et al. 2023": "mpnn_gt", "Primphormer": "primphormer", "KDLGT": "kdlgt", "TokenGT": "tokengt"}
pytestmark = pytest.mark.skipif(not TEXTS.is_dir(), reason="needs ../shared/papers")


def text(paper: str) -> str:
    return (TEXTS / f"{paper}.txt").read_text().replace("<b>", "").replace("</b>", "").replace("**", "")


def numbers(line: str) -> list[float]:
    return [float(found.replace(",", "")) for found in re.findall(r"\d[\d,]*(?:\.\d+)?(?:e-\d+)?", line)]


def cells(paper: str, name: str) -> list[list[str]]:
    """The cells beside a row's name, in all tables that have such a row."""
    lines = (re.split(r"\t|\|", line.strip("| ")) for line in text(paper).splitlines())
    return [[cell.strip() for cell in row[1:]] for row in lines if row[0].strip() == name and len(row) > 1]


@pytest.mark.parametrize("system", PRINTED)
def test_table_5(system: str) -> None:
    said = list(PAPERS["mpnn-gt"]["Table 5"][system].values())
    assert said in [
        [numbers(cell)[0] for cell in row if numbers(cell)] for row in cells("mpnn_gt", PRINTED[system])
    ]


@pytest.mark.parametrize("name", PAPERS["mpnn-gt"]["Table 7"])
def test_table_7_and_parameters(name: str) -> None:
    said, rows = PAPERS["mpnn-gt"], cells("mpnn_gt", name)
    assert said["Table 7"][name] in [[numbers(row[1])[0], numbers(row[3])[0]] for row in rows if len(row) == 5]
    ours = {"GCN": "gcn", "GINE": "gine", "GatedGCN": "gatedgcn", "GatedGCN+RWSE": "gatedgcn-rwse"}[name]
    for dataset in ("peptides-func", "peptides-struct"):
        assert f"{said['Parameters'][dataset][ours] // 1000}k" in [row[0] for row in rows]


def test_section_7_3_table_9_and_d_4() -> None:
    said, paper = PAPERS["mpnn-gt"], " ".join(text("mpnn_gt").split())
    for words in (
        "by 3.8%, 6.6% and 4.5%",
        "have 3 layers of message passing with 256 hidden dimensions",
        "one hidden layer of 512 neurons",
        "has 512 hidden neurons",
        "100 epochs with batch size 20, initial learning rate $10^{-3}$ , and Adam",
        "6 weeks (i.e. 42 days)",
        "first 16 eigenvectors",
    ):
        assert words in paper
    assert list(said["Section 7.3"].values()) == [3.8, 6.6, 4.5]
    d4 = said["D.4"]
    sizes = ("layers", "width", "hidden", "epochs", "batch_size", "learning_rate", "optimizer")
    assert [d4[key] for key in sizes] == [3, 256, 512, 100, 20, 1e-3, "adam"]
    for row in said["Table 9"].values():
        assert "\t".join(f"{n:,}" for n in row) in text("mpnn_gt")


@pytest.mark.parametrize("table", ["Table A1", "Table A2", "Table A3", "Table A4", "Table A6"])
def test_tables_of_primphormer(table: str) -> None:
    for name, values in PAPERS["primphormer"][table].items():
        rows = cells("primphormer", name)
        found = []
        for row in rows:
            part = [cell.split(" \\pm")[0] for cell in row]
            if table == "Table A1":
                part = [*part[:3], *part[4:5]]
            found.append([_value(cell) for cell in part])
        wanted = ["link ranking" if value is None else value for value in values]
        assert wanted in found, name


def _value(cell: str) -> float | str:
    try:
        return float(cell.replace(",", ""))
    except ValueError:
        return cell


def test_section_6_1_and_table_1_of_kdlgt() -> None:
    said, paper = PAPERS["kdlgt"], " ".join(text("kdlgt").split())
    settings = said["Section 6.1"]
    for words in (
        "$1e-7$ and (β_1, β_2) to $(0.99, 0.999)$",
        "$1e-4$ with a linear decay",
        "both set to 128",
        "Adam",
    ):
        assert words.replace("$", "") in paper.replace("$", "")
    assert list(settings.values()) == ["adam", 1e-7, [0.99, 0.999], 1e-4, "linear", 128]
    for name, (graphs, classes, nodes, edges) in said["Table 1"].items():
        wanted = [graphs, "—" if classes is None else classes, nodes, edges]
        assert wanted in [[_value(cell.replace("~", "")) for cell in row] for row in cells("kdlgt", name)]


def test_section_5_2_of_tokengt() -> None:
    paper = " ".join(text("tokengt").split())
    for words in (
        "12 layers, 768 hidden dimension, and 32 attention heads",
        "= (0.99, 0.999) and weight decay 0.1, and 60k learning rate warmup steps followed by linear decay",
        "batch size 1024",
    ):
        assert words in paper
    assert list(PAPERS["tokengt"]["Section 5.2"].values()) == [
        12, 768, 32, "adamw", [0.99, 0.999], 0.1, 60000, "linear", 1024
    ]  # fmt: skip


ROWS = {  # in the papers' tables, by our names without -vn; some tables use different names
    "Cai et al. 2023": {
        "gcn": ["GCN", "GCN+virtual node", "GCN-virtual"],
        "gine": ["GINE", "GIN", "GIN+virtual node", "GIN-virtual"],
        "gatedgcn": ["GatedGCN"],
        "gatedgcn-rwse": ["GatedGCN+RWSE"],
        "gatedgcn-lap": ["GatedGCN+LapPE"],
        "transformer": ["Transformer+LapPE"],
        "gps": ["GPS", "GPS-small"],
        "gps-medium": ["GPS-medium"],
        "gps-deepsets": ["MPNN + VN + PE", "MPNN + VN + PE (small)"],
        "gps-deepsets-medium": ["MPNN + VN + PE (medium)"],
        "gps-deepsets-nope": ["MPNN + VN + NoPE", "MPNN + VN + NoPE (small)"],
        "gps-deepsets-nope-medium": ["MPNN + VN + NoPE (medium)"],
    },
    "Primphormer": {
        "gps": ["GraphGPS"],
        "primphormer": ["Primphormer"],
        "gps-none": ["MPNN-only"],
        "gps-softmax": ["+Transformer"],
        "gps-bigbird": ["+BigBird"],
        "gps-performer": ["+Performer"],
        "gps-primal": ["+Prim-Atten"],
        "gps-exphormer": ["+Expformer"],
        "gps-primphormer": ["+Primphormer"],
    },
    "TokenGT": {
        "tokengt": ["TokenGT (Lap)"],
        "tokengt-orf": ["TokenGT (ORF)"],
        "tokengt-performer": ["TokenGT (Lap) + Performer"],
        "tokengt-none": ["Transformer"],
    },
    "KDLGT": {
        "sat": ["SAT"],
        "lsat": ["LSAT"],
        "sapdgt": ["SAPDGT"],
        "spdgt": ["Graphormer"],
        "gps": ["GPS (GNN + RWSE)"],
        "gps-rwse": ["GPS (GNN + RWSE)"],
        "gps-lap": ["GPS (GNN + LapPE)"],
        "gps-no-conv-rwse": ["GPS (None + RWSE)"],
        "gps-no-conv-lap": ["GPS (None + LapPE)"],
    },
}


@pytest.mark.parametrize(
    ("dataset", "row", "score", "source"),
    [
        (dataset, row, score, source)
        for dataset, rows in PUBLISHED.items()
        for row, (score, source) in rows.items()
        if any(f"{name} Table" in source for name in FILES)
    ],
)
def test_published_scores_stand_in_their_rows(dataset: str, row: str, score: float, source: str) -> None:
    """As printed: a share with four decimals or three, or a percentage."""
    name = next(name for name in FILES if f"{name} Table" in source)
    printed = ROWS[name][row.removesuffix("-vn")]
    found = ["\t".join(each) for one in printed for each in cells(FILES[name], one)]
    forms = [f"{score:.4f}", f"{score:.3f}", f"{100 * score:.2f}"]
    wanted = [rf"(?<![\d.]){re.escape(form)}(?!\d)" for form in forms]
    assert any(re.search(form, line) for form in wanted for line in found), (printed, forms)

"""`papers.yaml` and `published.yaml` of the benchmarks against the papers, which do not ship with sstcast."""

import re
from pathlib import Path
from typing import Any

import pytest

from sstcast.benchmarks.config import published_numbers
from sstcast.storage.paths import packaged
from sstcast.storage.yaml_files import read_config

TEXTS = Path(__file__).parents[3] / "shared/papers"
PAPERS: dict[str, Any] = read_config(packaged("configs/benchmarks/papers.yaml"))
LAYERS = ("GCN", "GINE", "GatedGCN", "GatedGCN+RWSE")  # of Tables 2 and 7 of Cai et al.
SST = PAPERS["mpnn-gt"]
FILES = {"Cai et al. 2023": "mpnn_gt", "Primphormer": "primphormer", "KDLGT": "kdlgt", "TokenGT": "tokengt"}
pytestmark = pytest.mark.skipif(not TEXTS.is_dir(), reason="needs ../shared/papers")


def text(paper: str) -> str:
    found = (TEXTS / f"{paper}.txt").read_text()
    return re.sub(r"<b>|</b>|\*\*|\$", "", found)


def cells(paper: str, name: str) -> list[list[str]]:
    """The cells beside a row's name, in all tables that have such a row."""
    lines = (re.split(r"\t|\|", line.strip("| ")) for line in text(paper).splitlines())
    return [[cell.strip() for cell in row[1:]] for row in lines if row[0].strip() == name and len(row) > 1]


def value(cell: str) -> float | str | None:
    """The number that a cell begins with, or its text."""
    number = re.match(r"\d[\d,]*(?:\.\d+)?(?:e-\d+)?", cell.strip("~"))
    return float(number[0].replace(",", "")) if number else None if cell in ("—", "link ranking") else cell


PRINTED = ("MLP", "TF-Net", "Linear Transformer + LapPE", "MPNN", "MPNN + VN")
TABLES = [
    ("mpnn_gt", name, list(row.values())) for name, row in zip(PRINTED, SST["Table 5"].values(), strict=True)
]
TABLES += [
    ("mpnn_gt", printed, [SST["Parameters"][dataset][printed.lower().replace("+", "-")] // 1000])
    for printed in LAYERS
    for dataset in ("peptides-func", "peptides-struct")
]
TABLES += [
    ("primphormer", name, row)
    for table in ("Table A1", "Table A2", "Table A3", "Table A4", "Table A6")
    for name, row in PAPERS["primphormer"][table].items()
]
TABLES += [("kdlgt", name, row) for name, row in PAPERS["kdlgt"]["Table 1"].items()]


@pytest.mark.parametrize(("paper", "name", "row"), TABLES)
def test_rows_of_tables_are_printed(paper: str, name: str, row: list[Any]) -> None:
    """In their order, in a row that may have further columns."""
    for printed in cells(paper, name):
        rest = iter(map(value, printed))
        if all(wanted in rest for wanted in row):
            return
    pytest.fail(f"{name}: no row of {cells(paper, name)}")


def test_windows_of_table_9() -> None:
    for row in SST["Table 9"].values():
        assert "\t".join(f"{n:,}" for n in row) in text("mpnn_gt")


WORDS = [
    ("mpnn_gt", "The performance metric is Average Precision (AP) for classification and MAE for regression."),
    ("mpnn_gt", "AUROC \\uparrow\tAvg. Precision \\uparrow\tAccuracy \\uparrow\tF1 score \\uparrow"),
    ("mpnn_gt", "The performance metric is macro F1"),
    ("mpnn_gt", "Test-dev MAE"),
    ("mpnn_gt", "8 layers deep, while the transformer-based models have 4 layers"),
    ("mpnn_gt", "we replace the GlobalAttention Module in GraphGPS with DeepSets"),
    ("primphormer", "the random partitioning method with ten partitions"),
    ("primphormer", "CustomGatedGCN as the MPNN module alongside Primphormer except for ogbn-products"),
    ("primphormer", "where we use GCN"),
    ("kdlgt", "MAE↓\tAUCROC↑\tAcc↑\tAcc↑\tAcc↑\tAcc↑"),
    ("kdlgt", "GNN + Performer"),
    ("kdlgt", "attention heads is fixed at 4 and the number of label classes of synthetic data is set to 5"),
    ("tokengt", "12 layers, 768 hidden dimension, and 32 attention heads"),
]


@pytest.mark.parametrize(("paper", "words"), WORDS)
def test_settings_are_printed_in_words(paper: str, words: str) -> None:
    assert words in text(paper)


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
        "san": ["SAN"],
        "san-lap": ["SAN+LapPE"],
        "san-rwse": ["SAN+RWSE"],
        "graphtrans": ["GraphTrans (GCN-Virtual)"],
        "sat-subtree": ["K-Subtree SAT"],
        "grpe": ["GRPE (Park et al., 2022)"],
        "egt": ["EGT (Hussain et al., 2022)"],
        "graphormer": ["Graphormer (Shi et al., 2022)"],
    },
    "Primphormer": {
        "gps": ["GraphGPS"],
        "primphormer": ["Primphormer"],
        "gps-none": ["MPNN-only"],
        "gps-softmax": ["+Transformer"],
        "gps-bigbird": ["+BigBird"],
        "gps-performer": ["+Performer"],
        "gps-primal": ["+Prim-Atten"],
        "gps-exphormer": ["+Expformer", "Exphormer"],
        "gps-primphormer": ["+Primphormer"],
        "transformer": ["Trans.+LapPE"],
        "grit": ["GRIT(Ma et al., 2023)"],
        "sat-subgraph": ["K-Subgraph SAT"],
        **{name.lower(): [name] for name in ("GCN", "GIN", "GINE", "GAT", "GatedGCN", "PNA", "DGN", "CRaWL")},
        **{"gin-ak": ["GIN-AK+"], "san": ["SAN"], "egt": ["EGT"], "gatedgcn-rwse": ["GatedGCN+RWSE"]},
        **{"san-lap": ["SAN+LapPE"], "san-rwse": ["SAN+RWSE"]},
    },
    "TokenGT": {
        "tokengt": ["TokenGT (Lap)"],
        "tokengt-orf": ["TokenGT (ORF)"],
        "tokengt-performer": ["TokenGT (Lap) + Performer"],
        "tokengt-none": ["Transformer"],
        "gcn": ["GCN [27]", "GCN-VN [27]"],
        "gine": ["GIN [27]", "GIN-VN [27]"],
        "gat": ["GAT", "GAT-VN"],
        "gat-vn-large": ["GAT-VN (large)"],
        "graphormer": ["Graphormer [63]"],
        "egt": ["EGT [29]"],
        "grpe": ["GRPE [54]"],
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
        "gkat": ["GKAT"],
        "dgt": ["DGT"],
    },
}


@pytest.mark.parametrize(
    ("dataset", "row", "score", "source"),
    [
        (dataset, row, score, source)
        for dataset, rows in published_numbers().items()
        for row, numbers in rows.items()
        for score, source, _ in numbers
        if any(f"{name} Table" in source for name in FILES)
    ],
)
def test_published_scores_stand_in_their_rows(dataset: str, row: str, score: float, source: str) -> None:
    """As printed: a share with four decimals or three, or a percentage."""
    name = next(name for name in FILES if f"{name} Table" in source)
    printed = ROWS[name][row.removesuffix("-vn")]
    found = ["\t".join(each) for one in printed for each in cells(FILES[name], one)]
    forms = [f"{score:.4f}", f"{score:.3f}", f"{100 * score:.2f}"]
    forms += [f"{100 * score:.1f}"] if score == round(score, 3) else []
    wanted = [rf"(?<![\d.]){re.escape(form)}(?!\d)" for form in forms]
    assert any(re.search(form, line) for form in wanted for line in found), (printed, forms)

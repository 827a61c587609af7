"""The papers' numbers that ship, and the presets that `papers/test_numbers.py` compares with them."""

from typing import Any

from sstcast.storage.paths import packaged
from sstcast.storage.yaml_files import read_config

PAPERS: dict[str, Any] = read_config(packaged("configs/benchmarks/papers.yaml"))
OF_POLYNORMER = [name for name in PAPERS["polynormer"]["Table 5"] if name != "columns"]
PARAMETERS: dict[str, dict[str, int]] = PAPERS["mpnn-gt"]["Parameters"]
# Tables 2 and 8 print one size for both, without and with a virtual node.
VIRTUAL = {
    (dataset, name)
    for dataset, names in PARAMETERS.items()
    for name in names
    if name.startswith("g") and dataset != "PCQM4Mv2"
}


def columns(table: str) -> list[tuple[str, dict[str, Any]]]:
    """Return each data set of a table of Primphormer's hyper-parameters, and its column."""
    rows = dict(PAPERS["primphormer"][table])
    names = rows.pop("Hyperparameter")
    return [(name, {row: values[number] for row, values in rows.items()}) for number, name in enumerate(names)]


def compared(dataset: str) -> list[str]:
    """Return the presets of the attentions of Primphormer's Tables 3 and 4."""
    kinds = ["none", "softmax", "bigbird", "performer", "primal", "exphormer", "primphormer"]
    return [f"gps-{kind}" for kind in kinds if (dataset, kind) != ("ogbn-products", "softmax")]


def checked_presets() -> set[tuple[str, str]]:
    """Return the data set, in lower case, and the model of every preset whose numbers a test compares."""
    found = {(name, "primphormer") for table in ("Table A2", "Table A3") for name, _ in columns(table)}
    found |= {(name, "polynormer") for name in OF_POLYNORMER}
    for name, _ in columns("Table A4"):
        found |= {(name.replace("Pasv", "Pasc"), preset) for preset in compared(name)}
    found |= {(dataset, name) for dataset, names in PARAMETERS.items() for name in names}
    found |= {(dataset, f"{name}-vn") for dataset, name in VIRTUAL}
    found |= {("PCQM4Mv2", f"tokengt{kind}") for kind in ("", "-orf", "-none", "-performer")}
    found |= {("any", f"{name}-paper") for name in ("lsat", "sat", "sapdgt", "spdgt")}
    return {(dataset.lower(), name) for dataset, name in found}

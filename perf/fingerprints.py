"""The line to beat on ogbg-molhiv: a random forest on Morgan fingerprints, with OGB's scaffold split.

    python perf/fingerprints.py [--seeds 1] [--trees 100] [--bits 2048] [--root data/graphs]

Prints a row of a Markdown table: the area under the ROC curve of the validation and the test molecules, mean and
deviation over seeds. Needs rdkit, and OGB's raw files (`sstcast benchmark ogbg-molhiv --model gine` gets them).
"""

import argparse
import platform
import statistics
import time
from pathlib import Path

import numpy as np
import pandas as pd
import sklearn
from numpy.typing import NDArray
from rdkit import Chem, RDLogger, rdBase
from rdkit.Chem import rdFingerprintGenerator
from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics import roc_auc_score

RADIUS = 2


def fingerprints(smiles: pd.Series, bits: int) -> NDArray[np.uint8]:
    """Return how often each hashed neighbourhood of an atom occurs, `[molecules, bits]`."""
    RDLogger.DisableLog("rdApp.*")
    generator = rdFingerprintGenerator.GetMorganGenerator(radius=RADIUS, fpSize=bits)
    # OGB's graphs too come from molecules that rdkit would not sanitise
    molecules = (Chem.MolFromSmiles(text) or Chem.MolFromSmiles(text, sanitize=False) for text in smiles)
    found = np.zeros((len(smiles), bits), dtype=np.uint8)
    for row, molecule in zip(found, molecules, strict=True):
        molecule.UpdatePropertyCache(strict=False)
        Chem.GetSymmSSSR(molecule)
        row[:] = np.minimum(generator.GetCountFingerprintAsNumPy(molecule), 255)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--trees", type=int, default=100)
    parser.add_argument("--bits", type=int, default=2048)
    parser.add_argument("--root", type=Path, default=Path("data/graphs"))
    options = parser.parse_args()
    folder = options.root / "ogbg_molhiv"
    table = pd.read_csv(folder / "mapping/mol.csv.gz")
    split = {
        part: pd.read_csv(folder / f"split/scaffold/{part}.csv.gz", header=None)[0].to_numpy()
        for part in ("train", "valid", "test")
    }
    x, y = fingerprints(table["smiles"], options.bits), table["HIV_active"].to_numpy()
    scores: dict[str, list[float]] = {"valid": [], "test": []}
    seconds = []
    for seed in range(options.seeds):
        started = time.monotonic()
        forest = RandomForestClassifier(options.trees, min_samples_leaf=2, random_state=seed, n_jobs=-1)
        forest.fit(x[split["train"]], y[split["train"]])
        seconds.append(time.monotonic() - started)
        for part, values in scores.items():
            values.append(float(roc_auc_score(y[split[part]], forest.predict_proba(x[split[part]])[:, 1])))
    cells = [
        f"{statistics.mean(values):.4f}" + (f" ± {statistics.stdev(values):.4f}" if len(values) > 1 else "")
        for values in scores.values()
    ]
    print(f"scikit-learn {sklearn.__version__}, rdkit {rdBase.rdkitVersion}, {platform.machine()}\n")
    print("| bits | trees | seeds | validation roc-auc | test roc-auc | s a seed |\n|---|---|---|---|---|---|")
    first = f"| {options.bits} | {options.trees} | {options.seeds} |"
    print(f"{first} {cells[0]} | {cells[1]} | {statistics.median(seconds):.0f} |")


if __name__ == "__main__":
    main()

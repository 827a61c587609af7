"""What the SST of other quarters of the sample's sea is worth as an index, by a hindcast of each quarter.

    python perf/quarters.py [--years 1997:2016] [--fold 4] [--every 3] [--folder data/perf-quarters]

Two multiscale ridges forecast each quarter: one reads its SST alone, the other also the mean SST of each of the
other quarters, known a day later (docs/predictors.md). Prints a Markdown table with the ratio of their mean
squared errors, over all and in each fold. What is done stays in the folder, so that the same command goes on.
"""

import argparse
from pathlib import Path

import sstcast

QUARTERS = [f"tasman-{side}" for side in ("south-west", "south-east", "north-west", "north-east")]


def index_of(quarter: str) -> str:
    """Return the keys of a predictor that is the mean SST of a quarter."""
    return f"{quarter.replace('-', '_')}: {{kind: index, source: sample, region: {quarter}, delay: 1}}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--years", default="1997:2016")
    parser.add_argument("--fold", type=int, default=4)
    parser.add_argument("--every", type=int, default=3)
    parser.add_argument("--folder", type=Path, default=Path("data/perf-quarters"))
    options = parser.parse_args()
    print("| quarter | ratio | by fold |\n|---|---|---|")
    for quarter in QUARTERS:
        common = [f"data.region={quarter}", f"data.directory={options.folder / 'prepared'}"]
        others = "{" + ", ".join(index_of(other) for other in QUARTERS if other != quarter) + "}"
        systems = [
            sstcast.load_config("configs/linear/multiscale-ridge.yaml", [*common, *more])
            for more in (["name=alone"], ["name=others", f"data.predictors={others}"])
        ]
        out = options.folder / quarter
        scores = sstcast.hindcast(systems, options.years, options.fold, every=options.every, out=out).value
        alone, both = (scores["scores"][system.name]["degC"] for system in systems)
        folds = [
            one / other
            for one, other in zip(*(of["by_fold"]["mse"].values() for of in (both, alone)), strict=True)
        ]
        print(
            f"| {quarter} | {both['mse'] / alone['mse']:.4f} | {' '.join(f'{of:.4f}' for of in folds)} |",
            flush=True,
        )


if __name__ == "__main__":
    main()

"""Runs a study: `python -m studies NAME [--root FOLDER] [--out FOLDER]`."""

import argparse
import sys
from pathlib import Path

import studies
from sstcast.cli import explain
from studies.study import run_study


def main() -> None:
    """Run the study of the command line, and print its table."""
    parser = argparse.ArgumentParser(prog="python -m studies", description="Repeat an experiment from the papers.")
    parser.add_argument("name", help=", ".join(studies.STUDIES))
    parser.add_argument("--root", type=Path, help="folder of raw files, of studies that train on NCI1")
    parser.add_argument("--out", type=Path, default=Path("runs/studies"), help="the folder of studies")
    chosen = parser.parse_args()
    folder = chosen.out / chosen.name
    try:
        page, new = run_study(studies.build_study(chosen.name, chosen.root), folder)
    except (Exception, KeyboardInterrupt) as error:
        code, line = explain(error)
        print(line, file=sys.stderr)
        sys.exit(code)
    print(page)
    print(f"{folder}: {'written' if new else 'nothing to do'}")


if __name__ == "__main__":
    main()

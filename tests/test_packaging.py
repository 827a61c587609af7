"""Files beside the package say the same as the package."""

import re
import tomllib
from pathlib import Path

import yaml

from sstcast import __version__

ROOT = Path(__file__).parents[1]
CONDA = {"torch": "pytorch", "torch-geometric": "pytorch_geometric", "dask[array]": "dask-core"}


def test_every_file_names_the_same_version() -> None:
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text())["version"] == __version__
    assert f'version = "{__version__}"' in (ROOT / "recipe/meta.yaml").read_text()
    sections = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert sections[0] == __version__


def test_the_recipe_needs_what_the_package_needs() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    split = [re.fullmatch(r"([\w\[\]-]+)(.*)", need) for need in project["dependencies"]]
    needs = {f"{CONDA.get(need[1], need[1].lower())} {need[2]}" for need in split if need}
    _, _, run = (ROOT / "recipe/meta.yaml").read_text().partition("  run:\n")
    listed = set(re.findall(r"    - (.+)", run.partition("\ntest:")[0]))
    assert listed == needs | {f"python {project['requires-python']}"}


def test_actions_are_pinned_to_a_commit() -> None:
    for file in (ROOT / ".github/workflows").glob("*.yml"):
        for job in yaml.safe_load(file.read_text())["jobs"].values():
            used = [step["uses"] for step in job["steps"] if "uses" in step]
            assert all(re.fullmatch(r"[\w/-]+@[0-9a-f]{40}", action) for action in used), file

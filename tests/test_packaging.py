"""Files beside the package say the same as the package."""

import ast
import hashlib
import re
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from sstcast import __version__

ROOT = Path(__file__).parents[1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
RECIPE = ROOT / "recipe/meta.yaml"
in_checkout = pytest.mark.skipif(not RECIPE.exists(), reason="the recipe is only in a checkout")
CONDA = {"torch": "pytorch", "torch-geometric": "pytorch_geometric", "dask[array]": "dask-core"}


@in_checkout
def test_every_file_names_the_same_version() -> None:
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text())["version"] == __version__
    assert f'version = "{__version__}"' in RECIPE.read_text()
    sections = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert sections[0] == __version__


def test_all_imported_packages_are_declared() -> None:
    project = PYPROJECT["project"]
    needs = [
        *project["dependencies"],
        *(need for extra in project["optional-dependencies"].values() for need in extra),
    ]
    declared = {canonicalize_name(Requirement(need).name) for need in needs}
    owners, imported = packages_distributions(), set()
    for file in (ROOT / "sstcast").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Import):
                imported |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level:
                imported.add(str(node.module).partition(".")[0])
    for name in imported - sys.stdlib_module_names - {"sstcast"}:
        assert {canonicalize_name(owner) for owner in owners[name]} & declared, f"{name} is not in pyproject.toml"


def test_the_image_gets_what_the_wheel_needs() -> None:
    wheel = PYPROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]
    kept = (ROOT / ".dockerignore").read_text().splitlines()
    for folder in (*wheel["packages"], *wheel["force-include"]):
        assert f"!{folder}/**" in kept
    for file in ("pyproject.toml", PYPROJECT["project"]["readme"], *PYPROJECT["project"]["license-files"]):
        assert f"!{file}" in kept


def test_all_declared_versions_of_python_are_tested() -> None:
    name = "Programming Language :: Python :: 3."
    declared = [c.rpartition(" ")[2] for c in PYPROJECT["project"]["classifiers"] if c.startswith(name)]
    matrix = yaml.safe_load((ROOT / ".github/workflows/tests.yml").read_text())["jobs"]["test"]["strategy"][
        "matrix"
    ]
    assert declared == [*matrix["python"], *(one["python"] for one in matrix["include"])]
    assert PYPROJECT["project"]["requires-python"] == f">={declared[0]}"


@in_checkout
def test_a_release_puts_address_and_digest_of_the_archive_into_the_recipe(tmp_path: Path) -> None:
    steps = yaml.safe_load((ROOT / ".github/workflows/release.yml").read_text())["jobs"]["build"]["steps"]
    (script,) = (step["run"] for step in steps if "recipe" in step.get("name", ""))
    for folder in ("dist", "recipe"):
        (tmp_path / folder).mkdir()
    (tmp_path / f"dist/sstcast-{__version__}.tar.gz").write_bytes(b"an archive")
    (tmp_path / "recipe/meta.yaml").write_text(RECIPE.read_text())
    subprocess.run(["bash", "-e", "-c", script], cwd=tmp_path, check=True)
    text = re.sub(r"{%.*%}|{{.*}}", "", (tmp_path / "recipe/meta.yaml").read_text())
    assert yaml.safe_load(text)["source"] == {
        "url": f"https://pypi.org/packages/source/s/sstcast/sstcast-{__version__}.tar.gz",
        "sha256": hashlib.sha256(b"an archive").hexdigest(),
    }


@in_checkout
def test_the_recipe_needs_what_the_package_needs() -> None:
    project = PYPROJECT["project"]
    split = [re.fullmatch(r"([\w\[\]-]+)(.*)", need) for need in project["dependencies"]]
    needs = {f"{CONDA.get(need[1], need[1].lower())} {need[2]}" for need in split if need}
    _, _, run = RECIPE.read_text().partition("  run:\n")
    listed = set(re.findall(r"    - (.+)", run.partition("\ntest:")[0]))
    assert listed == needs | {f"python {project['requires-python']}"}


def test_actions_are_pinned_to_a_commit() -> None:
    for file in (ROOT / ".github/workflows").glob("*.yml"):
        for job in yaml.safe_load(file.read_text())["jobs"].values():
            used = [step["uses"] for step in job["steps"] if "uses" in step]
            assert all(re.fullmatch(r"[\w/-]+@[0-9a-f]{40}", action) for action in used), file

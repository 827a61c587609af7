"""What the README shows must run, and say what it says."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def test_the_python_example_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert code
    monkeypatch.chdir(tmp_path)  # no checkout here: the packaged configuration is found
    names: dict = {}
    exec(code[1], names)
    assert len(names["windows"]) == 11_253
    assert names["batch"].history.shape == (20, 900, 42)
    assert names["forecast"].shape == (20, 900, 28)
    assert names["loss"].isfinite()


def test_the_example_of_graphs_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)[1]
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    exec(code, names)
    assert 0 <= names["result"]["test"] <= 1
    assert names["y"].shape == (34, 64)


def test_links_lead_somewhere() -> None:
    for page in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name}: {target}"

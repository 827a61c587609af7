"""A damaged file of a cache is made anew, with the same values."""

from pathlib import Path
from typing import Any

import pytest
import torch
from small_raw import write

from sstcast.benchmarks.load import load
from sstcast.benchmarks.packed import pack
from sstcast.benchmarks.positions import with_positions
from sstcast.benchmarks.registry import find_dataset


def flip(path: Path, tensor: torch.Tensor) -> None:
    """Change a byte of the tensor where it lies in the file."""
    content = bytearray(path.read_bytes())
    place = content.find(tensor.numpy().tobytes())
    assert place > 0
    content[place + 3] ^= 255
    path.write_bytes(bytes(content))


@pytest.mark.parametrize("damage", ["cut", "empty", "a tensor"])
def test_a_damaged_cache_is_made_anew(damage: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dataset = find_dataset("peptides-func")
    write(dataset, tmp_path)
    whole = load(dataset, tmp_path, tmp_path / "cache", trust=True)
    (path,) = (tmp_path / "cache").glob("peptides-func*.pt")
    content = path.read_bytes()
    if damage == "cut":
        path.write_bytes(content[: len(content) // 2])
    elif damage == "empty":
        path.write_bytes(b"")
    else:
        flip(path, whole.graphs.edge_index)
    capsys.readouterr()
    again = load(dataset, tmp_path, tmp_path / "cache", trust=True)
    err = capsys.readouterr().err
    assert err == f"{path}: damaged; making it again\n"
    assert again.digest == whole.digest
    for name, tensor in whole.graphs.tensors().items():
        assert torch.equal(again.graphs.tensors()[name], tensor)
    load(dataset, tmp_path, tmp_path / "cache", trust=True)
    assert not capsys.readouterr().err


@pytest.mark.parametrize("damage", ["cut", "a tensor"])
def test_damaged_positions_are_computed_anew(
    damage: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def ring(nodes: int) -> Any:
        ends = torch.arange(nodes)
        return pack(
            [{"num_nodes": nodes, "edge_index": torch.stack([ends, (ends + 1) % nodes]), "y": ends}], "node"
        )

    walk = with_positions(ring(5), "mine", 0, 4, tmp_path).walk
    (path,) = tmp_path.glob("*.pt")
    content = path.read_bytes()
    if damage == "cut":
        path.write_bytes(content[:100])
    else:
        flip(path, walk)
    assert torch.equal(with_positions(ring(5), "mine", 0, 4, tmp_path).walk, walk)
    assert capsys.readouterr().err == f"{path}: damaged; making it again\n"

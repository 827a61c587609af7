from pathlib import Path

import pytest

from sstcast.files import atomic, packaged


def test_what_ships_is_there() -> None:
    for name in (
        "data/sample/tasman_oisst_daily_1982_2016.nc",
        "data/map/ne_50m_land.geojson.gz",
        "configs/demo.yaml",
    ):
        assert packaged(name).exists()


@pytest.mark.parametrize("folder", [False, True])
def test_a_failed_write_leaves_what_was_there(tmp_path: Path, folder: bool) -> None:
    path = tmp_path / "thing"

    def write(target: Path, text: str) -> None:
        if folder:
            target.mkdir()
            target = target / "inside"
        target.write_text(text)

    with atomic(path) as temporary:
        write(temporary, "old")
    with pytest.raises(RuntimeError), atomic(path) as temporary:
        write(temporary, "half")
        raise RuntimeError
    assert (path / "inside" if folder else path).read_text() == "old"
    with atomic(path) as temporary:
        write(temporary, "new")
    assert (path / "inside" if folder else path).read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]

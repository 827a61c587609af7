"""What a terminal shows while something is computed, and what a file or a pipe does not hold."""

import pytest

from sstcast.progress import waiting


@pytest.mark.parametrize("terminal", [True, False])
def test_a_long_computation_is_told_in_a_terminal_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], terminal: bool
) -> None:
    monkeypatch.setenv("TTY_COMPATIBLE", "1" if terminal else "0")
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    with waiting("fitting the linear parts"):
        pass
    assert ("fitting the linear parts" in capsys.readouterr().err) is terminal

"""Scratch arrays, and the free memory that is kept between blocks."""

import pytest

from sstcast.storage import scratch

GIB = 2**30


def test_what_a_block_needed_is_given_back_once_and_then_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """With free memory after blocks of 2 GiB, small ones and one of 3 GiB, in GiB."""
    free = iter([GIB * size for size in (0.1, 2, 2.1, 0.5, 2.1, 3, 3.1)])
    limits: list[int] = []

    def trim(limit: int) -> int:
        limits.append(limit)
        return int(next(free))

    monkeypatch.setattr(scratch, "trim", trim)
    monkeypatch.setattr(scratch, "_kept", [scratch.LEAST_KEPT])
    monkeypatch.setattr(scratch, "KEPT", 0)
    monkeypatch.setattr(scratch.os, "sysconf", lambda name: 2**20 if name == "SC_PHYS_PAGES" else 2**14)  # 16 GiB
    kept = scratch.scratch_array((4,))
    for _ in range(7):
        scratch.release()
    least = scratch.LEAST_KEPT
    assert limits == [least, least, *[2 * GIB + least // 2] * 4, 3 * GIB + least // 2]
    monkeypatch.setattr(scratch, "trim", lambda limit: 9 * GIB)
    scratch.release()
    assert scratch._kept == [4 * GIB]  # a quarter of the machine's memory
    assert kept.shape == (4,)

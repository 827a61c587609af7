"""Scenes and blocks of forecasts that a test draws itself, for the tables of one kind of score."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np

from sstcast.names import DEGREES
from sstcast.scores.analysis import Analysis, Observed
from sstcast.scores.asked import NOTHING, Asked
from sstcast.scores.scene import Block, Scene
from sstcast.scores.systems import ScoredSystem


def scene(truth: Analysis, asked: Asked = NOTHING, **correlations: Any) -> Scene:
    """Return a scene of systems by name, with the correlation of their errors, or None without a spread model."""
    spreads = {name: None if of is None else SimpleNamespace(correlation=of) for name, of in correlations.items()}
    return Scene(truth, {name: ScoredSystem(None, spread) for name, spread in spreads.items()}, asked)


def observation(dates: slice, anomaly: Any, limit: Any = 0.0, lowest: Any = None) -> Observed:
    """Return observed anomalies in degC, `[dates, lead, tile, N]`, and limits of heatwaves."""
    limits = np.broadcast_to(np.float32(limit), np.shape(anomaly))
    return Observed(dates, {DEGREES: anomaly}, None, None, limits, lowest)


def block(name: str, seen: Observed, members: Any, spread: Any = None) -> Block:
    """Return the forecasts in degC, `[member, dates, lead, tile, N]`, of a system from all dates of a block."""
    return Block(name, seen, members, members, members.mean(0), spread, slice(None))


def with_limits(truth: Analysis, limits: Any) -> Analysis:
    """Return the analysis with other limits of heatwaves."""
    vars(changed := replace(truth))["limits"] = limits
    return changed

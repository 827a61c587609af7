"""A task that goes on until it is stopped. It imports little, as each process that runs it imports it anew."""

import time
from pathlib import Path

from sstcast.errors import Interrupted
from sstcast.stopping import StopRequest


def train_until_stopped(file: Path) -> str:
    """Do what a training does: go on until a signal comes, then save."""
    with StopRequest() as stop:
        file.with_suffix(".begun").touch()
        while not stop.signal:
            time.sleep(0.01)
        file.touch()
    raise Interrupted(stop.signal)

"""The pictures of a page, drawn by this process and another one side by side."""

import pickle
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.console import Console
from rich.progress import Progress

from sstcast.pages.results import Results
from sstcast.terminal import hides_progress


@dataclass(frozen=True)
class Image:
    """A picture as `data:` addresses: `narrow` for phones, `still` for print and reduced motion."""

    wide: str
    alt: str
    caption: str
    narrow: str = ""
    still: str = ""


Picture = Callable[[Results], list[Image]]


def draw(results: Results, pictures: Mapping[str, Picture], pool: Executor | None) -> dict[str, list[Image]]:
    """Draw all `pictures` of some results, by name; from the last one on here, from the first one on in `pool`.

    If the process there fails, all that is left is drawn here.
    """
    waiting, console = deque(pictures), Console(stderr=True)
    here: dict[str, list[Image]] = {}
    elsewhere: dict[str, list[Image]] = {}

    def ask(pool: Executor, file: Path) -> None:
        with suppress(Exception):  # this process will draw the picture again, and say what is wrong
            while (name := _next(waiting.popleft)) is not None:
                elsewhere[name] = pool.submit(_of_file, file, pictures[name]).result()

    with (
        TemporaryDirectory() as folder,
        ThreadPoolExecutor(1) as thread,
        Progress(console=console, disable=hides_progress(console), transient=True) as bar,
    ):
        task = bar.add_task("report", total=len(pictures))
        if pool is not None:
            file = Path(folder) / "results"
            file.write_bytes(pickle.dumps(results))  # through a pipe, it would wait for a process that has died
            thread.submit(ask, pool, file)
        try:
            while (name := _next(waiting.pop)) is not None:
                here[name] = pictures[name](results)
                bar.update(task, completed=len(here) + len(elsewhere))
        finally:
            waiting.clear()
    for name in pictures.keys() - here.keys() - elsewhere.keys():
        here[name] = pictures[name](results)
    return elsewhere | here


def _next(take: Callable[[], str]) -> str | None:
    try:
        return take()
    except IndexError:  # the other one has taken the last
        return None


def _of_file(file: Path, picture: Picture) -> list[Image]:
    """Draw what the process that asks for it has pickled."""
    return picture(pickle.loads(file.read_bytes()))

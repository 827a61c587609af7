"""Commands that find their work done without opening anything.

A finished command keeps in the user's cache folder what it will print the next time, and the state of every file
that this follows from. The same command in the same folder prints it again as long as all of these files have the
same size, times and inode; if any differs, it looks at everything anew. Deleting a record costs time only.
"""

import glob
import hashlib
import json
import os
import sys
import sysconfig
import time
from contextlib import suppress
from pathlib import Path

from sstcast.errors import printable
from sstcast.files import CACHE, FIRST_PROCESS, PACKAGE, atomic, packaged

CLOCK_TICK = 0.02  # seconds: files written within one tick of the system's clock may have the same times
TERMINAL = ("COLUMNS", "TERM", "NO_COLOR", "FORCE_COLOR", "PYTHONIOENCODING", "LC_ALL", "LANG")
# With another version, or other packages, anything may be different.
CODE = (f"{glob.escape(str(PACKAGE))}/**/*.py", f"{glob.escape(str(packaged('configs')))}/**/*.yaml")
PACKAGES = f"{glob.escape(sysconfig.get_paths()['purelib'])}/*.dist-info"

complaints: list[str] = []


def complain(text: str) -> None:
    """Print a line on stderr; the command that causes it will look at everything anew the next time, too."""
    complaints.append(text)
    print(printable(text), file=sys.stderr, flush=True)


def recall() -> str | None:
    """Return what this command printed when its work was done; None if a file has changed since, or it was not."""
    complaints.clear()
    with suppress(OSError, ValueError, TypeError, LookupError, AttributeError):  # none, or not a record
        record = json.loads(_place().read_bytes())
        if all(state_of(pattern) == state for pattern, state in record["states"].items()):
            return str(record["text"])
    return None


class Finished:
    """What a command follows from: `watch` files before they are read, and `remember` when all is done."""

    def __init__(self, *patterns: str | Path) -> None:
        self.states: dict[str, str] = {}
        self.watch(*CODE, PACKAGES, *patterns)

    def watch(self, *patterns: str | Path) -> None:
        """Add files that the command is about to read, as `state_of` takes them."""
        self.states |= {str(pattern): state_of(str(pattern)) for pattern in patterns}

    def remember(self, text: str, *written: str | Path) -> None:
        """Keep `text` for the next time, unless a file watched has changed; `written` is what was written."""
        changed = any(state_of(pattern) != state for pattern, state in self.states.items())
        if changed or complaints or not FIRST_PROCESS:
            return
        time.sleep(CLOCK_TICK)
        self.watch(*written)
        with suppress(OSError), atomic(_place()) as temporary:
            temporary.write_text(json.dumps({"text": text, "states": self.states}))


def state_of(pattern: str) -> str:
    """Return a hash of names, sizes, times and inodes of all that matches `pattern`; `**` means at any depth."""
    found = hashlib.sha256()
    for name in sorted(glob.glob(pattern, recursive=True, include_hidden=True)):  # noqa: PTH207
        with suppress(OSError):
            s = os.stat(name)  # noqa: PTH116 - a store has thousands of files
            found.update(f"{name}\0{s.st_size} {s.st_mtime_ns} {s.st_ctime_ns} {s.st_ino}\0".encode())
    return found.hexdigest()


def _place() -> Path:
    """Return where the record of this command is: in this folder, and on a terminal as wide as this one."""
    arguments = [argument for argument in sys.argv[1:] if argument != "--debug"]
    terminal = sys.stdout.isatty() and list(os.get_terminal_size(sys.stdout.fileno()))
    key = json.dumps([arguments, str(Path.cwd()), terminal, *map(os.environ.get, TERMINAL)])
    return CACHE / "finished" / f"{hashlib.sha256(key.encode()).hexdigest()[:32]}.json"

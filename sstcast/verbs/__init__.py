"""Commands that have a separate file; the others are in `sstcast.cli`."""

from typing import Annotated

import typer

Set = Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Override a key; repeatable.")]

"""Verbs of the command line that fill a file of their own; `sstcast.cli` has the others."""

from typing import Annotated

import typer

Set = Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Override a key; repeatable.")]

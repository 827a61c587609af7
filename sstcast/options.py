"""The options of the command line: what they are called in the help, and how often they may be given."""

from copy import copy
from itertools import pairwise
from pathlib import Path
from typing import Any

import typer

from sstcast.errors import SSTCastError

# The type of an option, by the first type in the argument's annotation; all other options are text.
TYPES: dict[str, Any] = {"Path": Path, "Run": Path, "RunConfig": Path, "bool": bool, "float": float, "int": int}
METAVARS = {  # the default is the argument's name in capitals
    **dict.fromkeys(("start", "end", "date"), "YYYY-MM-DD"),
    **dict.fromkeys(("gaps", "leads", "every", "horizons", "shortest", "longest_gap", "window", "smooth"), "DAYS"),
    "overrides": "KEY=VALUE",
    "years": "FIRST:LAST",
    "against": "RUN|BASELINE",
    "data": "SOURCE|RUN|FORECAST",
    "baseline": "fixed|moving|detrended",
    "index": "BOX|CSV",
    "forecast": "RUN|FORECAST",
    "resume": "RUN",
    "places": "CSV|GEOJSON",
    "observations": "FILE",
    "observation_error": "DEGREES",
    "hours": "FIRST..LAST",
    **dict.fromkeys(("share", "alert"), "PER CENT"),
    **dict.fromkeys(("select", "platforms", "datasets", "models"), "NAMES"),
    "climatology": "RECORD",
    "at": "LAT,LON",
    "base": "none|persistence|linear",
    "name": "PAPER:TABLE",
}
DEFAULTS = {"--samples": "100"}  # of options that may be given without a value
MIN_OPTION_VALUES = {
    **dict.fromkeys(("gaps", "samples", "max_size"), 0),
    **dict.fromkeys(("leads", "fold", "validation", "every", "jobs"), 1),
}
# Options of which one value may name several things.
COMMAS = {
    *("above", "below", "datasets", "horizons", "models", "platforms"),
    *("seeds", "select", "share", "systems", "variables"),
}


class Command(typer.core.TyperCommand):
    """A command whose options in `DEFAULTS` may be given without a number, for which Typer has no way.

    An option that is no list, and a key of --set, may be given once. Of several values, Typer would take the last.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse arguments after giving these options their values.

        Raises SSTCastError if an option that is no list is given more than once.
        """
        given: list[str] = []
        for argument, following in pairwise([*args, ""]):
            given.append(argument)
            if argument in DEFAULTS and not following.lstrip("-").isdecimal():
                given.append(DEFAULTS[argument])
        rest = super().parse_args(ctx, [*given])  # the parser empties its list
        if not ctx.resilient_parsing:  # not of a line that the shell completes
            self._check_given_once(ctx, given)
        return rest

    def _check_given_once(self, ctx: Any, given: list[str]) -> None:
        parser = self.make_parser(ctx)
        single = [
            option
            for option in self.params
            if isinstance(option, typer.core.TyperOption) and not (option.multiple or option.is_flag)
        ]
        for option in single:
            repeatable = copy(option)
            repeatable.multiple = True
            repeatable.add_to_parser(parser, ctx)  # in place of the option, so that the parser keeps all values
        values = parser.parse_args([*given])[0]
        for option in single:
            if len(texts := values.get(option.name, [])) > 1:
                remedy = "give it once" + ", with values separated by commas" * (option.name in COMMAS)
                raise SSTCastError(f"{option.opts[0]}: given more than once ({' and '.join(texts)}); {remedy}")
        set_to: dict[str, str] = {}
        for key, _, value in (text.partition("=") for text in values.get("overrides") or []):
            if key in set_to:
                raise SSTCastError(f"--set {key}: given more than once ({set_to[key]} and {value}); give it once")
            set_to[key] = value

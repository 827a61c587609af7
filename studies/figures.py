"""What the studies' figures share."""

from matplotlib.axis import Axis
from matplotlib.ticker import LogLocator, NullLocator, StrMethodFormatter


def label_decades(axis: Axis) -> None:
    """Label a logarithmic axis at 1, 2 and 5 of every decade, in plain numbers."""
    axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axis.set_minor_locator(NullLocator())

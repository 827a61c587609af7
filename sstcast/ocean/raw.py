"""The earlier name of `sstcast.reading.raw`, for sources of days written for it. The next version drops it."""

from sstcast.log import warn_once
from sstcast.reading.raw import *  # noqa: F403

warn_once("sstcast.ocean.raw: is now sstcast.reading.raw; import that")

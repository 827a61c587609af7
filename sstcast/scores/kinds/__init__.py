"""The kinds of scores. Each is a class in a file of its own, which says how its tables are made and read."""

from sstcast.scores.kinds.above import Above
from sstcast.scores.kinds.areas import Areas
from sstcast.scores.kinds.distributions import Distributions
from sstcast.scores.kinds.errors import Errors
from sstcast.scores.kinds.events import Events
from sstcast.scores.kinds.heatwaves import Heatwaves
from sstcast.scores.kinds.kind import Kind
from sstcast.scores.kinds.points import Points
from sstcast.scores.kinds.rivals import Rivals
from sstcast.scores.kinds.terciles import Terciles

KINDS: tuple[type[Kind], ...] = (Errors, Distributions, Heatwaves, Above, Terciles, Areas, Points, Events, Rivals)

"""Types of arrays and of scores."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.floating]
Mask = NDArray[np.bool_]
Scores = dict[str, Any]  # the contents of `metrics.json`, or a part of them

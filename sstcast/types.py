"""Types of arrays."""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.floating]
Mask = NDArray[np.bool_]

"""Work items of kernels: whole rows of a sparse matrix, and parts of long ones."""

from __future__ import annotations

import numpy as np

WHOLE = -1  # slot of an item that is a whole row

# As in common.cuh.
ITEM = np.dtype("<i8, <i4, <i4, <i4, <f4, <i4, <i4")
ITEM.names = ("begin", "row", "length", "slot", "weight", "total", "unused")
SPLIT = np.dtype("<i4, <i4, <i4, <i4, <f4, (3,)<i4")
SPLIT.names = ("row", "first_slot", "n_slots", "total", "weight", "unused")

"""`Reading`: how a fold-in reads the ratings of a user who is not stored, or is stored with other ratings."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

ANONYMOUS_KEY = np.uint64(0)


class Reading(NamedTuple):
    """How to read B ratings of a user.

    Attributes:
        key: of the user; the draws of models of gradient descent depend on it. Default: that of every anonymous user.
        is_read: bool (B,), the ratings that a refit would read (`gpu.data.refit_rules.MAX_RATINGS_OF_USERS`); the
            others only count as seen. None: all.
        weights: float32 (B,), of the ratings, for models that take weights (see `gpu.data.decay`). None: 1.
    """

    key: np.uint64 = ANONYMOUS_KEY
    is_read: NDArray[np.bool_] | None = None
    weights: NDArray[np.float32] | None = None


ANONYMOUS = Reading()

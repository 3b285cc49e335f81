"""How neighbors of items are found."""

from __future__ import annotations

from typing import Literal

Similarity = Literal["simlsh", "keys", "gsm", "minhash", "rp_cos", "random"]
Psi = Literal["residual", "linear", "power", "fourth"]

"""Examples of keys, for `service.api.examples`."""

from __future__ import annotations

from typing import Any

KEY_ID = "5f0e9d3c7a12"

BODIES: dict[str, dict[str, Any]] = {
    "make_key": {
        "a key that may read": {"name": "shop front", "scope": "read"},
        "a key for one data set": {"name": "import", "scope": "write", "data_sets": ["default"]},
    },
}
_key = {
    "id": KEY_ID,
    "name": "shop front",
    "scope": "read",
    "data_sets": None,
    "created_ms": 1795232220635,
    "ends_with": "x7Qa",
}
COMPONENTS: dict[str, Any] = {
    "KeyBody": BODIES["make_key"]["a key that may read"],
    "KeyList": {"keys": [_key]},
    "ListedKey": _key,
    "MadeKey": {**_key, "key": "nf_GkqJ2yRj6v0n5L8sT1uW4zB7cE9fH3iK_mN-pQrx7Qa", "note": None},
}

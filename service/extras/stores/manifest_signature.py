"""Signs the manifests of models in stores, so that a service takes none that somebody else has put there.

A manifest has the SHA-256 of every file, so its signature covers the model: HMAC-SHA256 (RFC 2104) under the setting
`model_key`. It lies beside the manifest in the store, and is checked before anything of the model is used.
"""

from __future__ import annotations

import hashlib
import hmac

from service.extras.stores.object_store import Store
from service.storage.errors import CorruptSnapshot

SIGNATURE_FILE = "manifest.hmac"
MAX_BYTES = 256
_PURPOSE = b"nearfield manifest 1\n"


def sign(store: Store, version: str, manifest: bytes) -> None:
    """Put the signature of a manifest into the store, if a key is set and there is none of it."""
    if store.keys and not _is_signed(store, version, manifest):
        store.write(f"{version}/{SIGNATURE_FILE}", _of(store.keys[0], manifest))


def check(store: Store, version: str, manifest: bytes) -> None:
    """Check that one of the keys has signed a manifest of the store, if any is set.

    Raises:
        CorruptSnapshot: none has.
    """
    if store.keys and not _is_signed(store, version, manifest):
        raise CorruptSnapshot(
            f"{store.url}/{version}: expected a {SIGNATURE_FILE} of its manifest under NEARFIELD_MODEL_KEY, got none or"
            " another; push it again with this key if the model is yours"
        )


def _is_signed(store: Store, version: str, manifest: bytes) -> bool:
    found = store.read(f"{version}/{SIGNATURE_FILE}", MAX_BYTES)
    return found is not None and any(hmac.compare_digest(_of(key, manifest), found.strip()) for key in store.keys)


def _of(key: str, manifest: bytes) -> bytes:
    return hmac.new(key.encode(), _PURPOSE + manifest, hashlib.sha256).hexdigest().encode()

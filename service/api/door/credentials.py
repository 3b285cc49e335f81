"""`Credentials`: checks keys, and slows down who guesses them, in headers and in the form of the console alike."""

from __future__ import annotations

from service.api.door.auth import Keys
from service.api.door.rate_limit import RateLimit
from service.api.errors import Forbidden, NotAuthorized
from service.storage.key_file import digest_of

MAX_PROVEN = 4096  # (address, key) that were right; with more, the oldest have to prove themselves again


class Credentials:
    """Checks the keys of requests for one data set.

    Wrong keys count for the address that sends them, and uses that a right key does not permit for this key. An address
    with too many wrong ones has to wait before it may try another key, even a right one: else guesses would go on. A
    key that was right from this address before is taken meanwhile, so that nobody is locked out by somebody else's
    guesses, but for newcomers who share an address with who guesses; each second one of them is let in.

    Args:
        keys: of the data set.
        failures: keys that failed, of all processes of the service.
    """

    def __init__(self, keys: Keys, failures: RateLimit) -> None:
        self._keys, self._failures = keys, failures
        self._proven: dict[tuple[str, bytes], None] = {}

    def check(self, method: str, path: bytes, key: bytes | None, address: str) -> None:
        """Check that `key` permits the request.

        Raises:
            NotAuthorized, Forbidden, CorruptFile: see `Keys.check`.
            TooManyRequests: too many keys of the address were wrong, or the key has too often been used for what it
                does not permit.
        """
        try:
            is_right = self._keys.check(method, path, key)
        except NotAuthorized:
            if key:  # none is no guess
                self._proven.pop((address, key), None)
                self._failures.require(address)
                self._failures.count(address)
            raise
        except Forbidden:
            self._prove(address, key or b"")
            name = digest_of(key or b"").hex()
            self._failures.require(name)
            self._failures.count(name)
            raise
        if is_right:
            self._prove(address, key or b"")

    def _prove(self, address: str, key: bytes) -> None:
        """Remember a key of the service for an address, which may try one now."""
        if (address, key) not in self._proven:
            self._failures.require(address)
            if len(self._proven) >= MAX_PROVEN:
                del self._proven[next(iter(self._proven))]
            self._proven[address, key] = None

"""Ids of users and items: strings of 1 to 256 bytes of UTF-8."""

from __future__ import annotations

MAX_ID_BYTES = 256
_MAX_BYTES_PER_CHARACTER = 4


def check_id(text: str, max_bytes: int = MAX_ID_BYTES) -> str:
    """`text` if it is a legal id of a user or an item.

    Raises:
        ValueError: empty, longer than `max_bytes` in UTF-8, or not encodable (a lone surrogate).
    """
    if not text or (len(text) > max_bytes // _MAX_BYTES_PER_CHARACTER and len(text.encode()) > max_bytes):
        raise ValueError(f"Invalid id: expected 1 to {max_bytes} bytes, got {len(text.encode()):,}")
    if not text.isascii():
        text.encode()
    return text

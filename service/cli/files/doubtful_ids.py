"""Finds ids that were hardly meant as ids: words for nothing, byte order marks in the middle of joined files."""

from __future__ import annotations

import re

import pyarrow as pa
import pyarrow.compute as pc

from service.base.ids import MAX_ID_BYTES, check_id

# What databases, R, pandas, JavaScript and spreadsheets write for a missing value.
_NOTHING = r"\\N|(?i:null|nan|nat|none|nil|undefined|n/a|#n/a|<na>|<null>|\(null\))|NA"
_PATTERN = re.compile(_NOTHING)
_MARK = "\ufeff"
NEWLINE = "\0"  # in the place of a newline within quotes; no file has it
NO_QUOTE = "expected a closing quote in the same line, got none"
IS_MISSING = "stands for a missing value"  # in the reason; such a line has the right format


def checked_id(text: str) -> str:
    """`text` if it may be the id of a user or of an item; else ValueError with the reason."""
    if NEWLINE in text:
        raise ValueError(NO_QUOTE)
    if _MARK in text:
        raise ValueError(f"expected no byte order mark within the file, got one in {text!r}: were files joined?")
    if _PATTERN.fullmatch(text):
        raise ValueError(f"expected an id, got {text}, which {IS_MISSING} in text files")
    return check_id(text)


def are_ids(texts: pa.StringArray) -> bool:
    """Whether `checked_id` takes all of `texts`."""
    n_bytes = pc.binary_length(texts)
    is_bad = pc.or_(pc.equal(n_bytes, 0), pc.greater(n_bytes, MAX_ID_BYTES))
    return not pc.any(
        pc.or_(is_bad, pc.or_(stand_for_nothing(texts), pc.match_substring_regex(texts, f"[{_MARK}{NEWLINE}]")))
    ).as_py()


def stand_for_nothing(texts: pa.StringArray) -> pa.BooleanArray:
    """Which of `texts` many programs write for a missing value."""
    return pc.match_substring_regex(texts, f"^({_NOTHING})$")

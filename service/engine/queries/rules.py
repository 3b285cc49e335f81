"""The rules of a query for its list, which `service.engine.queries.Ruled` describes, and their bounds."""

from __future__ import annotations

from service.base.errors import InvalidRequest
from service.engine.queries import Recommend, Ruled
from service.engine.queries.forms import MAX_LENGTH as MAX_LENGTH  # noqa: PLC0414 (for those who ask)

MAX_LEVELS = 40  # numbers of ratings that `explore` ranks apart, times the classes of boosts: each is a ranking
POOL = 8  # times `n`: items among which `diversity` chooses


def has_rules(query: Ruled) -> bool:
    """Whether the list of `query` is more than the best items in order."""
    return bool(query.boosts or query.pins or query.max_per is not None or query.diversity or query.rotate is not None)


def length_of(query: Ruled) -> int:
    """Items of the list that have to be known to show the page of `query`."""
    return max(query.offset + query.n, pool_of(query))


def pool_of(query: Ruled) -> int:
    """Items at the beginning of the list that `diversity` brings into another order."""
    return min(MAX_LENGTH, POOL * query.n) if query.diversity else 0


def check_rules(query: Recommend) -> Recommend:
    """Check that the list of `query` is not too long for its rules and has nothing that contradicts them; return it.

    Raises:
        InvalidRequest: it is, or has.
    """
    if query.cursor is not None and (query.pins or query.max_per is not None or query.diversity):
        # They hold for the list from its beginning, which is not made again for a later page.
        raise InvalidRequest("Invalid cursor: expected none with pins, max_per or diversity; page by offset instead")
    if query.experiment is not None and query.model is not None:  # for some users it would be the model of their arm
        raise InvalidRequest("Invalid model: expected none with an experiment, whose arms name the models")
    most_below = MAX_LEVELS >> len(query.boosts)
    if query.explore and query.boosts and query.explore_below > most_below:
        raise InvalidRequest(
            f"Invalid explore_below: expected at most {most_below} with {len(query.boosts)} boosts, got"
            f" {query.explore_below}; each number below is ranked for each combination of boosts"
        )
    length = query.offset + query.n
    if has_rules(query) and length > MAX_LENGTH:
        raise InvalidRequest(
            f"Invalid offset: expected offset + n of at most {MAX_LENGTH:,} in a list with rules, got {length:,}"
        )
    return query

"""`ScenarioBody`: the fields of a list that a scenario has, and what becomes of them."""

from __future__ import annotations

import msgspec
from msgspec import structs
from pydantic import ValidationError

from service.base.errors import InvalidRequest
from service.engine.queries import Recommend
from service.engine.queries.fields import Fields, takes

# The fields of a list that requests and scenarios may have, in both of their forms.
PLAIN = (
    "n",
    "offset",
    "exclude",
    "include_seen",
    "repeat",
    "seen_types",
    "min_ratings",
    "model",
    "experiment",
    "explain",
    "fallback",
    "explore",
    "explore_below",
    "diversity",
    "with_",
)
RULES = (*PLAIN, "candidates", "filter", "available", "boosts", "pins", "max_per", "rotate")


@takes(Recommend, *RULES)
class ScenarioBody(Fields[Recommend]):
    """Body of a scenario: the same parameters, `candidates`, and a `filter` of any form."""

    @classmethod
    def of(cls, name: str, text: msgspec.Raw | str) -> ScenarioBody:
        """The body of the scenario `name`, of its JSON as it is stored.

        Raises:
            InvalidRequest: an older version has taken it, and this one does not.
        """
        try:
            return cls.model_validate(msgspec.json.decode(text))
        except ValidationError:
            raise InvalidRequest(
                f"Invalid scenario: expected a body that this version takes, got that of {name!r}; PUT it again"
            ) from None


def for_a_file(query: Recommend) -> Recommend:
    """`query` for lists in a file, which has one model and no room for explanations.

    Raises:
        InvalidRequest: it is in an experiment.
    """
    if query.experiment is not None:
        raise InvalidRequest("Invalid scenario: expected one without an experiment: all lists are of one model")
    return structs.replace(query, explain=False, with_=None, of_scenario=None)

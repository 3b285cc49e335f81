"""Documents as the entries have left them."""

import pytest

from service.engine.queries.document_queries import StaleScenario, UnknownScenario
from service.engine.state.documents import Documents
from service.storage.documents import Document
from service.storage.events import StreamId


def test_a_query_with_another_scenario_than_the_present_one_is_refused() -> None:
    documents = Documents()
    documents.check(None)
    documents.apply(Document("scenario", "home", "{}"), StreamId(5, 0))
    documents.apply(Document("experiment", "home", "{}"), StreamId(6, 0))
    documents.check(("home", "5-0"))
    for stale in (("home", "6-0"), ("nope", "5-0")):
        with pytest.raises(StaleScenario, match=stale[0]):
            documents.check(stale)
    documents.apply(Document("scenario", "home"), StreamId(7, 0))
    with pytest.raises(StaleScenario):
        documents.check(("home", "5-0"))


def test_a_name_that_nobody_has_put_is_refused_by_those_that_there_are() -> None:
    documents = Documents()
    with pytest.raises(UnknownScenario, match="expected one that was put; there is none, got 'home'"):
        documents.find("scenario", "home", UnknownScenario)
    for n in range(1, 12):
        documents.apply(Document("scenario", f"s{n:02}", "{}"), StreamId(n, 0))
        ends = ", …" if n == 11 else ""
        with pytest.raises(UnknownScenario, match=f"expected one of .*s{min(n, 10):02}{ends}, got 'home'"):
            documents.find("scenario", "home", UnknownScenario)

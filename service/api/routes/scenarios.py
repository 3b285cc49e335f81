"""Scenarios: bodies of requests for lists, stored under a name. A 202 is sent only after the stream has them."""

from __future__ import annotations

from typing import Annotated

import msgspec
from fastapi import APIRouter, Query

from service.api.answers import ScenarioList, Written, written
from service.api.dependencies import DocumentName, TheService, answers, check_n
from service.api.door.route import Call, Route
from service.api.parsers.elements import parsed
from service.api.requests import NoParameters, Wait
from service.base.errors import InvalidRequest
from service.engine.queries.document_queries import DocumentDetails, DocumentList, GetScenario, ListDocuments
from service.engine.queries.rules import check_rules
from service.engine.queries.scenario_body import ScenarioBody
from service.storage.documents import Document
from service.storage.events import encode_document

MAX_SCENARIOS = 1000

router = APIRouter(route_class=Route, prefix="/admin/scenarios", tags=["admin"])
NoQuery = Annotated[NoParameters, Query()]
WaitQuery = Annotated[Wait, Query()]


@router.put("/{name}", status_code=202, responses=answers(Written, 202, "Durable"))
async def put_scenario(
    name: DocumentName, body: ScenarioBody, query: NoQuery, serving: TheService, request: Call
) -> bytes:
    """Store a body under a name, for `scenario=` in requests for lists. It replaces an earlier one."""
    check_n(serving, check_rules(body.query()).n)
    listed = msgspec.json.decode(await serving.answer(ListDocuments("scenario")), type=DocumentList).documents
    if len(listed) >= MAX_SCENARIOS and name not in {scenario.name for scenario in listed}:
        raise InvalidRequest(f"Invalid scenario: expected at most {MAX_SCENARIOS:,}, got one more; DELETE one first")
    text = msgspec.json.encode(parsed(request.content)).decode()
    return await written(serving, encode_document(Document("scenario", name, text)))


@router.delete("/{name}", status_code=202, responses=answers(Written, 202, "Durable"))
async def delete_scenario(name: DocumentName, query: NoQuery, serving: TheService) -> bytes:
    """Remove a scenario, if there is one of that name."""
    return await written(serving, encode_document(Document("scenario", name)))


@router.get("", responses=answers(ScenarioList))
async def list_scenarios(query: WaitQuery, serving: TheService) -> bytes:
    """The names of all scenarios."""
    answer = await serving.answer(ListDocuments("scenario"), query.position)
    scenarios = msgspec.json.decode(answer, type=DocumentList)
    return msgspec.json.encode(ScenarioList(scenarios.documents, scenarios.as_of))


@router.get("/{name}", responses=answers(DocumentDetails, http_404="Unknown scenario"))
async def get_scenario(name: DocumentName, query: WaitQuery, serving: TheService) -> bytes:
    """The body of a scenario."""
    return await serving.answer(GetScenario(name), query.position)

"""Sequences of requests that the OpenAPI document allows, or that come close, with each kind of key and without any.

What one request made, the next one reads, changes or deletes. The checks of schemathesis hold: no server error, no
status, header or body that is not documented, nothing answered without a key that should have one, nothing accepted
that the document forbids. Two are left out. The document allows more than is accepted: it cannot say the bytes of an
id, the limits that are settings, nor which hyperparameters an algorithm has. And what was deleted may be read again:
DELETE of a job cancels it.
"""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from hypothesis.errors import Flaky
from schemathesis.core.failures import FailureGroup

from tests.faults import results
from tests.service.process import Service
from tests.service.waiting import eventually

KEYS = {
    "api_key": "key-of-every-client",
    "admin_key": "key-of-the-admins",
    "read_key": "key-of-the-readers",
    "write_key": "key-of-the-writers",
}
N_SEQUENCES = max(8, 2 * results.TRIALS)
N_STEPS = 8
SLOWED = "Expected 401 or 403, got `429"  # schemathesis tries wrong keys, and an address has ten at once
STORM = settings(
    max_examples=N_SEQUENCES,
    stateful_step_count=N_STEPS,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
    deadline=None,
)


def started(data: Path, **keys: str) -> Service:
    """A service with a few ratings and a model."""
    service = Service(data, backend="host", log_level="error", **keys)
    service.client.headers["X-API-Key"] = KEYS["admin_key"]
    service.rate(*((f"u{index % 7}", f"i{index % 5}", float(index % 5)) for index in range(40)))
    service.train("als", n_factors=4, n_epochs=2)
    return service


@pytest.fixture(scope="module")
def open_service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    service = started(tmp_path_factory.mktemp("open") / "data")
    yield service
    service.kill()


@pytest.fixture(scope="module")
def closed_service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    service = started(tmp_path_factory.mktemp("closed") / "data", **KEYS)
    yield service
    service.kill()


def check(service: Service, key: str | None) -> None:
    """Run sequences until there were enough of them, each time from another seed."""
    schema = schemathesis.openapi.from_url(f"{service.client.base_url}/openapi.json", timeout=60)
    schema.config.checks.positive_data_acceptance.enabled = False
    schema.config.checks.use_after_free.enabled = False
    schema.config.checks.negative_data_rejection.enabled = key is None  # a missing key counts as wrong data: we add it
    begun: list[None] = []
    faults: list[FailureGroup] = []

    class Client(schema.as_state_machine()):  # type: ignore[misc]
        def setup(self) -> None:
            begun.append(None)
            super().setup()

        def get_call_kwargs(self, case: Any) -> dict[str, Any]:
            return {"headers": {"X-API-Key": key}} if key else {}

        def validate_response(self, response: Any, case: Any, **more: Any) -> None:
            if response.status_code == 503 and response.json()["type"].endswith("not-seen-yet"):
                return  # what a position in the future gets
            try:
                super().validate_response(response, case, **more)
            except FailureGroup as found:
                if any(SLOWED not in one.message for one in found.exceptions):
                    faults.append(found)
                    raise

    while len(begun) < N_SEQUENCES and not faults:
        # A request is answered otherwise than the same one before, since others came between: Hypothesis wonders.
        with contextlib.suppress(Flaky, FailureGroup):
            hypothesis.seed(len(begun))(Client).run(settings=STORM)
    assert not faults, "\n".join(str(one) for one in faults)
    assert service.get("/health/ready").status_code == 200


def test_without_keys(open_service: Service) -> None:
    check(open_service, None)


@pytest.mark.parametrize("name", [*KEYS, "wrong"])
def test_with_keys(closed_service: Service, name: str) -> None:
    key = KEYS.get(name, "key-of-nobody-here")
    headers = {"X-API-Key": key}
    # Wrong keys of the sequences before have slowed this address: else this one would be refused as often.
    eventually(lambda: closed_service.client.get("/admin/jobs", headers=headers).status_code != 429)
    check(closed_service, key)

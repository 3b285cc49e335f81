"""The service that a load test without an address starts for itself."""

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from loadtest import gauges
from loadtest.client import Client as LoadClient
from loadtest.private import cores, running_service
from service.cli.client import Client, RequestFailed


@pytest.fixture(autouse=True)
def every_core() -> Iterator[set[int]]:
    """Gives back the cores that a load test takes from its own process."""
    before = os.sched_getaffinity(0)
    yield before
    os.sched_setaffinity(0, before)


@pytest.fixture
def ratings(tmp_path: Path) -> Path:
    rows = [f"u{user},i{item},{5 - (user + item) % 2 * 4}" for user in range(30) for item in range(user % 3, 20, 3)]
    path = tmp_path / "ratings.csv"
    path.write_text("\n".join(["user,item,rating", *rows]))
    return path


async def usage(url: str) -> dict[str, float]:
    """What `/metrics` says of the service between two looks."""
    client = LoadClient(url)
    try:
        return (await gauges.read(client)).until(await gauges.read(client))
    finally:
        await client.close()


def test_ratings_are_served_by_a_trained_model_until_the_block_ends(ratings: Path, every_core: set[int]) -> None:
    with running_service(ratings, "sgd") as url, Client(url) as client:
        assert client.recommend("u1", model="sgd")["personalized"]
        assert os.sched_getaffinity(0) == cores(1)[1] <= every_core
        used = asyncio.run(usage(url))
        assert used["cores"] >= 0 < used["resident_bytes"]
    with Client(url) as client, pytest.raises(RequestFailed, match="no service answers"):
        client.check_live()


def test_a_service_that_needs_a_key_is_trained_too(
    ratings: Path, every_core: set[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NEARFIELD_API_KEY", "a-key-of-this-test, the-other-key-of-it")
    with running_service(ratings, "sgd") as url, Client(url, "the-other-key-of-it") as client:
        assert client.recommend("u1", model="sgd")["personalized"]


def test_a_training_that_the_service_refuses_ends_the_load_test(ratings: Path) -> None:
    with pytest.raises(SystemExit, match="loadtest: POST /admin/retrain: 422 "), running_service(ratings, "nothing"):
        pytest.fail("it was measured")

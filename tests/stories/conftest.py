"""One service for all stories, each of which has a data set of its own."""

from collections.abc import Iterator

import pytest
from nearfield_client import Nearfield

from tests.service.process import Service

DATA_SETS = ("business", "news", "podcasts", "shop")


@pytest.fixture(scope="package")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    data = tmp_path_factory.mktemp("stories") / "data"
    service = Service(data, backend="host", log_level="error", worker=False, data_sets=",".join(DATA_SETS))
    yield str(service.client.base_url).rstrip("/")
    service.stop()


@pytest.fixture
def client(address: str, request: pytest.FixtureRequest) -> Iterator[Nearfield]:
    """A client of the data set that has the name of the story's module."""
    with Nearfield(f"{address}/d/{request.module.__name__.rpartition('test_')[2]}") as client:
        yield client

"""The stories of `benchmarks.stories` with few users: files in, a model, and a list that follows its user."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.stories import N_GROUPS, STORIES, changed_list, posted
from service.cli.client import Client
from tests.service.process import Service

N_ROWS = 3000


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    service = Service(tmp_path / "data", backend="host", log_level="error")
    yield service.api
    service.stop()


@pytest.mark.parametrize("name", STORIES)
def test_a_model_of_the_own_files_follows_its_users(client: Client, name: str, tmp_path: Path) -> None:
    story = STORIES[name].at(N_ROWS / STORIES[name].n_rows)
    user = story.n_users // 2  # neither the most active one nor the least
    catalog, done = story.write(tmp_path)
    assert posted(client.address, catalog, "--items")[0] == story.n_items
    n_rows, _ = posted(client.address, done, *(["--events"] if story.type else []))
    assert n_rows == N_ROWS if story.type else n_rows < N_ROWS  # of ratings of a pair the newest alone is posted
    assert not client.recommend(f"u-{user}")["personalized"]
    assert client.retrain(story.algorithm, force=True)["promoted"]
    listed = client.recommend(f"u-{user}", n=10)
    assert (listed["personalized"], listed["model"]) == (True, story.algorithm)
    groups = [int(one["item"][2:]) % N_GROUPS for one in listed["items"]]
    if story.type is not None:  # a model of ratings puts what many rated before what few of the group did
        assert groups.count(user % N_GROUPS) > 4  # of 10, where chance gives one or two
    before, after = changed_list(story, client, user)
    assert before != after

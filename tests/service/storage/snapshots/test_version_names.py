import time

import pytest

from service.base.errors import InvalidRequest
from service.settings.model_names import MAX_NAME_LENGTH
from service.storage.errors import UnknownVersion
from service.storage.snapshots import version_names
from service.storage.snapshots.version_names import check_name


@pytest.mark.parametrize("name", ["als", "home-b", "a", "v2-1", "als-implicit-2", "x" * MAX_NAME_LENGTH])
def test_a_version_has_its_name(name: str) -> None:
    version = version_names.new_version(check_name(name, "als"))
    for one in (version, f"{version}.12"):
        assert version_names.is_version(one, name)
        assert not version_names.is_version(one, f"{name}x")
        assert (version_names.name_of(one), version_names.shown(one)) == (name, version)
    with pytest.raises(UnknownVersion):
        version_names.time_of(name)


def test_versions_of_one_second_are_distinct_and_in_order() -> None:
    """Ten trainings of a command may take a second, and the folder of a version cannot replace that of another."""
    versions = list[str]()
    for _ in range(1000):
        time.sleep(0.00002)  # a training takes longer than the 15 µs of a step
        versions.append(version_names.new_version("als"))
    assert versions == sorted(set(versions))


@pytest.mark.parametrize("name", ["", "B", "2x", "a_b", "a-", "-a", "ä", "a b", "a.b", "x" * (MAX_NAME_LENGTH + 1)])
def test_other_names_are_refused(name: str) -> None:
    with pytest.raises(InvalidRequest, match="Invalid name: expected a letter, then"):
        check_name(name, "als")


@pytest.mark.parametrize("name", ["sgd", "als-implicit", "shadows", "sha256", "popularity"])
def test_names_that_would_be_taken_for_something_else_are_refused(name: str) -> None:
    with pytest.raises(InvalidRequest, match="Invalid name: expected"):
        check_name(name, "als")

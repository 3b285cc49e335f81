from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from service.base.errors import Conflict
from service.settings.errors import InvalidSetting
from service.storage.errors import CorruptLiveFile, LockTimeout, UnknownModel, UnknownVersion
from service.storage.files import FileLock
from service.storage.snapshots import live_versions

NAMES = "abcdefghijklmnopqrst"
SUFFIX, OTHER = "-20260101T000000-beef", "-20260101T000001-beef"


def test_nothing_is_live_at_first(tmp_path: Path) -> None:
    assert live_versions.read(tmp_path) == {}


def test_who_names_no_model_gets_the_first_that_answers() -> None:
    assert [live_versions.chosen(name, ["a", "b"]) for name in (None, "a", "b")] == ["a", "a", "b"]
    for name, answering, told in (("c", ["a", "b"], r"\(a, b\), got 'c'"), (None, [], r"\(there is none\), got None")):
        with pytest.raises(UnknownModel, match=told):
            live_versions.chosen(name, answering)


def test_a_change_of_the_file_is_seen_without_reading_it(tmp_path: Path) -> None:
    states = [live_versions.state_of(tmp_path)]
    for name in "aba":
        live_versions.set_version(tmp_path, name, f"{name}{SUFFIX}")
        states.append(live_versions.state_of(tmp_path))
        live_versions.read(tmp_path)
        assert live_versions.state_of(tmp_path) == states[-1]
    assert states[0] is None
    assert len(set(states)) == 4


def test_without_a_live_version_of_a_name_none_is_pruned(tmp_path: Path) -> None:
    versions = [f"als-2026010{day}T000000-beef" for day in range(1, 6)]
    for version in (*versions, f"b{SUFFIX}"):
        (tmp_path / "snapshots" / version).mkdir(parents=True)
    assert live_versions.prune(tmp_path, "als") == []
    live_versions.set_version(tmp_path, "als", versions[1])
    assert live_versions.prune(tmp_path, "als") == [versions[2], versions[0]]
    assert {path.name for path in (tmp_path / "snapshots").iterdir()} == {*versions[3:], versions[1], f"b{SUFFIX}"}


def test_names_do_not_disturb_each_other(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: live_versions.set_version(tmp_path, NAMES[n], f"{NAMES[n]}{SUFFIX}"), range(20)))
    assert live_versions.read(tmp_path) == {name: f"{name}{SUFFIX}" for name in NAMES}
    live_versions.set_version(tmp_path, "d", f"d{OTHER}")
    assert live_versions.read(tmp_path)["d"] == f"d{OTHER}"


def test_every_altered_byte_is_noticed(tmp_path: Path) -> None:
    live_versions.set_version(tmp_path, "als-implicit", f"als-implicit{SUFFIX}")
    path = tmp_path / live_versions.LIVE_FILE
    intact = path.read_bytes()
    for position in range(len(intact)):
        altered = bytearray(intact)
        altered[position] ^= 4
        path.write_bytes(altered)
        if intact[position] in b" \n":
            continue
        with pytest.raises(CorruptLiveFile, match=str(path)):
            live_versions.read(tmp_path)
        with pytest.raises(CorruptLiveFile):
            live_versions.set_version(tmp_path, "als", f"als{SUFFIX}")


@pytest.mark.parametrize(
    "content", [b"", b"[]", b'{"als": 7}', b'{"als": "culsh-20260101T000000-beef"}', b'{"AlS": "x"}']
)
def test_a_corrupt_file_without_a_checksum_is_refused_too(tmp_path: Path, content: bytes) -> None:
    (tmp_path / live_versions.LIVE_FILE).write_bytes(content)
    with pytest.raises(CorruptLiveFile, match="torn or altered"):
        live_versions.read(tmp_path)


def test_a_file_of_an_older_version_gets_its_checksum(tmp_path: Path) -> None:
    path = tmp_path / live_versions.LIVE_FILE
    path.write_text(f'{{"als": "als{SUFFIX}"}}')
    assert live_versions.read(tmp_path) == {"als": f"als{SUFFIX}"}
    live_versions.seal(tmp_path)
    assert "sha256" in path.read_text()
    assert live_versions.read(tmp_path) == {"als": f"als{SUFFIX}"}


def test_what_is_made_live_is_there_and_what_is_live_stays(tmp_path: Path) -> None:
    """However pruning and activating meet: each looks under the lock of the file."""
    for suffix in (SUFFIX, OTHER):
        (tmp_path / "snapshots" / f"als{suffix}").mkdir(parents=True)
    live_versions.activate(tmp_path, "als", f"als{SUFFIX}")
    assert not live_versions.retire(tmp_path, f"als{SUFFIX}", None)
    assert live_versions.retire(tmp_path, f"als{OTHER}", None)
    with pytest.raises(UnknownVersion):
        live_versions.activate(tmp_path, "als", f"als{OTHER}")
    assert live_versions.read(tmp_path) == {"als": f"als{SUFFIX}"}


def test_waiting_for_the_lock_times_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    taking: Any = FileLock.take
    monkeypatch.setattr(taking.__func__, "__defaults__", (0.1,))
    with FileLock.take(tmp_path / live_versions.LOCK_FILE), pytest.raises(LockTimeout, match=live_versions.LOCK_FILE):
        live_versions.set_version(tmp_path, "als", f"als{SUFFIX}")


def test_shadows_are_live_and_told_apart(tmp_path: Path) -> None:
    names = "home-b", "c2"
    for name in (*names, "als"):
        (tmp_path / "snapshots" / f"{name}{SUFFIX}").mkdir(parents=True)
        live_versions.activate(tmp_path, name, f"{name}{SUFFIX}", shadow=name in names)
    live_versions.seal(tmp_path)
    assert live_versions.read_all(tmp_path).shadows == set(names)
    assert live_versions.read(tmp_path) == {name: f"{name}{SUFFIX}" for name in (*names, "als")}
    with pytest.raises(Conflict, match="expected one that does not answer, got 'als'"):
        live_versions.activate(tmp_path, "als", f"als{SUFFIX}", shadow=True)
    assert live_versions.retire(tmp_path, f"c2{SUFFIX}", f"c2{OTHER}")  # as when a user is forgotten in it
    assert live_versions.read_all(tmp_path).shadows == set(names)
    live_versions.activate(tmp_path, "home-b", f"home-b{SUFFIX}")
    assert live_versions.read_all(tmp_path).shadows == {"c2"}


def test_default_models_are_names_of_models(tmp_path: Path) -> None:
    live_versions.check_defaults([tmp_path], ["home-b"])  # nothing is trained yet, so no name can be wrong
    for name in ("home-a", "dark", "ended"):
        (tmp_path / "snapshots" / f"{name}{SUFFIX}").mkdir(parents=True)
        live_versions.activate(tmp_path, name, f"{name}{SUFFIX}", shadow=name == "dark")
    live_versions.end(tmp_path, "ended")
    live_versions.check_defaults([tmp_path / "other", tmp_path], ["als", "home-a", "ended", "dark"])
    with pytest.raises(InvalidSetting, match=r"expected names of live models \(home-a\) or algorithms .*got 'home-b'"):
        live_versions.check_defaults([tmp_path], ["als", "home-b"])


def test_every_altered_byte_of_a_file_with_shadows_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "snapshots" / f"als{SUFFIX}").mkdir(parents=True)
    live_versions.activate(tmp_path, "als", f"als{SUFFIX}", shadow=True)
    path = tmp_path / live_versions.LIVE_FILE
    intact = path.read_bytes()
    for position in range(len(intact)):
        altered = bytearray(intact)
        altered[position] ^= 4
        path.write_bytes(altered)
        if intact[position] not in b" \n":
            with pytest.raises(CorruptLiveFile, match=str(path)):
                live_versions.read_all(tmp_path)


def test_a_name_ends_and_the_others_stay(tmp_path: Path) -> None:
    for name in "abc":
        live_versions.set_version(tmp_path, name, f"{name}{SUFFIX}")
    live_versions.end(tmp_path, "b")
    assert live_versions.read(tmp_path) == {name: f"{name}{SUFFIX}" for name in "ac"}
    with pytest.raises(UnknownModel, match=r"expected the name of a live one or a shadow \(a, c\), got 'b'"):
        live_versions.end(tmp_path, "b")
    for name in "ac":
        live_versions.end(tmp_path, name)
    assert live_versions.read_all(tmp_path) == ({}, frozenset(), True)
    with pytest.raises(UnknownModel, match="there is none"):
        live_versions.end(tmp_path, "a")


def test_what_a_check_refuses_does_not_go_live(tmp_path: Path) -> None:
    """As when a name ends while its training is about to promote."""

    def check() -> None:
        raise Conflict("ended")

    (tmp_path / "snapshots" / f"a{SUFFIX}").mkdir(parents=True)
    live_versions.activate(tmp_path, "a", f"a{SUFFIX}")
    live_versions.end(tmp_path, "a")
    with pytest.raises(Conflict, match="ended"):
        live_versions.activate(tmp_path, "a", f"a{SUFFIX}", check=check)
    assert live_versions.read(tmp_path) == {}


def test_the_version_before_is_known_until_the_next_one(tmp_path):
    first, second, third = (f"als-2026010{day}T000000-aaaa" for day in (1, 2, 3))
    live_versions.set_version(tmp_path, "als", first)
    assert live_versions.replaced(tmp_path) == {}
    live_versions.set_version(tmp_path, "als", second)
    live_versions.set_version(tmp_path, "sgd", "sgd-20260101T000000-aaaa")
    assert live_versions.replaced(tmp_path) == {"als": first}
    live_versions.set_version(tmp_path, "als", first)
    assert live_versions.replaced(tmp_path) == {"als": second}
    live_versions.set_version(tmp_path, "als", f"{first}.1")  # the same, after a user was forgotten
    live_versions.end(tmp_path, "sgd")
    assert live_versions.replaced(tmp_path) == {"als": second}
    (tmp_path / live_versions.LIVE_FILE).write_bytes(b"{")
    live_versions.replace(tmp_path, live_versions.Live({"als": third}, frozenset()))
    assert live_versions.replaced(tmp_path) == {"als": second}
    (tmp_path / live_versions.REPLACED_FILE).write_bytes(b"[]")
    assert live_versions.replaced(tmp_path) == {}
    live_versions.set_version(tmp_path, "als", second)
    assert live_versions.replaced(tmp_path) == {"als": third}

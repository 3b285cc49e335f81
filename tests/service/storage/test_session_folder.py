"""Files of sessions: how long they count, and which of them end when there are too many."""

from pathlib import Path

import pytest

from service.storage import files, session_folder
from service.storage.session_folder import SESSION_S

NOW_S = 1_800_000_000


@pytest.fixture
def at(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Holds the present time."""
    at = [float(NOW_S)]
    monkeypatch.setattr("time.time", lambda: at[0])
    return at


def test_a_session_counts_for_its_time_alone_and_for_its_secret(tmp_path: Path, at: list[float]) -> None:
    tmp_path /= "a new folder"
    session_folder.begin(tmp_path, b"secret", "admin_key", b"\x01mark")
    assert (tmp_path / session_folder.FOLDER).stat().st_mode & 0o777 == 0o700
    for later_s, counts in ((-1, False), (0, True), (SESSION_S - 1, True), (SESSION_S, False)):
        at[0] = NOW_S + later_s
        stored = session_folder.find(tmp_path, b"secret")
        assert (stored is not None) == counts
        assert stored is None or (stored.expires_s, stored.key, stored.mark) == (
            NOW_S + SESSION_S,
            "admin_key",
            b"\x01mark".hex(),
        )
    at[0] = NOW_S
    assert session_folder.find(tmp_path, b"other") is None


def test_of_too_many_sessions_the_oldest_end(tmp_path: Path, at: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_folder, "MAX_SESSIONS", 3)
    secrets = [bytes([n]) for n in range(6)]
    for n, secret in enumerate(secrets):
        at[0] = NOW_S + n
        session_folder.begin(tmp_path, secret, "admin_key", b"mark")
        left = [one for one in secrets if session_folder.find(tmp_path, one)]
        assert left == secrets[max(0, n - 2) : n + 1]
    at[0] = NOW_S + 4 + SESSION_S  # of those that are left, one has not ended
    session_folder.begin(tmp_path, b"new", "admin_key", b"mark")
    assert {path.name for path in (tmp_path / session_folder.FOLDER).iterdir()} == {
        session_folder.path_of(tmp_path, secret).name for secret in (secrets[5], b"new")
    }


def test_the_end_of_a_session_is_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced = list[tuple[Path, bool]]()
    session_folder.end(tmp_path, b"secret")  # nobody has ever signed in
    session_folder.begin(tmp_path, b"secret", "admin_key", b"mark")
    monkeypatch.setattr(
        files, "sync", lambda path: synced.append((path, session_folder.path_of(tmp_path, b"secret").exists()))
    )
    for _ in range(2):  # also when it is gone: an earlier call may have failed there
        session_folder.end(tmp_path, b"secret")
    assert synced == 2 * [(tmp_path / session_folder.FOLDER, False)]
    assert session_folder.find(tmp_path, b"secret") is None

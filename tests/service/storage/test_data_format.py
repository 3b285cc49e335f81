"""A folder that this version cannot read is refused by name, before anything in it is opened."""

import json
from pathlib import Path

import pytest

from service import __version__
from service.storage import data_format, files
from service.storage.data_format import FORMAT, FORMAT_FILE, NewerData
from service.storage.events import RatingEvent, encode_ratings
from tests.service import fork_server
from tests.service.local import serving


def write(data: Path, **content: object) -> None:
    (data / FORMAT_FILE).write_text(json.dumps(content))


def test_a_folder_gets_the_format_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced = list[Path]()
    assert data_format.check(tmp_path) == 1
    data_format.enter(tmp_path)
    assert json.loads((tmp_path / FORMAT_FILE).read_text()) == {"format": FORMAT, "nearfield": __version__}
    written = (tmp_path / FORMAT_FILE).stat().st_mtime_ns
    monkeypatch.setattr(files, "sync", synced.append)
    data_format.enter(tmp_path)
    assert synced == [tmp_path], "an earlier start may have failed there"
    assert (tmp_path / FORMAT_FILE).stat().st_mtime_ns == written


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"format": "two", "nearfield": "1"}', b"\xff"])
def test_a_damaged_file_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / FORMAT_FILE).write_bytes(content)
    with pytest.raises(NewerData, match=f"Invalid .*{FORMAT_FILE}: .* damaged file"):
        data_format.enter(tmp_path)
    assert (tmp_path / FORMAT_FILE).read_bytes() == content


@pytest.mark.parametrize(
    "command", [["serve", "--port", "0"], ["worker", "--redis", "redis://127.0.0.1:1"], ["backup"]]
)
def test_every_start_refuses_a_newer_folder_first(tmp_path: Path, command: list[str]) -> None:
    data = tmp_path / "data"
    (data / "ratings").mkdir(parents=True)
    (data / "ratings" / "manifest.json").write_text("of a later format")
    write(data, format=FORMAT + 1, nearfield="9.8.7")
    out = ["--out", str(tmp_path / "backup.tar")] if command == ["backup"] else []
    status, said, errors = fork_server.ran([*command, *out, "--data", str(data)])
    assert status != 0
    expected = f"was written by format {FORMAT + 1}; this version reads up to {FORMAT}: install Nearfield ≥ 9.8.7"
    assert expected in " ".join((said + errors).split())
    assert {path.name for path in data.iterdir()} - {".lock", "audit"} == {FORMAT_FILE, "ratings"}


def test_the_format_of_an_entry_is_that_of_its_newest_field() -> None:
    ratings = encode_ratings([RatingEvent("u", "i", 1.0, 1.0)])
    assert data_format.format_of(ratings) == 1
    assert data_format.format_of({**ratings, b"source": b"{}"}) == 2
    assert data_format.format_of({b"v": b"1", b"of a later version": b""}) == FORMAT


def test_a_service_writes_the_format_of_its_folder(tmp_path: Path) -> None:
    with serving(tmp_path / "data", backend="host", worker=False):
        assert data_format.check(tmp_path / "data") == FORMAT

"""What a demo finds where an earlier one ran: `tests/faults/test_demo.py` kills whole ones."""

from pathlib import Path

import pytest

from service.cli import demo
from service.storage.errors import DataInUse
from service.storage.files import DataLock
from service.storage.streams.redis_server import RedisServer
from tests.service.process import Service


@pytest.fixture(autouse=True)
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    demo.DATA.mkdir()
    return tmp_path / demo.DATA


def test_state_on_which_no_server_would_start_is_removed(data: Path) -> None:
    """As after a demo that was killed while it removed that of an earlier one."""
    server = RedisServer(data)
    server.start()
    server.stop()
    for file in (data / "redis" / "appendonlydir").glob("*.rdb"):
        file.unlink()
    demo.empty_data()
    assert not list(data.iterdir())


def test_a_server_that_outlived_its_demo_is_ended(data: Path) -> None:
    server = RedisServer(data)
    server._up()  # as if nobody watched it any more
    demo.empty_data()
    assert server._process is not None
    assert server._process.wait(60) == 0
    assert not list(data.iterdir())


def test_a_folder_that_is_served_is_left_alone(data: Path) -> None:
    lock = DataLock(data)
    with pytest.raises(DataInUse):
        demo.empty_data()
    lock.release()
    assert list(data.iterdir())


def test_lists_show_titles_and_ids_of_items_without(data: Path) -> None:
    service = Service(data, backend="host", log_level="error", worker=False)
    try:
        service.api.post("/items", [{"item": "a", "title": "The Quiet Harbor (2004)"}])
        answer = service.api.send_events(
            [{"user": f"u{n}", "item": item, "type": "view"} for n, item in enumerate("aab")]
        )
        service.api.wait_for(answer["stream_id"])
        shown = demo.list_of(service.api, "you", "before")
        assert (shown.items, shown.names) == (["a", "b"], ["The Quiet Harbor (2004)", "b"])
    finally:
        service.stop()

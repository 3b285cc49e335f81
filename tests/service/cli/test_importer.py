"""Importing into a service: batches, order, patience."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from service.__main__ import run
from service.cli import importer
from service.cli.client import Client, RatingBody


class Service(ThreadingHTTPServer):
    """A real server on loopback that answers from a script of (status, headers), then accepts everything."""

    daemon_threads = True

    def __init__(self, *script: tuple[int, dict[str, str]]) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.script = list(script)
        self.received: list[dict[str, Any]] = []
        self.offsets: list[tuple[str, str]] = []  # X-Source and X-Offset of each request that has them

    def answer(self, body: bytes) -> tuple[int, dict[str, str], object]:
        if self.script:
            return *self.script.pop(0), {"title": "No", "detail": "not now"}
        batch = json.loads(body) if body[:1] == b"[" else [json.loads(line) for line in body.splitlines()]
        self.received += batch
        bad = [{"index": n, "error": "bad"} for n, one in enumerate(batch) if one.get("rating", 0) < 0]
        return 202, {}, {"accepted": len(batch) - len(bad), "rejected": bad, "stream_id": f"{len(self.received)}-0"}


class Handler(BaseHTTPRequestHandler):
    """Hands each body to the script."""

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        assert isinstance(self.server, Service)
        if "X-Source" in self.headers:
            self.server.offsets.append((self.headers["X-Source"], self.headers["X-Offset"]))
        status, headers, document = self.server.answer(body)
        self.send_response(status)
        for header in headers.items():
            self.send_header(*header)
        self.end_headers()
        self.wfile.write(json.dumps(document).encode())

    def log_message(self, *_):
        pass


@contextmanager
def answering(*script: tuple[int, dict[str, str]]) -> Iterator[tuple[Client, Service]]:
    with Service(*script) as service:
        thread = threading.Thread(target=service.serve_forever, args=(0.01,))
        thread.start()
        with Client(f"http://127.0.0.1:{service.server_port}") as client:
            yield client, service
        service.shutdown()
        thread.join()


def ratings(n: int) -> list[RatingBody]:
    return [{"user": f"u{i}", "item": "x", "rating": float(i)} for i in range(n)]


def test_batches_keep_the_order_and_tell_progress():
    told: list[int] = []
    with answering() as (client, service):
        receipt = importer.send(client, ratings(2500), told.append)
    assert (receipt.accepted, receipt.rejected, receipt.stream_id) == (2500, 0, "2500-0")
    assert told == [1000, 1000, 500]
    assert [one["user"] for one in service.received] == [f"u{i}" for i in range(2500)]


def test_rejected_ratings_are_named_by_their_position_in_the_whole():
    sent = ratings(1500)
    sent[1200]["rating"] = -1.0
    with answering() as (client, _):
        receipt = importer.send(client, sent)
    assert (receipt.accepted, receipt.rejected, receipt.reasons) == (1499, 1, [(1200, "bad")])


def test_waits_as_long_as_asked_and_longer_each_time_where_not():
    pauses: list[float] = []
    with answering((503, {"Retry-After": "7"}), (429, {}), (503, {})) as (client, _):
        receipt = importer.send(client, ratings(3), sleep=pauses.append)
    assert receipt.accepted == 3
    assert pauses == [7.0, 1.0, 2.0]


def test_items_go_in_batches_of_a_body():
    told: list[int] = []
    items = [{"item": str(n), "embedding": [0.123456789] * 1000} for n in range(200)] + [{"item": "x"}] * 1500
    with answering() as (client, service):
        receipt = importer.send_items(client, items, told.append)
    assert (receipt.accepted, service.received) == (1700, items)
    assert told == [69, 69, 1000, 562]


def test_a_refusal_is_not_repeated():
    message = "401 No: not now; set NEARFIELD_WRITE_KEY or NEARFIELD_API_KEY"
    with answering((401, {})) as (client, _), pytest.raises(importer.ImportFailed, match=message):
        importer.send(client, ratings(3), sleep=lambda _: pytest.fail("it waited"))


def test_patience_ends():
    pauses: list[float] = []
    with answering(*[(503, {})] * 100) as (client, _), pytest.raises(importer.ImportFailed, match="503 No"):
        importer.send(client, ratings(3), sleep=pauses.append)
    assert importer.PATIENCE_S <= sum(pauses) < importer.PATIENCE_S + 2 * importer.LONGEST_WAIT_S


def imported(path: Path, content: str, *options: str) -> tuple[int, list[tuple[str, float]]]:
    path.write_text(content)
    with answering() as (client, service):
        status = run(["import", str(path), "--url", client.address, *options])
    return status, [(one["user"], one["rating"]) for one in service.received]


def test_a_rating_that_no_service_takes_stops_the_import_before_anything_is_posted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = ["user,item,count", *(f"u{n},song,1" for n in range(2500)), "u,podcast,3600000"]
    assert imported(tmp_path / "r.csv", "\n".join(lines)) == (2, [])
    assert "Invalid line 2502 of" in capsys.readouterr().err
    status, posted = imported(tmp_path / "r.csv", "\n".join(lines), "--skip-bad")
    assert (status, len(posted)) == (0, 2500)


def test_only_the_newest_rating_of_a_pair_is_posted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    content = "user,item,rating,timestamp\nzed,film,5,1700000000\nann,film,3,1700000000\nzed,film,1,1600000000\n"
    assert imported(tmp_path / "r.csv", content) == (0, [("zed", 5.0), ("ann", 3.0)])
    assert "1 ratings left out: of each pair of a user and an item the newest one counts" in capsys.readouterr().err


def test_a_dry_run_reads_and_sends_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for content, options, said in (
        ("user,item,rating,timestamp\nu,i,4,1700000000\nu,j,2,\n", [], "2 ratings read, none sent"),
        ("item,genres\na,x\n", ["--items"], "1 items read, none sent"),
    ):
        assert imported(tmp_path / "r.csv", content, *options, "--dry-run") == (0, [])
        shown = capsys.readouterr()
        assert said in shown.out
        assert options or "ratings from 2 to 4; times from 2023-11-14 to 2023-11-14, 1 without a time" in shown.err
    assert imported(tmp_path / "r.csv", "user,item,rating\nu,i,x\n", "--dry-run") == (2, [])


def test_events_are_posted_once_though_an_answer_is_lost(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "events.csv"
    path.write_text("user,item,type,time\n" + "".join(f"u,i{n},view,{5000 - n}\n" for n in range(2500)))
    with answering((503, {"Retry-After": "1"})) as (client, service):
        assert run(["import", str(path), "--events", "--url", client.address]) == 0
    assert "2,500 events accepted, 0 rejected" in capsys.readouterr().out
    assert [event["item"] for event in service.received] == [f"i{n}" for n in reversed(range(2500))]
    assert service.received[0] == {"user": "u", "item": "i2499", "type": "view", "timestamp": 2501}
    sources, offsets = zip(*service.offsets, strict=True)
    assert offsets == ("1000", "1000", "2000", "2500")  # the batch that was not acknowledged has the same name again
    assert len(set(sources)) == 1
    assert run(["import", str(path), "--events", "--items"]) == 2


def test_rejected_elements_are_named_by_their_ids(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    content = "user,item,rating,timestamp\nu,i,4,1700000000\nv,j,-1,1600000000\n"
    assert imported(tmp_path / "r.csv", content)[0] == 1
    assert f"rating 1 of {tmp_path / 'r.csv'} (user v, item j): bad" in capsys.readouterr().err


def test_the_oldest_rating_is_posted_first(tmp_path: Path) -> None:
    content = (
        "user,item,rating,timestamp\nzed,film,5,1700000000\nann,film,3,1600000000\nbob,film,1,\ncid,film,2,1600000000\n"
    )
    assert imported(tmp_path / "r.csv", content) == (0, [("ann", 3.0), ("cid", 2.0), ("zed", 5.0), ("bob", 1.0)])


def test_options_decide_how_a_file_is_read(tmp_path: Path) -> None:
    options = ["--delimiter", ";", "--columns", "-,user,item,rating"]
    assert imported(tmp_path / "r.csv", "9;u;i;4\n8;v;i;3\n", *options) == (0, [("u", 4.0), ("v", 3.0)])
    assert imported(tmp_path / "r.csv", "item\na\n", "--items", "--delimiter", ";") == (2, [])

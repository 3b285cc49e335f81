"""What an export costs the requests beside it, measured on a small service, and what becomes of one that fails."""

from __future__ import annotations

import http.server
import os
import threading
from collections.abc import Iterator

import pytest

from benchmarks import export


@pytest.fixture
def every_core() -> Iterator[None]:
    """Gives back the cores that the measurement takes from its own process."""
    before = os.sched_getaffinity(0)
    yield
    os.sched_setaffinity(0, before)


@pytest.mark.slow
def test_requests_are_measured_before_while_and_after_an_export_is_read(every_core: None) -> None:
    before, during, after = export.run(5000, 100, 1, ["ndjson"])
    assert [row.export for row in (before, during, after)] == ["none", "ndjson", "none"]
    for row in (before, during, after):
        assert row.errors < 10  # a machine that stands still for seconds may cost some
        assert 10 < row.per_s < 150
        assert None not in (row.read_p99, row.write_p99, row.fresh_p99, row.sent_late_p99)
    assert before.export_s is after.export_s is None
    assert during.export_s is not None and during.export_s <= during.seconds + 1
    assert during.rows_per_s is not None and during.mb is not None and during.cpu_s is not None
    n_rows = during.rows_per_s * during.export_s
    assert 1000 < n_rows <= 2500  # pairs of 100 users and 25 items; many were drawn twice
    assert 60 * n_rows < during.mb * export.MB < 90 * n_rows  # a line has user, item, rating and timestamp
    assert 0.1 < during.cpu_s <= during.export_s + 1


class Export(http.server.BaseHTTPRequestHandler):
    """Answers twenty bytes; refuses one format."""

    def do_GET(self) -> None:
        self.send_response(409 if "arrow" in self.path else 200)
        self.send_header("X-As-Of", "1-0")
        self.end_headers()
        self.wfile.write(b"0123456789" * 2)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Export) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_bytes_are_counted_and_what_fails_or_takes_too_long_is_given_up(
    url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    read = export.read_export(url, "ndjson")
    assert read is not None and read.n_bytes == 20
    assert export.read_export(url, "arrow") is None
    assert "409" in capsys.readouterr().err
    monkeypatch.setattr(export, "LONGEST_S", 0.0)
    assert export.read_export(url, "ndjson") is None
    assert "took longer than 0 s" in capsys.readouterr().err

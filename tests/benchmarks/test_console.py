"""The pages that the measurement of the console plays."""

from __future__ import annotations

import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from benchmarks.console import COUNTS_S, SIZES_S, OpenPages

ROOT = Path(__file__).parents[2]


def test_each_page_asks_what_the_browser_asks():
    asked: Counter[str] = Counter()

    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked[self.path] += 1
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Page) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        with OpenPages(f"http://127.0.0.1:{server.server_port}", 2):
            pass
        server.shutdown()
        thread.join()
    assert asked == dict.fromkeys(("/console/overview", "/console/counts", "/console/sizes"), 2)
    console = ROOT / "service" / "extras" / "console"
    assert f"EVERY_MS = {COUNTS_S}000" in (console / "static" / "console.js").read_text("utf-8")
    assert f'"sizes" hx-trigger="every {SIZES_S}s"' in (console / "templates" / "overview.html").read_text("utf-8")

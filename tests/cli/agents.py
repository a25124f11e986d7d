"""The HTTP interface of an agent that says what a test wants it to say."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

SLAVE = {"name": "broker-a:1", "role": "slave", "master_address": "h:1", "master_ha_address": "h:2"}
MASTER = {"name": "broker-b:0", "role": "master", "master_address": None, "master_ha_address": None}


@contextmanager
def an_agent(*statuses: Sequence[dict[str, Any]], **head: Any) -> Iterator[str]:
    """Serve an agent that drains broker-a:0, and then says these one after the other; return its address."""
    left = list(statuses)

    class Pages(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self._answer({"brokers": ["broker-a:0"]})

        def do_GET(self) -> None:
            self._answer({**head, "brokers": left.pop(0) if len(left) > 1 else left[0]})

        def _answer(self, value: object) -> None:
            body = json.dumps(value).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Pages) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()

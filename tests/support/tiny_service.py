"""A stand-in process for tests of the supervisor itself: serves /readyz, ends on SIGTERM.

`python tiny_service.py SERVICE`. It says on standard output what it was started with, and when it
ended. If TINY_FAIL names its service it ends at once; if TINY_STUBBORN does, it never ends.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from http.server import BaseHTTPRequestHandler, HTTPServer


class Probe(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/readyz" else 404)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


def main(service: str) -> None:
    if os.environ.get("TINY_FAIL") == service:
        sys.exit("no such app")
    settings = {name: value for name, value in os.environ.items() if name.startswith("JOBMESH_")}
    say(message="started", **settings)
    server = HTTPServer(("127.0.0.1", int(os.environ["JOBMESH_HTTP_PORT"])), Probe)
    stubborn = os.environ.get("TINY_STUBBORN") == service
    signal.signal(signal.SIGTERM, signal.SIG_IGN if stubborn else lambda *_: sys.exit(0))
    try:
        server.serve_forever()
    finally:
        say(message="stopped", at=time.monotonic())


def say(**fields: object) -> None:
    sys.stdout.write(json.dumps(fields) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1])

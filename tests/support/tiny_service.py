"""A stand-in process for tests of the supervisor itself: serves /readyz, ends on SIGTERM.

`python tiny_service.py SERVICE`. It says on standard output what it was started with. With
TINY_FAIL set to its service's name it ends at once.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer


class Probe(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/readyz" else 404)
        self.end_headers()

    def log_message(self, format: str, *arguments: object) -> None:
        pass


def main(service: str) -> None:
    if os.environ.get("TINY_FAIL") == service:
        sys.exit("no such app")
    settings = {name: value for name, value in os.environ.items() if name.startswith("JOBMESH_")}
    sys.stdout.write(json.dumps({"message": "started", "service": service, **settings}) + "\n")
    sys.stdout.flush()
    server = HTTPServer(("127.0.0.1", int(os.environ["JOBMESH_HTTP_PORT"])), Probe)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    server.serve_forever()


if __name__ == "__main__":
    main(sys.argv[1])

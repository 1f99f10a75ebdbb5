"""What jobmesh does in a second, beside what PostgreSQL, NATS and gRPC do under it."""

from __future__ import annotations

import os

# Read when grpc is first imported: its notes on forks and closed connections are no results.
os.environ.setdefault("GRPC_VERBOSITY", "ERROR")

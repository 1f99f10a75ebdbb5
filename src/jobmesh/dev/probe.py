"""Ask a service's HTTP probe."""

from __future__ import annotations

import asyncio
import contextlib

PROBE_TIMEOUT = 2.0


async def answers_ok(address: str, path: str, timeout: float = PROBE_TIMEOUT) -> bool:
    """Whether a GET of `path` at `host:port` is answered 200 within `timeout` seconds."""
    host, _, port = address.rpartition(":")
    writer = None
    try:
        async with asyncio.timeout(timeout):
            reader, writer = await asyncio.open_connection(host, int(port))
            request = f"GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n"
            writer.write(request.encode())
            status = await reader.readline()
    except (OSError, TimeoutError):
        return False
    finally:
        if writer is not None:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()
    return status.split()[1:2] == [b"200"]

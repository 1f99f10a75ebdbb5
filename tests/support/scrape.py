"""Reads what a service tells about itself."""

from __future__ import annotations

import asyncio

from prometheus_client.parser import text_string_to_metric_families

TIMEOUT = 5.0


async def metrics(address: str) -> str:
    """The metrics served at `host:port`, in Prometheus's text format."""
    return await page(address, "/metrics")


async def page(address: str, path: str) -> str:
    """What is served at a path of `host:port`, which must be there."""
    host, _, port = address.rpartition(":")
    async with asyncio.timeout(TIMEOUT):
        reader, writer = await asyncio.open_connection(host, int(port))
        try:
            request = f"GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n"
            writer.write(request.encode())
            answer = await reader.read()
        finally:
            writer.close()
            await writer.wait_closed()
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.split()[1] == b"200", head
    return body.decode()


def series(text: str, name: str) -> list[tuple[dict[str, str], float]]:
    """The series of that name: labels and value."""
    return [
        (dict(sample.labels), sample.value)
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == name
    ]

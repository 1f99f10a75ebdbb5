"""Tells a person at once that no gateway answers, while the calls go on trying for a while."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator

import click

from jobmesh.cli.gateway_health import ask


@contextlib.asynccontextmanager
async def told_to_people(address: str) -> AsyncIterator[None]:
    """Around calls: ask the gateways of the address beside them, if a person is there to be told.

    The calls themselves tell it too late: they outlast the restart of a gateway.
    """
    if not sys.stderr.isatty():
        yield
        return
    telling = asyncio.create_task(_tell(address))
    try:
        yield
    finally:
        telling.cancel()
        await asyncio.gather(telling, return_exceptions=True)


async def _tell(address: str) -> None:
    places = [place.strip() for place in address.split(",") if place.strip()]
    answers = await asyncio.gather(*map(ask, places))
    if not any(answer.serving for answer in answers):
        why = answers[0].why or answers[0].status
        click.echo(f"jobmesh: {address} does not answer yet ({why}); still trying", err=True)

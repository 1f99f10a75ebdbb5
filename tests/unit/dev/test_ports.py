from __future__ import annotations

import socket
from contextlib import ExitStack

from jobmesh.dev.ports import BLOCK, PortPool, is_free

HOST = "127.0.0.1"


def listening(port: int, *options: int) -> socket.socket:
    """As a server does, whom connections of an earlier one do not keep from its port."""
    with ExitStack() as stack:
        sock = stack.enter_context(socket.socket())
        for option in (socket.SO_REUSEADDR, *options):
            sock.setsockopt(socket.SOL_SOCKET, option, 1)
        sock.bind((HOST, port))
        sock.listen()
        stack.pop_all()
        return sock


def test_every_port_is_free_and_given_once() -> None:
    with PortPool() as pool:
        ports = [pool.take() for _ in range(2 * BLOCK)]
        assert len(set(ports)) == len(ports)
        for port in ports:
            listening(port).close()


def test_two_pools_share_nothing() -> None:
    with PortPool() as one, PortPool() as other:
        assert not {one.take() for _ in range(BLOCK)} & {other.take() for _ in range(BLOCK)}


def test_a_taken_port_is_passed_over() -> None:
    with PortPool() as pool:
        first = pool.take()
        with listening(first + 1):
            assert pool.take() != first + 1


def test_a_listener_that_would_share_its_port_counts_as_taken() -> None:
    with PortPool() as pool:
        port = pool.take()
        assert is_free(HOST, port)
        with listening(port, socket.SO_REUSEPORT):
            assert not is_free(HOST, port)
        assert is_free(HOST, port)

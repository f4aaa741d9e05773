"""Ports for the servers that tests start."""

import socket


def free_port() -> int:
    """A port of loopback that nobody has, as of now."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])

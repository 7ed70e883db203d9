"""The service on a port, from its start until a signal ends it."""

import contextlib
import logging
import socket
from ipaddress import ip_address

import uvicorn
from fastapi import FastAPI

from nmt_core.errors import ConfigError

_SECONDS_TO_END = 30  # for requests that are running when the service is to end


def require_token(host: str, token: str) -> None:
    """Check that a service that other machines can reach asks for a token.

    Raises:
        ConfigError: it does not.
    """
    with contextlib.suppress(ValueError):
        if ip_address(host).is_loopback:
            return
    if host != "localhost" and not token:
        raise ConfigError(
            f"--host {host}: other machines can reach the service, and it asks them for nothing: set NMT_SERVE_TOKEN "
            "to a secret, which requests send as `Authorization: Bearer SECRET`, or keep --host 127.0.0.1"
        )


def bound(host: str, port: int) -> socket.socket:
    """Return a socket that listens on a host and a port. Port 0 means any free one.

    Raises:
        ConfigError: the port is in use, or the host is not of this machine.
    """
    try:
        listening = socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        raise ConfigError(
            f"--host {host} --port {port}: {error.strerror}: give a free port, or --port 0 for any"
        ) from None
    # asyncio does so only for sockets that it has made itself. Without it, an answer waits 40 ms between head and body.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening


def serve(app: FastAPI, listening: socket.socket) -> None:
    """Answer requests until SIGINT or SIGTERM. Requests that are running then are answered."""
    logging.getLogger("uvicorn.error").setLevel(logging.WARNING)
    config = uvicorn.Config(
        app, log_config=None, access_log=False, timeout_graceful_shutdown=_SECONDS_TO_END, server_header=False
    )
    uvicorn.Server(config).run(sockets=[listening])

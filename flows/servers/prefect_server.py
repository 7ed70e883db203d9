"""Prefect's server with access restricted to its own pages and to clients that know the password.

    python -P -m flows.servers.prefect_server --port 4200

Loopback is not private: any web page in a browser may send requests to 127.0.0.1. Prefect checks a password and CSRF
tokens if its settings require it (see `servers.start_prefect`). But it accepts any `Host` header, which allows DNS
rebinding, and websockets from any origin. This module refuses both in front of Prefect's app. Prefect's own services
call that app directly, with another host, so the app itself is not changed.
"""

import argparse
from collections.abc import AsyncGenerator, Collection, Sequence
from contextlib import asynccontextmanager

import prefect
import uvicorn
from prefect.server.api.server import create_app
from prefect.server.database.configurations import AioSqliteConfiguration
from sqlalchemy.ext.asyncio import AsyncSession, AsyncSessionTransaction
from starlette.datastructures import Headers
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from flows.servers.prefect_database import create_database
from flows.servers.secret import OPEN_PATH
from flows.servers.servers import HOSTS, origins

_SIGN_IN = """<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="referrer" content="no-referrer"><title>Prefect</title><script>
const key = location.hash.slice(1);
history.replaceState(null, "", location.pathname);
fetch("/api/admin/version", {headers: {Authorization: `Basic ${key}`}}).then(answer => {
  if (answer.ok) localStorage.setItem("prefect-password", key);
  location.replace("/dashboard");
});
</script></html>
"""
"""Page that passes the password in its address to Prefect's pages, which store it and would otherwise ask for it.

A wrong password, as in a link on a foreign page, changes nothing.
"""


class OwnPagesOnly:
    """Middleware that refuses requests of a browser for another site. A link from another site still works."""

    def __init__(self, app: ASGIApp, own: Collection[str]) -> None:
        self._app = app
        self._own = own

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        app = self._app
        if scope["type"] in ("http", "websocket") and not self._is_own(Headers(scope=scope)):
            app = PlainTextResponse("Refused: the request comes from a page of another site\n", status_code=403)
        await app(scope, receive, send)

    def _is_own(self, headers: Headers) -> bool:
        """Return True if a request comes from our own pages or from no page. Clients send none of these headers."""
        if "origin" in headers:
            return headers["origin"] in self._own
        if headers.get("sec-fetch-site", "none") in ("none", "same-origin"):
            return True
        return (headers.get("sec-fetch-mode"), headers.get("sec-fetch-dest")) == ("navigate", "document")


def guarded_app(port: int) -> ASGIApp:
    """Return Prefect's app behind the checks."""
    _begin_immediately()
    prefect.__ui_v2_static_path__ = prefect.__ui_v2_static_path__ / "off"  # the second UI calls an analytics host
    app = create_app(final=True)
    app.router.routes.insert(0, Route(OPEN_PATH, _sign_in))
    return TrustedHostMiddleware(OwnPagesOnly(app, origins(port)), allowed_hosts=HOSTS, www_redirect=False)


def _begin_immediately() -> None:
    """Make every transaction on SQLite take the write lock when it begins, where it can wait for other transactions.

    A transaction that begins with a read and then writes fails at once if another one has written meanwhile: `database
    is locked`, a 503 for the UI. This patches an internal class of Prefect, and a test in
    `tests/unit/flows/servers/test_prefect_server.py` checks that it still works.
    """
    begin_deferred = AioSqliteConfiguration.begin_transaction

    @asynccontextmanager
    async def begin_transaction(
        self: AioSqliteConfiguration, session: AsyncSession, with_for_update: bool = False
    ) -> AsyncGenerator[AsyncSessionTransaction, None]:
        async with begin_deferred(self, session, with_for_update=True) as transaction:
            yield transaction

    AioSqliteConfiguration.begin_transaction = begin_transaction  # type: ignore[method-assign]


async def _sign_in(_: Request) -> HTMLResponse:
    return HTMLResponse(_SIGN_IN, headers={"Cache-Control": "no-store"})


def main(arguments: Sequence[str] | None = None) -> None:
    """Serve until a signal ends the process."""
    parser = argparse.ArgumentParser(prog="python -P -m flows.servers.prefect_server")
    parser.add_argument("--port", type=int, required=True)
    port = parser.parse_args(arguments).port
    create_database()
    uvicorn.run(guarded_app(port), host=HOSTS[0], port=port, log_level="error", lifespan="on")


if __name__ == "__main__":
    main()
